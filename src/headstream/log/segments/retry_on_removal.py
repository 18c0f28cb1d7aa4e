"""retry_on_removal: repeats a query of a partition when retention or compaction removes a segment meanwhile.

The list of segments can be outdated. If a listed segment is missing when its files are opened, the list is renewed and the
whole query repeated; it fails only if the segment is missing from the new list too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

from headstream.errors import OffsetOutOfRangeError

__all__ = ["retry_on_removal"]

_ATTEMPTS: Final = 4
"""Another segment can be removed while the list is renewed; four times in a row is not a coincidence."""


class _Renewable(Protocol):
    is_in_query: bool
    """Whether a query is running: queries nested in it fail with it."""

    def renew(self) -> None: ...


_Follower = TypeVar("_Follower", bound=_Renewable)
_Answer = TypeVar("_Answer")
_Arguments = ParamSpec("_Arguments")
_Query = Callable[Concatenate[_Follower, _Arguments], _Answer]


def retry_on_removal(query: _Query[_Follower, _Arguments, _Answer]) -> _Query[_Follower, _Arguments, _Answer]:
    """Repeat a query after renew() if a segment was removed meanwhile.

    Args:
        query: The method; it must not change state.
    """

    @wraps(query)
    def wrapper(follower: _Follower, /, *arguments: _Arguments.args, **options: _Arguments.kwargs) -> _Answer:
        if follower.is_in_query:
            return query(follower, *arguments, **options)
        for _ in range(_ATTEMPTS - 1):
            follower.is_in_query = True
            try:
                return query(follower, *arguments, **options)
            except OffsetOutOfRangeError:
                follower.is_in_query = False
                follower.renew()
            finally:
                follower.is_in_query = False
        return query(follower, *arguments, **options)

    return wrapper
