"""Matching: messages of a range that match a filter, and the end of the examined range; read on executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from headstream.core.filters.filter import Filter

_MOST = 1 << 62
"""No limit: a chunk is examined as a whole."""


class Matching(NamedTuple):
    """Messages of a range that match a filter, or all its messages if there is no filter.

    Args:
        next_offset: The offset up to which the range has been examined; None: up to the last of these messages.
        failed_count: Number of examined messages to which the filter could not be applied.
    """

    stored: memoryview
    next_offset: int | None = None
    failed_count: int = 0


def match_chunks(chunks: Iterable[memoryview], where: Filter | None) -> Iterator[Matching]:
    """Yield the messages of each chunk that match a filter.

    Args:
        chunks: Stored messages.
        where: The filter; None: all messages match.

    Raises:
        HeaderError: the filter cannot be applied to a message, and the policy is to raise. Earlier messages have been yielded.
    """
    for chunk in chunks:
        if where is None:
            yield Matching(chunk)
            continue
        found = where.select(chunk, _MOST, _MOST)
        yield Matching(found.data, found.last_offset + 1 if found.scanned_count else None, found.failed_count)
        if found.is_stopped:
            raise where.failure_of(chunk[found.end :])
