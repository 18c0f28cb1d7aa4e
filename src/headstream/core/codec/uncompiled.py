"""Replaces the module `cython` when kernels run interpreted, and for type checkers.

C types are the corresponding Python types; decorators return their argument.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, TypeAlias, TypeVar

_F = TypeVar("_F", bound=Callable[..., Any])

compiled: Final = False

bint: TypeAlias = builtins.bool
double: TypeAlias = builtins.float
int: TypeAlias = builtins.int
longlong: TypeAlias = builtins.int
p_const_uchar: TypeAlias = memoryview
p_uchar: TypeAlias = memoryview
Py_ssize_t: TypeAlias = builtins.int
uchar: TypeAlias = builtins.int
uint: TypeAlias = builtins.int
ulonglong: TypeAlias = builtins.int
void: TypeAlias = None


_T = TypeVar("_T")


def declare(kind: object, value: _T) -> _T:
    """Return the value; in compiled code the number is a C variable."""
    return value


def cfunc(function: _F) -> _F:
    """Mark a function that only compiled code calls."""
    return function


def inline(function: _F) -> _F:
    """Mark a function that is compiled into its callers."""
    return function


def exceptval(value: object = None, *, check: builtins.bool = True) -> Callable[[_F], _F]:
    """Declare the return value that signals an exception."""
    return cfunc


class _Nogil:
    """Implements `@cython.nogil` and `with cython.nogil:`, which have no effect in interpreted code."""

    def __call__(self, function: _F) -> _F:
        return function

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        return None


nogil: Final = _Nogil()
