"""Avro schemas of Replicate's messages, spelled after real samples in any style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from headstream.testing import SourceColumn
from tests.support.replicate.foreign_style import Style

ENVELOPE: Final = {
    "type": "record",
    "name": "MessageEnvelope",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 5}},
        {"name": "type", "type": "string"},
        {"name": "headers", "type": ["null", {"type": "map", "values": "string"}]},
        {"name": "messageSchemaId", "type": ["null", "string"]},
        {"name": "messageSchema", "type": ["null", "string"]},
        {"name": "message", "type": "bytes"},
    ],
}
"""What the guide says the envelope is."""


def data_schema(columns: Sequence[SourceColumn], style: Style) -> dict[str, Any]:
    """Return the schema of data messages."""
    fields = [_field(columns[place].name, _avro_type(columns[place], style), style) for place in style.column_order]
    headers: list[dict[str, Any]] = [
        {"name": "operation", "type": {"type": "enum", "name": "operation", "symbols": list(style.operations)}}
    ]
    texts = ("changeSequence", "timestamp", "streamPosition", "transactionId")
    headers += [{"name": name, "type": {"type": "string"} if style.long_unions else "string"} for name in texts]
    headers += [_field(name, "bytes", style) for name in ("changeMask", "columnMask")]
    types = {"transactionEventCounter": "long", "transactionLastEvent": "boolean", "externalSchemaId": "string"}
    headers += [_field(n, types[n], style) if n in types else _unknown_field(n) for n in style.fields]
    short = "Data" if style.long_unions or style.namespace is None else f"{style.namespace}.Data"
    record = {"type": "record", "name": "Headers", "fields": headers}
    if style.namespace is not None:
        record["namespace"] = "com.attunity.queue.msg"
    sections = [
        {"name": "data", "type": {"type": "record", "name": "Data", "fields": fields, "doc": "the row"}},
        _field("beforeData", short, style, plain=True),
    ]
    sections.insert(0 if style.headers_first else 2, {"name": "headers", "type": record})
    schema: dict[str, Any] = {"type": "record", "name": "DataRecord", "fields": sections}
    return schema if style.namespace is None else {**schema, "namespace": style.namespace}


TRACE: Final = {
    "type": "record",
    "name": "Trace",
    "fields": [
        {"name": "hops", "type": {"type": "array", "items": {"type": "record", "name": "Hop", "fields": [
            {"name": "node", "type": "string"}, {"name": "delay", "type": ["null", "double", "long", "boolean"]}]}}},
        {"name": "tags", "type": {"type": "map", "values": ["null", "Hop", "bytes"]}},
        {"name": "kind", "type": {"type": "enum", "name": "TraceKind", "symbols": ["LIVE", "REPLAY"]}},
    ],
}  # fmt: skip
"""A header field with others in it, which nobody knows yet."""


def _unknown_field(name: str) -> dict[str, Any]:
    if name == "trace":
        return {"name": name, "type": ["null", TRACE]}
    return {"name": name, "type": "string"} if name == "sourceNode" else {"name": name, "type": "int", "default": 0}


def _field(name: str, kind: Any, style: Style, *, plain: bool = False) -> dict[str, Any]:
    wrapped = kind if plain or isinstance(kind, dict) or not style.long_unions else {"type": kind}
    if wrapped == {"type": "string"}:
        wrapped = {"type": "string", "avro.java.string": "String"}
    null = {"type": "null"} if style.long_unions else "null"
    field: dict[str, Any] = {"name": name, "type": [wrapped, null] if style.null_last else [null, wrapped]}
    if style.defaults and not style.null_last:  # a default is of the first branch
        field["default"] = None
    return field


def _avro_type(column: SourceColumn, style: Style) -> Any:
    kind = column.type
    if kind in ("NUMERIC", "UINT8"):
        precision, scale = (20, 0) if kind == "UINT8" else (column.precision, column.scale)
        decimal = {"logicalType": "decimal", "precision": precision, "scale": scale}
        if not style.logical:
            return "string"
        if style.fixed_decimals:
            return {"type": "fixed", "name": f"decimal_{precision}_{scale}_{column.name.encode().hex()}", "size": 17, **decimal}
        return {"type": "bytes", **decimal}
    if kind in ("DATE", "TIME", "DATETIME"):
        if not style.logical:
            return "string"
        if kind == "DATE":
            return {"type": "int", "logicalType": "date"}
        if kind == "TIME":
            micros = {"type": "long", "logicalType": "time-micros"}
            return micros if style.microseconds else {"type": "int", "logicalType": "time-millis"}
        return {"type": "long", "logicalType": "local-timestamp-micros" if style.local_moments else "timestamp-micros"}
    if kind in ("INT8", "UINT4"):
        return "long"
    if kind.startswith(("INT", "UINT")):
        return "long" if style.wide else "int"
    return {"REAL4": "float", "REAL8": "double", "BOOLEAN": "boolean", "BYTES": "bytes", "BLOB": "bytes"}.get(kind, "string")


def metadata_schema(style: Style, names: Sequence[str]) -> dict[str, Any]:
    """Return the schema of a metadata message; `names` are those of the columns, by ordinal."""

    def record(name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
        return {"type": "record", "name": name, "fields": fields}

    def plain(members: Mapping[str, str]) -> list[dict[str, Any]]:
        return [{"name": name, "type": {"type": kind} if style.long_unions else kind} for name, kind in members.items()]

    numbers = dict.fromkeys(("length", "precision", "scale", "primaryKeyPosition"), "long" if style.wide else "int")
    last = {"collation": "string"} if style.extra else {"nullable": "boolean"}
    members = plain({"ordinal": "int", "type": "string", **numbers, **last})
    lineage = {"server": "string", "task": "string", "schema": "string", "table": "string", "tableVersion": "long"}
    lineage |= {"timestamp": "string"} | ({"endpoint": "string"} if style.extra else {})
    table_columns = [{"name": names[place], "type": record(names[place], members)} for place in style.column_order]
    structure = record("TableStructure", [{"name": "tableColumns", "type": record("TableColumns", table_columns)}])
    fields = [
        *plain({"schemaId": "string"}),
        {"name": "lineage", "type": record("Lineage", plain(lineage))},
        {"name": "tableStructure", "type": structure},
        *plain({"dataSchema": "string"}),
    ]
    schema = record("MetadataMessage", fields)
    return schema if style.namespace is None else {**schema, "namespace": "com.attunity.queue.msg"}
