"""Functions that fail, to put in the place of others: a process that ends before or after a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from headstream.errors import StorageError


class CrashError(Exception):
    """Stands for a process that ends here."""


def fail_with(error: BaseException) -> Callable[..., NoReturn]:
    """Return a function that raises an error, whatever its arguments."""

    def fail(*arguments: Any, **options: Any) -> NoReturn:
        raise error

    return fail


def fail_to_write(engine: Any, *arguments: Any, **options: Any) -> NoReturn:
    """Raise the error of a table engine whose disk is full."""
    raise StorageError("no space left", where=str(engine.path))


def crash_after(step: Callable[..., Any]) -> Callable[..., None]:
    """Return a function that calls another one, and raises CrashError then."""

    def call(*arguments: Any, **options: Any) -> None:
        step(*arguments, **options)
        raise CrashError

    return call
