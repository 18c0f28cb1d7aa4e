"""States: the states of messages, stored in place, with reasons.

    intent   catalog, one transaction: offset, state, reason, author, time; pending
    bytes    the state byte of each message, in place; synced
    settled  catalog, one transaction: no longer pending; the row of an available message is deleted

The catalog contains the intended state; readers see the byte. A crash between the steps leaves pending rows; the next writer
first writes the bytes of these rows and settles them. Checksums stay valid: the payload's checksum does not include the state,
and the index's checksum treats every state byte as 0.

Every message without a row is available, so a poll checks state bytes only if there are rows. The row is added first and deleted
last, so every unavailable message has a row. A reader of bytes and rows queries the rows before and after reading the bytes, so
that it sees a concurrent change in one of the two queries. Rows of removed messages are deleted after their segment was replaced;
a reader that finds no rows must read the current files (PartitionStates.renew()).

Long runs of unavailable messages are skipped without being read (core/model/offset_ranges.py). A run contains only settled rows;
a message that becomes available is removed from the run before its byte is written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from headstream.core.model.message import MAX_AUTHOR_BYTES, MAX_REASON_BYTES, MessageState, StateChange
from headstream.core.model.offset_ranges import OffsetRanges, ranges_of
from headstream.errors import CorruptLogError, InvalidInputError, LimitError, LogError, OffsetOutOfRangeError
from headstream.log.catalog.catalog import Catalog, check_exists, topics_of
from headstream.log.catalog.records import TopicRecord
from headstream.log.catalog.state_records import (
    find_exception,
    find_state_among,
    find_states,
    finish_pending_states,
    forget_marked,
    forget_states,
    pending_states,
    put_states,
    remove_states,
    unavailable_offsets,
)
from headstream.log.partition.closed_segments import finish_pass
from headstream.log.segments.follower import PartitionFollower
from headstream.log.system.files import Files

_STATE_AT: Final = 8
"""The state byte in a stored message: after the offset, an unsigned 64-bit number."""

_AVAILABLE: Final = MessageState.AVAILABLE.value
_MAX_RUNS: Final = 1024
"""Maximum number of partitions whose runs are cached. Most partitions have no runs; reading runs again takes one query."""
_NO_TOPICS: Final = ()
"""State changes do not change topics."""


class MessageStates:
    """The states of a log's messages; thread-safe. The lock is held while files of old segments are changed or removed.

    `writes_count`, read with the lock held, increases with each state change.
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
        self._runs: dict[tuple[int, int, int], OffsetRanges] = {}
        self._runs_lock = threading.Lock()
        self._runs_changes = -1

    def catalog_changes(self) -> int:
        """Return a number that changes when a state change becomes visible, and again when it is complete."""
        return self._catalog.changes()

    def next_exception(self, topic: TopicRecord, number: int, from_offset: int = 0) -> int | None:
        """Return the first offset, at or after an offset, whose message has a state row; None if there is none.

        If all messages are available, which is usual, the result is cached until the catalog changes.
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

    def next_wanted(self, topic: TopicRecord, number: int, from_offset: int, states: frozenset[int]) -> int | None:
        """Return the first offset, at or after an offset, whose message can have one of the given states; None if there is none.

        For available messages, the cost is logarithmic in the number of unavailable runs after the first call for a partition.
        For other states, the rows up to the first match are read.
        """
        others = states - {_AVAILABLE}
        found = find_state_among(self._catalog, topic.number, number, from_offset, others) if others else None
        if _AVAILABLE not in states:
            return found
        with self._runs_lock:
            available = self._known_runs(topic, number).skip(from_offset)
        return available if found is None else min(found, available)

    def _known_runs(self, topic: TopicRecord, number: int) -> OffsetRanges:
        """Return the unavailable runs of a partition; the caller holds their lock. The writer process updates the runs."""
        if not self._catalog.is_writer and self._runs_changes != (changes := self._catalog.changes()):
            self._runs.clear()
            self._runs_changes = changes
        key = topic.number, number, topic.generation(number)
        runs = self._runs.get(key)
        if runs is None:
            if len(self._runs) >= _MAX_RUNS:
                self._runs.clear()
            offsets = unavailable_offsets(self._catalog, topic.number, number, _AVAILABLE)
            runs = self._runs[key] = OffsetRanges(ranges_of(offsets))
        return runs

    def _change_runs(self, topic: TopicRecord, number: int, offsets: Sequence[int], *, is_available: bool) -> None:
        with self._runs_lock:
            runs = self._runs.get((topic.number, number, topic.generation(number)))
            if runs is not None:
                for begin, end in ranges_of(offsets):
                    (runs.remove if is_available else runs.add)(begin, end)

    def changes(self, topic: TopicRecord, number: int, from_offset: int = 0, count: int = -1) -> list[StateChange]:
        """Return a partition's messages whose state is not `available`, by offset; a negative count returns all."""
        with PartitionFollower(self._directory_of(topic, number), self._files) as follower:
            first = follower.first_offset
        found: list[StateChange] = []
        at = max(first, from_offset)
        while count < 0 or len(found) < count:  # a pending change may make messages available
            rows = find_states(self._catalog, topic.number, number, at, count=count - len(found) if count >= 0 else -1)
            found += [change for change in rows if change.state != _AVAILABLE]
            if not rows or count < 0:
                break
            at = rows[-1].offset + 1
        return found

    def set(self, topic: TopicRecord, number: int, offsets: Iterable[int], change: StateChange) -> None:
        """Set the state of messages; the change is synced before the method returns.

        Args:
            change: The new state with reason, author and time; its offset is ignored.

        Raises:
            OffsetOutOfRangeError: a message does not exist; nothing is changed.
            StorageError: the operating system reported a write error; the next opening completes the recorded changes.
        """
        wanted = sorted(set(offsets))
        if not 1 <= change.state <= 255:
            raise InvalidInputError(f"a state must be a number from 1 to 255, not {change.state}")
        for what, text, most in (("reason", change.reason, MAX_REASON_BYTES), ("author", change.by, MAX_AUTHOR_BYTES)):
            size_bytes = len(text.encode("utf-8", "surrogatepass"))
            if size_bytes > most:
                raise LimitError(f"the {what} of a state change must have at most {most} bytes, not {size_bytes}")
        if not wanted:
            return
        directory = self._directory_of(topic, number)
        with self._lock:
            check_exists(self._catalog.snapshot(), topic, number)
            finish_pass(directory, self._files)
            found = self._find(directory, wanted)
            self.writes_count += 1
            with self._catalog.transaction(_NO_TOPICS):
                put_states(
                    self._catalog,
                    topic.number,
                    number,
                    (StateChange(offset, change.state, change.reason, change.by, change.changed_us) for offset in wanted),
                )
            if change.state == _AVAILABLE:
                self._change_runs(topic, number, wanted, is_available=True)
            self._write([(position, offset, change.state) for position, offset in zip(found, wanted, strict=True)])
            with self._catalog.transaction(_NO_TOPICS):
                finish_pending_states(self._catalog, topic.number, number, wanted, _AVAILABLE)
            if change.state != _AVAILABLE:
                self._change_runs(topic, number, wanted, is_available=False)

    def note_replaced(self) -> None:
        """Make this process's readers open the current files before their next read; called after messages were removed."""
        with self._catalog.transaction(_NO_TOPICS):
            pass  # readers compare the number of transactions

    def forget(self, topic: TopicRecord, number: int, until_offset: int) -> None:
        """Delete the states of messages before an offset, because the messages are dropped."""
        first = self.next_exception(topic, number)
        if first is not None and first < until_offset:
            with self._catalog.transaction(_NO_TOPICS):
                forget_states(self._catalog, topic.number, number, until_offset)

    def forget_marked(self, topic: TopicRecord, number: int, offsets: Sequence[int]) -> None:
        """Delete the states of messages that were removed because they were marked for deletion."""
        if offsets:
            with self._lock, self._catalog.transaction(_NO_TOPICS):
                forget_marked(self._catalog, topic.number, number, offsets)

    def forget_missing(self, topic: TopicRecord, number: int) -> None:
        """Delete the states of messages that compaction has dropped."""
        if self.next_exception(topic, number) is None:
            return
        with self._lock:
            offsets = [change.offset for change in find_states(self._catalog, topic.number, number)]
            _, missing = self._find_existing(self._directory_of(topic, number), offsets)
            with self._catalog.transaction(_NO_TOPICS):
                remove_states(self._catalog, topic.number, number, missing)

    def _find_existing(self, directory: str, offsets: Iterable[int]) -> tuple[dict[int, tuple[str, int]], list[int]]:
        """Return path and byte position of the existing messages among the given offsets, and the offsets of missing messages."""
        found: dict[int, tuple[str, int]] = {}
        missing = []
        with PartitionFollower(directory, self._files) as follower:
            for offset in offsets:
                try:
                    if not follower.first_offset <= offset < follower.end_offset:
                        missing.append(offset)
                    else:
                        found[offset] = follower.position_of(offset)
                except OffsetOutOfRangeError:
                    missing.append(offset)
        return found, missing

    def repair(self) -> None:
        """Complete changes that a crash interrupted; called when this process becomes the writer."""
        topics = {topic.number: topic for topic in topics_of(self._catalog.snapshot())}
        pending: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for topic, number, offset, state in pending_states(self._catalog):
            pending.setdefault((topic, number), []).append((offset, state))
        for (topic, number), changes in pending.items():
            with suppress(LogError):  # using a damaged partition raises the error; its changes stay pending
                self._repair_partition(topics[topic], number, changes)

    def _repair_partition(self, topic: TopicRecord, number: int, changes: list[tuple[int, int]]) -> None:
        directory = self._directory_of(topic, number)
        finish_pass(directory, self._files)
        found, missing = self._find_existing(directory, (offset for offset, _ in changes))
        self._write([(found[offset], offset, state) for offset, state in changes if offset in found])
        with self._catalog.transaction(_NO_TOPICS):
            finish_pending_states(self._catalog, topic.number, number, list(found), _AVAILABLE)
            remove_states(self._catalog, topic.number, number, missing)

    def _find(self, directory: str, offsets: Sequence[int]) -> list[tuple[str, int]]:
        with PartitionFollower(directory, self._files) as follower:
            for offset in offsets:
                if not follower.first_offset <= offset < follower.end_offset:
                    raise OffsetOutOfRangeError(
                        f"there is no message at offset {offset}: use {follower.first_offset} to {follower.end_offset - 1}"
                        if follower.end_offset > follower.first_offset
                        else f"there is no message at offset {offset}: the partition is empty",
                        where=directory,
                        advice="No state was changed. Use existing offsets",
                    )
            return [follower.position_of(offset) for offset in offsets]

    def _write(self, changes: Sequence[tuple[tuple[str, int], int, int]]) -> None:
        """Write and sync state bytes in place."""
        by_segment: dict[str, list[tuple[int, int, int]]] = {}
        for (path, position), offset, state in changes:
            by_segment.setdefault(path, []).append((position, offset, state))
        head = memoryview(bytearray(_STATE_AT))
        for path, written in by_segment.items():
            file = self._files.open_write(path)
            try:
                for position, offset, state in written:
                    file.read_into(head, position)
                    if int.from_bytes(head, "little") != offset:
                        raise CorruptLogError(
                            f"the index expects offset {offset} at byte {position}, where another message is stored",
                            where=path,
                            advice="Restore the segment's files from a copy",
                        )
                    file.write_at(bytes([state]), position + _STATE_AT)
                file.sync()
            finally:
                file.close()


class PartitionStates:
    """The states of one partition, for one read."""

    __slots__ = ("_number", "_states", "_topic")

    def __init__(self, states: MessageStates, topic: TopicRecord, number: int) -> None:
        self._states = states
        self._topic = topic
        self._number = number

    def next_exception(self, from_offset: int) -> int | None:
        """Return the result of MessageStates.next_exception()."""
        return self._states.next_exception(self._topic, self._number, from_offset)

    def next_wanted(self, from_offset: int, states: frozenset[int]) -> int | None:
        """Return the result of MessageStates.next_wanted()."""
        return self._states.next_wanted(self._topic, self._number, from_offset, states)

    def renew(self, follower: PartitionFollower) -> None:
        """Refresh a follower if the catalog has changed since its last renewal; call it after querying the rows.

        A follower can hold open files and cached messages from before a removal of marked messages. The files and the cache still
        contain the removed messages, whose rows no longer exist.
        """
        changes = self._states.catalog_changes()
        if follower.states_changes != changes:
            follower.read_ahead.forget()
            follower.refresh()
            follower.states_changes = changes
