"""second_look: questions to a partition whose oldest or compacted segments may go while they are asked.

A list of segments is a moment old. Where one of them is gone by the time its files are opened, the list is made anew
and the whole question asked again; only what is gone then too is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

from headstream.errors import OffsetOutOfRangeError

__all__ = ["second_look"]

_ATTEMPTS: Final = 4
"""Another segment can go while the list is made anew; four times in a row is no accident."""


class _Renewable(Protocol):
    is_asked: bool
    """Whether a question is being answered: those that it asks in turn fail with it."""

    def renew(self) -> None: ...


_Asked = TypeVar("_Asked", bound=_Renewable)
_Answer = TypeVar("_Answer")
_Arguments = ParamSpec("_Arguments")
_Question = Callable[Concatenate[_Asked, _Arguments], _Answer]


def second_look(question: _Question[_Asked, _Arguments, _Answer]) -> _Question[_Asked, _Arguments, _Answer]:
    """Have a method ask again, after renew(), where a segment has gone meanwhile.

    Args:
        question: The method; it changes nothing.
    """

    @wraps(question)
    def ask(asked: _Asked, /, *arguments: _Arguments.args, **options: _Arguments.kwargs) -> _Answer:
        if asked.is_asked:
            return question(asked, *arguments, **options)
        for _ in range(_ATTEMPTS - 1):
            asked.is_asked = True
            try:
                return question(asked, *arguments, **options)
            except OffsetOutOfRangeError:
                asked.is_asked = False
                asked.renew()
            finally:
                asked.is_asked = False
        return question(asked, *arguments, **options)

    return ask
