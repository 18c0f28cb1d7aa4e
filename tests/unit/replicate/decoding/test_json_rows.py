"""JSON as Replicate has written it over the years: with and without envelope, sections renamed and flattened, the flat form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headstream.replicate.codec import ColumnMetadata, TableMetadata
from tests.support.replicate.replicate_messages import make_decoder, make_table, raw_messages, reasons_of, rows_of, waiting_of

TABLE = make_table()
TOPICS = {"cdc/{schema}.{table}": "{schema}.{table}", "cdc/*": "shop.kit"}
HEADERS = {"operation": "UPDATE", "changeSequence": f"{7:035d}", "timestamp": "", "streamPosition": "", "transactionId": ""}
ROW = {"id": 7, "name": "x"}


@pytest.mark.parametrize(
    ("topic", "table"), [("cdc/shop.kit", "kit"), ("cdc/shop.with.dots", "with.dots"), ("cdc/orders", "kit")]
)
def test_decoder_finds_the_table_of_a_topic_by_pattern(tmp_path: Path, topic: str, table: str) -> None:
    tables = [make_table(), make_table(schema_id="F" * 32, table="with.dots")]
    value = json.dumps({"data": ROW, "beforeData": None, "headers": HEADERS}).encode()
    decoded = make_decoder(tmp_path, *tables, topic_tables=TOPICS).decode(raw_messages([value], topic=topic))
    (schema_id,) = decoded.changes
    assert schema_id == next(one.schema_id for one in tables if one.lineage.table == table)


def test_decoder_reads_by_the_newest_schema_of_a_table_that_came_meanwhile(tmp_path: Path) -> None:
    value = json.dumps({"data": ROW, "beforeData": None, "headers": HEADERS}).encode()
    decoder = make_decoder(tmp_path, topic_tables=TOPICS)
    waiting = decoder.decode(raw_messages([value]))
    assert waiting_of(waiting) == {0: "table:shop/kit"}
    for version, schema_id in enumerate(("A" * 32, "B" * 32), start=1):
        make_decoder(tmp_path, make_table(schema_id=schema_id, table_version=version))
        assert list(decoder.decode(raw_messages([value])).changes) == [schema_id]


def test_decoder_refuses_json_of_a_topic_that_no_pattern_fits(tmp_path: Path) -> None:
    value = json.dumps({"data": ROW, "beforeData": None, "headers": HEADERS}).encode()
    decoded = make_decoder(tmp_path, TABLE, topic_tables={"cdc/orders": "shop.kit"}).decode(raw_messages([value]))
    assert "topic_tables" in reasons_of(decoded)[0]


def test_decoder_takes_a_column_that_a_json_row_does_not_name_for_absent(tmp_path: Path) -> None:
    document = {"data": {"id": 7}, "beforeData": None, "headers": HEADERS}
    decoded = make_decoder(tmp_path, TABLE, topic_tables=TOPICS).decode(raw_messages([json.dumps(document).encode()]))
    assert [row["_hs_columns"] for row in rows_of(decoded)] == [b"\x01"]


def test_decoder_takes_a_deletion_whose_row_stands_in_before_data_alone(tmp_path: Path) -> None:
    document = {"data": None, "beforeData": ROW, "headers": HEADERS | {"operation": "DELETE"}}
    decoded = make_decoder(tmp_path, TABLE, topic_tables=TOPICS).decode(raw_messages([json.dumps(document).encode()]))
    assert [row["id"] for row in rows_of(decoded)] == [7]


@pytest.mark.parametrize(
    "broken",
    [
        {"schema": 1, "table": "kit", "op": "U", "change_seq": "1", "data": []},
        {"schema": "s", "table": "kit", "op": "X", "change_seq": "1", "data": []},
        {"schema": "s", "table": "kit", "op": "U", "change_seq": "1", "data": [{"a": 1}, {"a": 2}]},
        {"schema": "s", "table": "kit", "op": "U", "change_seq": "1", "data": [5]},
    ],
)
def test_decoder_refuses_a_broken_flat_message(tmp_path: Path, broken: dict[str, Any]) -> None:
    decoded = make_decoder(tmp_path, TABLE).decode(raw_messages([json.dumps(broken).encode()]))
    assert "flat message" in reasons_of(decoded)[0]


def make_version(number: int, *names: str) -> TableMetadata:
    columns = [ColumnMetadata("id", 1, "INT4", primary_key_position=1)]
    columns += [ColumnMetadata(name, place, "WSTRING", 20) for place, name in enumerate(names, start=2)]
    return make_table(*columns, schema_id=str(number) * 32, table_version=number)


def test_decoder_lets_a_row_without_id_wait_when_a_known_column_differs_from_its_own_only_in_case(tmp_path: Path) -> None:
    decoder = make_decoder(tmp_path, make_version(1, "name"), topic_tables=TOPICS)
    document = {"data": {"id": 7, "NAME": "x"}, "headers": HEADERS}
    decoded = decoder.decode(raw_messages([json.dumps(document).encode()]))
    assert (reasons_of(decoded), list(waiting_of(decoded))) == ({}, [0])


def test_decoder_reads_a_partial_row_without_id_by_the_version_that_its_mask_fits(tmp_path: Path) -> None:
    """`b` has another ordinal after the ALTER, which the mask of the older row does not have."""
    document = {"data": {"id": 7, "b": "x"}, "headers": {**HEADERS, "columnMask": "05"}}
    decoder = make_decoder(tmp_path, make_version(1, "a", "b"), make_version(2, "b", "c"), topic_tables=TOPICS)
    decoded = decoder.decode(raw_messages([json.dumps(document).encode()]))
    (row,) = rows_of(decoded)
    assert (row["b"], row["_hs_columns"], decoded.findings) == ("x", b"\x05", {})
