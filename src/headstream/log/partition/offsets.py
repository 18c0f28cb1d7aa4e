"""OffsetStore: the committed offsets of consumers and groups in a topic, written by any process.

DIR/streams/<stream>/<topic>/offsets/<32 hexadecimal digits of the name's hash>.offsets, one file per consumer or group:

    head   magic "HSOFFSET" | version u32 | kind u8 (1 consumer, 2 group) | name_length u8 | zero u16 | name | zero to byte 508
           | user u32: the server's user who committed first; 0 for a process without a server
    slot   next_offset u64 | committed_us u64 | zero u64 | zero u32 | check u32   32 bytes; slot of partition n: 512 + 32 (n - 1)

A commit writes one slot in place: a single small write within a page, which is atomic even if the process is killed. No lock is
needed, because the head (except the user) depends only on the name and is the same for all writers. check is the CRC-32C of the
preceding bytes of the slot, seeded with the partition's number; a slot of zeros means that nothing is committed.

next_offset is the offset of the *next* message, at which the consumer continues: one past the last processed message.
"""

from __future__ import annotations

import hashlib
import struct
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Final

from headstream.core.codec.batch.stored.scan import crc32c
from headstream.core.model.polling import ConsumerKind, OffsetOwner
from headstream.errors import CorruptLogError
from headstream.log.partition.delivery_journal import journal_name
from headstream.log.partition.offset_file_counts import NO_USER, OffsetFileCounts
from headstream.log.segments.files import ReadFile
from headstream.log.system.files import Files, WriteFile

_MAGIC: Final = b"HSOFFSET"
_VERSION: Final = 1
_HEAD: Final = struct.Struct("<8sIBBH")
_HEAD_BYTES: Final = 512
_NAMED_BYTES: Final = 508
"""Size of the part of the head that only the consumer determines, bytes; the user's id follows."""
_SLOT: Final = struct.Struct("<QQQII")
_EMPTY: Final = bytes(_SLOT.size)
_SUFFIX: Final = ".offsets"
_MAX_OPEN: Final = 64
_ATTEMPTS: Final = 100
"""Maximum number of reads of a slot that another process is writing."""


class OpenOffsets:
    """The most recently used offset files of all topics of a log, open for writing; thread-safe."""

    def __init__(self, max_open: int = _MAX_OPEN) -> None:
        self.counts = OffsetFileCounts()
        self._max_open = max_open
        self._lock = threading.Lock()
        self._files: OrderedDict[tuple[str, OffsetOwner], WriteFile] = OrderedDict()

    def write(
        self, directory: str, consumer: OffsetOwner, opens: Callable[[OffsetOwner], WriteFile], slot: bytes, position: int
    ) -> None:
        """Write a slot to a consumer's file; open the file if needed."""
        key = directory, consumer
        with self._lock:
            file = self._files.get(key)
            if file is not None:
                self._files.move_to_end(key)
                file.write_at(slot, position)
                if not file.is_removed():
                    return
                self._files.pop(key).close()  # another process has removed it with the last offset
            file = self._files[key] = opens(consumer)
            if len(self._files) > self._max_open:
                self._files.popitem(last=False)[1].close()
            file.write_at(slot, position)

    def remove(self, directory: str, consumer: OffsetOwner, removes: Callable[[], None]) -> None:
        """Close and remove a consumer's file while no other thread writes to it."""
        with self._lock:
            file = self._files.pop((directory, consumer), None)
            if file is not None:
                file.close()
            removes()

    def close(self, directory: str) -> None:
        """Close the files in a directory and drop their counts."""
        self.counts.drop(directory)
        with self._lock:
            for key in [key for key in self._files if key[0] == directory]:
                self._files.pop(key).close()


class OffsetStore:
    """The committed offsets of one topic; can be used by any thread and process."""

    def __init__(self, directory: str, files: Files, opened: OpenOffsets | None = None) -> None:
        self._directory = directory
        self._files = files
        self._opened = OpenOffsets() if opened is None else opened

    @property
    def directory(self) -> str:
        """The topic's offset directory."""
        return self._directory

    def commit(self, consumer: OffsetOwner, partition: int, next_offset: int, committed_us: int, user_id: int = NO_USER) -> None:
        """Commit the offset at which a consumer continues; the commit survives a crash of this process.

        Args:
            next_offset: One past the last processed message.
            committed_us: Time of the commit, microseconds since 1970 UTC.
            user_id: The server's user who commits; a consumer's first commit counts towards this user's limit.

        Raises:
            ConsumersLimitError: this is the consumer's first commit in the topic and the user has reached the file limit.
            StorageError: the operating system reported a write error.
        """
        body = _SLOT.pack(next_offset, committed_us, 0, 0, 0)[:-4]
        slot = body + crc32c(body, partition).to_bytes(4, "little")
        self._write(consumer, partition, slot, user_id)

    def forget(self, consumer: OffsetOwner, partition: int) -> None:
        """Delete a consumer's offset and unfinished messages in a partition; delete the file after the last partition."""
        self._files.remove(f"{self._directory}/{journal_name(consumer, partition)}")
        if self._files.exists(self._path(consumer)):
            self._write(consumer, partition, _EMPTY, NO_USER)
            self._opened.remove(self._directory, consumer, lambda: self._remove_if_empty(consumer))

    def _remove_if_empty(self, consumer: OffsetOwner) -> None:
        """Remove a file without committed offsets. A process that has the file open recreates it at the next commit."""
        path = self._path(consumer)
        file = self._files.open_read(path)
        if file is None:
            return
        try:
            content = memoryview(bytearray(file.size_bytes()))
            got = file.read_into(content, 0)
        finally:
            file.close()
        if not any(content[_HEAD_BYTES:got]):
            self._files.remove(path)
            self._opened.counts.release(self._directory, _user_of(bytes(content[:_HEAD_BYTES])))

    def count_files(self) -> None:
        """Count the files of each user according to their heads."""
        made = Counter(_user_of(head) for _, head in self._heads() if _decode_head(head) is not None)
        self._opened.counts.load(self._directory, made)

    def committed(self, consumer: OffsetOwner, partition: int) -> int | None:
        """Return the offset at which a consumer continues; None if it has committed no offset."""
        found = self.committed_at(consumer, partition)
        return None if found is None else found[0]

    def all_committed(self, consumer: OffsetOwner, partitions: Iterable[int]) -> dict[int, int]:
        """Return the offsets at which a consumer continues, for partitions with a committed offset; see committed()."""
        file = self._files.open_read(self._path(consumer))
        if file is None:
            return {}
        try:
            found = {number: self._read(file, consumer, number) for number in partitions}
        finally:
            file.close()
        return {number: each[0] for number, each in found.items() if each is not None}

    def committed_at(self, consumer: OffsetOwner, partition: int) -> tuple[int, int] | None:
        """Return the offset at which a consumer continues and the time of its commit; see committed()."""
        file = self._files.open_read(self._path(consumer))
        if file is None:
            return None
        try:
            return self._read(file, consumer, partition)
        finally:
            file.close()

    def forget_partition(self, partition: int) -> None:
        """Delete all committed offsets of a partition."""
        for path, _ in self._heads():
            file = self._files.open_write(path)
            try:
                if file.size_bytes() > _position(partition):
                    file.write_at(_EMPTY, _position(partition))
            finally:
                file.close()

    def greatest(self, partition: int) -> int:
        """Return the greatest readable committed offset of a partition; 0 if there is none."""
        found = [0]
        for consumer in self.consumers():
            with suppress(CorruptLogError):
                found.append(self.committed(consumer, partition) or 0)
        return max(found)

    def consumers(self) -> list[OffsetOwner]:
        """Return the consumers and groups with committed offsets, by kind and name; files with an incomplete head are skipped.

        An incomplete head is damaged, or left by an unfinished first commit; the consumer's next commit rewrites the head.
        """
        found = [consumer for _, head in self._heads() if (consumer := _decode_head(head)) is not None]
        return sorted(found, key=lambda consumer: (consumer.kind, consumer.name))

    def damaged_heads(self) -> list[tuple[str, bool]]:
        """Return the paths of files with an invalid head, and whether each is an unfinished first commit."""
        return [(path, len(head) < _HEAD_BYTES or not any(head)) for path, head in self._heads() if _decode_head(head) is None]

    def _heads(self) -> Iterator[tuple[str, bytes]]:
        """Yield the path and the current head bytes of each file."""
        for name in sorted(self._files.list_names(self._directory) or []):
            path = f"{self._directory}/{name}"
            file = self._files.open_read(path) if name.endswith(_SUFFIX) else None
            if file is not None:
                head = memoryview(bytearray(_HEAD_BYTES))
                got = file.read_into(head, 0)
                file.close()
                yield path, bytes(head[:got])

    def close(self) -> None:
        """Close all files."""
        self._opened.close(self._directory)

    def _path(self, consumer: OffsetOwner) -> str:
        return f"{self._directory}/{_file_name(consumer)}"

    def _write(self, consumer: OffsetOwner, partition: int, slot: bytes, user_id: int) -> None:
        self._opened.write(
            self._directory, consumer, lambda consumer: self._open_write(consumer, user_id), slot, _position(partition)
        )

    def _open_write(self, consumer: OffsetOwner, user_id: int) -> WriteFile:
        path = self._path(consumer)
        is_new = not self._files.exists(path)
        if is_new:
            self._opened.counts.claim(self._directory, user_id)
        try:
            file = self._files.open_write(path)
        except BaseException:
            if is_new:
                self._opened.counts.release(self._directory, user_id)
            raise
        try:
            head, there = _encode_head(consumer, user_id), memoryview(bytearray(_HEAD_BYTES))
            # Damaged, or incomplete: a process was killed, or the disk was full, at the first commit.
            if file.read_into(there, 0) < _HEAD_BYTES or there[:_NAMED_BYTES] != head[:_NAMED_BYTES]:
                file.write_at(head, 0)
        except BaseException:
            file.close()
            raise
        return file

    def _read(self, file: ReadFile, consumer: OffsetOwner, partition: int) -> tuple[int, int] | None:
        slot, position = memoryview(bytearray(_SLOT.size)), _position(partition)
        for _ in range(_ATTEMPTS):
            if file.read_into(slot, position) < _SLOT.size or slot == _EMPTY:
                return None
            next_offset, committed_us, _, _, check = _SLOT.unpack(slot)
            if check == crc32c(slot[:-4], partition):
                return int(next_offset), int(committed_us)
        raise CorruptLogError(
            f"the committed offset of {consumer} in partition {partition} is damaged",
            where=f"{self._path(consumer)}, byte {position}",
            advice="Move the file out of the log, and seek to the offset at which the consumer must continue",
        )


@lru_cache(maxsize=1024)
def _file_name(consumer: OffsetOwner) -> str:
    digest = hashlib.sha256(bytes([consumer.kind]) + consumer.name.encode()).hexdigest()
    return f"{digest[:32]}{_SUFFIX}"


def _encode_head(consumer: OffsetOwner, user_id: int) -> bytes:
    name = consumer.name.encode()
    named = (_HEAD.pack(_MAGIC, _VERSION, consumer.kind, len(name), 0) + name).ljust(_NAMED_BYTES, b"\0")
    return named + user_id.to_bytes(_HEAD_BYTES - _NAMED_BYTES, "little")


def _user_of(head: bytes) -> int:
    return int.from_bytes(head[_NAMED_BYTES:_HEAD_BYTES], "little")


def _position(partition: int) -> int:
    return _HEAD_BYTES + _SLOT.size * (partition - 1)


def _decode_head(head: bytes) -> OffsetOwner | None:
    """Return the consumer of an offset file; None if the head is incomplete."""
    if len(head) < _HEAD_BYTES:
        return None
    magic, version, kind, name_length, _ = _HEAD.unpack_from(head)
    if magic != _MAGIC or version != _VERSION or kind not in tuple(ConsumerKind):
        return None
    return OffsetOwner(ConsumerKind(kind), head[_HEAD.size : _HEAD.size + name_length].decode("utf-8", "replace"))
