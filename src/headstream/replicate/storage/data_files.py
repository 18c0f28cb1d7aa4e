"""New data files of a Delta table: Parquet as deltalake writes it, and the `add` actions that describe them."""

from __future__ import annotations

import datetime
import json
import math
import time
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headstream.errors import StorageError
from headstream.replicate.storage.delta_log import DataFile, LogSnapshot
from headstream.replicate.storage.delta_places import Translated
from headstream.replicate.storage.table_files import write_file

__all__ = ["write_data_files"]

_MOST_BYTES: Final = 256 << 20
"""Of one file's rows in memory; the file is several times smaller."""
_NULL_DIRECTORY: Final = "__HIVE_DEFAULT_PARTITION__"
_LONGEST_NAME: Final = 200
"""Bytes of a partition's directory; files with longer values are in the table's directory."""
_DEFAULT_INDEXED: Final = 32
_LONGEST_TEXT: Final = 32
"""Characters of a text in statistics."""
_GREATEST: Final = "\U0010ffff"
_EXACT_DIGITS: Final = 15
"""Digits of a decimal that a JSON number keeps in every reader."""


def write_data_files(snapshot: LogSnapshot, rows: pa.Table) -> list[DataFile]:
    """Write rows into new files of a table, by partition; they belong to it once a commit adds them.

    Args:
        snapshot: The table.
        rows: With the table's columns, in any order; those that are absent are null.

    Raises:
        StorageError: a file cannot be written, or a column that the table demands a value of has none.
    """
    schema = snapshot.schema
    for field in schema:
        if not field.nullable and (field.name not in rows.column_names or rows[field.name].null_count):
            raise StorageError(f"the column {field.name} must have values", where=str(snapshot.table))
    with Translated(snapshot.table, "the rows cannot be written"):
        columns = [rows[f.name] if f.name in rows.column_names else pa.nulls(rows.num_rows, f.type) for f in schema]
        whole = pa.table(columns, schema.names).cast(schema)
        partitioned = snapshot.partition_columns
        return [
            _write(snapshot, values, part.drop_columns(partitioned))
            for values, found in _partitions(whole, partitioned)
            for part in _portions(found)
        ]


def _partitions(rows: pa.Table, columns: list[str]) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
    """Yield the rows of each partition, with its values as the log has them."""
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
        part = rows.take(pa.array(order[begin:end])) if len(begins) > 1 else rows
        yield {name: _partition_text(part[name][0].as_py()) for name in columns}, part


def _portions(rows: pa.Table) -> Iterator[pa.Table]:
    count = max(1, -(-rows.nbytes // _MOST_BYTES))
    length = -(-rows.num_rows // count)
    for begin in range(0, rows.num_rows, length):
        yield rows.slice(begin, length)


def _partition_text(value: Any) -> str | None:
    """Return a partition's value as deltalake writes it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def _write(snapshot: LogSnapshot, values: dict[str, str | None], rows: pa.Table) -> DataFile:
    name = f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"
    folders = [f"{quote(column, safe='')}={_NULL_DIRECTORY if v is None else quote(v, safe='')}" for column, v in values.items()]
    if all(len(folder) <= _LONGEST_NAME for folder in folders):
        name = "/".join([*folders, name])
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="snappy", store_schema=False, coerce_timestamps="us")
    content = sink.getvalue()
    write_file(snapshot.table, name, content.to_pybytes())
    action = {
        "path": quote(name, safe="/=-._"),
        "partitionValues": values,
        "size": content.size,
        "modificationTime": time.time_ns() // 1_000_000,
        "dataChange": True,
        "stats": json.dumps(_statistics(snapshot, rows), separators=(",", ":"), ensure_ascii=False),
    }
    return DataFile(action)


def _statistics(snapshot: LogSnapshot, rows: pa.Table) -> dict[str, Any]:
    """Return a file's statistics: of the columns that the table's properties name, by default of the first ones."""
    configuration = snapshot.configuration
    named = configuration.get("delta.dataSkippingStatsColumns")
    count = int(configuration.get("delta.dataSkippingNumIndexedCols", _DEFAULT_INDEXED))
    if named is not None:
        columns = [name for name in rows.column_names if name in {part.strip().strip("`") for part in named.split(",")}]
    else:
        columns = rows.column_names if count < 0 else rows.column_names[:count]
    least, greatest, nulls = {}, {}, {}
    for name in columns:
        if pa.types.is_nested(rows.schema.field(name).type):
            continue
        nulls[name] = rows[name].null_count
        bounds = _bounds(rows[name])
        if bounds is not None:
            least[name], greatest[name] = bounds
    greatest = {name: value for name, value in greatest.items() if value is not None}
    own = {"numRecords": rows.num_rows, "minValues": least, "maxValues": greatest, "nullCount": nulls}
    return own | {"tightBounds": True}


def _bounds(column: pa.ChunkedArray) -> tuple[Any, Any] | None:
    """Return the least and the greatest value as JSON has them, the greatest None if it is unknown; None if both are."""
    kind = column.type
    is_text, is_time, is_decimal = pa.types.is_string(kind), pa.types.is_timestamp(kind), pa.types.is_decimal(kind)
    if not (
        is_text or is_time or is_decimal or pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_date(kind)
    ):
        return None
    if pa.types.is_floating(kind) and not pc.all(pc.is_finite(column)).as_py():
        return None  # NaN is the greatest value to one reader and none to another
    if is_decimal and kind.precision > _EXACT_DIGITS and kind.scale:
        return None
    found = pc.min_max(column).as_py() if not is_time else pc.min_max(column.cast(pa.int64())).as_py()
    least, greatest = found["min"], found["max"]
    if least is None:
        return None
    if is_text:
        return least[:_LONGEST_TEXT], _greatest_text(greatest)
    if is_time:  # in milliseconds, which all readers know
        suffix = "Z" if kind.tz is not None else ""
        return tuple(_millisecond(us) + suffix for us in (least // 1000, math.ceil(greatest / 1000)))
    if is_decimal:
        return tuple(float(value) if kind.scale else int(value) for value in (least, greatest))
    if pa.types.is_date(kind):
        return least.isoformat(), greatest.isoformat()
    return least, greatest


def _greatest_text(text: str) -> str | None:
    if len(text) <= _LONGEST_TEXT:
        return text
    return None if text[_LONGEST_TEXT] == _GREATEST else text[:_LONGEST_TEXT] + _GREATEST


def _millisecond(number: int) -> str:
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=number)
    return moment.isoformat(timespec="milliseconds")
