"""Raw messages through the decoder into tables, without Spark: what executors and driver do with a micro-batch."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headstream.errors import StorageError
from headstream.replicate import codec
from headstream.replicate.decoding import decode
from headstream.replicate.decoding.decode import Decoder, decode_partitions
from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.schemas.schema_catalog import DecodeOptions
from headstream.replicate.schemas.schema_store import SchemaStore, StoredSchema
from headstream.replicate.settings.table_settings import TableRules, TableSettings
from headstream.replicate.tables.tables import TargetTables, table_path
from headstream.testing import CaptureOptions, SourceDatabase, digest_rows, shuffle, split
from headstream.testing.shop_tables import SHOP_TABLES
from headstream.testing.source_capture import SourceMessage
from tests.support.replicate.plain_engine import open_plain_engine
from tests.support.replicate.replicate_messages import make_schema_store, raw_messages

PLAIN_TABLES = tuple(table for table in SHOP_TABLES if table.name != "orders")  # its names need Spark to make the table


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


def fill(schema_store: SchemaStore, messages: list[SourceMessage]) -> None:
    for offset, message in enumerate(m for m in messages if m.role == "metadata"):
        schema_store.add(
            StoredSchema(codec.decode_metadata(codec.decode_envelope(message.value)), offset, "cdc/metadata", 1, offset)
        )


@pytest.mark.parametrize(
    ("partial", "order"),
    [
        (True, "little"),
        (False, "big"),
        *(pytest.param(*both, marks=pytest.mark.nightly) for both in ((False, "little"), (True, "big"))),
    ],
)
@pytest.mark.parametrize(("rows", "transactions"), [(5, 12), pytest.param(40, 150, marks=pytest.mark.nightly)])
def test_decoder_and_tables_equal_the_source_when_data_is_shuffled(
    tmp_path: Path, partial: bool, order: Any, rows: int, transactions: int
) -> None:
    source = SourceDatabase(11, tables=PLAIN_TABLES, rows=rows, transactions=transactions)
    messages = list(source.capture(CaptureOptions(partial_images=partial, mask_order=order, deleted_columns="key")))
    schema_store = SchemaStore(tmp_path / "zone")
    fill(schema_store, messages)
    decoder = Decoder(schema_store, DecodeOptions(rules=TableRules(defaults=TableSettings(mask_order=order))))
    tables = TargetTables(tmp_path / "tables", tmp_path / "checkpoint", open_plain_engine)
    data = [m.value for m in messages if m.role == "data"]
    count = 0
    for version, part in enumerate(split(shuffle(data, seed=1), 2)):
        decoded = Decoded.from_table(pa.Table.from_batches([decoder.decode(raw_batch(list(part))).to_batch()]))
        assert not decoded.dead, [row["reason"] for batch in decoded.dead for row in batch.to_pylist()][:3]
        applied = tables.apply(decoded.changes, {i: decoder.schema(i) for i in decoded.changes}, "test", version)
        assert not applied.rejected
        count += applied.changes
    assert count == len(data)
    for metadata in source.tables():
        schema, table = metadata.lineage.schema, metadata.lineage.table
        stored = DeltaTable(str(table_path(tmp_path / "tables", schema, table))).to_pyarrow_table().to_pylist()
        assert digest_rows(stored, metadata.key_columns) == source.digest(schema, table), f"{schema}.{table}"


def test_decoder_takes_the_large_types_that_a_session_of_spark_can_be_set_to_give(tmp_path: Path) -> None:
    source = SourceDatabase(13, tables=PLAIN_TABLES, rows=5, transactions=10)
    messages = list(source.capture(CaptureOptions()))
    schema_store = SchemaStore(tmp_path / "zone")
    fill(schema_store, messages)
    raw = raw_batch([message.value for message in messages] + [b"not a message"])
    large = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
    columns = [column.cast(large.get(column.type, column.type)) for column in raw.columns]
    found = Decoder(schema_store).decode(pa.RecordBatch.from_arrays(columns, names=raw.schema.names))
    expected = Decoder(schema_store).decode(raw)
    assert found.changes == expected.changes
    assert found.changes
    assert (found.metadata, found.dead) == (expected.metadata, expected.dead)


def test_decoder_accounts_for_every_message_when_schemas_are_missing(tmp_path: Path) -> None:
    source = SourceDatabase(12, rows=5, transactions=10)
    messages = list(source.capture())
    decoded = Decoder(SchemaStore(tmp_path / "zone")).decode(raw_batch([*(m.value for m in messages), None, b"", b"junk"]))
    assert decoded.message_count == len(messages) + 3
    assert decoded.tombstones == 1
    waiting = {row["offset"]: row["schema_id"] for batch in decoded.waiting for row in batch.to_pylist()}
    assert waiting == {i: m.schema_id for i, m in enumerate(messages) if m.role == "data"}
    assert sum(batch.num_rows for batch in decoded.metadata) == sum(m.role == "metadata" for m in messages)
    assert [row["reason"] is not None for batch in decoded.dead for row in batch.to_pylist()] == [True] * 2


KEYLESS = codec.TableMetadata("F" * 32, codec.Lineage("s", "t", "shop", "log"), (codec.ColumnMetadata("line", 1, "INT4"),), "")
KEYED = codec.TableMetadata(
    "E" * 32,
    codec.Lineage("s", "t", "shop", "kit"),
    (codec.ColumnMetadata("id", 1, "INT4", primary_key_position=1), codec.ColumnMetadata("name", 2, "WSTRING", 20)),
    "",
)


def insert(number: int) -> codec.Change:
    data = {"id": number, "name": f"n{number}"}
    return codec.Change("INSERT", data, None, f"{number:035d}", "2023-03-21T21:34:19.511", "p", "t", None, b"\x03", 1, True, None)


def names(decoded: Decoded, schema_id: str) -> list[str]:
    return [name for batch in decoded.changes.get(schema_id, []) for name in batch.column("name").to_pylist()]


def reasons(decoded: Decoded) -> list[str]:
    return [row["reason"] for batch in decoded.dead for row in batch.to_pylist()]


def test_decoder_reads_a_message_by_the_schema_it_carries_itself(tmp_path: Path) -> None:
    table = replace(KEYED, data_schema=codec.data_schema(KEYED.columns, logical_types=True))
    reversed_schema = codec.data_schema(
        tuple(reversed(KEYED.columns)), logical_types=True
    )  # another order of bytes than the schema store's
    value = codec.data_message(reversed_schema, insert(5), schema_id=table.schema_id, own_schema=reversed_schema)
    decoded = Decoder(make_schema_store(tmp_path, table)).decode(raw_batch([value]))
    assert not decoded.dead, reasons(decoded)
    assert names(decoded, table.schema_id) == ["n5"]


def test_decoder_finds_the_table_of_a_message_without_schema_id_by_the_namespace_of_its_schema(tmp_path: Path) -> None:
    table = replace(KEYED, data_schema=codec.data_schema(KEYED.columns, logical_types=True))
    schema = json.loads(table.data_schema)
    values: list[bytes] = []
    for namespace in ("shop.kit", "com.attunity.queue.msg.task-1.shop.kit", "shop.other", ""):
        text = json.dumps({**schema, "namespace": namespace})
        values.append(codec.data_message(text, insert(len(values)), schema_id=None, own_schema=text))
    decoded = Decoder(make_schema_store(tmp_path, table)).decode(raw_batch(values))
    assert names(decoded, table.schema_id) == ["n0", "n1"]
    assert ["matches no table" in reason for reason in reasons(decoded)] == [True, True]


def test_decoder_reads_a_message_of_an_unknown_schema_id_by_its_own_schema_when_that_names_a_table(tmp_path: Path) -> None:
    table = replace(KEYED, data_schema=codec.data_schema(KEYED.columns, logical_types=True))
    schema = json.loads(table.data_schema)
    values = []
    for number, namespace in enumerate(("shop.kit", "shop.other")):
        text = json.dumps({**schema, "namespace": namespace})
        values.append(codec.data_message(text, insert(number), schema_id="not-in-the-zone", own_schema=text))
    decoded = Decoder(make_schema_store(tmp_path, table)).decode(raw_batch(values))
    assert names(decoded, table.schema_id) == ["n0"]
    assert decoded.dead == []
    assert [batch.column("offset").to_pylist() for batch in decoded.waiting] == [[1]]  # its metadata may still come


def test_decoder_gives_up_a_message_whose_own_schema_is_another_record_with_the_reason(tmp_path: Path) -> None:
    table = replace(KEYED, data_schema=codec.data_schema(KEYED.columns, logical_types=True))
    text = json.dumps({"type": "record", "name": "Other", "namespace": "shop.kit", "fields": [{"name": "id", "type": "int"}]})
    value = codec.encode_envelope(codec.Envelope("DT", b"\x02", None, None, text, "avro"))
    decoded = Decoder(make_schema_store(tmp_path, table)).decode(raw_batch([value]))
    (reason,) = reasons(decoded)
    assert "data" in reason


BIN = replace(KEYED, schema_id="B" * 32, lineage=codec.Lineage("s", "t", "shop", "bin"))


def self_describing(number: int, namespace: str, schema_id: str | None, form: Any) -> bytes:
    """Return a message that has a schema of its own, whose bytes are in another order than the schema store's schemas have."""
    schema = json.loads(codec.data_schema(tuple(reversed(KEYED.columns)), logical_types=True))
    text = json.dumps({**schema, "namespace": namespace})
    return codec.data_message(text, insert(number), form=form, schema_id=schema_id, own_schema=text)


@pytest.mark.parametrize("form", ["avro", "json"])
def test_decoder_gives_a_message_with_id_and_own_schema_to_the_table_that_its_namespace_names(tmp_path: Path, form: Any) -> None:
    kit, bin_ = (replace(each, data_schema=codec.data_schema(each.columns, logical_types=True)) for each in (KEYED, BIN))
    decoder = Decoder(make_schema_store(tmp_path, kit, bin_))
    namespaces = ("shop.kit", "com.attunity.queue.msg.task.shop.bin", "acme.events", "")
    values = [self_describing(number, namespace, kit.schema_id, form) for number, namespace in enumerate(namespaces)]
    for _ in range(2):  # the second time with prepared schemas
        decoded = decoder.decode(raw_batch(values))
        assert reasons(decoded) == []
        assert sorted(names(decoded, kit.schema_id)) == ["n0", "n2", "n3"]  # where it names no table, the id decides
        assert names(decoded, bin_.schema_id) == ["n1"]


@pytest.mark.parametrize("form", ["avro", "json"])
def test_decoder_finds_the_table_of_a_message_without_id_by_its_own_schema_else_gives_a_reason(tmp_path: Path, form: Any) -> None:
    kit = replace(KEYED, data_schema=codec.data_schema(KEYED.columns, logical_types=True))
    values = [self_describing(number, namespace, None, form) for number, namespace in enumerate(("shop.kit", "shop.other"))]
    decoded = Decoder(make_schema_store(tmp_path, kit)).decode(raw_batch(values))
    assert names(decoded, kit.schema_id) == ["n0"]
    (reason,) = reasons(decoded)
    assert "the namespace 'shop.other' of its schema matches no table in the schema store" in reason


@pytest.mark.parametrize("schema_id", [None, KEYED.schema_id])
@pytest.mark.parametrize(
    ("own_schema", "reason"),
    [
        (
            json.dumps({"type": "record", "name": "Kit", "namespace": "shop.kit", "fields": [{"name": "id", "type": "int"}]}),
            "'data'",
        ),
        (json.dumps({"type": "enum", "name": "Kit", "namespace": "shop.kit", "symbols": ["a"]}), "a record, not enum"),
        ("{", "schema"),
    ],
    ids=["another record", "no record", "no schema"],
)
def test_decoder_gives_up_a_message_that_its_own_schema_makes_no_row(
    tmp_path: Path, schema_id: str | None, own_schema: str, reason: str
) -> None:
    kit = replace(KEYED, data_schema=codec.data_schema(KEYED.columns, logical_types=True))
    value = codec.encode_envelope(codec.Envelope("DT", b"\x02", None, schema_id, own_schema, "avro"))
    decoded = Decoder(make_schema_store(tmp_path, kit)).decode(raw_batch([value]))
    assert not decoded.changes
    (found,) = reasons(decoded)
    assert reason in found


@pytest.mark.parametrize("schema_id", [None, KEYED.schema_id])
def test_decoder_waits_or_gives_up_when_a_message_has_a_column_that_its_table_has_not(
    tmp_path: Path, schema_id: str | None
) -> None:
    kit = replace(KEYED, data_schema=codec.data_schema(KEYED.columns, logical_types=True))
    other = codec.data_schema((replace(KEYED.columns[0], name="other"),), logical_types=True).replace(
        '"DataRecord"', '"shop.kit.R"'
    )
    value = codec.encode_envelope(codec.Envelope("DT", b"\x02", None, schema_id, other, "avro"))
    decoded = Decoder(make_schema_store(tmp_path, kit)).decode(raw_batch([value]))
    assert not decoded.changes
    if schema_id is None:  # metadata with that column can still come
        assert [batch.num_rows for batch in decoded.waiting] == [1]
    else:
        (found,) = reasons(decoded)
        assert "'other'" in found


def test_decoder_takes_the_rows_of_a_table_without_a_primary_key(tmp_path: Path) -> None:
    table = replace(KEYLESS, data_schema=codec.data_schema(KEYLESS.columns, logical_types=True))
    change = replace(insert(1), data={"line": 1}, column_mask=b"\x01")
    decoded = Decoder(make_schema_store(tmp_path, table)).decode(
        raw_batch([codec.data_message(table, change, schema_id=table.schema_id)])
    )
    assert reasons(decoded) == []
    assert [row["line"] for batch in decoded.changes[table.schema_id] for row in batch.to_pylist()] == [1]


@pytest.mark.parametrize("form", ["avro", "json"])
@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"data": {"id": None, "name": "x"}}, "key column 'id' is null"),
        ({"change_sequence": ""}, "no change sequence"),
        ({"change_sequence": "1" * 36}, "more than 35 characters"),
    ],
)
def test_decoder_refuses_one_row_and_keeps_the_rest(tmp_path: Path, form: Any, changed: dict[str, Any], reason: str) -> None:
    table = replace(KEYED, data_schema=codec.data_schema(KEYED.columns, logical_types=True))
    changes = [insert(1), replace(insert(2), **changed), insert(3)]
    values = [codec.data_message(table, change, form=form, schema_id=table.schema_id) for change in changes]
    decoded = Decoder(make_schema_store(tmp_path, table)).decode(raw_batch(values))
    assert names(decoded, table.schema_id) == ["n1", "n3"]
    (row,) = [row for batch in decoded.dead for row in batch.to_pylist()]
    assert (row["offset"], row["payload"]) == (1, values[1])
    assert reason in row["reason"]


def test_decoder_refuses_the_value_that_does_not_fit_its_column_alone(tmp_path: Path) -> None:
    table = replace(KEYED, data_schema=codec.data_schema(KEYED.columns, logical_types=True))
    narrow = replace(table, columns=(replace(KEYED.columns[0], type="INT1"), KEYED.columns[1]))
    values = [codec.data_message(table, insert(number), schema_id=table.schema_id) for number in (1, 300, 7)]
    decoded = Decoder(make_schema_store(tmp_path, narrow)).decode(raw_batch(values))
    assert names(decoded, table.schema_id) == ["n1", "n7"]
    assert "column 'id'" in reasons(decoded)[0]


def test_decoder_takes_metadata_without_a_schema_id_in_its_envelope(tmp_path: Path) -> None:
    table = replace(KEYED, data_schema=codec.data_schema(KEYED.columns, logical_types=True))
    value = codec.metadata_message(table, with_schema_id=False)
    decoded = Decoder(SchemaStore(tmp_path / "zone")).decode(raw_batch([value]))
    (row,) = [row for batch in decoded.metadata for row in batch.to_pylist()]
    assert codec.decode_metadata(codec.decode_envelope(row["payload"])).schema_id == table.schema_id


@pytest.mark.parametrize(("rows", "size_bytes", "gathered"), [(50, 1 << 20, [5]), (2, 1 << 20, [2, 2, 1]), (50, 1, [1] * 5)])
def test_decode_partitions_decodes_small_batches_together_when_there_are_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, size_bytes: int, gathered: list[int]
) -> None:
    monkeypatch.setattr(decode, "_GATHERED_ROWS", rows)
    monkeypatch.setattr(decode, "_GATHERED_BYTES", size_bytes)
    batches = [raw_batch([b"no envelope %d" % number]) for number in range(5)]
    decode_all = decode_partitions(SchemaStore(tmp_path), DecodeOptions())
    told = [Decoded.from_table(pa.Table.from_batches([b])) for b in decode_all(iter(batches))]
    assert [part.message_count for part in told] == gathered
    payloads = [payload for part in told for batch in part.dead for payload in batch.column("payload").to_pylist()]
    assert payloads == [b"no envelope %d" % number for number in range(5)]


def test_decode_partitions_refuses_to_decode_when_the_executor_does_not_see_the_drivers_store(tmp_path: Path) -> None:
    schema_store = SchemaStore(tmp_path / "zone")
    decode_there = decode_partitions(schema_store, DecodeOptions())
    (tmp_path / "zone").rename(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="cannot access the driver's schema store: found no schema store") as caught:
        list(decode_there(iter([raw_batch([b"x"])])))
    assert str(caught.value.where).startswith(f"{tmp_path / 'zone'} on ")
    SchemaStore(tmp_path / "zone").mark()
    with pytest.raises(StorageError, match="found another schema store"):
        list(decode_there(iter([raw_batch([b"x"])])))


def test_an_error_of_a_task_names_the_messages_that_it_was_decoding(tmp_path: Path) -> None:
    batches = [raw_messages([b"x"] * 3), raw_messages([b"x"], topic="cdc/other")]
    whole = pa.Table.from_batches(batches).drop(["timestamp_us"]).combine_chunks().to_batches()
    task = decode_partitions(SchemaStore(tmp_path / "zone"), DecodeOptions(rules=TableRules()))
    with pytest.raises(KeyError) as caught:
        list(task(iter(whole)))
    assert sorted(caught.value.__notes__) == [
        "while decoding: cdc/data partition 1, offsets 0 to 2",
        "while decoding: cdc/other partition 1, offsets 0 to 0",
    ]
