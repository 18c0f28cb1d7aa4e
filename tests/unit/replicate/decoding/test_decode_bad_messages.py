"""Each kind of bad message is set aside with its reason and its bytes, and the rest goes on."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from headstream.replicate.codec import ColumnMetadata, data_message, metadata_message
from tests.support.replicate.replicate_messages import (
    COLUMNS,
    ID,
    make_change,
    make_decoder,
    make_table,
    raw_messages,
    reasons_of,
    rows_of,
)

TABLE = make_table()
OTHER = make_table(COLUMNS[0], ColumnMetadata("name", 2, "BOOLEAN"))  # under the same schema id
GOOD = data_message(TABLE, make_change(1))
BAD = {
    "wrong magic": (b"atMSX" + GOOD[5:], "must begin with 'atMSG'"),
    "cut short": (GOOD[:-3], "envelope's message"),
    "cut short row": (data_message(TABLE, make_change(1))[:44] + b"\x04\x02\x02", "data.name"),
    "unknown type": (GOOD.replace(b"\x04DT", b"\x04XX", 1), "unknown type"),
    "neither schema id nor schema": (data_message(TABLE, make_change(1), schema_id=None), "neither a schema id nor"),
    "a schema that does not parse": (GOOD[:43] + b"\x02" + b"\x0a{oops" + GOOD[44:], "not JSON"),
    "a row that does not fit": (data_message(OTHER, make_change(1, data={"id": 1, "name": True})), "data.name"),
    "null key": (data_message(TABLE, make_change(1, data={"id": None, "name": "x"})), "key column 'id' is null"),
    "null sequence": (data_message(TABLE, make_change(1, change_sequence="")), "no change sequence"),
    "unknown operation": (
        data_message(TABLE, make_change(1), form="json").replace(b"INSERT", b"UPSERT"),
        "data message has the unknown operation 'UPSERT'",
    ),
    "mask wider than the table": (data_message(TABLE, make_change(1, column_mask=b"\x07")), "for which the table has no column"),
    "change mask wider than the table": (
        data_message(TABLE, make_change(1, change_mask=b"\x80")),
        "for which the table has no column",
    ),
}


@pytest.mark.parametrize(("value", "reason"), BAD.values(), ids=list(BAD))
def test_decoder_sets_a_bad_message_aside_and_goes_on(tmp_path: Path, value: bytes, reason: str) -> None:
    values = [GOOD, value, data_message(TABLE, make_change(2))]
    decoded = make_decoder(tmp_path, TABLE).decode(raw_messages(values))
    assert [row["name"] for row in rows_of(decoded)] == ["n1", "n2"]
    assert list(reasons_of(decoded)) == [1]
    assert reason in reasons_of(decoded)[1]
    (dead,) = [row for batch in decoded.dead for row in batch.to_pylist()]
    assert dead["payload"] == value


@pytest.mark.parametrize("form", ["avro", "json"])
def test_decoder_refuses_a_decimal_that_does_not_fit(tmp_path: Path, form: str) -> None:
    wide = make_table(COLUMNS[0], ColumnMetadata("total", 2, "NUMERIC", 0, 12, 2))
    narrow = replace(wide, columns=(COLUMNS[0], ColumnMetadata("total", 2, "NUMERIC", 0, 6, 2)))
    values = [
        data_message(wide, make_change(number, data={"id": number, "total": Decimal(total)}), form=form)  # type: ignore[arg-type]
        for number, total in ((1, "9999.99"), (2, "10000.00"), (3, "-1.50"))
    ]
    decoded = make_decoder(tmp_path, narrow).decode(raw_messages(values))
    assert [str(row["total"]) for row in rows_of(decoded)] == ["9999.99", "-1.50"]
    assert "column 'total'" in reasons_of(decoded)[1]


@pytest.mark.parametrize(
    ("kind", "written", "values"),
    [
        ("UINT1", "INT4", (0, 255, -1, 256)),
        ("UINT2", "INT4", (0, 65_535, -1, 65_536)),
        ("UINT4", "INT8", (0, 2**32 - 1, -1, 2**32)),
        ("UINT8", "NUMERIC", (Decimal(0), Decimal(2**64 - 1), Decimal(-1), Decimal(2**64))),
        ("DATE", "INT4", (-719_162, 2_932_896, -719_163, 2**31 - 1)),
        ("DATETIME", "INT8", (-62_135_596_800_000_000, 253_402_300_799_999_999, -62_135_596_800_000_001, 2**63 - 1)),
    ],
)
def test_decoder_refuses_what_the_type_of_the_source_does_not_hold(
    tmp_path: Path, kind: str, written: str, values: tuple[int | Decimal, ...]
) -> None:
    source = make_table(COLUMNS[0], ColumnMetadata("value", 2, written, precision=20))
    messages = [data_message(source, make_change(at, data={"id": at, "value": value})) for at, value in enumerate(values)]
    table = replace(source, columns=(COLUMNS[0], ColumnMetadata("value", 2, kind)))
    decoded = make_decoder(tmp_path, table).decode(raw_messages(messages))
    assert [row["id"] for row in rows_of(decoded)] == [0, 1]
    assert list(reasons_of(decoded)) == [2, 3]
    assert all("'value': a value must be" in reason for reason in reasons_of(decoded).values())


def test_decoder_refuses_rows_of_a_schema_in_the_zone_that_does_not_parse(tmp_path: Path) -> None:
    broken = replace(TABLE, data_schema='{"type": "record"')
    other = make_table(schema_id="F" * 32, table="other")
    values = [GOOD, data_message(other, make_change(2))]
    decoded = make_decoder(tmp_path, broken, other).decode(raw_messages(values))
    assert [row["name"] for row in rows_of(decoded)] == ["n2"]
    assert "not JSON" in reasons_of(decoded)[0]
    assert "shop.kit" in reasons_of(decoded)[0]


def test_decoder_refuses_a_json_row_with_a_column_that_its_schema_has_not(tmp_path: Path) -> None:
    document = json.loads(data_message(TABLE, make_change(1), form="json"))
    document["message"]["data"]["surprise"] = 7
    decoded = make_decoder(tmp_path, TABLE).decode(raw_messages([json.dumps(document).encode()]))
    assert "'surprise'" in reasons_of(decoded)[0]


def test_decoder_takes_metadata_of_columns_whose_names_are_those_of_its_own_records(tmp_path: Path) -> None:
    names = ("Lineage", "TableStructure", "TableColumns", "MetadataMessage", "Data", "order date", "a-b", "1st", "é")
    columns = [ColumnMetadata(name, at, "INT4", primary_key_position=int(at == 1)) for at, name in enumerate(names, start=1)]
    table = make_table(*columns)
    assert reasons_of(make_decoder(tmp_path).decode(raw_messages([metadata_message(table)]))) == {}
    row = {name: at for at, name in enumerate(names)}
    decoded = make_decoder(tmp_path, table).decode(raw_messages([data_message(table, make_change(1, data=row))]))
    (found,) = rows_of(decoded)
    assert {name: found[name] for name in names} == row
    assert table.schema_id == ID


def test_decoder_gives_up_rows_whose_text_no_partition_has(tmp_path: Path) -> None:
    decoder = make_decoder(tmp_path, TABLE, settings={"partition_by": ("name",)})
    names = ["a", "", None, "Zürich", "x" * 300]
    messages = [data_message(TABLE, make_change(number, data={"id": number, "name": name})) for number, name in enumerate(names)]
    messages.append(data_message(TABLE, make_change(5, "DELETE", data={"id": 5, "name": ""})))
    decoded = decoder.decode(raw_messages(messages))
    assert {offset: reason[:16] for offset, reason in reasons_of(decoded).items()} == {
        1: "column 'name': a",
        4: "column 'name': '",
    }
    assert [(row["id"], row["name"]) for row in rows_of(decoded)] == [(0, "a"), (2, None), (3, "Zürich"), (5, None)]


def test_decoder_gives_up_rows_whose_text_no_partition_has_after_the_column_was_renamed_in_case(tmp_path: Path) -> None:
    renamed = make_table(COLUMNS[0], replace(COLUMNS[1], name="NAME"), schema_id="F" * 32, table_version=2)
    decoder = make_decoder(tmp_path, TABLE, renamed, settings={"partition_by": ("name",)})
    message = data_message(renamed, make_change(1, data={"id": 1, "NAME": ""}))
    assert "stores it as null" in reasons_of(decoder.decode(raw_messages([message])))[0]


@pytest.mark.parametrize("form", ["avro", "json"])
def test_decoder_gives_up_an_empty_key_that_a_table_is_partitioned_by(tmp_path: Path, form: Any) -> None:
    table = make_table(COLUMNS[0], replace(COLUMNS[1], primary_key_position=2))
    decoder = make_decoder(tmp_path, table, settings={"partition_by": ("name",)})
    changes = [make_change(1, data={"id": 1, "name": ""}), make_change(2), make_change(3, "DELETE", data={"id": 3, "name": ""})]
    decoded = decoder.decode(raw_messages([data_message(table, change, form=form) for change in changes]))
    assert sorted(reasons_of(decoded)) == [0, 2]
    assert all("stores it as null" in reason for reason in reasons_of(decoded).values())
