"""Reads one page of a poll: from a position up to the requested number of messages, the end, or the limit of a scan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headstream.core.codec.batch.stored.scan import find_states, take
from headstream.core.filters.filter import Filter
from headstream.core.model.message import MessageState
from headstream.core.model.polling import Polled, PollingKind, PollingStrategy
from headstream.errors import CorruptSendError
from headstream.log.segments.follower import DEFAULT_CHUNK_BYTES, PartitionFollower
from headstream.log.states import PartitionStates

# Selects the ranges of stored bytes that a poll delivers, by message state.
#
# select(chunk, frozenset({1}))  ->  [(0, 4200), (4300, 9000)]     skipping the message at byte 4200

_AVAILABLE = MessageState.AVAILABLE.value


def select(stored: memoryview, count: int, states: frozenset[int] | None) -> tuple[list[memoryview], int]:
    """Return the byte ranges and the number of the complete stored messages in the given states (None for all)."""
    if states is None:
        return [stored], count
    others = find_states(stored)
    if not others:
        return ([stored], count) if _AVAILABLE in states else ([], 0)
    parts: list[memoryview] = []
    selected = start = 0
    ends = [(at, take(stored, at, 1, len(stored))[0], state in states) for at, _, state in others]
    if _AVAILABLE in states:
        for at, end, is_wanted in ends:
            if not is_wanted:
                parts.append(stored[start:at])
                start = end
        parts.append(stored[start:])
        selected = count - sum(not is_wanted for _, _, is_wanted in ends)
    else:
        for at, end, is_wanted in ends:
            if is_wanted:
                parts.append(stored[at:end])
                selected += 1
    return [part for part in parts if len(part)], selected


SCAN_BYTES: Final = 16 << 20
"""Bytes that a filter examines in one poll, in about 20 ms; the poll then returns the offset that it has reached."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The arguments of a poll.

    Args:
        size_bytes: Approximate maximum size, bytes; at least one message is returned.
        states: State codes to deliver; None for all states.
        until_offset: One past the last offset to examine; 0 for the end.
    """

    count: int
    size_bytes: int
    states: frozenset[int] | None
    where: Filter | None
    until_offset: int = 0


def find_start(
    follower: PartitionFollower, strategy: PollingStrategy, committed: int | None, count: int, written_end: int | None
) -> int:
    """Return the offset at which a poll starts; the follower's cached ends avoid reading the files.

    The cached ends are current if this process is the writer and the follower has seen the last write.
    """
    offset = strategy.value if strategy.kind is PollingKind.OFFSET else committed
    if offset is not None:
        is_known = offset <= follower.end_offset - count or follower.end_offset == written_end
        if not (follower.first_offset <= offset and is_known):
            follower.refresh()
    else:
        follower.refresh()
        if strategy.kind is PollingKind.TIMESTAMP:
            offset = follower.offset_of(strategy.value)
        elif strategy.kind is PollingKind.LAST:
            offset = follower.find_last(count)
        else:
            offset = follower.first_offset
    return max(offset, follower.first_offset)


def read_page(follower: PartitionFollower, place: tuple[int, int], start: int, wanted: Wanted, known: PartitionStates) -> Polled:
    """Read from an offset in a partition (`place`: partition, generation) up to the requested number of messages or the end.

    States are read only if messages can be unavailable; log/states.py explains the second check. Runs of messages in unwanted
    states are skipped; bytes read from mixed runs count towards the size limit, so that the cost is limited.

    Raises:
        CorruptSendError: the first messages are damaged.
        HeaderError: the filter raises errors, and cannot be applied to the first examined message.
    """
    page = _Page(wanted)
    states, where = wanted.states, wanted.where
    scanned, offset, end = 0, start, min(follower.end_offset, wanted.until_offset or follower.end_offset)
    wants_available = states is None or MessageState.AVAILABLE in states
    has_exceptions = known.next_exception(0) is not None
    while offset < end and page.wants_more(scanned):
        if where is not None and (skipped := follower.skip(offset, where)) is not None:
            offset, scanned = skipped[0], scanned + _SKIPPED_SEGMENT_BYTES
            page.scanned_count += skipped[1]
            continue
        if states is not None and (has_exceptions or not wants_available):
            chosen = known.next_wanted(offset, states)
            offset = end if chosen is None else min(chosen, end)
            if offset == end:
                break
        before = known.next_exception(offset) if has_exceptions else None
        until, size = page.next_read(offset, end)
        known.renew(follower)  # after the queries: replaced files contain messages whose rows are deleted
        try:
            if has_exceptions or where is not None:
                chunk, reached = follower.read_chunk(offset, until, size)
            else:
                chunk, reached = follower.read_ahead.read_chunk(follower, offset, until, size)
        except CorruptSendError:
            if not page.count:
                raise
            break  # deliver the messages before the damage; the next poll raises the error
        has_exceptions = known.next_exception(0) is not None
        if has_exceptions:
            follower.read_ahead.forget()
        after = known.next_exception(offset) if has_exceptions else None
        is_mixed = any(first is not None and first < reached for first in (before, after))
        there = take(chunk, 0, len(chunk), len(chunk))[1] if follower.may_miss(offset) else reached - offset
        parts, selected = select(chunk, there, states if is_mixed or not wants_available else None)
        scanned += len(chunk)
        offset = page.add(parts, selected, reached) if where is None else page.add_matching(where, parts, reached)
    partition, generation = place
    ends = follower.end_offset, offset
    return Polled(partition, *ends, page.count, tuple(page.chunks), generation, page.scanned_count, page.failed_count)


class _Page:
    """The messages found so far by a poll."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._rest = wanted.size_bytes
        self._is_stopped = False
        self.chunks: list[memoryview] = []
        self.count = self.scanned_count = self.failed_count = 0

    def wants_more(self, scanned_bytes: int) -> bool:
        """Return whether to continue reading after `scanned_bytes`."""
        if self.count >= self._wanted.count or self._rest <= 0 or self._is_stopped:
            return False
        if self._wanted.where is not None:
            return scanned_bytes < SCAN_BYTES
        if not self.count:
            return True
        # Another message of the same size must fit: otherwise, with a limit of 1.3 MB, two messages of 1 MiB delay all others.
        return scanned_bytes < self._wanted.size_bytes and self._rest * self.count >= self._wanted.size_bytes - self._rest

    def next_read(self, offset: int, end: int) -> tuple[int, int]:
        """Return the end offset and the chunk size of the next read."""
        if self._wanted.where is not None:
            return end, _FILTERED_CHUNK_BYTES
        return min(end, offset + self._wanted.count - self.count), min(self._rest, DEFAULT_CHUNK_BYTES)

    def add(self, parts: list[memoryview], count: int, reached: int) -> int:
        """Add messages; return the offset at which to continue."""
        self.chunks += parts
        self.count += count
        self._rest -= sum(map(len, parts))
        return reached

    def add_matching(self, where: Filter, parts: list[memoryview], reached: int) -> int:
        """Add the messages that match a filter; return the offset at which to continue."""
        for part in parts:
            if self.count >= self._wanted.count or self._rest <= 0:
                return _offset_at(part, 0)
            found = where.select(part, self._wanted.count - self.count, self._rest)
            self.scanned_count += found.scanned_count
            self.failed_count += found.failed_count
            if found.count:
                self.add([found.data], found.count, reached)
            if found.is_stopped and not self.scanned_count:
                raise where.failure_of(part[found.end :])
            self._is_stopped = found.is_stopped
            if found.end < len(part):
                return _offset_at(part, found.end)
        return reached


_SKIPPED_SEGMENT_BYTES: Final = 128 << 10
"""Bytes that a skipped segment adds, because its summary is read: one poll skips at most 128 segments, tens of gigabytes."""

_FILTERED_CHUNK_BYTES: Final = 1 << 20
"""Size of a chunk that a filter examines; it stays in the processor's cache between the check of its sends and the filter."""


def _offset_at(stored: memoryview, at: int) -> int:
    return int.from_bytes(stored[at : at + 8], "little")
