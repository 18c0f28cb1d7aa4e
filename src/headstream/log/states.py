"""States: messages that are set aside in place, and what is known of why.

    intent   catalog, one transaction: offset, state, reason, author, time; pending
    bytes    the state byte of each message, in place; synced
    settled  catalog, one transaction: no longer pending; what is available again needs no row

The catalog is what is meant, the byte is what readers see. A crash between the steps leaves pending rows: the next
writer sets their bytes before it does anything else, and settles them. Checksums stay valid: the payload's does not
cover the state, and the index takes every state byte as 0.

Everything without a row is available. So a poll needs to look at the states in the bytes only where the rows say so;
since the row comes first and goes last, no message that is set aside is ever without one. Who reads bytes and rows
asks for the rows before and after reading the bytes: a change in between is in one of the two.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from headstream.errors import CorruptLogError, InvalidInputError, LogError, OffsetOutOfRangeError
from headstream.log.catalog import Catalog, TopicRecord
from headstream.log.closed_segments import finish_pass
from headstream.log.files import Files
from headstream.log.state_records import (
    find_states,
    forget_states,
    pending_states,
    put_states,
    remove_states,
    settle_states,
)
from headstream.model.message import MessageState, StateChange
from headstream.segments.follower import PartitionFollower

__all__ = ["MessageStates", "has_exception"]

_STATE_AT: Final = 8
"""The state's byte in a stored message: after the offset, an unsigned 64-bit number."""

_AVAILABLE: Final = MessageState.AVAILABLE.value
_NO_TOPICS: Final = ()
"""What is recorded of messages changes no topic."""


class MessageStates:
    """The states of a log's messages; any thread.

    Args:
        catalog: The log's.
        files: Where it is.
        directory_of: Topic, partition -> the partition's directory.
        lock: Held while files of old segments are changed or removed.

    Attributes:
        writes_count: Grows with each change of states; for who holds the lock.
    """

    def __init__(
        self, catalog: Catalog, files: Files, directory_of: Callable[[TopicRecord, int], str], lock: threading.RLock
    ) -> None:
        self._catalog = catalog
        self._files = files
        self._directory_of = directory_of
        self._lock = lock
        self.writes_count = 0
        self._known: dict[tuple[int, int], Sequence[int]] = {}
        self._changes = -1

    def exceptions(self, topic: TopicRecord, number: int) -> Sequence[int]:
        """Return the offsets, ascending, of the messages of a partition that may not be available.

        Args:
            topic: The topic.
            number: The partition's, from 1.
        """
        changes = self._catalog.changes()
        if changes != self._changes:
            self._known, self._changes = {}, changes
        known = self._known
        found = known.get((topic.number, number))
        if found is None:
            found = known[topic.number, number] = [change.offset for change in find_states(self._catalog, topic.number, number)]
        return found

    def changes(self, topic: TopicRecord, number: int) -> list[StateChange]:
        """Return every message of a partition that is not available, by offset, with who made it so, why and when."""
        with PartitionFollower(self._directory_of(topic, number), self._files) as follower:
            first = follower.first_offset
        found = find_states(self._catalog, topic.number, number)
        return [change for change in found if change.state != _AVAILABLE and change.offset >= first]

    def set(self, topic: TopicRecord, number: int, offsets: Iterable[int], change: StateChange) -> None:
        """Set the state of messages; it is done, and on the disk itself, when this returns.

        Args:
            topic: The topic.
            number: The partition's, from 1.
            offsets: Which messages.
            change: What becomes of each of them; its offset does not matter.

        Raises:
            OffsetOutOfRangeError: one of the offsets is not there; nothing is changed.
            StorageError: the system refused to write; what was recorded is done when the log is opened the next time.
        """
        wanted = sorted(set(offsets))
        if not 1 <= change.state <= 255:
            raise InvalidInputError(f"state {change.state} is not a number from 1 to 255")
        if not wanted:
            return
        directory = self._directory_of(topic, number)
        with self._lock:
            finish_pass(directory, self._files)
            places = self._find(directory, wanted)
            self.writes_count += 1
            with self._catalog.transaction(_NO_TOPICS):
                put_states(
                    self._catalog,
                    topic.number,
                    number,
                    (StateChange(offset, change.state, change.reason, change.by, change.changed_us) for offset in wanted),
                )
            self._write([(place, offset, change.state) for place, offset in zip(places, wanted, strict=True)])
            with self._catalog.transaction(_NO_TOPICS):
                settle_states(self._catalog, topic.number, number, wanted, _AVAILABLE)

    def forget(self, topic: TopicRecord, number: int, until_offset: int) -> None:
        """Forget the states of messages before an offset: they are dropped."""
        if has_exception(self.exceptions(topic, number), 0, until_offset):
            with self._catalog.transaction(_NO_TOPICS):
                forget_states(self._catalog, topic.number, number, until_offset)

    def forget_missing(self, topic: TopicRecord, number: int) -> None:
        """Forget the states of messages that compaction has taken."""
        if not self.exceptions(topic, number):
            return
        with self._lock:
            offsets = [change.offset for change in find_states(self._catalog, topic.number, number)]
            _, missing = self._places(self._directory_of(topic, number), offsets)
            with self._catalog.transaction(_NO_TOPICS):
                remove_states(self._catalog, topic.number, number, missing)

    def _places(self, directory: str, offsets: Iterable[int]) -> tuple[dict[int, tuple[str, int]], list[int]]:
        """Return path and byte position of those of some messages that are there, and the offsets of those that are not."""
        places: dict[int, tuple[str, int]] = {}
        missing = []
        with PartitionFollower(directory, self._files) as follower:
            for offset in offsets:
                try:
                    if not follower.first_offset <= offset < follower.end_offset:
                        missing.append(offset)
                    else:
                        places[offset] = follower.position_of(offset)
                except OffsetOutOfRangeError:
                    missing.append(offset)
        return places, missing

    def repair(self) -> None:
        """Finish what a crash has left unfinished; the caller has just become the writer."""
        topics = {topic.number: topic for stream in self._catalog.snapshot().values() for topic in stream.topics.values()}
        pending: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for topic, number, offset, state in pending_states(self._catalog):
            pending.setdefault((topic, number), []).append((offset, state))
        for (topic, number), changes in pending.items():
            with suppress(LogError):  # a damaged partition is told of where it is used; its changes stay pending
                self._repair_partition(topics[topic], number, changes)

    def _repair_partition(self, topic: TopicRecord, number: int, changes: list[tuple[int, int]]) -> None:
        directory = self._directory_of(topic, number)
        finish_pass(directory, self._files)
        places, missing = self._places(directory, (offset for offset, _ in changes))
        self._write([(places[offset], offset, state) for offset, state in changes if offset in places])
        with self._catalog.transaction(_NO_TOPICS):
            settle_states(self._catalog, topic.number, number, list(places), _AVAILABLE)
            remove_states(self._catalog, topic.number, number, missing)

    def _find(self, directory: str, offsets: Sequence[int]) -> list[tuple[str, int]]:
        """Return path and byte position of messages."""
        with PartitionFollower(directory, self._files) as follower:
            for offset in offsets:
                if not follower.first_offset <= offset < follower.end_offset:
                    raise OffsetOutOfRangeError(
                        f"there is no message at offset {offset}, {follower.first_offset} to {follower.end_offset - 1} are there"
                        if follower.end_offset > follower.first_offset
                        else f"there is no message at offset {offset}, the partition is empty",
                        where=directory,
                        advice="Nothing was changed: name offsets that are there",
                    )
            return [follower.position_of(offset) for offset in offsets]

    def _write(self, changes: Sequence[tuple[tuple[str, int], int, int]]) -> None:
        """Set state bytes in place, and return when they are on the disk itself."""
        by_segment: dict[str, list[tuple[int, int, int]]] = {}
        for (path, position), offset, state in changes:
            by_segment.setdefault(path, []).append((position, offset, state))
        head = memoryview(bytearray(_STATE_AT))
        for path, places in by_segment.items():
            file = self._files.open_write(path)
            try:
                for position, offset, state in places:
                    file.read_into(head, position)
                    if int.from_bytes(head, "little") != offset:
                        raise CorruptLogError(
                            f"there is no message of offset {offset} at byte {position}, where its index leads",
                            where=path,
                            advice="Restore the segment's files from a copy",
                        )
                    file.write_at(bytes([state]), position + _STATE_AT)
                file.sync()
            finally:
                file.close()


def has_exception(exceptions: Sequence[int], from_offset: int, until_offset: int) -> bool:
    """Return whether one of these ascending offsets is in a range.

    Args:
        exceptions: As MessageStates.exceptions() gives them.
        from_offset: The first offset of the range.
        until_offset: One past its last.
    """
    place = bisect_left(exceptions, from_offset)
    return place < len(exceptions) and exceptions[place] < until_offset
