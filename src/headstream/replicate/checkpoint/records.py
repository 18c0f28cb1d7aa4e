"""Records, the objects of a checkpoint in an object store. A record is a set of changed files. No I/O.

    "HSCK" | format u8 | digest of all later bytes u64 | length of the header, compressed u32, uncompressed u32 | header
    | the last chunk of the body, compressed

The header is JSON: {"kind": "commits", "number": 12, "driver": "<id>", "at_us": …, "removed": [path, …],
"files": [[path, size, [[offset, length], …]], …], "chunks": [[length compressed, length, digest], …]}.

The body has the bytes of all pieces of all files, in order, and is divided into chunks of CHUNK_BYTES. All chunks except the last
are separate objects.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import xxhash

from headstream.errors import CorruptLogError, LogVersionError

CHUNK_BYTES: Final = 16 << 20
"""Maximum size of a chunk, which bounds the memory for writing and reading a record."""
_MAGIC: Final = b"HSCK"
_FORMAT: Final = 1
_HEAD: Final = struct.Struct("<4sBQ")
_LENGTHS: Final = struct.Struct("<II")


@dataclass(frozen=True, slots=True)
class FileChange:
    """A changed file.

    Args:
        path: The file's path in the checkpoint, with slashes; a slash at the end means an empty directory.
        size: The file's size after the change; the file is truncated or extended to this size.
        pieces: Offset and length of each changed range.
    """

    path: str
    size: int
    pieces: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Record:
    """A record without its body.

    Args:
        kind: `commits` or `snapshots`.
        number: Commits are numbered consecutively; a snapshot has the number of the newest commit that it contains.
        driver: The process that wrote the record.
        at_us: Time of the record, microseconds since 1970 UTC.
        removed: The paths of removed files.
        chunks: Compressed length, length and digest of each chunk of the body.
        body_at: Position of the last chunk's bytes in the record.
    """

    kind: str
    number: int
    driver: str
    at_us: int
    files: list[FileChange]
    removed: list[str]
    chunks: list[tuple[int, int, str]]
    raw: bytes = field(repr=False)
    body_at: int

    @property
    def stored_bytes(self) -> int:
        """The record's size in the store, including all chunks."""
        return self.body_at + sum(compressed for compressed, _, _ in self.chunks)

    def body(self, read_chunk: Callable[[int], bytes]) -> Iterator[memoryview]:
        """Iterate over the chunks of the body.

        Args:
            read_chunk: Returns the chunk in a separate object, by its index.

        Raises:
            CorruptLogError: a chunk is damaged.
        """
        for place, (compressed, length, digest) in enumerate(self.chunks):
            is_last = place + 1 == len(self.chunks)
            stored = memoryview(self.raw)[self.body_at :] if is_last else memoryview(read_chunk(place))
            chunk = _decompress(stored, compressed, length)
            if xxhash.xxh3_128_hexdigest(chunk) != digest:
                raise _damaged(f"record {self.number} does not match its checksum")
            yield memoryview(chunk)


class RecordWriter:
    """Encodes a record; holds one chunk of its body in memory.

    Args:
        kind: `commits` or `snapshots`.
        store_chunk: Stores a chunk in a separate object, by its index.
    """

    def __init__(self, kind: str, store_chunk: Callable[[int, bytes], None]) -> None:
        self._kind = kind
        self._store_chunk = store_chunk
        self._files: list[FileChange] = []
        self._chunks: list[tuple[int, int, str]] = []
        self._buffer = bytearray()

    def add(self, change: FileChange, data: Iterable[bytes | memoryview]) -> None:
        """Add a file.

        Args:
            change: The file's changed ranges.
            data: The bytes of the changed ranges, in order.
        """
        self._files.append(change)
        for part in data:
            view = memoryview(part)
            while len(self._buffer) + len(view) > CHUNK_BYTES:
                free_bytes = CHUNK_BYTES - len(self._buffer)
                self._buffer += view[:free_bytes]
                view = view[free_bytes:]
                self._store_chunk(len(self._chunks), self._compress())
            self._buffer += view

    def finish(self, number: int, driver: str, at_us: int, removed: Iterable[str] = ()) -> bytes:
        """Return the record's bytes.

        Args:
            driver: The process that writes the record.
            at_us: Time of the record, microseconds since 1970 UTC.
            removed: The paths of removed files.
        """
        last = self._compress()
        document = {
            "kind": self._kind,
            "number": number,
            "driver": driver,
            "at_us": at_us,
            "files": [[change.path, change.size, change.pieces] for change in self._files],
            "removed": list(removed),
            "chunks": self._chunks,
        }
        header = json.dumps(document, separators=(",", ":")).encode()
        compressed = _compress(header)
        rest = _LENGTHS.pack(len(compressed), len(header)) + compressed + last
        return _HEAD.pack(_MAGIC, _FORMAT, xxhash.xxh3_64_intdigest(rest)) + rest

    def _compress(self) -> bytes:
        chunk, self._buffer = bytes(self._buffer), bytearray()
        compressed = _compress(chunk)
        self._chunks.append((len(compressed), len(chunk), xxhash.xxh3_128_hexdigest(chunk)))
        return compressed


def read_record(raw: bytes, where: str) -> Record:
    """Return a record.

    Args:
        where: The object, for errors.

    Raises:
        LogVersionError: a newer version of Headstream wrote the record.
        CorruptLogError: the bytes are not a record, or are damaged.
    """
    if len(raw) < _HEAD.size or raw[: len(_MAGIC)] != _MAGIC:
        raise _damaged("an object is not a record of a checkpoint", where)
    _, form, digest = _HEAD.unpack_from(raw)
    if form > _FORMAT:
        raise LogVersionError(
            f"the checkpoint has format {form}, but this version of Headstream reads {_FORMAT}",
            where=where,
            advice="Use the Headstream version that wrote the checkpoint, or a newer version",
        )
    rest = memoryview(raw)[_HEAD.size :]
    if xxhash.xxh3_64_intdigest(rest) != digest:
        raise _damaged("the bytes of a record are altered or incomplete", where)
    compressed, length = _LENGTHS.unpack_from(rest)
    body_at = _HEAD.size + _LENGTHS.size + compressed
    try:
        document: dict[str, Any] = json.loads(_decompress(rest[_LENGTHS.size :], compressed, length))
        return Record(
            kind=document["kind"],
            number=document["number"],
            driver=document["driver"],
            at_us=document["at_us"],
            files=[FileChange(path, size, [(at, count) for at, count in pieces]) for path, size, pieces in document["files"]],
            removed=document["removed"],
            chunks=[(stored, count, digest) for stored, count, digest in document["chunks"]],
            raw=raw,
            body_at=body_at,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(f"a record cannot be read ({error})", where) from None


def _compress(data: bytes) -> bytes:
    compressed: bytes = pa.compress(data, codec="zstd", asbytes=True) if data else b""
    return compressed


def _decompress(stored: memoryview, compressed: int, length: int) -> bytes:
    if len(stored) < compressed:
        raise _damaged("a record is cut short")
    if not length:
        return b""
    try:
        data: bytes = pa.decompress(pa.py_buffer(stored[:compressed]), length, codec="zstd", asbytes=True)
    except (pa.ArrowException, OSError) as error:
        raise _damaged(f"a record cannot be decompressed ({error})") from None
    return data


def _damaged(what: str, where: str | None = None) -> CorruptLogError:
    return CorruptLogError(
        f"the checkpoint in the object store is damaged: {what}",
        where=where,
        advice="Restore all objects of the checkpoint from one backup",
    )
