"""Writes new data files of a Delta table: Parquet files as deltalake writes them, with their `add` actions."""

from __future__ import annotations

import datetime
import json
import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headstream.errors import StorageError
from headstream.replicate.storage.delta_log import DataFile, LogSnapshot
from headstream.replicate.storage.delta_places import Translated
from headstream.replicate.storage.table_files import write_file

_GROUP_BYTES: Final = 128 << 20
"""Maximum size of a row group in memory, bytes."""
_MOST_BYTES: Final = 100 << 20
"""Default size at which a file is closed, bytes, as in deltalake; table properties can override it."""
_MOST_TAKEN_BYTES: Final = 1 << 30
"""Maximum size of rows taken by number, bytes: Arrow then concatenates a column's strings, which must be below 2 GiB."""
_NULL_DIRECTORY: Final = "__HIVE_DEFAULT_PARTITION__"
_PLAIN_FOLDER: Final = re.compile(r"[A-Za-z0-9_.=-]{3,200}")
"""Pattern for partition directories. Files of all other partitions are in the table's directory; see merge_on_read_refusal()."""
_DEFAULT_INDEXED: Final = 32
_LONGEST_TEXT: Final = 32
"""Maximum number of characters of a string in statistics."""
_GREATEST: Final = "\U0010ffff"
_SAMPLED_ROWS: Final = 1024
"""Number of rows that determine whether a column gets a dictionary, which is costly if nearly all values are distinct."""
_REPEATED_SHARE: Final = 0.02
_EXACT_DIGITS: Final = 15
"""Maximum number of decimal digits that a JSON number keeps in every reader."""


class DataFileWriter:
    """Writes rows of one partition to new files, which belong to the table after a commit has added them.

    One row group and one file are in memory.
    """

    def __init__(self, snapshot: LogSnapshot, values: Mapping[str, str | None]) -> None:
        self._snapshot = snapshot
        self._values = dict(values)
        self._most_bytes = target_size(snapshot.configuration)
        self._schema = pa.schema([field for field in snapshot.schema if field.name not in snapshot.partition_columns])
        self._files: list[DataFile] = []
        self._waiting: list[pa.Table] = []
        self._writer: pq.ParquetWriter | None = None

    def write(self, rows: pa.Table) -> None:
        """Add rows in the table's types, without partition columns; missing columns are null."""
        fields = self._schema
        known = set(rows.column_names)
        columns = [rows[f.name] if f.name in known else pa.nulls(rows.num_rows, f.type) for f in fields]
        self._waiting.append(pa.table(columns, fields.names).cast(fields))
        if sum(part.nbytes for part in self._waiting) >= _GROUP_BYTES:
            self._flush()

    def finish(self) -> list[DataFile]:
        """Write the remaining rows, and return all files."""
        self._flush()
        self._close()
        return self._files

    def _open(self, rows: pa.Table) -> pq.ParquetWriter:
        self._sink = pa.BufferOutputStream()
        self._statistics = _Statistics(self._snapshot, self._schema.names)
        sample = rows.slice(0, _SAMPLED_ROWS)
        flat = [field.name for field in sample.schema if not pa.types.is_nested(field.type)]
        repeated = [name for name in flat if len(sample[name].unique()) <= (1 - _REPEATED_SHARE) * len(sample)]
        return pq.ParquetWriter(
            self._sink, self._schema, compression="snappy", use_dictionary=repeated, store_schema=False, coerce_timestamps="us"
        )

    def _flush(self) -> None:
        rows = pa.concat_tables(self._waiting) if self._waiting else self._schema.empty_table()
        self._waiting = []
        length = max(1, rows.num_rows // max(1, -(-rows.nbytes // _GROUP_BYTES)))
        for begin in range(0, rows.num_rows, length):
            part = rows.slice(begin, length)
            self._writer = self._writer or self._open(part)
            self._writer.write_table(part)
            self._statistics.add(part)
            if self._sink.tell() >= self._most_bytes:
                self._close()

    def _close(self) -> None:
        if self._writer is None:
            return
        self._writer.close()
        self._writer = None
        content = self._sink.getvalue()
        name = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
        folders = [f"{column}={_NULL_DIRECTORY if value is None else value}" for column, value in self._values.items()]
        if all(_PLAIN_FOLDER.fullmatch(folder) for folder in folders):
            name = "/".join([*folders, name])
        write_file(self._snapshot.table, name, content.to_pybytes())
        action = {
            "path": name,
            "partitionValues": self._values,
            "size": content.size,
            "modificationTime": time.time_ns() // 1_000_000,
            "dataChange": True,
            "stats": self._statistics.text(),
        }
        self._files.append(DataFile(action))


def write_data_files(snapshot: LogSnapshot, rows: pa.Table) -> list[DataFile]:
    """Write rows to new files of a table, by partition. The files belong to the table after a commit has added them.

    Columns that the rows lack are null; StorageError if such a column is not nullable.
    """
    schema = snapshot.schema
    for field in schema:
        if not field.nullable and (field.name not in rows.column_names or rows[field.name].null_count):
            raise StorageError(f"the column {field.name} must not contain nulls", where=str(snapshot.table))
    with Translated(snapshot.table, "the rows cannot be written"):
        written = []
        columns = snapshot.partition_columns
        for name in columns:
            if name not in rows.column_names:
                rows = rows.append_column(name, pa.nulls(rows.num_rows, schema.field(name).type))
        for values, part in _partitions(rows, columns):
            writer = DataFileWriter(snapshot, values)
            writer.write(part.drop_columns(columns))
            written += writer.finish()
        return written


def target_size(configuration: Mapping[str, str]) -> int:
    """Return the target size of a table's files, bytes."""
    text = configuration.get("delta.targetFileSize", "")
    return int(text) if text.isdecimal() else _MOST_BYTES


def _partitions(rows: pa.Table, columns: list[str]) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
    """Yield the rows of each partition, with the partition values as in the log."""
    if not columns or not rows.num_rows:
        if rows.num_rows:
            yield {}, rows
        return
    codes = np.zeros(rows.num_rows, np.int64)
    for name in columns:
        encoded = rows[name].combine_chunks().dictionary_encode(null_encoding="encode")
        _, codes = np.unique(codes * len(encoded.dictionary) + encoded.indices.to_numpy(), return_inverse=True)
    order = np.argsort(codes, kind="stable")
    begins = [0, *(np.flatnonzero(np.diff(codes[order])) + 1).tolist()]
    for begin, end in zip(begins, [*begins[1:], rows.num_rows], strict=True):
        if len(begins) == 1:
            part = rows
        elif rows.nbytes < _MOST_TAKEN_BYTES:
            part = rows.take(pa.array(order[begin:end]))
        else:
            part = rows.filter(pa.array(codes == codes[order[begin]]))
        yield {name: _partition_text(part[name][0].as_py()) for name in columns}, part


def _partition_text(value: Any) -> str | None:
    """Return a partition value as deltalake writes it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")
    return format(value, "f") if isinstance(value, Decimal) else str(value)


class _Statistics:
    """The statistics of a file, for the columns in the table's properties or, by default, for the first columns."""

    def __init__(self, snapshot: LogSnapshot, columns: Sequence[str]) -> None:
        configuration = snapshot.configuration
        named = configuration.get("delta.dataSkippingStatsColumns")
        count = int(configuration.get("delta.dataSkippingNumIndexedCols", _DEFAULT_INDEXED))
        if named is not None:
            wanted = {part.strip().strip("`") for part in named.split(",")}
            columns = [name for name in columns if name in wanted]
        elif count >= 0:
            columns = columns[:count]
        self.rows = 0
        self._nulls = dict.fromkeys(columns, 0)
        self._kinds: dict[str, pa.DataType] = {}
        self._bounds: dict[str, list[Any]] = {name: [] for name in columns}
        self._unknown: set[str] = set()

    def add(self, rows: pa.Table) -> None:
        """Add rows to the statistics."""
        self.rows += rows.num_rows
        for name in self._nulls:
            column = rows[name]
            self._kinds[name] = column.type
            self._nulls[name] += column.null_count
            bounds = _bounds(column)
            if bounds is None:
                self._unknown.add(name)
            elif bounds:
                known = [*self._bounds[name], *bounds]
                self._bounds[name] = [min(known), max(known)]

    def text(self) -> str:
        """Return the statistics as JSON."""
        least: dict[str, Any] = {}
        greatest: dict[str, Any] = {}
        for name, bounds in self._bounds.items():
            if bounds and name not in self._unknown:
                first, last = _as_json(self._kinds[name], *bounds)
                least |= {} if first is None else {name: first}
                greatest |= {} if last is None else {name: last}
        nulls = {name: count for name, count in self._nulls.items() if not pa.types.is_nested(self._kinds[name])}
        own = {"numRecords": self.rows, "minValues": least, "maxValues": greatest, "nullCount": nulls, "tightBounds": True}
        return json.dumps(own, separators=(",", ":"), ensure_ascii=False)


def _bounds(column: pa.ChunkedArray) -> tuple[Any, ...] | None:
    """Return the minimum and maximum; empty if all values are null, and None if readers could misinterpret the values."""
    kind = column.type
    tests = (
        pa.types.is_string,
        pa.types.is_timestamp,
        pa.types.is_decimal,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_date,
    )
    if not any(test(kind) for test in tests):
        return None
    if pa.types.is_floating(kind) and not pc.all(pc.is_finite(column)).as_py():
        return None  # readers disagree on whether NaN is the greatest value
    if pa.types.is_decimal(kind) and kind.precision > _EXACT_DIGITS and kind.scale:
        return None
    if pa.types.is_temporal(kind):  # Python has no years beyond 9999
        column = column.cast(pa.int64() if pa.types.is_timestamp(kind) else pa.int32())
    found = pc.min_max(column).as_py()
    return () if found["min"] is None else (found["min"], found["max"])


def _as_json(kind: pa.DataType, least: Any, greatest: Any) -> tuple[Any, Any]:
    """Return bounds in the log's format; None for a bound that the log cannot represent."""
    if pa.types.is_string(kind):
        return least[:_LONGEST_TEXT], _greatest_text(greatest)
    if pa.types.is_timestamp(kind):  # in milliseconds, which all readers support
        suffix = "Z" if kind.tz is not None else ""
        return _moment(milliseconds=least // 1000, suffix=suffix), _moment(milliseconds=-(-greatest // 1000), suffix=suffix)
    if pa.types.is_date(kind):
        first, last = _moment(days=least), _moment(days=greatest)
        return first and first[:10], last and last[:10]
    if pa.types.is_decimal(kind):
        return (float(least), float(greatest)) if kind.scale else (int(least), int(greatest))
    return least, greatest


def _greatest_text(text: str) -> str | None:
    if len(text) <= _LONGEST_TEXT:
        return text
    return None if text[_LONGEST_TEXT] == _GREATEST else text[:_LONGEST_TEXT] + _GREATEST


def _moment(*, days: int = 0, milliseconds: int = 0, suffix: str = "") -> str | None:
    """Return a time since 1970 in the log's format; None outside the years 1 to 9999."""
    try:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(days=days, milliseconds=milliseconds)
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds") + suffix
