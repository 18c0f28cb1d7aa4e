"""Raw messages: the complete form in which the pipeline stores a message that is not, or not yet, a change.

The columns (bytes, key, headers, and coordinates in the source) are the same between executors and driver and in the pipeline's
own log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.columns.large_values import take_rows

SOURCE_COLUMNS: Final = ("topic", "partition", "offset", "timestamp_us", "key", "headers", "payload")

RAW_SCHEMA: Final = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),  # stream/topic
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp_us", pa.int64(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("headers", pa.binary()),  # the header block, as in the log
        pa.field("payload", pa.binary()),
        pa.field("schema_id", pa.string()),  # of the message, if known
        pa.field("reason", pa.string()),  # why it can never be a change, or null
    ]
)


REPAIR_TOPIC: Final = "replicate/repair"
"""The topic in the coordinates of repair messages; no such topic exists. The messages have Replicate's flat form."""
COORDINATE_COLUMNS: Final = ("topic", "partition", "offset")
CHANGE_COORDINATES: Final = tuple(f"_hs_{name}" for name in COORDINATE_COLUMNS)
"""The names of COORDINATE_COLUMNS in decoded changes."""

TRANSACTION: Final = "transaction"
"""The column with the transaction of a message, next to its coordinates."""

_COMPRESSED: Final = pa.ipc.IpcWriteOptions(compression="lz4")

Coordinates: TypeAlias = tuple[str, int, int]
"""Topic, partition and offset in the source."""


def match_rows(rows: pa.Table, wanted: pa.Table) -> tuple[pa.Int64Array, pa.Int64Array]:
    """Return the numbers of rows with wanted coordinates, in order, and the row numbers of their coordinates in `wanted`.

    Args:
        wanted: A table with COORDINATE_COLUMNS; if coordinates are repeated, only their first row is used.
    """
    names = list(COORDINATE_COLUMNS)
    left, right = (
        table.select(names).append_column(name, pa.array(np.arange(table.num_rows)))
        for table, name in ((rows, "row"), (wanted, "wanted"))
    )
    first = right.group_by(names).aggregate([("wanted", "min")])
    found = left.join(first, names, join_type="inner", use_threads=False).sort_by("row")
    return found["row"].combine_chunks(), found["wanted_min"].combine_chunks()


def match_keys(rows: pa.Table, keys: pa.Table, *, without: bool = False) -> pa.Table:
    """Return the rows with one of the keys (of the same types, repeats allowed) or, with `without`, all other rows."""
    numbered = rows.select(keys.column_names).append_column("_hs_row", pa.array(np.arange(rows.num_rows)))
    found = numbered.join(keys, keys.column_names, join_type="left anti" if without else "left semi")
    return take_rows(rows, found["_hs_row"].combine_chunks().sort())


def coordinates_table(places: Iterable[Coordinates]) -> pa.Table:
    """Return coordinates as a table of COORDINATE_COLUMNS."""
    columns = [list(column) for column in zip(*places, strict=True)] or [[], [], []]
    fields = [RAW_SCHEMA.field(name).with_nullable(True) for name in COORDINATE_COLUMNS]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def change_coordinates(changes: pa.Table, schema_id: str) -> pa.Table:
    """Return the coordinates of decoded changes, with the columns needed to find their messages."""
    found = changes.select(list(CHANGE_COORDINATES)).rename_columns(COORDINATE_COLUMNS)
    for name, text in (("schema_id", schema_id), ("reason", None)):
        found = found.append_column(name, pa.repeat(pa.scalar(text, pa.string()), found.num_rows))
    return found


def leave_out(rows: pa.Table, columns: Sequence[str], coordinates: pa.Table) -> pa.Table:
    """Return rows without the rows at the given coordinates; `columns` name the columns topic, partition and offset."""
    if not coordinates.num_rows:
        return rows
    places = rows.select(list(columns)).rename_columns(list(COORDINATE_COLUMNS))
    found = match_rows(places, coordinates)[0]
    return rows.filter(pc.invert(pc.is_in(pa.array(np.arange(rows.num_rows)), value_set=found)))


def join_coordinates(parts: Iterable[pa.Table | None]) -> pa.Table | None:
    """Return the distinct coordinates of all parts; None if there are none."""
    schema = coordinates_table(()).schema  # parts can differ in whether a column is nullable
    found = [part.select(list(COORDINATE_COLUMNS)).cast(schema) for part in parts if part is not None and part.num_rows]
    if len(found) < 2:
        return found[0] if found else None
    once: pa.Table = pa.concat_tables(found).group_by(list(COORDINATE_COLUMNS)).aggregate([])
    return once


def write_ipc(batch: pa.RecordBatch) -> bytes:
    """Return a record batch as a compressed Arrow IPC stream, since Spark copies it several times between executor and driver."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=_COMPRESSED) as writer:
        writer.write_batch(batch)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def read_ipc(content: bytes | pa.Buffer) -> pa.Table:
    """Return the table in an Arrow IPC stream."""
    with pa.ipc.open_stream(content) as reader:
        return reader.read_all()


def offsets_and_data(array: pa.BinaryArray) -> tuple[pa.Buffer, pa.Buffer]:
    """Return an array's offsets (int32, one more than rows, from the array's first row) and its bytes."""
    _, offsets, data = array.buffers()
    begin = array.offset * 4
    return offsets.slice(begin, (len(array) + 1) * 4), data if data is not None else pa.py_buffer(b"")


def in_raw_types(raw: pa.RecordBatch) -> pa.RecordBatch:
    """Return SOURCE_COLUMNS in the types of RAW_SCHEMA; a Spark session can be configured for large string and binary types."""
    types = [RAW_SCHEMA.field(name).type for name in SOURCE_COLUMNS]
    columns = [raw.column(name) for name in SOURCE_COLUMNS]
    if all(column.type == kind for column, kind in zip(columns, types, strict=True)):
        return raw
    cast = [column.cast(kind) for column, kind in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(cast, names=list(SOURCE_COLUMNS))


def raw_rows(
    raw: pa.RecordBatch, rows: list[int], *, schema_ids: dict[int, str] | None = None, reasons: dict[int, str] | None = None
) -> pa.RecordBatch:
    """Return the given rows of SOURCE_COLUMNS as RAW_SCHEMA; `schema_ids` and `reasons` are by row number."""
    chosen = raw.select(list(SOURCE_COLUMNS)).take(pa.array(rows, pa.int64()))
    arrays = [column.cast(kind.type) for column, kind in zip(chosen.columns, RAW_SCHEMA, strict=False)]
    arrays += [pa.array([(texts or {}).get(row) for row in rows], pa.string()) for texts in (schema_ids, reasons)]
    return pa.RecordBatch.from_arrays(arrays, schema=RAW_SCHEMA)
