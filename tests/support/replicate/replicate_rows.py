"""Rows and columns for tests of the Replicate codecs: columns back to values, and values as columns hold them."""

from __future__ import annotations

import datetime
import json
import struct
from array import array
from collections.abc import Iterable, Sequence
from decimal import Decimal
from types import ModuleType
from typing import Any

import pyarrow as pa

from headstream.replicate.codec import ColumnMetadata, data_schema
from headstream.replicate.codec.avro.plan import ColumnPlan
from headstream.replicate.codec.avro.reader import AvroReader
from headstream.replicate.codec.avro.rows import ColumnBuffers, RowPlan, Rows, compile_rows
from headstream.replicate.codec.avro.schema import parse_schema
from headstream.replicate.codec.avro.values import decode_value

EPOCH = datetime.datetime(1970, 1, 1)

ROW: dict[str, Any] = {
    "int1": -128,
    "int2": 32767,
    "int4": -(2**31),
    "int8": 2**63 - 1,
    "uint1": 255,
    "uint2": 65535,
    "uint4": 2**32 - 1,
    "uint8": 2**64 - 1,
    "real4": 1.5,
    "real8": -0.1,
    "numeric": Decimal("-1234567890123456.7890"),
    "boolean": True,
    "bytes": b"\x00\xff",
    "blob": bytes(range(256)),
    "string": "",
    "wstring": "Größe \U0001f600",
    "clob": "x" * 1000,
    "nclob": "sixteen letters!",
    "date": datetime.date(1600, 2, 29),
    "time": datetime.time(23, 59, 59, 999000),
    "datetime": datetime.datetime(2024, 5, 6, 7, 8, 9, 123456),
}
HEADERS: dict[str, Any] = {
    "operation": "DELETE",
    "changeSequence": "20230321213416580000000000000000017",
    "timestamp": "2023-03-21T21:34:19.511",
    "streamPosition": "000dac8c:000fc98a:0002",
    "transactionId": "",
    "changeMask": b"\x80\x80\x00",
    "columnMask": None,
    "transactionEventCounter": 2**40,
    "transactionLastEvent": False,
}
COLUMNS = [ColumnMetadata(name, place + 1, name.upper(), precision=20, scale=4) for place, name in enumerate(ROW)]
SCHEMA = data_schema(COLUMNS, logical_types=True)

DECIMAL_9 = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}


def row_schema(*fields: tuple[str, Any], before: Any = None, headers: list[tuple[str, Any]] | None = None) -> str:
    """Return a DataRecord of some data fields."""

    def record(name: str, members: Any) -> dict[str, Any]:
        return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in members]}

    sections: list[tuple[str, Any]] = [("data", record("Data", fields))]
    if before is not None:
        sections.append(("beforeData", before))
    if headers is not None:
        sections.append(("headers", record("Headers", headers)))
    return json.dumps(record("DataRecord", sections))


def decode(avro: ModuleType, schema: str, *messages: bytes) -> tuple[RowPlan, Rows]:
    """Return the plan of a schema, and what one of the variants of codec.avro reads of some messages."""
    plan = compile_rows(schema)
    return plan, avro.decode_rows(plan, *lay_out(messages))


def lay_out(messages: Iterable[bytes]) -> tuple[bytes, memoryview, memoryview]:
    """Return messages back to back, with a byte between them that is none of theirs, and where each starts and ends."""
    data = bytearray()
    starts, ends = array("q"), array("q")
    for message in messages:
        data += b"\xee"
        starts.append(len(data))
        data += message
        ends.append(len(data))
    return bytes(data), memoryview(starts), memoryview(ends)


def values_of(column: ColumnPlan, buffers: ColumnBuffers, count: int) -> list[Any]:
    """Return a column's values as its buffers hold them, through Arrow, which checks the layout; decimals unscaled."""
    storage = column.storage
    validity = None if buffers.validity is None else pa.py_buffer(buffers.validity)
    if storage in ("utf8", "binary"):
        assert buffers.values is None
        kind = pa.utf8() if storage == "utf8" else pa.binary()
        held = [validity, pa.py_buffer(buffers.offsets), pa.py_buffer(buffers.data)]
    else:
        assert buffers.offsets is None
        assert buffers.data is None
        kind = {
            "int32": pa.int32(),
            "int64": pa.int64(),
            "float": pa.float32(),
            "double": pa.float64(),
            "bool": pa.uint8(),
            "decimal128": pa.decimal128(max(column.precision, 1), 0),
        }[storage]
        held = [validity, pa.py_buffer(buffers.values)]
    values = pa.Array.from_buffers(kind, count, held)
    values.validate(full=True)
    listed: list[Any] = values.to_pylist()
    if storage == "bool":
        return [None if value is None else {0: False, 1: True}[value] for value in listed]
    return [int(value) if isinstance(value, Decimal) else value for value in listed]


def records_of(plan: RowPlan, rows: Rows) -> list[dict[str, Any]]:
    """Return the good rows as records of sections, as decode_value would give them but for logical types and enums."""
    columns = [values_of(column, held, rows.count) for column, held in zip(plan.columns, rows.columns, strict=True)]
    records: list[dict[str, Any]] = []
    for row in range(rows.count):
        record: dict[str, Any] = {}
        for column, values in zip(plan.columns, columns, strict=True):
            (record.setdefault(column.section, {}) if column.section else record)[column.name] = values[row]
        if rows.before_present is not None and not rows.before_present[row]:
            assert all(value is None for value in record.get("beforeData", {}).values())
            record["beforeData"] = None
        elif rows.before_present is not None:
            record.setdefault("beforeData", {})
        records.append(record)
    return records


def decode_plainly(schema: str, message: bytes) -> Any:
    """Return what decode_value makes of a whole message, with values as columns hold them; without what has no column."""
    avro_type = parse_schema(schema)
    reader = AvroReader(message)
    value = decode_value(reader, avro_type)
    reader.finish("the row")
    for place in compile_rows(schema).subjects:
        if isinstance(place, str) and place not in ("data", "beforeData", "headers"):
            section, _, name = place.rpartition(".")
            del (value[section] if section else value)[name]
    if not value.get("headers", "none there"):
        del value["headers"]
    return _hold(value, avro_type)


def _hold(value: Any, avro_type: Any) -> Any:
    if avro_type.kind == "union":
        return None if value is None else _hold(value, next(branch for branch in avro_type.branches if branch.kind != "null"))
    if avro_type.kind == "record":
        return {field.name: _hold(value[field.name], field.type) for field in avro_type.fields if field.name in value}
    if avro_type.kind == "enum":
        return avro_type.symbols.index(value)
    if avro_type.kind == "float" and value == value:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    unit = datetime.timedelta(milliseconds=1) if "millis" in str(avro_type.logical_type) else datetime.timedelta(microseconds=1)
    if isinstance(value, datetime.datetime):
        return (value - EPOCH) // unit
    if isinstance(value, datetime.date):
        return (value - EPOCH.date()).days
    if isinstance(value, datetime.time):
        return (datetime.datetime.combine(EPOCH.date(), value) - EPOCH) // unit
    if isinstance(value, Decimal):
        return int(value.scaleb(avro_type.scale))
    return value


def same(first: Any, second: Any) -> bool:
    """Return whether two values are the same, where a NaN is the same as a NaN."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(same, first, second))
    return bool(first == second) or (first != first and second != second)


def offsets_of(messages: Sequence[bytes]) -> bytes:
    """Return the int32 offsets of messages that lie back to back, as Arrow has them."""
    offsets = array("i", [0])
    for message in messages:
        offsets.append(offsets[-1] + len(message))
    return offsets.tobytes()
