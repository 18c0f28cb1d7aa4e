"""OffsetStore: how far each consumer and group has come in a topic, committed from any process.

DIR/streams/<stream>/<topic>/offsets/<32 hexadecimal digits of the name's hash>.offsets, one file a consumer or group:

    head   magic "HSOFFSET" | version u32 | kind u8 (1 consumer, 2 group) | name_length u8 | zero u16 | name | zero to byte 512
    slot   next_offset u64 | committed_us u64 | zero u64 | zero u32 | check u32     32 bytes; partition n's is at 512 + 32 (n - 1)

A commit writes one slot in place: a single small write within a page, which a killed process has either made or not,
and which needs no lock, since the head's bytes follow from the name and are the same whoever writes them. check is the
CRC-32C of what stands before it in the slot, begun with the partition's number; a slot of zeros is "nothing committed".

The offset is that of the *next* message: one past the last that is done, where the consumer goes on.
"""

from __future__ import annotations

import hashlib
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Final

from headstream.codec.batch.scan import crc32c
from headstream.errors import CorruptLogError
from headstream.log.files import Files, WriteFile
from headstream.model.polling import Consumer, ConsumerKind
from headstream.segments.files import ReadFile

__all__ = ["OffsetStore", "OpenOffsets"]

_MAGIC: Final = b"HSOFFSET"
_VERSION: Final = 1
_HEAD: Final = struct.Struct("<8sIBBH")
_HEAD_BYTES: Final = 512
_SLOT: Final = struct.Struct("<QQQII")
_EMPTY: Final = bytes(_SLOT.size)
_SUFFIX: Final = ".offsets"
_MAX_OPEN: Final = 64
_ATTEMPTS: Final = 100
"""A slot that is just being written can be read half: it is whole a moment later."""


class OpenOffsets:
    """The files of offsets that are open for writing, of all topics of a log: the ones last used; any thread.

    Args:
        max_open: How many at most.
    """

    def __init__(self, max_open: int = _MAX_OPEN) -> None:
        self._max_open = max_open
        self._lock = threading.Lock()
        self._files: OrderedDict[tuple[str, Consumer], WriteFile] = OrderedDict()

    def write(
        self, directory: str, consumer: Consumer, opens: Callable[[Consumer], WriteFile], slot: bytes, position: int
    ) -> None:
        """Write a slot into a consumer's file, which is opened where it is not open."""
        key = directory, consumer
        with self._lock:
            file = self._files.get(key)
            if file is None:
                file = self._files[key] = opens(consumer)
                if len(self._files) > self._max_open:
                    self._files.popitem(last=False)[1].close()
            else:
                self._files.move_to_end(key)
            file.write_at(slot, position)

    def close(self, directory: str) -> None:
        """Let go of the files in a directory."""
        with self._lock:
            for key in [key for key in self._files if key[0] == directory]:
                self._files.pop(key).close()


class OffsetStore:
    """The committed offsets of one topic; any thread, any process.

    Args:
        directory: The topic's directory of offsets.
        files: Where it is.
        opened: The files that are open; its own unless said otherwise.
    """

    def __init__(self, directory: str, files: Files, opened: OpenOffsets | None = None) -> None:
        self._directory = directory
        self._files = files
        self._opened = OpenOffsets() if opened is None else opened

    def commit(self, consumer: Consumer, partition: int, next_offset: int, committed_us: int) -> None:
        """Commit that a consumer goes on from an offset; it is kept whatever happens to this process then.

        Args:
            consumer: Whose offset it is.
            partition: From 1.
            next_offset: One past the last message that is done.
            committed_us: The time, microseconds since 1970 UTC.

        Raises:
            StorageError: the system refused to write.
        """
        body = _SLOT.pack(next_offset, committed_us, 0, 0, 0)[:-4]
        self._write(consumer, partition, body + crc32c(body, partition).to_bytes(4, "little"))

    def forget(self, consumer: Consumer, partition: int) -> None:
        """Make it that a consumer has committed nothing in a partition."""
        if self._files.exists(self._path(consumer)):
            self._write(consumer, partition, _EMPTY)

    def committed(self, consumer: Consumer, partition: int) -> int | None:
        """Return the offset a consumer goes on from, or None where it has committed nothing.

        Raises:
            CorruptLogError: what is there is damaged.
        """
        file = self._files.open_read(self._path(consumer))
        if file is None:
            return None
        try:
            return self._read(file, consumer, partition)
        finally:
            file.close()

    def forget_partition(self, partition: int) -> None:
        """Make it that nobody has committed anything in a partition."""
        for path, _ in self._heads():
            file = self._files.open_write(path)
            try:
                if file.size_bytes() > _position(partition):
                    file.write_at(_EMPTY, _position(partition))
            finally:
                file.close()

    def greatest(self, partition: int) -> int:
        """Return the greatest offset that anybody has committed in a partition, 0 where there is none that can be read."""
        found = [0]
        for consumer in self.consumers():
            with suppress(CorruptLogError):
                found.append(self.committed(consumer, partition) or 0)
        return max(found)

    def consumers(self) -> list[Consumer]:
        """Return who has committed something here, by kind and name.

        A file without a whole head is left out. It is that of a first commit that did not end, and nothing is committed in
        it; or the head was damaged, and the consumer's next commit writes it again.
        """
        found = [consumer for _, head in self._heads() if (consumer := _decode_head(head)) is not None]
        return sorted(found, key=lambda consumer: (consumer.kind, consumer.name))

    def damaged_heads(self) -> list[tuple[str, bool]]:
        """Return the paths of files whose head does not say whose they are, and whether that is an unfinished first commit."""
        return [(path, len(head) < _HEAD_BYTES or not any(head)) for path, head in self._heads() if _decode_head(head) is None]

    def _heads(self) -> Iterator[tuple[str, bytes]]:
        """Yield each file's path, and its head as far as it is there."""
        for name in sorted(self._files.list_names(self._directory) or []):
            path = f"{self._directory}/{name}"
            file = self._files.open_read(path) if name.endswith(_SUFFIX) else None
            if file is not None:
                head = memoryview(bytearray(_HEAD_BYTES))
                got = file.read_into(head, 0)
                file.close()
                yield path, bytes(head[:got])

    def close(self) -> None:
        """Let go of all files."""
        self._opened.close(self._directory)

    def _path(self, consumer: Consumer) -> str:
        return f"{self._directory}/{_file_name(consumer)}"

    def _write(self, consumer: Consumer, partition: int, slot: bytes) -> None:
        self._opened.write(self._directory, consumer, self._open_write, slot, _position(partition))

    def _open_write(self, consumer: Consumer) -> WriteFile:
        file = self._files.open_write(self._path(consumer))
        try:
            head, there = _encode_head(consumer), memoryview(bytearray(_HEAD_BYTES))
            # Damaged, or half of it: a process was killed, or the disk was full, at the first commit.
            if file.read_into(there, 0) < _HEAD_BYTES or there != head:
                file.write_at(head, 0)
        except BaseException:
            file.close()
            raise
        return file

    def _read(self, file: ReadFile, consumer: Consumer, partition: int) -> int | None:
        slot, position = memoryview(bytearray(_SLOT.size)), _position(partition)
        for _ in range(_ATTEMPTS):
            if file.read_into(slot, position) < _SLOT.size or slot == _EMPTY:
                return None
            next_offset, _, _, _, check = _SLOT.unpack(slot)
            if check == crc32c(slot[:-4], partition):
                return int(next_offset)
        raise CorruptLogError(
            f"the committed offset of {consumer} in partition {partition} is damaged",
            where=f"{self._path(consumer)}, byte {position}",
            advice="Move the file away, and seek to where the consumer is to go on",
        )


@lru_cache(maxsize=1024)
def _file_name(consumer: Consumer) -> str:
    digest = hashlib.sha256(bytes([consumer.kind]) + consumer.name.encode()).hexdigest()
    return f"{digest[:32]}{_SUFFIX}"


def _encode_head(consumer: Consumer) -> bytes:
    name = consumer.name.encode()
    return (_HEAD.pack(_MAGIC, _VERSION, consumer.kind, len(name), 0) + name).ljust(_HEAD_BYTES, b"\0")


def _position(partition: int) -> int:
    return _HEAD_BYTES + _SLOT.size * (partition - 1)


def _decode_head(head: bytes) -> Consumer | None:
    """Return whose offsets these are, or None where the head is not whole."""
    if len(head) < _HEAD_BYTES:
        return None
    magic, version, kind, name_length, _ = _HEAD.unpack_from(head)
    if magic != _MAGIC or version != _VERSION or kind not in tuple(ConsumerKind):
        return None
    return Consumer(ConsumerKind(kind), head[_HEAD.size : _HEAD.size + name_length].decode("utf-8", "replace"))
