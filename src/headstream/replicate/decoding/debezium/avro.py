"""Reads Debezium's Avro messages and keys: 0x00 | schema id int32, big-endian | record.

If the id is in a header, schemas/registry.py has inserted it before the record. Connect's Avro converter derives the Avro schema
from Connect's schema, whose types are in `connect.type`, `connect.name` and `connect.parameters`. Every type becomes the same
column as in JSON. The compiled decoder reads records with only plain values. If a column is an array, map or struct, every
message is first decoded to Python values.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headstream.errors import SchemaError
from headstream.replicate.codec.avro.plan import RowPlan, compile_record
from headstream.replicate.codec.avro.reader import AvroReader
from headstream.replicate.codec.avro.rows import decode_rows
from headstream.replicate.codec.avro.schema import AvroType, parse_schema
from headstream.replicate.codec.avro.values import TABLE_PRECISION, decode_value
from headstream.replicate.codec.derived import key_fields
from headstream.replicate.columns.conversion import array_from_buffers
from headstream.replicate.columns.raw import offsets_and_data
from headstream.replicate.decoding.debezium.messages import (
    MessageGroup,
    RowNumbers,
    Shape,
    in_envelopes,
    no_messages,
    read_each,
    shape_of,
)
from headstream.replicate.schemas.registry import DEBEZIUM_ID, schema_numbers
from headstream.replicate.schemas.schema_store import SchemaStore
from headstream.replicate.settings.debezium_settings import DebeziumSettings

_FRAME_BYTES: Final = 5
_SECTIONS: Final = ("before", "after", "source", "transaction")
_CONNECT: Final = {"int": "int32", "long": "int64", "enum": "string", "fixed": "bytes"}
_LOGICAL: Final = {
    "decimal": "org.apache.kafka.connect.data.Decimal",
    "date": "org.apache.kafka.connect.data.Date",
    "time-millis": "org.apache.kafka.connect.data.Time",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-millis": "org.apache.kafka.connect.data.Timestamp",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
}
"""Logical type -> Connect's name, for converters that do not write the name (`connect.meta.data=false`)."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """Plan for reading the messages of a schema.

    Args:
        record: Type of the messages, without logical types.
        plan: Plan of the compiled decoder; None if this decoder cannot read the messages.
    """

    shape: Shape
    record: AvroType
    plan: RowPlan | None


def is_framed(key: bytes) -> bool:
    """Return whether a key begins with a schema id."""
    return len(key) >= _FRAME_BYTES and key[0] == 0


def key_columns(key: bytes, schema_store: SchemaStore) -> tuple[str, ...] | str:
    """Return the columns of a framed key, or the key's schema id if the schema is missing.

    Raises:
        SchemaError: the schema is not Avro.
    """
    schema_id = f"{DEBEZIUM_ID}{int.from_bytes(key[1:_FRAME_BYTES], 'big')}"
    entry = schema_store.find(schema_id)
    return schema_id if entry is None else key_fields(entry.metadata.data_schema)


def read_avro_groups(
    payloads: pa.BinaryArray, rows: RowNumbers, schema_store: SchemaStore, settings: DebeziumSettings
) -> Iterator[MessageGroup]:
    """Read framed messages, grouped by their schema.

    Args:
        payloads: Values that begin with a schema id.
        rows: The messages' rows in the raw batch.
        schema_store: The schema store, which fetches missing schemas from the registry.
        settings: Settings for the parts of messages that depend on the connector's configuration.
    """
    numbers = schema_numbers(payloads, np.arange(len(rows)))
    for number in np.unique(numbers).tolist():
        places = np.flatnonzero(numbers == number)
        schema_id = f"{DEBEZIUM_ID}{number}"
        entry = schema_store.find(schema_id)
        if entry is None:
            yield no_messages(rows[places], waits_for=schema_id)
            continue
        try:
            reading = _reading(entry.metadata.data_schema, settings)
        except SchemaError as error:
            yield no_messages(rows[places], reason=f"registry schema {number}: {error}")
            continue
        some = payloads.take(pa.array(places))
        yield in_envelopes(_read(reading, some, rows[places]), reading.shape)


@lru_cache(maxsize=1000)
def _reading(schema: str, settings: DebeziumSettings) -> _Reading:
    record = parse_schema(schema)
    if record.kind != "record":
        raise SchemaError(f"the schema must be a record, not {record.kind}")
    shape = shape_of(_connect_schema(json.loads(schema), {}), settings)
    if shape.fields == ():
        raise SchemaError("the rows have no columns")
    is_plain = shape.fields is None or not any(one.inner or one.has_map for one in shape.fields)
    try:
        sections = _SECTIONS if shape.fields is not None and shape.added is None else ()
        plan = compile_record(_without_logical_types(record, decimals=True), sections) if is_plain else None
    except SchemaError:
        plan = None
    return _Reading(shape, _without_logical_types(record, decimals=False), plan)


def _connect_schema(node: Any, named: dict[str, Any], *, optional: bool = False) -> dict[str, Any]:
    """Return the Connect schema of an Avro schema, in JsonConverter's format.

    Args:
        named: The named types that were defined earlier, by the last part of their name.
    """
    if isinstance(node, list):
        others = [branch for branch in node if branch != "null"]
        if len(others) != 1:
            raise SchemaError("the schema has a union of several types, which Kafka Connect does not write")
        return _connect_schema(others[0], named, optional=len(others) < len(node))
    if isinstance(node, str):
        node = named.get(node.rpartition(".")[2], {"type": node})
    kind = node["type"]
    if not isinstance(kind, str) or (kind not in _CONNECT and kind.rpartition(".")[2] in named):
        return _connect_schema(kind, named, optional=optional)
    found = {"type": node.get("connect.type") or _CONNECT.get(kind, kind), "optional": optional}
    found["name"] = node.get("connect.name") or _LOGICAL.get(node.get("logicalType", ""))
    found["parameters"] = node.get("connect.parameters") or {
        "scale": node.get("scale", 0),
        "connect.decimal.precision": node.get("precision", 0),
    }
    found["default"] = node.get("connect.default")
    if kind == "record":
        found["type"] = "struct"
        found["fields"] = [{**_connect_schema(one["type"], named), "field": one["name"]} for one in node["fields"]]
    elif kind == "array":
        found["items"] = _connect_schema(node["items"], named)
    if isinstance(node.get("name"), str):
        named[node["name"].rpartition(".")[2]] = node
    return found


def _without_logical_types(kind: AvroType, *, decimals: bool) -> AvroType:
    """Return a type without logical types; with `decimals`, decimals that fit a table's decimal stay."""
    keep = decimals and kind.logical_type == "decimal" and kind.precision <= TABLE_PRECISION
    return replace(
        kind,
        logical_type=kind.logical_type if keep else None,
        fields=tuple(replace(one, type=_without_logical_types(one.type, decimals=decimals)) for one in kind.fields),
        branches=tuple(_without_logical_types(one, decimals=decimals) for one in kind.branches),
        items=None if kind.items is None else _without_logical_types(kind.items, decimals=decimals),
    )


def _read(reading: _Reading, payloads: pa.BinaryArray, rows: RowNumbers) -> MessageGroup:
    if reading.plan is not None:
        return _read_columns(reading.shape, reading.plan, payloads, rows)

    def load(payload: bytes) -> Any:
        reader = AvroReader(payload, _FRAME_BYTES)
        value = decode_value(reader, reading.record, "the message")
        reader.finish("the message")
        return _json_values(value)

    return read_each(payloads.to_pylist(), rows, reading.shape, load)


def _json_values(value: Any) -> Any:
    """Return a decoded value in JSON types, in JsonConverter's format."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, list):
        return [_json_values(item) for item in value]
    if isinstance(value, dict):
        return {name: _json_values(item) for name, item in value.items()}
    return value


def _read_columns(shape: Shape, plan: RowPlan, payloads: pa.BinaryArray, rows: RowNumbers) -> MessageGroup:
    """Return messages as columns. Numbers have the types used for JSON; bytes and decimals keep their types."""
    offsets_buffer, data = offsets_and_data(payloads)
    offsets = np.frombuffer(offsets_buffer, np.int32).astype(np.int64)
    decoded = decode_rows(plan, data, (offsets[:-1] + _FRAME_BYTES).data, offsets[1:].copy().data)
    found = {
        (column.section, column.name): array_from_buffers(column, buffers, decoded.count)
        for column, buffers in zip(plan.columns, decoded.columns, strict=True)
    }
    table = pa.table({one.name: _member(found, decoded.count, one) for one in shape.reading})
    good = rows[np.frombuffer(decoded.rows, np.int64)]
    faults = {int(rows[place]): f"not a Debezium message: {fault}" for place, fault in decoded.faults}
    return MessageGroup(good, shape.fields, table, faults)


def _member(found: Mapping[tuple[str, str], pa.Array], count: int, one: pa.Field) -> pa.Array:
    if not pa.types.is_struct(one.type):
        return _as_read(found.get(("", one.name)), count, one.type)
    parts = [_as_read(found.get((one.name, part.name)), count, part.type) for part in one.type]
    return pa.StructArray.from_arrays(parts, [part.name for part in one.type])


def _as_read(values: pa.Array | None, count: int, kind: pa.DataType) -> pa.Array:
    if values is None:
        return pa.nulls(count, kind)
    if pa.types.is_binary(values.type) or pa.types.is_decimal(values.type):
        return values
    try:
        return values.cast(kind)
    except pa.ArrowException:  # a position that is not a number is unknown
        return pa.nulls(count, kind)
