"""DeliveryJournal: the file with a group's unfinished messages in one partition, next to the group's committed offsets.

DIR/streams/<stream>/<topic>/offsets/<32 hexadecimal digits of the group's hash>-<partition>.deliveries

    head     magic "HSDELIVR" | version u32 | name_length u8 | zero 3 | generation of the partition u64 | name | zero to byte 512
    record   size u32 | check u32 (CRC-32C of the body, seeded with the record's byte position) | body
    body     base u64 | stored_us u64 | begun_until u64 | poisoned_count u64 | count u32 | entry ...
    entry    1 | from u64 | until u64                             waits
             2 | from u64 | until u64                             done
             3 | offset u64 | failures u32 | is_begun u8 | failed_us u64 | first_failed_us u64 | delay_us u64
               | first_error text8 | last_error text8 | reason text8 | topic text32 | partition u32 | end u64
             4 | token u64 | begun_us u64 | lease_us u64 | worker text8 | ranges | ranges     leased; settled before
             5 | token u64 | from u64 | until u64                 settled by the worker: done, unless a later entry follows
             6 | token u64 | offset u64 | until_us u64            lease extended to until
             7 | from u64 | until u64                             deferred
             8 | from u64 | until u64                             first lease ended
             9 | token u64 | from u64 | until u64                 lease ended
             10 | as 3 | count u8 | attempt ...                   like 3, with the last failed attempts
             11 | as 10                                           failed permanently: position of the dead letter
    attempt  number u32 | ended_us u64 | begun_us u64 | worker text8 | error text8
    ranges   count u32 | (from u64 | until u64) ...

Version 1 had the entries 1 to 3, version 2 the entries 1 to 9; entry 3 is read, but no longer written. A change appends one
record with one small write. Bytes after the last complete record are an interrupted write and are overwritten. A file that has
grown large is replaced with a file that has a single record. If there are no unfinished messages, the file does not exist. Only
the process that holds the group's lock writes the file. A process reads the file again if its size or its first record has
changed.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from headstream.core.codec.batch.stored.scan import crc32c
from headstream.core.codec.buffer import Reader, Writer
from headstream.core.model.deliveries import Attempt, Delivery
from headstream.core.model.offset_ranges import OffsetRanges
from headstream.core.model.polling import OffsetOwner
from headstream.errors import DecodeError
from headstream.log.partition.delivery_state import DeliveryState, Lease
from headstream.log.segments.files import ReadFile
from headstream.log.system.files import Files

_MAGIC: Final = b"HSDELIVR"
_VERSION: Final = 3
_OLD_VERSIONS: Final = (1, 2)
_HEAD: Final = struct.Struct("<8sIB3xQ")
_HEAD_BYTES: Final = 512
JOURNAL_SUFFIX: Final = ".deliveries"
_WAITS: Final = 1
_DONE: Final = 2
_FAILING: Final = 3
_LEASED: Final = 4
_SETTLED: Final = 5
_EXTENDED: Final = 6
_DEFERRED: Final = 7
_EXPIRED: Final = 8
_ENDED: Final = 9
_TRIED: Final = 10
_GIVEN_UP: Final = 11
_REWRITE_BYTES: Final = 256 << 10
"""A file is replaced when the records after the first record exceed this size (10,000 commits) and the size of that record."""


@dataclass(frozen=True, slots=True)
class Touched:
    """The parts of the state that a change affects, for the change's record: ranges, offsets of messages, tokens of leases.

    `settled` and `ended` contain a token and a range: messages that a worker settled, and messages whose lease has expired.
    `expired` contains ranges whose first lease has ended, `extended` tokens and messages with extended leases.
    """

    waits: tuple[tuple[int, int], ...] = ()
    done: tuple[tuple[int, int], ...] = ()
    failing: tuple[int, ...] = ()
    leased: tuple[int, ...] = ()
    settled: tuple[tuple[int, int, int], ...] = ()
    ended: tuple[tuple[int, int, int], ...] = ()
    expired: tuple[tuple[int, int], ...] = ()
    deferred: tuple[tuple[int, int], ...] = ()
    extended: tuple[tuple[int, int], ...] = ()
    given_up: tuple[Delivery, ...] = ()


class DeliveryJournal:
    """The stored state of one group in one partition; not thread-safe. A file of an earlier generation is ignored."""

    def __init__(self, directory: str, files: Files, owner: OffsetOwner, partition: int, generation: int) -> None:
        self._path = f"{directory}/{journal_name(owner, partition)}"
        self._files = files
        self._head = _encode_head(owner, generation)
        self._old_heads = tuple(_encode_head(owner, generation, version) for version in _OLD_VERSIONS)
        self._is_old = False
        self._end = self._first_end = -1
        self._first_head = b""
        self.state = DeliveryState()

    def load(self, committed: tuple[int, int] | None, *, is_writer: bool = False) -> DeliveryState:
        """Return the state, read again if another process changed the file. Writers remove parts that a rewind made obsolete."""
        file = self._files.open_read(self._path)
        if file is None:
            if self._end != 0:
                self.state = DeliveryState()
            self._end = 0
        else:
            try:
                size_bytes = file.size_bytes()
                if size_bytes != self._end or self._is_replaced(file):
                    content = bytearray(size_bytes)
                    got = file.read_into(memoryview(content), 0)
                    self._read(bytes(content[:got]))
            finally:
                file.close()
        offset, committed_us = committed or (0, 0)
        if self.state.apply_committed(offset, committed_us):
            if is_writer:
                self.forget()
            else:
                self._end = -1  # the writer reads the file and finds the rewind too
        return self.state

    def _is_replaced(self, file: ReadFile) -> bool:
        """Return whether another process replaced the file: the check of its first record, which contains a time, differs."""
        head = bytearray(len(self._first_head))
        file.read_into(memoryview(head), _HEAD_BYTES)
        return head != self._first_head

    def forget(self) -> None:
        """Remove the file, because the committed offset describes the state completely."""
        self._files.remove(self._path)
        self._end = 0

    def _read(self, content: bytes) -> None:
        self.state = DeliveryState()
        self._end = self._first_end = 0
        self._is_old = content[: len(self._head)] in self._old_heads
        if not self._is_old and content[: len(self._head)] != self._head:
            return  # from before a purge of the partition, or an unfinished first write
        at = _HEAD_BYTES
        self._first_head = content[at : at + 8]
        while at + 8 <= len(content):
            size, check = struct.unpack_from("<II", content, at)
            body = content[at + 8 : at + 8 + size]
            if len(body) < size or check != crc32c(body, at & 0xFFFFFFFF):
                break
            try:
                _apply(self.state, Reader(body))
            except DecodeError:
                break
            at += 8 + size
            self._first_end = self._first_end or at
        self._end = at

    def store(self, touched: Touched, committed: int, now_us: int, *, durably: bool = False) -> None:
        """Append the entries that a change affects; after a StorageError, the next load() reads the stored state."""
        try:
            self._store(touched, committed, now_us, durably=durably)
        except BaseException:
            self._end = -1
            raise

    def _store(self, touched: Touched, committed: int, now_us: int, *, durably: bool) -> None:
        state = self.state
        state.base, state.stored_us = committed, now_us
        if self._end <= 0 and state.is_empty:
            return
        is_long = self._end - self._first_end > max(_REWRITE_BYTES, self._first_end - _HEAD_BYTES)
        if self._end <= 0 or self._is_old or is_long:
            content = self._head + _record(_encode(state, _everything(state)), _HEAD_BYTES)
            self._files.replace(self._path, content)  # durably: it can contain the position of a dead letter
            self._end = self._first_end = len(content)
            self._first_head = content[_HEAD_BYTES : _HEAD_BYTES + 8]
            self._is_old = False
            return
        record = _record(_encode(state, touched), self._end)
        file = self._files.open_write(self._path)
        try:
            file.write_at(record, self._end)
            if file.size_bytes() > self._end + len(record):  # bytes of an interrupted write
                file.truncate(self._end + len(record))
            if durably:
                file.sync()
        finally:
            file.close()
        self._end += len(record)


def journal_name(owner: OffsetOwner, partition: int) -> str:
    """Return the name of a group's file for a partition."""
    return f"{owner_digest(owner)}-{partition}{JOURNAL_SUFFIX}"


def owner_digest(owner: OffsetOwner) -> str:
    """Return the prefix of a group's file names."""
    return hashlib.sha256(bytes([owner.kind]) + owner.name.encode()).hexdigest()[:32]


def read_owner(path: str, files: Files) -> str | None:
    """Return the group of a journal file; None if the file is missing or not a journal."""
    file = files.open_read(path)
    if file is None:
        return None
    try:
        head = bytearray(_HEAD_BYTES)
        if file.read_into(memoryview(head), 0) < _HEAD_BYTES or head[: len(_MAGIC)] != _MAGIC:
            return None
    finally:
        file.close()
    _, _, size, _ = _HEAD.unpack_from(head)
    return bytes(head[_HEAD.size : _HEAD.size + size]).decode(errors="replace")


def remove_journals(directory: str, files: Files, owner: OffsetOwner, partitions: Iterable[int]) -> None:
    """Remove a group's files for the given partitions."""
    for partition in partitions:
        files.remove(f"{directory}/{journal_name(owner, partition)}")


def _encode_head(owner: OffsetOwner, generation: int, version: int = _VERSION) -> bytes:
    name = owner.name.encode()
    return (_HEAD.pack(_MAGIC, version, len(name), generation) + name).ljust(_HEAD_BYTES, b"\0")


def _record(body: bytes, position: int) -> bytes:
    return struct.pack("<II", len(body), crc32c(body, position & 0xFFFFFFFF)) + body


def _everything(state: DeliveryState) -> Touched:
    """Return the content of a file with a single record."""
    extended = tuple((token, offset) for token, lease in state.leases.items() for offset in lease.extended)
    return Touched(
        waits=tuple(state.pending),
        failing=tuple(state.failing),
        leased=tuple(state.leases),
        expired=tuple(state.expired),
        deferred=tuple(state.deferred),
        extended=extended,
        given_up=tuple(state.given_up),
    )


def _encode(state: DeliveryState, touched: Touched) -> bytes:
    failing = [state.failing[offset] for offset in touched.failing if offset in state.failing]
    released = tuple((offset, offset + 1) for offset in touched.failing if offset in state.pending)
    done, waits = (*touched.done, *released), (*touched.waits, *released)
    leases = [state.leases[token] for token in touched.leased if token in state.leases]
    extended = [(token, offset, state.leases[token].extended.get(offset, 0)) for token, offset in touched.extended]
    entries: tuple[tuple[int, Iterable[tuple[int, ...]]], ...] = (
        *((_SETTLED, touched.settled), (_ENDED, touched.ended), (_DONE, done), (_WAITS, waits)),
        *((_EXPIRED, touched.expired), (_DEFERRED, touched.deferred), (_EXTENDED, extended)),
    )
    writer = Writer()
    for number in (state.base, state.stored_us, state.begun_until, state.poisoned_count):
        writer.push_u64(number)
    writer.push_u32(len(leases) + len(failing) + len(touched.given_up) + sum(len(list(each)) for _, each in entries))
    for lease in leases:
        _push_lease(writer, lease)
    for kind, rows in entries:
        for row in rows:
            writer.push_u8(kind)
            for number in row:
                writer.push_u64(number)
    for each in failing:
        _push(writer, _TRIED, each)
    for each in touched.given_up:
        _push(writer, _GIVEN_UP, each)
    return writer.to_bytes()


def _push_lease(writer: Writer, lease: Lease) -> None:
    writer.push_u8(_LEASED)
    for number in (lease.token, lease.begun_us, lease.lease_us):
        writer.push_u64(number)
    writer.push_text8(lease.worker)
    for ranges in (lease.offsets, lease.settled):
        writer.push_u32(len(ranges))
        for from_offset, until_offset in ranges:
            writer.push_u64(from_offset)
            writer.push_u64(until_offset)


def _pull_lease(reader: Reader) -> Lease:
    token, begun_us, lease_us = (reader.pull_u64("a lease number") for _ in range(3))
    worker = reader.pull_text8("a worker")
    offsets, settled = (_pull_ranges(reader), _pull_ranges(reader))
    return Lease(token, worker, begun_us, lease_us, offsets, settled)


def _pull_ranges(reader: Reader) -> OffsetRanges:
    count = reader.pull_u32("the range count")
    return OffsetRanges((reader.pull_u64("an offset"), reader.pull_u64("an offset")) for _ in range(count))


def _push(writer: Writer, kind: int, each: Delivery) -> None:
    writer.push_u8(kind)
    writer.push_u64(each.offset)
    writer.push_u32(each.failures)
    writer.push_u8(each.is_begun)
    for number in (each.failed_us, each.first_failed_us, each.delay_us):
        writer.push_u64(number)
    for text in (each.first_error, each.last_error, each.reason):
        writer.push_text8(text)
    topic, partition, end = each.copied_to or ("", 0, 0)
    writer.push_text32(topic)
    writer.push_u32(partition)
    writer.push_u64(end)
    writer.push_u8(len(each.attempts))
    for attempt in each.attempts:
        writer.push_u32(attempt.number)
        writer.push_u64(attempt.ended_us)
        writer.push_u64(attempt.begun_us)
        writer.push_text8(attempt.worker)
        writer.push_text8(attempt.error)


def _pull(reader: Reader, kind: int) -> Delivery:
    offset, failures = reader.pull_u64("an offset"), reader.pull_u32("failures")
    is_begun = reader.pull_u8("whether it has begun") == 1
    failed_us, first_failed_us, delay_us = (reader.pull_u64("a time") for _ in range(3))
    first_error, last_error, reason = (reader.pull_text8("a string") for _ in range(3))
    topic, partition, end = reader.pull_text32("a topic"), reader.pull_u32("a partition"), reader.pull_u64("an end")
    copied_to = (topic, partition, end) if topic else None
    attempts = () if kind == _FAILING else tuple(_pull_attempt(reader) for _ in range(reader.pull_u8("the attempt count")))
    times = failed_us, first_failed_us, delay_us
    return Delivery(offset, failures, is_begun, *times, first_error, last_error, reason, copied_to, attempts)


def _pull_attempt(reader: Reader) -> Attempt:
    number, ended_us, begun_us = reader.pull_u32("a number"), reader.pull_u64("a time"), reader.pull_u64("a time")
    return Attempt(number, ended_us, begun_us, reader.pull_text8("a worker"), reader.pull_text8("an error"))


def _apply(state: DeliveryState, reader: Reader) -> None:
    state.base, state.stored_us, state.begun_until, state.poisoned_count = (reader.pull_u64("a number") for _ in range(4))
    for _ in range(reader.pull_u32("the entry count")):
        kind = reader.pull_u8("the entry kind")
        if kind in (_FAILING, _TRIED):
            state.fail(_pull(reader, kind))
        elif kind == _GIVEN_UP:
            state.give_up(_pull(reader, kind))
        elif kind == _LEASED:
            state.grant(_pull_lease(reader))
        elif kind in _WITH_TOKEN:
            _apply_of_lease(state, kind, *(reader.pull_u64("a lease number") for _ in range(3)))
        elif kind in _OF_RANGES:
            _OF_RANGES[kind](state, reader.pull_u64("an offset"), reader.pull_u64("an offset"))
        else:
            raise DecodeError(f"unknown journal entry kind {kind}", reader.at)


def _apply_of_lease(state: DeliveryState, kind: int, token: int, first: int, second: int) -> None:
    if token not in state.leases:  # the lease ended long ago
        return
    if kind == _SETTLED:
        state.finish_leased(token, first, second)
    elif kind == _ENDED:
        state.expire(token, first, second)
    else:
        state.leases[token].extended[first] = second


_WITH_TOKEN: Final = frozenset((_SETTLED, _ENDED, _EXTENDED))
_OF_RANGES: Final[dict[int, Callable[[DeliveryState, int, int], None]]] = {
    _WAITS: DeliveryState.wait,
    _DONE: DeliveryState.finish,
    _DEFERRED: lambda state, from_offset, until_offset: state.deferred.add(from_offset, until_offset),
    _EXPIRED: lambda state, from_offset, until_offset: state.expired.add(from_offset, until_offset),
}
