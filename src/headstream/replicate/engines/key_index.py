"""Indexes of data files: a file's sorted keys with the positions of their rows, to find rows without reading the file.

A data file never changes, so its index is never out of date. An index can be deleted at any time.

    <directory>/<hash of the table>/<hash of file and key columns>.keys     Arrow IPC, memory-mapped, and 8 bytes of checksum
        number      uint64, ascending    the key if it is one integer, or the key's hash
        position    uint32               position of the row with the number
        <key>, ...                       the row's key, to compare if numbers are hashes
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from headstream.replicate.columns.key_buckets import as_integers, mix_hashes

Positions: TypeAlias = npt.NDArray[np.int64]
_Numbers: TypeAlias = npt.NDArray[np.uint64]

_FACTOR: Final = np.uint64(0x9E3779B97F4A7C15)
_FORMAT: Final = 2
"""Format number in index names, so that indexes with differently computed numbers are not found."""
_FILTER_BITS: Final = 21
_BITS_PER_ROW: Final = 8
"""Minimum bits per row of a file's filter; 6 to 12 % of the keys that the file lacks pass the filter."""
_LEAST_FILTERED: Final = 256
"""Number of searched keys above which a file's filter is faster than a binary search per key."""
_CHECKSUM_BYTES: Final = 8
_MOST_OPEN: Final = 4096
"""Maximum number of memory-mapped indexes per table; Linux allows 65,530 mappings per process."""


def can_find(kind: pa.DataType) -> bool:
    """Return whether rows can be found by keys of a type: only identical values may be equal in SQL."""
    tests = (
        *(pa.types.is_integer, pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_date32),
        *(pa.types.is_timestamp, pa.types.is_boolean, pa.types.is_decimal),
    )
    return any(test(kind) for test in tests)


@dataclass(frozen=True)
class FileKeys:
    """The keys of a data file's rows, including deleted rows.

    Args:
        numbers: The number of each key; ascending if there are positions.
        positions: The row position of each number; None: numbers are in the order of the file's rows.
        keys: The keys in the order of the file's rows; None if numbers are the keys.
    """

    numbers: _Numbers
    positions: npt.NDArray[np.uint32] | None
    keys: pa.Table | None

    @property
    def filter_bits(self) -> int:
        """Base-2 logarithm of the number of bits of the filter."""
        return max((_BITS_PER_ROW * len(self.numbers) - 1).bit_length(), 3)

    @cached_property
    def filter(self) -> npt.NDArray[np.uint8]:
        """Bloom filter of the file's numbers, which excludes most keys that the file lacks."""
        found = np.zeros(1 << self.filter_bits, np.bool_)
        found[_filter_places(self.numbers, self.filter_bits)] = True
        return np.packbits(found, bitorder="little")


class SearchedKeys:
    """The distinct keys to search for, in the table's types. A key with a null matches no row."""

    def __init__(self, keys: pa.Table) -> None:
        self.columns = tuple(keys.column_names)
        self.is_exact = len(self.columns) == 1 and pa.types.is_integer(keys.schema.field(0).type)
        valid = np.ones(keys.num_rows, np.bool_)
        for column in keys.columns:
            if column.null_count:
                valid &= column.is_valid().to_numpy()
        rows = np.flatnonzero(valid)
        self.keys = keys
        numbers = _numbers(keys if len(rows) == keys.num_rows else keys.take(pa.array(rows)))
        order = np.argsort(numbers)
        self.numbers, self.rows = numbers[order], rows[order]
        self._filter: npt.NDArray[np.bool_] | None = None
        self._places: dict[int, tuple[Positions, npt.NDArray[np.uint8]]] = {}

    def may_have(self, numbers: _Numbers) -> Positions:
        """Return the positions of the given numbers that may be searched numbers."""
        if self._filter is None:
            built = np.zeros(1 << _FILTER_BITS, np.bool_)
            built[_filter_places(self.numbers, _FILTER_BITS)] = True
            self._filter = built
        return np.flatnonzero(self._filter[_filter_places(numbers, _FILTER_BITS)])

    def may_be_in(self, file: FileKeys) -> Positions:
        """Return the positions of the searched numbers that may be in a file."""
        if file.filter_bits not in self._places:
            places = _filter_places(self.numbers, file.filter_bits)
            bits = np.left_shift(np.uint8(1), (places & np.uint64(7)).astype(np.uint8))
            self._places[file.filter_bits] = (places >> np.uint64(3)).astype(np.int64), bits
        octets, bits = self._places[file.filter_bits]
        return np.flatnonzero((file.filter[octets] & bits) != 0)


def find_rows(file: FileKeys, searched: SearchedKeys) -> tuple[Positions, Positions]:
    """Return the ascending positions of a file's rows with a searched key, and the rows of `searched` with these keys."""
    numbers, positions, wanted, wanted_rows = file.numbers, file.positions, searched.numbers, searched.rows
    if positions is None:
        chosen = searched.may_have(numbers)
        chosen = chosen[np.argsort(numbers[chosen])]
        numbers, positions = numbers[chosen], chosen.astype(np.uint32)
    elif len(wanted) >= _LEAST_FILTERED:
        chosen = searched.may_be_in(file)
        wanted, wanted_rows = wanted[chosen], wanted_rows[chosen]
    if len(numbers) < len(wanted):
        needles, places = _equal_pairs(wanted, numbers)
    else:
        places, needles = _equal_pairs(numbers, wanted)
    found, rows = positions[places].astype(np.int64), wanted_rows[needles]
    order = np.argsort(found, kind="stable")
    found, rows = found[order], rows[order]
    if file.keys is not None and len(found):
        same = np.ones(len(found), np.bool_)
        for name in searched.columns:
            stored, key = file.keys[name].take(pa.array(found)), searched.keys[name].take(pa.array(rows))
            same &= pc.fill_null(pc.equal(stored, key.cast(stored.type)), False).to_numpy()
        found, rows = found[same], rows[same]
    return found, rows


def _equal_pairs(many: _Numbers, few: _Numbers) -> tuple[Positions, Positions]:
    """Return the positions in `many` and `few` (both ascending) of each pair of equal numbers."""
    begins = np.searchsorted(many, few)
    hits = np.flatnonzero(begins < len(many))
    hits = hits[many[begins[hits]] == few[hits]]
    begins = begins[hits]
    following = np.minimum(begins + 1, len(many) - 1)
    if not ((following > begins) & (many[following] == few[hits])).any():
        return begins, hits
    counts = np.searchsorted(many, few[hits], "right") - begins
    ends = np.cumsum(counts)
    within = np.arange(int(ends[-1]) if len(ends) else 0) - np.repeat(ends - counts, counts)
    return np.repeat(begins, counts) + within, np.repeat(hits, counts)


def _filter_places(numbers: _Numbers, bits: int) -> _Numbers:
    places: _Numbers = (numbers * _FACTOR) >> np.uint64(64 - bits)
    return places


def _numbers(keys: pa.Table) -> _Numbers:
    """Return the number of each key; the number of a key with a null is undefined."""
    columns = [column.combine_chunks() for column in keys.columns]
    parts = [_numbers_of(column) for column in columns]
    if len(parts) == 1:
        return parts[0]
    mixed: _Numbers = np.zeros(keys.num_rows, np.uint64)
    for part in parts:
        mixed = mix_hashes(mixed * _FACTOR + part)
    return mixed


def _numbers_of(values: Any) -> _Numbers:
    values = as_integers(values)
    if pa.types.is_integer(values.type):
        whole = values.cast(pa.int64())
        numbers: _Numbers = (whole.fill_null(0) if whole.null_count else whole).to_numpy().view(np.uint64)
        return numbers
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.string())
    texts = (text or b"" for text in values.cast(pa.binary()).to_pylist())
    return np.fromiter(map(xxhash.xxh3_64_intdigest, texts), np.uint64, len(values))


class KeyIndex:
    """The indexes of a table's data files, in a directory of bounded size.

    Args:
        base: The directory of the indexes of all tables, created when needed. None: no index is stored.
        most_bytes: Size of the table's indexes above which no further indexes are written, bytes.
    """

    def __init__(self, base: Path | None, table: str, most_bytes: int) -> None:
        self._directory = None if base is None else base / xxhash.xxh3_64_hexdigest(table.encode())
        self._most_bytes = most_bytes
        self._open: dict[str, FileKeys] = {}
        self._lock = threading.Lock()
        self._size = self._count = -1

    @property
    def size_bytes(self) -> int:
        """The total size of the index files, bytes."""
        return self._measure()[0]

    def _measure(self) -> tuple[int, int]:
        """Return the total size of the index files, bytes, and their number."""
        with self._lock:
            if self._size < 0:
                sizes = [size for _, size in self._files()]
                self._size, self._count = sum(sizes), len(sizes)
            return self._size, self._count

    def find(self, file: str, rows: int | None, columns: Sequence[str]) -> FileKeys | None:
        """Return the index of a data file, by the file's name in the table's log and its row count, if known; None if missing."""
        if self._directory is None:
            return None
        name = _name(file, columns)
        known = self._open.get(name)
        if known is None:
            known = self._read(self._directory / name)
            if known is not None:
                with self._lock:
                    if len(self._open) >= _MOST_OPEN:
                        self._open.clear()
                    self._open[name] = known
        return known if known is None or rows in (None, len(known.numbers)) else None

    def build(self, file: str, keys: pa.Table) -> FileKeys:
        """Return the keys of a data file from the key columns of all its rows; write the index if there is enough space."""
        is_exact = keys.num_columns == 1 and pa.types.is_integer(keys.schema.field(0).type)
        if is_exact and keys.column(0).null_count:
            is_exact = False  # a null has the same number as a key
        numbers, checked = _numbers(keys), None if is_exact else keys
        size = 2048 + 12 * keys.num_rows + (0 if checked is None else checked.nbytes)
        if self._directory is None or self.size_bytes + size > self._most_bytes or keys.num_rows > np.iinfo(np.uint32).max:
            return FileKeys(numbers, None, checked)
        order = np.argsort(numbers)
        found = FileKeys(numbers[order], order.astype(np.uint32), checked)
        self._write(self._directory / _name(file, keys.column_names), found)
        return found

    def keep(self, files: Collection[str], columns: Sequence[str]) -> None:
        """Delete the indexes of data files that are no longer in the table, if there are many such indexes."""
        if self._directory is None or self._measure()[1] <= len(files) + len(files) // 4 + 16:
            return
        kept = {_name(file, columns) for file in files}
        for path, _ in self._files():
            if path.name not in kept:
                with self._lock:
                    self._open.pop(path.name, None)
                    self._size = -1
                with suppress(OSError):
                    path.unlink()

    def _files(self) -> list[tuple[Path, int]]:
        found = []
        if self._directory is not None and self._directory.is_dir():
            for entry in os.scandir(self._directory):
                with suppress(FileNotFoundError):
                    found.append((Path(entry.path), entry.stat().st_size))
        return found

    def _write(self, path: Path, keys: FileKeys) -> None:
        assert keys.positions is not None
        columns = {"number": pa.array(keys.numbers), "position": pa.array(keys.positions)}
        if keys.keys is not None:
            columns |= {f"key {name}": keys.keys[name].combine_chunks() for name in keys.keys.column_names}
        sink = pa.BufferOutputStream()
        table = pa.table(columns)
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        content = sink.getvalue()
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
        with suppress(OSError):  # a full disk: the index is only for speed
            path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("wb") as file:
                file.write(content)
                file.write(xxhash.xxh3_64_digest(content))
            temporary.replace(path)
            with self._lock:
                self._size += content.size + _CHECKSUM_BYTES
                self._count += 1

    def _read(self, path: Path) -> FileKeys | None:
        """Return a stored index, memory-mapped; None if there is no complete index."""
        try:
            mapped = pa.memory_map(str(path)).read_buffer()
            content = mapped.slice(0, max(mapped.size - _CHECKSUM_BYTES, 0))
            if xxhash.xxh3_64_digest(content) != mapped.slice(content.size).to_pybytes():
                return None
            with pa.ipc.open_stream(content) as reader:
                table = reader.read_all()
        except (OSError, pa.ArrowInvalid):
            return None
        names = [name for name in table.column_names if name.startswith("key ")]
        keys = table.select(names).rename_columns([name.removeprefix("key ") for name in names]) if names else None
        numbers, positions = (table[name].combine_chunks().to_numpy() for name in ("number", "position"))
        return FileKeys(numbers, positions, keys)


def _name(file: str, columns: Sequence[str]) -> str:
    return f"{xxhash.xxh3_128_hexdigest(repr((_FORMAT, file, tuple(columns))).encode())}.keys"
