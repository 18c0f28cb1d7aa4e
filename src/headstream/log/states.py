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
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from headstream.errors import CorruptLogError, InvalidInputError, LimitError, LogError, OffsetOutOfRangeError
from headstream.log.catalog import Catalog, TopicRecord
from headstream.log.closed_segments import finish_pass
from headstream.log.files import Files
from headstream.log.state_records import (
    find_exception,
    find_states,
    forget_states,
    pending_states,
    put_states,
    remove_states,
    settle_states,
)
from headstream.model.message import MAX_AUTHOR_BYTES, MAX_REASON_BYTES, MessageState, StateChange
from headstream.segments.follower import PartitionFollower

__all__ = ["MessageStates"]

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
        self._available: set[tuple[int, int]] = set()
        self._changes = -1

    def next_exception(self, topic: TopicRecord, number: int, from_offset: int = 0) -> int | None:
        """Return the offset of the first message at or after an offset that may not be available, or None.

        Where all are available, which is mostly so, nothing is looked up until the catalog changes.

        Args:
            topic: The topic.
            number: The partition's, from 1.
            from_offset: Where to begin.
        """
        changes = self._catalog.changes()
        if changes != self._changes:
            self._available, self._changes = set(), changes
        key, available = (topic.number, number), self._available
        if key in available:
            return None
        found = find_exception(self._catalog, topic.number, number, from_offset)
        if found is None and from_offset == 0:
            available.add(key)
        return found

    def changes(self, topic: TopicRecord, number: int, from_offset: int = 0, count: int = -1) -> list[StateChange]:
        """Return the messages of a partition that are not available, by offset, with who made it so, why and when.

        Args:
            topic: The topic.
            number: The partition's, from 1.
            from_offset: The first offset that is looked at.
            count: The most messages; less than 0 is all.
        """
        with PartitionFollower(self._directory_of(topic, number), self._files) as follower:
            first = follower.first_offset
        found: list[StateChange] = []
        at = max(first, from_offset)
        while count < 0 or len(found) < count:  # a change that is under way may be one that makes messages available
            rows = find_states(self._catalog, topic.number, number, at, count=count - len(found) if count >= 0 else -1)
            found += [change for change in rows if change.state != _AVAILABLE]
            if not rows or count < 0:
                break
            at = rows[-1].offset + 1
        return found

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
        for what, text, most in (("reason", change.reason, MAX_REASON_BYTES), ("author", change.by, MAX_AUTHOR_BYTES)):
            size_bytes = len(text.encode("utf-8", "surrogatepass"))
            if size_bytes > most:
                raise LimitError(f"the {what} of a change of states has {size_bytes} bytes", advice=f"Use {most} at most")
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
        first = self.next_exception(topic, number)
        if first is not None and first < until_offset:
            with self._catalog.transaction(_NO_TOPICS):
                forget_states(self._catalog, topic.number, number, until_offset)

    def forget_missing(self, topic: TopicRecord, number: int) -> None:
        """Forget the states of messages that compaction has taken."""
        if self.next_exception(topic, number) is None:
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
