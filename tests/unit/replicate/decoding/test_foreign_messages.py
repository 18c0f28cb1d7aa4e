"""Messages of a writer that is not ours, through the decoder into tables: any legal way of writing gives the same table."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headstream.replicate.codec import decode_data, decode_envelope, decode_metadata
from headstream.replicate.decoding.decode import Decoder
from headstream.replicate.schemas.schema_store import SchemaStore, StoredSchema
from headstream.replicate.tables.tables import TargetTables, table_path
from headstream.testing import SourceColumn, SourceDatabase, SourceTable, digest_rows, shuffle, split
from headstream.testing.samples import sample_messages
from tests.support.messages.foreign_bytes import encode_avro
from tests.support.replicate.foreign_schemas import ENVELOPE
from tests.support.replicate.foreign_style import draw_style
from tests.support.replicate.foreign_writer import ForeignWriter, write_history
from tests.support.replicate.plain_engine import open_plain_engine
from tests.unit.replicate.decoding.test_decode import PLAIN_TABLES, raw_batch


def named_table(*versions: tuple[str, ...]) -> SourceTable:
    key = SourceColumn("id", "INT8", key_position=1, nullable=False)
    return SourceTable("LAB", "names", tuple((key, *(SourceColumn(n, "WSTRING", length=9) for n in names)) for names in versions))


NAMES = ("Lineage", "TableStructure", "int", "Data", "headers", "beforeData", "MetadataMessage", "TableColumns")
TABLES = (*PLAIN_TABLES, named_table(NAMES, ("string", *NAMES[::-1], "operation")))
"""The last one has columns that are called like types of the messages, and places that change."""


@pytest.mark.parametrize("seed", range(1, 6))
def test_tables_equal_the_source_when_another_writer_writes_the_messages(tmp_path: Path, seed: int) -> None:
    source = SourceDatabase(seed, tables=TABLES, rows=8, transactions=25)
    messages = list(write_history(TABLES, source.changes, seed))
    schema_store = SchemaStore(tmp_path / "zone")
    for offset, value in enumerate(value for role, value in messages if role == "metadata"):
        schema_store.add(StoredSchema(decode_metadata(decode_envelope(value)), offset, "cdc/metadata", 1, offset))
    decoder = Decoder(schema_store)
    tables = TargetTables(tmp_path / "tables", tmp_path / "checkpoint", open_plain_engine)
    data = shuffle([value for role, value in messages if role == "data"], seed=seed)
    for number, part in enumerate(split(data, 2)):
        decoded = decoder.decode(raw_batch(part))
        assert not decoded.dead, [row["reason"] for batch in decoded.dead for row in batch.to_pylist()][:3]
        assert not decoded.waiting
        applied = tables.apply(decoded.changes, {i: decoder.schema(i) for i in decoded.changes}, "test", number)
        assert not applied.rejected
    for metadata in source.tables():
        schema, table = metadata.lineage.schema, metadata.lineage.table
        rows = pa.table(DeltaTable(str(table_path(tmp_path / "tables", schema, table))).to_pyarrow_table()).to_pylist()
        assert digest_rows(rows, metadata.key_columns) == source.digest(schema, table), f"{schema}.{table}, seed {seed}"


@pytest.mark.parametrize("seed", range(40))
def test_envelope_and_metadata_are_read_whole_when_another_writer_writes_them(seed: int) -> None:
    random = Random(seed)
    table = TABLES[seed % len(TABLES)]
    style = draw_style(random, len(table.versions[0]))
    writer = ForeignWriter(table, 0, style)
    envelope = decode_envelope(writer.write_metadata())
    assert (envelope.type, envelope.schema_id, envelope.headers) == ("MD", style.schema_id, style.header_map)
    metadata = decode_metadata(envelope)
    assert metadata.schema_id == style.schema_id
    assert (metadata.lineage.schema, metadata.lineage.table, metadata.lineage.table_version) == (table.schema, table.name, 1)
    assert [(c.name, c.type, c.length, c.precision, c.scale, c.primary_key_position) for c in metadata.columns] == [
        (c.name, c.type, c.length, c.precision, c.scale, c.key_position) for c in table.versions[0]
    ]
    assert json.loads(metadata.data_schema) == writer.schema


@pytest.mark.parametrize(("name", "value"), sample_messages(), ids=[name for name, _ in sample_messages()])
@pytest.mark.parametrize("seed", range(3))
def test_samples_say_the_same_when_another_writer_wraps_them(name: str, value: bytes, seed: int) -> None:
    original = decode_envelope(value)
    if original.type == "MD":
        expected: Any = decode_metadata(original)
        schema = original.schema
    else:
        metadata = [e for e in (decode_envelope(other) for _, other in sample_messages()) if e.type == "MD"]
        schema = decode_metadata(metadata[0]).data_schema
        expected = decode_data(original, schema)
    message = original.message
    if isinstance(message, dict):
        if original.schema_id is None:
            schema = _fitting_schema(message)
        message = encode_avro(fastavro.parse_schema(json.loads(schema or "")), _to_avro(message), bool(seed))
    parts = {"magic": b"atMSG", "type": original.type, "headers": [None, {}, {"a": "b"}][seed]}
    parts |= {"messageSchemaId": original.schema_id, "messageSchema": schema, "message": message}
    rewrapped = decode_envelope(encode_avro(fastavro.parse_schema(ENVELOPE), parts, bool(seed)))
    if original.type == "MD":
        assert decode_metadata(rewrapped) == expected
    else:
        found = decode_data(rewrapped)
        wanted = {field: getattr(expected, field) for field in expected.__slots__}
        assert {field: getattr(found, field) for field in found.__slots__} == wanted


def _to_avro(message: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON message with its masks as bytes."""
    if "headers" not in message:
        return message
    sections: dict[str, Any] = {name: _to_doubles(message[name]) for name in ("data", "beforeData") if name in message}
    masks = {name: message["headers"].get(name) for name in ("changeMask", "columnMask")}
    turned = {name: None if mask is None else bytes.fromhex(mask)[::-1] for name, mask in masks.items()}
    return {**message, **sections, "headers": {**message["headers"], **turned}}


def _to_doubles(row: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return a row with its fractions as doubles, the type of such columns in the samples."""
    return row and {name: float(value) if isinstance(value, Decimal) else value for name, value in row.items()}


def _fitting_schema(message: dict[str, Any]) -> str:
    """Return a data schema for a JSON message whose own is not known: its scalars as they stand."""
    kinds = {str: "string", int: "long", Decimal: "double", type(None): "string"}
    fields = [{"name": name, "type": ["null", kinds[type(value)]]} for name, value in message["data"].items()]
    headers: list[dict[str, Any]] = [
        {"name": "operation", "type": {"type": "enum", "name": "operation", "symbols": ["INSERT", "UPDATE", "DELETE", "REFRESH"]}}
    ]
    headers += [{"name": n, "type": "string"} for n in ("changeSequence", "timestamp", "streamPosition", "transactionId")]
    headers += [{"name": n, "type": ["null", "bytes"]} for n in ("changeMask", "columnMask")]
    headers.append({"name": "transactionEventCounter", "type": ["null", "long"]})
    headers.append({"name": "transactionLastEvent", "type": ["null", "boolean"]})
    headers.append({"name": "externalSchemaId", "type": ["null", "string"]})
    sections = [
        {"name": "data", "type": {"type": "record", "name": "Data", "fields": fields}},
        {"name": "beforeData", "type": ["null", "Data"]},
        {"name": "headers", "type": {"type": "record", "name": "Headers", "fields": headers}},
    ]
    return json.dumps({"type": "record", "name": "DataRecord", "fields": sections})
