"""Deletion vectors of Delta tables: the deleted rows of a data file, and the location of the vector.

storageType  pathOrInlineDv                            location of the vector
u            optional prefix, 20 characters of Z85     in the table, <prefix>/deletion_vector_<uuid>.bin
p            a URI                                     in a file, possibly of another table
i            Z85                                       in the descriptor

A file begins with the byte 1 and has one or more vectors. A vector, at its offset, consists of size, bytes and CRC-32 (size and
CRC big-endian). The bytes are the magic number and the count of 32-bit bitmaps. A bitmap consists of its high half and the
portable Roaring serialization (little-endian).
"""

from __future__ import annotations

import base64
import struct
import uuid
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import unquote, urlsplit

import numpy as np
import numpy.typing as npt

from headstream.errors import DecodeError, StorageError
from headstream.replicate.storage.places import Place
from headstream.replicate.storage.table_files import read_file, write_file

Positions: TypeAlias = npt.NDArray[np.uint32] | npt.NDArray[np.uint64]
"""Distinct ascending row numbers in a data file, from 0."""

_UUID_CHARACTERS: Final = 20
_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85: Final = str.maketrans(_Z85 + "".join(set(_B85) - set(_Z85)), _B85 + "\0" * len(set(_B85) - set(_Z85)))
"""Translation of the Z85 alphabet to the Base85 alphabet; a character that is only in Base85 becomes invalid."""
_TO_Z85: Final = str.maketrans(_B85, _Z85)
_MAGIC: Final = 1681511377
_NO_RUNS: Final = 12346
_RUNS: Final = 12347
_MOST_IN_ARRAY: Final = 4096
"""Number of values up to which a Roaring container is a list; a larger container is a bitmap of 65,536 bits."""
_LEAST_OFFSETS: Final = 4
"""Minimum number of containers for which a bitmap with runs also has container offsets."""
_MOST_INLINE: Final = 512
_MOST_INLINE_TOGETHER: Final = 4096
"""Limit, bytes, below which a vector, and all small vectors of a commit together, are stored in the log: a file costs a
request, but each checkpoint repeats the vectors in the log, even vectors of files that were removed in the last days."""


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """The descriptor of one deletion vector.

    Args:
        storage: `u`, `p` or `i`.
        value: `pathOrInlineDv`.
        offset: Start of the vector in its file, bytes; None for an inline vector.
        size_bytes: Size of the vector.
        cardinality: Number of deleted rows.
    """

    storage: str
    value: str
    offset: int | None
    size_bytes: int
    cardinality: int

    @classmethod
    def from_action(cls, action: Mapping[str, Any]) -> DeletionVector:
        """Return the descriptor from the `deletionVector` of an add or remove action."""
        return cls(
            action["storageType"], action["pathOrInlineDv"], action.get("offset"), action["sizeInBytes"], action["cardinality"]
        )

    @property
    def action(self) -> dict[str, Any]:
        """The `deletionVector` of an add or remove action."""
        offset = {} if self.offset is None else {"offset": self.offset}
        own = {"storageType": self.storage, "pathOrInlineDv": self.value, **offset}
        return {**own, "sizeInBytes": self.size_bytes, "cardinality": self.cardinality}

    @property
    def path(self) -> str | None:
        """The vector's file: a path relative to the table's directory, or an absolute path or URI; None for an inline vector.

        Raises:
            DecodeError: the descriptor is invalid.
        """
        if self.storage == "i":
            return None
        if self.storage == "p":
            return unquote(urlsplit(self.value).path)
        if self.storage != "u" or len(self.value) < _UUID_CHARACTERS:
            raise _invalid(self)
        prefix, encoded = self.value[:-_UUID_CHARACTERS], self.value[-_UUID_CHARACTERS:]
        name = f"deletion_vector_{uuid.UUID(bytes=self._decoded(encoded))}.bin"
        return f"{prefix}/{name}" if prefix else name

    @property
    def inline(self) -> bytes | None:
        """The bytes of the vector, if the descriptor contains them.

        Raises:
            DecodeError: the descriptor is invalid.
        """
        return self._decoded(self.value)[: self.size_bytes] if self.storage == "i" else None

    def _decoded(self, text: str) -> bytes:
        try:
            if len(text) % 5:
                raise ValueError("the length is wrong")
            return base64.b85decode(text.translate(_TO_B85))
        except ValueError:
            raise _invalid(self) from None


def read_vectors(table: Place, vectors: Iterable[DeletionVector]) -> dict[DeletionVector, Positions]:
    """Return the rows that deletion vectors delete; each file is read once.

    Raises:
        StorageError: a vector's file is missing, or the vector does not match its descriptor and checksum.
    """
    files: dict[str, bytes] = {}
    found = {}
    for vector in vectors:
        where = f"{table}/{vector.path}" if vector.storage == "u" else f"{table}: {vector.value}"
        try:
            content = vector.inline
            if content is None:
                path = _path_in(table, vector)
                if path not in files:
                    files[path] = read_file(table, path)
                content = _stored(files[path], vector)
            found[vector] = positions = _decode(content)
            if len(positions) != vector.cardinality:
                raise DecodeError(f"the vector has {len(positions)} rows, not {vector.cardinality}", 0)
        except (DecodeError, ValueError, struct.error) as error:
            raise StorageError(f"the deletion vector is damaged: {error}", where=where) from error
    return found


def write_vectors(table: Place, deleted: Mapping[str, Positions]) -> dict[str, DeletionVector]:
    """Store deletion vectors in one new file or, if they are small, in their descriptors; return data file -> descriptor.

    Args:
        deleted: Data file -> all deleted rows, including previously deleted rows.
    """
    name = uuid.uuid4()
    value = base64.b85encode(name.bytes).decode().translate(_TO_Z85)
    content = bytearray(b"\1")
    found = {}
    encoded = {path: _encode(positions) for path, positions in deleted.items()}
    may_inline = sum(len(vector) for vector in encoded.values() if len(vector) < _MOST_INLINE) < _MOST_INLINE_TOGETHER
    for path, positions in deleted.items():
        vector = encoded[path]
        if may_inline and len(vector) < _MOST_INLINE:
            text = base64.b85encode(vector + bytes(-len(vector) % 4)).decode().translate(_TO_Z85)
            found[path] = DeletionVector("i", text, None, len(vector), len(positions))
            continue
        found[path] = DeletionVector("u", value, len(content), len(vector), len(positions))
        content += struct.pack(">I", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
    if len(content) > 1:
        write_file(table, f"deletion_vector_{name}.bin", bytes(content))
    return found


def _path_in(table: Place, vector: DeletionVector) -> str:
    """Return the path of a vector's file within the table's directory."""
    path = str(vector.path)
    if vector.storage != "p":
        return path
    root = str(table) if isinstance(table, Path) else f"/{table.key}"
    if not path.startswith(f"{root}/"):
        raise DecodeError("the file is outside the table's directory", 0)
    return path[len(root) + 1 :]


def _stored(file: bytes, vector: DeletionVector) -> bytes:
    """Return a vector's bytes from its file."""
    begin = vector.offset or 0
    size = int.from_bytes(file[begin : begin + 4], "big")
    content = file[begin + 4 : begin + 4 + size]
    checksum = file[begin + 4 + size : begin + 8 + size]
    if size != vector.size_bytes or len(content) != size or zlib.crc32(content) != int.from_bytes(checksum, "big"):
        raise DecodeError("the size or checksum is wrong", begin)
    return content


def _encode(positions: Positions) -> bytes:
    # Positions of 32 bits are one bitmap, whose upper half is 0.
    high = positions[:1] * 0 if positions.dtype == np.uint32 else positions >> np.uint64(32)
    begins = [0, *(np.flatnonzero(np.diff(high)) + 1).tolist()] if len(positions) else []
    parts = [struct.pack("<IQ", _MAGIC, len(begins))]
    for begin, end in zip(begins, [*begins[1:], len(positions)], strict=True):
        parts.append(struct.pack("<I", int(high[begin])) + _encode_bitmap(positions[begin:end].astype(np.uint32)))
    return b"".join(parts)


def _encode_bitmap(values: npt.NDArray[np.uint32]) -> bytes:
    keys = values >> np.uint32(16)
    low = values.astype("<u2")  # the low halves
    begins = [0, *(np.flatnonzero(keys[1:] != keys[:-1]) + 1).tolist()]
    ends = [*begins[1:], len(values)]
    containers = []
    for begin, end in zip(begins, ends, strict=True):
        if end - begin <= _MOST_IN_ARRAY:
            containers.append(low[begin:end].tobytes())
            continue
        bits = np.zeros(1 << 16, np.bool_)
        bits[low[begin:end]] = True
        containers.append(np.packbits(bits, bitorder="little").tobytes())
    most = [end - begin - 1 for begin, end in zip(begins, ends, strict=True)]
    header = chain.from_iterable(zip(keys[begins].tolist(), most, strict=True))
    offsets = accumulate(map(len, containers[:-1]), initial=8 + 8 * len(begins))
    top = struct.pack(f"<II{2 * len(begins)}H{len(begins)}I", _NO_RUNS, len(begins), *header, *offsets)
    return b"".join([top, *containers])


def _decode(content: bytes) -> Positions:
    magic, count = struct.unpack_from("<IQ", content)
    if magic != _MAGIC:
        raise DecodeError(f"the format {magic} is unknown", 0)
    at, parts = 12, []
    for _ in range(count):
        (high,) = struct.unpack_from("<I", content, at)
        values, at = _decode_bitmap(content, at + 4)
        parts.append(values if count == 1 and not high else values.astype(np.uint64) + np.uint64(high << 32))
    positions = np.concatenate(parts) if parts else np.empty(0, np.uint32)
    if not np.all(positions[1:] > positions[:-1]):
        raise DecodeError("the rows are not ascending", 0)
    return positions


def _decode_bitmap(content: bytes, at: int) -> tuple[npt.NDArray[np.uint32], int]:
    """Return the values of a portable Roaring bitmap, and its end position."""
    (cookie,) = struct.unpack_from("<I", content, at)
    at += 4
    if cookie & 0xFFFF == _RUNS:
        count = (cookie >> 16) + 1
        has_runs = np.unpackbits(np.frombuffer(content, np.uint8, (count + 7) // 8, at), bitorder="little")
        at += (count + 7) // 8
    elif cookie == _NO_RUNS:
        (count,) = struct.unpack_from("<I", content, at)
        at += 4
        has_runs = np.zeros(min(count, 1 << 16), np.uint8)
    else:
        raise DecodeError(f"the cookie {cookie} of the bitmap is unknown", at)
    header = np.frombuffer(content, "<u2", 2 * count, at).reshape(count, 2)
    at += 4 * count
    if cookie == _NO_RUNS or count >= _LEAST_OFFSETS:
        at += 4 * count
    parts = [np.empty(0, np.uint32)]
    for number in range(count):
        key, size = int(header[number, 0]), int(header[number, 1]) + 1
        if has_runs[number]:
            (runs,) = struct.unpack_from("<H", content, at)
            pairs = np.frombuffer(content, "<u2", 2 * runs, at + 2).reshape(runs, 2).astype(np.uint32)
            low = np.concatenate([np.arange(first, first + more + 1, dtype=np.uint32) for first, more in pairs.tolist()])
            at += 2 + 4 * runs
        elif size <= _MOST_IN_ARRAY:
            low = np.frombuffer(content, "<u2", size, at).astype(np.uint32)
            at += 2 * size
        else:
            bits = np.unpackbits(np.frombuffer(content, np.uint8, 8192, at), bitorder="little")
            low = np.flatnonzero(bits).astype(np.uint32)
            at += 8192
        parts.append(low + np.uint32(key << 16))
    return np.concatenate(parts), at


def _invalid(vector: DeletionVector) -> DecodeError:
    return DecodeError(f"the deletion vector {vector.value!r} of type {vector.storage!r} is not part of the Delta protocol", 0)
