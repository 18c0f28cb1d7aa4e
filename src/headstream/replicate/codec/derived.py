"""Derives a table's metadata from the Avro schema of its rows, for sources without metadata messages (schema registries).

The namespace is `com.attunity.queue.msg.<task>.<schema>.<table>`. Column types are taken from the Avro schema, which does not
contain Replicate's types: an INT2 becomes an INT4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headstream.errors import SchemaError
from headstream.replicate.codec.avro.schema import AvroType, parse_schema
from headstream.replicate.codec.metadata import ColumnMetadata, Lineage, TableMetadata

_NAMESPACE: Final = "com.attunity.queue.msg."
_TYPES: Final = {
    "int": "INT4",
    "long": "INT8",
    "float": "REAL4",
    "double": "REAL8",
    "boolean": "BOOLEAN",
    "string": "WSTRING",
    "enum": "WSTRING",
    "bytes": "BYTES",
    "fixed": "BYTES",
}
_LOGICAL_TYPES: Final = {
    "date": "DATE",
    "time-millis": "TIME",
    "time-micros": "TIME",
    "timestamp-millis": "DATETIME",
    "timestamp-micros": "DATETIME",
    "local-timestamp-millis": "DATETIME",
    "local-timestamp-micros": "DATETIME",
    "timestamp-nanos": "DATETIME",
    "decimal": "NUMERIC",
    "uuid": "WSTRING",
}


def derive_metadata(
    data_schema: str,
    *,
    schema_id: str,
    keys: Sequence[str] = (),
    version: int = 0,
    server: str = "",
    table: tuple[str, str] | None = None,
) -> TableMetadata:
    """Return the metadata of a table from the Avro schema of its data messages.

    Args:
        data_schema: A record with the section `data`.
        schema_id: The schema's id in messages.
        keys: Names of the primary key's columns, in key order; names that the schema lacks are ignored.
        version: The table's version, by which its schemas are ordered.
        table: Source schema and table, if the namespace does not contain them.

    Raises:
        SchemaError: the schema is not a schema of data messages, or its table is unknown.
    """
    record = parse_schema(data_schema)
    sections = {member.name: member.type for member in record.fields}
    row = _plain(sections["data"]) if "data" in sections else None
    if row is None or row.kind != "record":
        raise SchemaError("the Avro schema of data messages must have a record 'data'", where=record.name or None)
    namespace = record.name.rpartition(".")[0]
    task, schema, name = _split_namespace(namespace)
    if table is not None:
        schema, name = table
    if not name:
        raise SchemaError(
            f"the namespace {namespace!r} of the Avro schema does not name a table", advice="Use <task>.<schema>.<table>"
        )
    columns = []
    for ordinal, member in enumerate(row.fields, start=1):
        plain = _plain(member.type)
        kind = _LOGICAL_TYPES.get(plain.logical_type or "") or _TYPES.get(plain.kind)
        if kind is None:
            raise SchemaError(f"the field 'data.{member.name}' must be a plain value, not {plain.kind}")
        position = keys.index(member.name) + 1 if member.name in keys else 0
        columns.append(
            ColumnMetadata(member.name, ordinal, kind, 0, plain.precision, plain.scale, position, member.type.kind == "union")
        )
    return TableMetadata(schema_id, Lineage(server, task, schema, name, version), tuple(columns), data_schema)


def key_fields(key_schema: str) -> tuple[str, ...]:
    """Return the columns of an Avro schema of message keys; empty if the schema is not a record.

    Raises:
        SchemaError: the string is not an Avro schema.
    """
    return tuple(member.name for member in parse_schema(key_schema).fields)


def _plain(kind: AvroType) -> AvroType:
    others = [branch for branch in kind.branches if branch.kind != "null"]
    return others[0] if len(others) == 1 else kind


def _split_namespace(namespace: str) -> tuple[str, str, str]:
    """Return task, schema and table; a task name can contain dots."""
    parts = namespace.removeprefix(_NAMESPACE).split(".")
    if len(parts) < 2:
        return "", "", parts[0]
    return ".".join(parts[:-2]), parts[-2], parts[-1]
