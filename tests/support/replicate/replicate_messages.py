"""Raw messages, schemas and decoders for tests of Replicate's input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from headstream.replicate.codec import Change, ColumnMetadata, Lineage, TableMetadata, data_schema
from headstream.replicate.decoding.decode import Decoder, open_schema_store
from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.schemas.schema_catalog import DecodeOptions
from headstream.replicate.schemas.schema_store import SchemaStore, StoredSchema
from headstream.replicate.settings.table_settings import TableRules, TableSettings

ID = "E" * 32
COLUMNS = (ColumnMetadata("id", 1, "INT4", primary_key_position=1), ColumnMetadata("name", 2, "WSTRING", 20))


def make_table(
    *columns: ColumnMetadata, schema_id: str = ID, schema: str = "shop", table: str = "kit", task: str = "t", **lineage: Any
) -> TableMetadata:
    """One version of `<schema>.<table>`, its Avro schema with logical types."""
    chosen = columns or COLUMNS
    place = Lineage("s", task, schema, table, **lineage)
    return TableMetadata(schema_id, place, chosen, data_schema(chosen, logical_types=True))


def make_change(number: int, operation: str = "INSERT", **changed: Any) -> Change:
    """A change of row `number`."""
    change = Change(operation, {"id": number, "name": f"n{number}"}, None, f"{number:035d}", "2023-03-21T21:34:19.511")
    return replace(change, **changed)


def raw_messages(
    values: Sequence[bytes | None], *, topic: str = "cdc/data", keys: Sequence[bytes | None] | None = None
) -> pa.RecordBatch:
    """Messages as a pipeline gets them from Spark, offsets from 0."""
    count = len(values)
    columns: dict[str, Any] = {
        "topic": pa.array([topic] * count),
        "partition": pa.array([1] * count, pa.int32()),
        "offset": pa.array(range(count), pa.int64()),
        "timestamp_us": pa.array([0] * count, pa.int64()),
        "key": pa.array(keys or [None] * count, pa.binary()),
        "headers": pa.array([b""] * count, pa.binary()),
        "payload": pa.array(values, pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def make_schema_store(directory: Path, *tables: TableMetadata) -> SchemaStore:
    """A zone in which tables have arrived one after another."""
    schema_store = SchemaStore(directory / "zone")
    for offset, table in enumerate(tables):
        schema_store.add(StoredSchema(table, offset, "cdc/metadata", 1, offset))
    return schema_store


def make_decoder(directory: Path, *tables: TableMetadata, settings: dict[str, Any] | None = None, **options: Any) -> Decoder:
    """A decoder over a schema store with some tables; `settings` are those of every table."""
    schema_store = make_schema_store(directory, *tables)
    rules = options.pop("rules", TableRules(defaults=TableSettings(**(settings or {}))))
    decoding = DecodeOptions(rules=rules, **options)
    return Decoder(open_schema_store(schema_store.directory, decoding), decoding)


def rows_of(decoded: Decoded) -> list[dict[str, Any]]:
    """Every decoded change, of whatever schema."""
    return [row for batches in decoded.changes.values() for batch in batches for row in batch.to_pylist()]


def reasons_of(decoded: Decoded) -> dict[int, str]:
    """Offset -> why a message was given up."""
    return {row["offset"]: row["reason"] for batch in decoded.dead for row in batch.to_pylist()}


def waiting_of(decoded: Decoded) -> dict[int, str]:
    """Offset -> the schema id that a message waits for."""
    return {row["offset"]: row["schema_id"] for batch in decoded.waiting for row in batch.to_pylist()}
