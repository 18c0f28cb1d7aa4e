"""Partitions and logs for tests: on a disk or in memory, and with files that fail on demand."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from pathlib import Path

from headstream.core.codec.binary import decode_polled
from headstream.core.model.message import Message
from headstream.log.catalog.records import TopicRecord
from headstream.log.log import Log
from headstream.log.partition.partition import PartitionWriter
from headstream.log.segments.files import storage_error
from headstream.log.segments.follower import PartitionFollower
from headstream.log.system.files import Files, MemoryFiles, OsFiles, WriteFile
from tests.support.messages.batches import sent

SEED = bytes(range(16))


def make_files(kind: str, root: Path) -> tuple[Files, str]:
    """Return files of a kind, `os` or `memory`, and a partition's directory in them."""
    files: Files = OsFiles() if kind == "os" else MemoryFiles()
    directory = f"{root}/partition" if kind == "os" else "partition"
    files.make_directory(directory)
    return files, directory


def open_partition(files: Files, directory: str, *, segment_bytes: int = 1 << 20, wide: bool = False) -> PartitionWriter:
    return PartitionWriter(directory, files, wide=wide, segment_bytes=segment_bytes)


class Clock:
    """A clock whose time a test sets, microseconds since 1970 UTC."""

    def __init__(self, now_us: int = 0) -> None:
        self.now_us = now_us

    def __call__(self) -> int:
        return self.now_us


def open_log(root: Path | str, files: Files) -> Log:
    """Return a log with small segments in a directory, or in memory, with this process as its writer."""
    log = Log(str(root), files, is_memory=isinstance(files, MemoryFiles), segment_bytes=4096)
    log.start_writing("6d2f1a52-7a3e-4a53-9d3c-9b5b7f0f6a10", 1)
    return log


def open_log_of(kind: str, root: Path) -> Log:
    """Return a log in files of a kind, `os` or `memory`."""
    return open_log(root, OsFiles()) if kind == "os" else open_log("memory", MemoryFiles())


def topic_of(log: Log) -> TopicRecord:
    """Return the topic shop/orders."""
    return log.snapshot()["shop"].topics["orders"]


def batch(*payloads: bytes) -> bytes:
    return b"".join(sent(payload) for payload in payloads)


def read_all(files: Files, directory: str, size_bytes: int = 4096) -> Sequence[Message]:
    with PartitionFollower(directory, files) as follower:
        return [
            message for chunk in follower.read(follower.first_offset, size_bytes=size_bytes) for message in decode_polled(chunk)
        ]


def payloads(messages: Sequence[Message]) -> list[bytes | None]:
    return [message.payload for message in messages]


class FaultyFile:
    """A file whose writes fail when its file system says so: half of the data gets there, as on a full disk."""

    def __init__(self, file: WriteFile, path: str, fails: Callable[[str], bool]) -> None:
        self._file = file
        self._path = path
        self._fails = fails
        self.read_into = file.read_into
        self.size_bytes = file.size_bytes
        self.truncate = file.truncate
        self.trim = file.trim
        self.sync = file.sync
        self.close = file.close

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        if self._fails(self._path):
            self._file.write_at(bytes(data[: len(data) // 2]), position)
            raise storage_error(OSError(errno.ENOSPC, "No space left on device"), "write to a file", self._path)
        self._file.write_at(data, position)

    def is_removed(self) -> bool:
        return self._file.is_removed()

    def direct(self) -> None:
        """Return None: what is written past write_at() would not fail."""


class FaultyFiles(MemoryFiles):
    """Files in memory that fail to write when `failing` is a part of the path."""

    def __init__(self) -> None:
        super().__init__()
        self.failing: str | None = None

    def open_write(self, path: str) -> FaultyFile:  # type: ignore[override]
        return FaultyFile(super().open_write(path), path, lambda path: self.failing is not None and self.failing in path)
