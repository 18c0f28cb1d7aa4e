"""Messages that real products wrote (tests/samples/replicate, see its ORIGIN.md) mean what they should."""

from __future__ import annotations

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest

from headstream.replicate.codec import (
    ColumnMetadata,
    Lineage,
    data_message,
    data_schema,
    decode_data,
    decode_envelope,
    decode_mask,
    decode_metadata,
    encode_envelope,
    mask_from_hex,
    metadata_message,
)

SAMPLES = Path(__file__).parents[3] / "samples" / "replicate"
COLUMNS = (
    ColumnMetadata("emp_no", 1, "INT4", length=10, primary_key_position=1, nullable=False),
    ColumnMetadata("salary", 2, "INT4", length=10, nullable=False),
    ColumnMetadata("from_date", 3, "DATE", primary_key_position=2, nullable=False),
    ColumnMetadata("to_date", 4, "DATE", nullable=False),
)
ROW = {"emp_no": 14472, "salary": 49592, "from_date": "1993-11-25", "to_date": "1994-11-25"}


def sample(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


def read_avro(schema: str, data: bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(json.loads(schema)))


@pytest.mark.parametrize(
    ("name", "schema_id"),
    [
        ("custenborder_employees_salaries_MD_v1.json", "94345778F0A920B9F6634C541177EBB2"),
        ("custenborder_employees_salaries_MD_v2.json", "8FB9D3C10EA4B25751DF9CC8318F0A02"),
        ("synth_MD_employees_salaries.avro.bin", "8FB9D3C10EA4B25751DF9CC8318F0A02"),
    ],
)
def test_metadata_samples_describe_their_table(name: str, schema_id: str) -> None:
    envelope = decode_envelope(sample(name))
    assert (envelope.type, envelope.headers, envelope.schema_id) == ("MD", None, schema_id)
    metadata = decode_metadata(envelope)
    server, timestamp = "attunity-01.custenborder.com", "2018-04-13T20:13:58.289"
    assert metadata.schema_id == schema_id
    assert metadata.lineage == Lineage(server, "mysql-to-kafka", "employees", "salaries", 1, timestamp)
    assert metadata.columns == COLUMNS
    assert metadata.key_columns == ("emp_no", "from_date")
    assert metadata.data_schema == data_schema(COLUMNS, logical_types=False, transaction_fields=False)
    assert decode_envelope(encode_envelope(envelope)) == envelope


def test_metadata_message_writes_what_replicate_wrote() -> None:
    real = json.loads(sample("custenborder_employees_salaries_MD_v2.json"))
    metadata = decode_metadata(decode_envelope(sample("custenborder_employees_salaries_MD_v2.json")))
    assert json.loads(metadata_message(metadata, form="json")) == real
    assert metadata_message(metadata) == sample("synth_MD_employees_salaries.avro.bin")
    envelope = decode_envelope(metadata_message(metadata))
    assert envelope.schema == real["messageSchema"]
    assert isinstance(envelope.message, bytes)
    assert read_avro(real["messageSchema"], envelope.message) == real["message"]


@pytest.mark.parametrize(
    "name", ["custenborder_employees_salaries_DT_refresh.json", "synth_DT_employees_salaries_refresh.avro.bin"]
)
def test_a_full_load_sample_has_empty_texts_and_no_masks(name: str) -> None:
    metadata = decode_metadata(decode_envelope(sample("custenborder_employees_salaries_MD_v2.json")))
    envelope = decode_envelope(sample(name))
    assert (envelope.type, envelope.schema_id, envelope.schema) == ("DT", metadata.schema_id, None)
    change = decode_data(envelope, metadata.data_schema)
    assert (change.operation, change.data, change.before) == ("REFRESH", ROW, None)
    assert (change.change_sequence, change.timestamp, change.stream_position, change.transaction_id) == ("", "", "", "")
    assert (change.change_mask, change.column_mask, change.transaction_event_counter) == (None, None, None)
    assert data_message(metadata, change) == sample("synth_DT_employees_salaries_refresh.avro.bin")
    assert decode_data(decode_envelope(data_message(metadata, change, form="json"))) == change


def test_a_column_that_is_not_in_the_message_has_no_bit_in_the_column_mask() -> None:
    change = decode_data(decode_envelope(sample("oracle_customer_DT_update_noop.json")))
    assert change.data == change.before == {"CUSTOMER_ID": "14", "FIRST_NAME": None, "LAST_NAME": "test2"}
    assert change.column_mask is not None
    assert change.change_mask is not None
    assert decode_mask(change.column_mask) == {1, 3}
    assert decode_mask(change.change_mask) == set()
    assert change.change_sequence == "20190502181731000000000000000000197"


def test_the_change_mask_names_the_columns_that_differ() -> None:
    change = decode_data(decode_envelope(sample("db2_item_DT_update.json")))
    assert change.before is not None
    differ = {place + 1 for place, name in enumerate(change.data) if change.data[name] != change.before[name]}
    assert change.change_mask == b"\x80\x80\x00"
    assert decode_mask(change.change_mask) == differ == {8, 16}
    assert change.column_mask is not None
    assert decode_mask(change.column_mask) == set(range(1, 17))
    assert (change.transaction_event_counter, change.transaction_last_event) == (1, True)


def test_a_sample_without_a_metadata_topic_has_no_schema_id() -> None:
    envelope = decode_envelope(sample("qlik_support_kit_DT_update.json"))
    change = decode_data(envelope)
    assert envelope.schema_id is None
    assert change.data == {"ID": "2", "NAME": "test Kafka", "tableName": "kit"}
    assert change.change_mask is not None
    assert decode_mask(change.change_mask) == {2}


def test_headers_of_a_wide_table_have_masks_of_more_than_64_bits() -> None:
    headers = json.loads(sample("sqlserver_headers_insert.json"))
    envelope = decode_envelope(json.dumps({"data": {}, "beforeData": None, "headers": headers}).encode())
    assert (envelope.type, envelope.schema_id, envelope.form) == ("DT", None, "json")
    change = decode_data(envelope)
    assert change.change_mask == change.column_mask == mask_from_hex(headers["changeMask"])
    assert max(decode_mask(change.change_mask or b"")) == 117
    assert change.stream_position == "000dac8c:000fc98a:0002"


def test_full_load_samples_of_a_wide_table_keep_every_value() -> None:
    for line in sample("secor_refresh_DT.json").splitlines():
        change = decode_data(decode_envelope(line))
        assert (change.operation, len(change.data)) == ("REFRESH", 44)
        assert change.data == json.loads(line)["message"]["data"]


def test_the_newer_schema_of_the_registry_reads_rows() -> None:
    schema = json.loads(sample("datarecord_confluent_variant.avsc"))
    schema["fields"][0]["type"]["fields"] = [{"name": "ID", "type": ["null", "int"], "default": None}]
    text = json.dumps(schema)
    change = dataclasses.replace(
        decode_data(decode_envelope(sample("qlik_support_kit_DT_update.json"))), data={"ID": 2}, before={"ID": 1}
    )
    envelope = decode_envelope(data_message(text, change))
    assert decode_data(envelope, text) == change
    assert isinstance(envelope.message, bytes)
    record = read_avro(text, envelope.message)
    assert (record["data"], record["beforeData"], record["headers"]["changeMask"]) == ({"ID": 2}, {"ID": 1}, b"\x02")


def test_the_envelope_schema_reads_envelopes() -> None:
    for name in ("synth_MD_employees_salaries.avro.bin", "synth_DT_employees_salaries_refresh.avro.bin"):
        envelope = decode_envelope(sample(name))
        record = read_avro(sample("envelope.avsc").decode(), sample(name))
        assert record["type"] == envelope.type
        assert record["messageSchemaId"] == envelope.schema_id
        assert record["messageSchema"] == envelope.schema
        assert record["message"] == envelope.message
