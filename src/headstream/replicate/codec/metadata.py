"""Metadata messages: one version of one source table, and the schema of its data messages.

The message in JSON has the form below, which TableMetadata.to_json() also returns. In Avro every object is a record, and every
column has a record type with the column's name:

    {"schemaId": text, "lineage": {"server", "task", "schema", "table": text, "tableVersion": long, "timestamp": text},
     "tableStructure": {"tableColumns": {<column>: {"ordinal": int, "type": text, "length", "precision", "scale": int,
                                                    "primaryKeyPosition": int, "nullable": boolean}}},
     "dataSchema": text}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from headstream.core.codec.json_text import decode_json, encode_json
from headstream.errors import DecodeError, SchemaError
from headstream.replicate.codec.avro.reader import AvroReader
from headstream.replicate.codec.avro.schema import parse_schema
from headstream.replicate.codec.avro.values import decode_value, encode_value
from headstream.replicate.codec.envelope import Envelope, Form, encode_envelope

_Field = TypeVar("_Field", str, int, bool)


@dataclass(frozen=True, slots=True)
class Lineage:
    """The origin of a table. If two tasks capture the same table, there are two lineages."""

    server: str
    task: str
    schema: str
    table: str
    table_version: int = 0
    timestamp: str = ""

    @property
    def qualified_name(self) -> str:
        """The table name, preceded by the schema name if there is one."""
        return ".".join(filter(None, (self.schema, self.table)))


@dataclass(frozen=True, slots=True)
class ColumnMetadata:
    """One column of a source table.

    Args:
        ordinal: The column's position in the table, from 1; bit `ordinal - 1` of the masks.
        type: Replicate's type: INT4, NUMERIC, WSTRING, ...
        length: Maximum length of strings and bytes, in characters or bytes.
        precision: Total number of digits of a NUMERIC; 0 if absent.
        scale: Digits after the decimal point of a NUMERIC.
        primary_key_position: The column's position in the primary key, from 1; 0 if the column is not in the key.
        nullable: Whether the column can be null; True if the message does not specify it.
    """

    name: str
    ordinal: int
    type: str
    length: int = 0
    precision: int = 0
    scale: int = 0
    primary_key_position: int = 0
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """One version of one source table.

    Args:
        schema_id: The id in the data messages of this version; an opaque string.
        columns: Sorted by ordinal.
        data_schema: The Avro schema of the data messages.
    """

    schema_id: str
    lineage: Lineage
    columns: tuple[ColumnMetadata, ...]
    data_schema: str

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The primary key's column names, in key order; empty if there is no primary key."""
        keys = [column for column in self.columns if column.primary_key_position > 0]
        return tuple(column.name for column in sorted(keys, key=lambda column: column.primary_key_position))

    def to_json(self) -> str:
        """Return the metadata as a JSON metadata message."""
        return encode_json(_to_message(self)).decode()

    @classmethod
    def from_json(cls, text: str) -> TableMetadata:
        """Parse the result of to_json() or a metadata message in JSON.

        Raises:
            SchemaError: the string does not have this format.
        """
        try:
            return _from_message(decode_json(text.encode(), decimals=True))
        except (DecodeError, UnicodeEncodeError) as error:
            raise SchemaError(f"the table metadata cannot be read: {error}") from None


def decode_metadata(envelope: Envelope) -> TableMetadata:
    """Decode a metadata message.

    Args:
        envelope: An envelope of type MD; in Avro, with a messageSchema.

    Returns:
        The table's version. `schema_id` is the id inside the message, even if the envelope has an id too.

    Raises:
        SchemaError: the envelope is not an MD or lacks the schema of an Avro message, the message does not describe a table, or
            its dataSchema is not an Avro schema.
        DecodeError: the message does not match its schema.
    """
    if envelope.type != "MD":
        raise SchemaError(f"an envelope of type {envelope.type} is not a metadata message")
    if isinstance(envelope.message, dict):
        return _from_message(envelope.message)
    if envelope.schema is None:
        raise SchemaError(
            "the Avro metadata message has no messageSchema",
            where=f"messageSchemaId {envelope.schema_id}",
            advice="Configure Replicate to publish metadata messages in Replicate's own envelope",
        )
    reader = AvroReader(envelope.message)
    message = decode_value(reader, parse_schema(envelope.schema), "the metadata message")
    reader.finish("the metadata message")
    metadata = _from_message(message)
    parse_schema(metadata.data_schema)  # with an invalid schema, every data message in Avro would be rejected
    return metadata


def metadata_message(
    metadata: TableMetadata, *, form: Form = "avro", with_schema_id: bool = True, headers: Mapping[str, str] | None = None
) -> bytes:
    """Return a complete metadata message in its envelope, as Replicate publishes it.

    Args:
        form: `avro` or `json`.
        with_schema_id: Whether the envelope has the messageSchemaId, as real envelopes do.
        headers: The envelope's own headers.

    Raises:
        InvalidInputError: the form cannot represent a number or string.
    """
    message = _to_message(metadata)
    schema = _message_schema(metadata)
    schema_id = metadata.schema_id if with_schema_id else None
    kept = None if headers is None else dict(headers)
    body: bytes | dict[str, Any] = message if form == "json" else encode_value(parse_schema(schema), message)
    return encode_envelope(Envelope("MD", body, kept, schema_id, schema, form))


def _to_message(metadata: TableMetadata) -> dict[str, Any]:
    lineage = metadata.lineage
    return {
        "schemaId": metadata.schema_id,
        "lineage": {
            "server": lineage.server,
            "task": lineage.task,
            "schema": lineage.schema,
            "table": lineage.table,
            "tableVersion": lineage.table_version,
            "timestamp": lineage.timestamp,
        },
        "tableStructure": {
            "tableColumns": {
                column.name: {
                    "ordinal": column.ordinal,
                    "type": column.type,
                    "length": column.length,
                    "precision": column.precision,
                    "scale": column.scale,
                    "primaryKeyPosition": column.primary_key_position,
                    "nullable": column.nullable,
                }
                for column in metadata.columns
            }
        },
        "dataSchema": metadata.data_schema,
    }


def _from_message(message: object) -> TableMetadata:
    document = _object(message, "the metadata message")
    lineage = _object(document.get("lineage"), "lineage")
    structure = _object(document.get("tableStructure"), "tableStructure")
    columns = []
    for name, value in _object(structure.get("tableColumns"), "tableColumns").items():
        member = _object(value, f"column {name!r}")
        columns.append(
            ColumnMetadata(
                name,
                _pull(member, "ordinal", int, None),
                _pull(member, "type", str, None),
                _pull(member, "length", int, 0),
                _pull(member, "precision", int, 0),
                _pull(member, "scale", int, 0),
                _pull(member, "primaryKeyPosition", int, 0),
                _pull(member, "nullable", bool, True),
            )
        )
    columns.sort(key=lambda column: column.ordinal)
    for place, column in enumerate(columns):
        if column.ordinal < 1 or (place and column.ordinal == columns[place - 1].ordinal):
            raise SchemaError(f"column {column.name!r} has the ordinal {column.ordinal}; ordinals must be unique and start at 1")
    if lineage.get("table") == "":
        raise SchemaError("the table name in the metadata message is empty")  # its directory would contain its schema's tables
    return TableMetadata(
        _pull(document, "schemaId", str, None),
        Lineage(
            _pull(lineage, "server", str, ""),
            _pull(lineage, "task", str, ""),
            _pull(lineage, "schema", str, None),
            _pull(lineage, "table", str, None),
            _pull(lineage, "tableVersion", int, 0),
            _pull(lineage, "timestamp", str, ""),
        ),
        tuple(columns),
        _data_schema(document.get("dataSchema")),
    )


def _data_schema(value: object) -> str:
    """Return the schema as a string; some producers embed the schema as JSON."""
    if isinstance(value, dict):
        return encode_json(value).decode()
    if isinstance(value, str) and value:
        return value
    raise SchemaError("the metadata message has no dataSchema")


def _object(value: object, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SchemaError(f"{what} in a metadata message must be an object, not {type(value).__name__}")
    return value


def _pull(document: dict[str, Any], name: str, kind: type[_Field], default: _Field | None) -> _Field:
    value = document.get(name, default)
    if value is None and default is not None:
        return default
    if type(value) is not kind:
        raise SchemaError(f"{name} of the metadata message must be of type {kind.__name__}, not {value!r}"[:200])
    return value


def _message_schema(metadata: TableMetadata) -> str:
    """Return the Avro schema of this metadata message, as Replicate writes it."""
    column_fields = [
        _field("ordinal", "int"),
        _field("type", "string"),
        _field("length", "int"),
        _field("precision", "int"),
        _field("scale", "int"),
        _field("primaryKeyPosition", "int"),
        _field("nullable", "boolean"),
    ]
    columns = [{"name": column.name, "type": _record(column.name, column_fields)} for column in metadata.columns]
    lineage = [_field(name, "string") for name in ("server", "task", "schema", "table")]
    lineage += [_field("tableVersion", "long"), _field("timestamp", "string")]
    fields = [
        _field("schemaId", "string"),
        {"name": "lineage", "type": _record("Lineage", lineage)},
        {
            "name": "tableStructure",
            "type": _record("TableStructure", [{"name": "tableColumns", "type": _record("TableColumns", columns)}]),
        },
        _field("dataSchema", "string"),
    ]
    return encode_json(_record("MetadataMessage", fields)).decode()


def _field(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "type": {"type": kind}}


def _record(name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": fields}
