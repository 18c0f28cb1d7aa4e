"""Raw messages through the decoder into tables, without Spark: what executors and driver do with a micro-batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headstream.codec.replicate import decode_envelope, decode_metadata
from headstream.spark.replicate.decode import Decoded, Decoder
from headstream.spark.replicate.tables import TargetTables, table_path
from headstream.spark.replicate.zone import SchemaZone, ZoneEntry
from headstream.testing import CaptureOptions, SourceDatabase, digest_rows, shuffle, split
from headstream.testing.shop_tables import SHOP_TABLES
from headstream.testing.source_capture import SourceMessage

PLAIN_TABLES = tuple(table for table in SHOP_TABLES if table.name != "orders")  # its names need Spark to make the table


class NoMappedTables:
    def create(self, path: Path, columns: Mapping[str, str]) -> None:
        raise AssertionError(path)

    add_columns = widen = create


def raw_batch(values: Sequence[bytes | None]) -> pa.RecordBatch:
    count = len(values)
    columns: dict[str, Any] = {
        "topic": pa.array(["cdc/data"] * count),
        "partition": pa.array([1] * count, pa.int32()),
        "offset": pa.array(range(count), pa.int64()),
        "timestamp_us": pa.array([0] * count, pa.int64()),
        "key": pa.array([None] * count, pa.binary()),
        "headers": pa.array([b""] * count, pa.binary()),
        "payload": pa.array(values, pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def fill(zone: SchemaZone, messages: list[SourceMessage]) -> None:
    for offset, message in enumerate(m for m in messages if m.role == "metadata"):
        zone.add(ZoneEntry(decode_metadata(decode_envelope(message.value)), offset, "cdc/metadata", 1, offset))


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("partial", [False, True])
def test_decoder_and_tables_equal_the_source_when_data_is_shuffled(tmp_path: Path, partial: bool, order: Any) -> None:
    source = SourceDatabase(11, tables=PLAIN_TABLES, rows=40, transactions=150)
    messages = list(source.capture(CaptureOptions(partial_images=partial, mask_order=order, deleted_columns="key")))
    zone = SchemaZone(tmp_path / "zone")
    fill(zone, messages)
    decoder = Decoder(zone, order)
    tables = TargetTables(tmp_path / "tables", tmp_path / "tombstones", NoMappedTables())
    data = [m.value for m in messages if m.role == "data"]
    count = 0
    for version, part in enumerate(split(shuffle(data, seed=1), 7)):
        decoded = Decoded.from_table(pa.Table.from_batches([decoder.decode(raw_batch(list(part))).to_batch()]))
        assert not decoded.dead, [row["reason"] for batch in decoded.dead for row in batch.to_pylist()][:3]
        applied = tables.apply(decoded.changes, {i: decoder.schema(i) for i in decoded.changes}, "test", version)
        assert not applied.rejected
        count += applied.changes
    assert count == len(data)
    for metadata in source.tables():
        schema, table = metadata.lineage.schema, metadata.lineage.table
        rows = DeltaTable(str(table_path(tmp_path / "tables", schema, table))).to_pyarrow_table().to_pylist()
        assert digest_rows(rows, metadata.key_columns) == source.digest(schema, table), f"{schema}.{table}"


def test_decoder_accounts_for_every_message_when_schemas_are_missing(tmp_path: Path) -> None:
    source = SourceDatabase(12, rows=5, transactions=10)
    messages = list(source.capture())
    decoded = Decoder(SchemaZone(tmp_path / "zone")).decode(raw_batch([*(m.value for m in messages), None, b"", b"junk"]))
    assert decoded.message_count == len(messages) + 3
    waiting = {row["offset"]: row["schema_id"] for batch in decoded.waiting for row in batch.to_pylist()}
    assert waiting == {i: m.schema_id for i, m in enumerate(messages) if m.role == "data"}
    assert sum(batch.num_rows for batch in decoded.metadata) == sum(m.role == "metadata" for m in messages)
    assert [row["reason"] is not None for batch in decoded.dead for row in batch.to_pylist()] == [True] * 3
