"""What the settings of a table do to its input: columns, names, keys, types, tasks, and the byte order of masks."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from headstream.replicate.codec import ColumnMetadata, Envelope, data_message, data_schema, encode_envelope
from headstream.replicate.codec.avro.schema import parse_schema
from headstream.replicate.codec.avro.values import encode_value
from headstream.replicate.settings.table_settings import TableRule, TableRules
from tests.support.replicate.replicate_messages import (
    COLUMNS,
    make_change,
    make_decoder,
    make_table,
    raw_messages,
    reasons_of,
    rows_of,
)

MANY = (COLUMNS[0], *(ColumnMetadata(f"c{at}", at, "INT4") for at in range(2, 11)))
WIDE = make_table(*MANY)


def partial(number: int, *names: str, order: str = "little", task: str = "t") -> bytes:
    """An update that has the id and some columns only, its masks in a byte order."""
    here = [column for column in MANY if column.name in ("id", *names)]
    mask = sum(1 << column.ordinal - 1 for column in here).to_bytes(2, order)  # type: ignore[arg-type]
    data = {column.name: number for column in here}
    return data_message(make_table(*MANY, task=task), make_change(number, "UPDATE", data=data, column_mask=mask))


def test_decoder_gives_the_columns_that_are_wanted_under_their_new_names(tmp_path: Path) -> None:
    settings = {"include_columns": ("c*",), "exclude_columns": ("c1?", "c3"), "rename_columns": {"c2": "order day"}}
    decoder = make_decoder(tmp_path, WIDE, settings=settings)
    decoded = decoder.decode(raw_messages([partial(5, "c2", "c3", "c4")]))
    (row,) = rows_of(decoded)
    names = [name for name in row if not name.startswith("_hs_")]
    assert names == ["id", "order day", "c4", "c5", "c6", "c7", "c8", "c9"]
    assert (row["id"], row["order day"], row["c4"], row["c5"], row["_hs_columns"]) == (5, 5, 5, None, b"\x0f\x00")


def test_decoder_takes_declared_keys_in_place_of_the_primary_key(tmp_path: Path) -> None:
    decoder = make_decoder(tmp_path, WIDE, settings={"keys": ("c3", "c2")})
    decoded = decoder.decode(raw_messages([partial(5, "c2", "c3"), partial(6, "c2")]))
    assert decoder.schema(WIDE.schema_id).metadata.key_columns == ("c3", "c2")
    assert len(rows_of(decoded)) == 1
    assert "'c3' is null" in reasons_of(decoded)[1]


def test_decoder_takes_a_column_that_a_message_schema_of_its_own_has_not_for_absent(tmp_path: Path) -> None:
    own = make_table(COLUMNS[0]).data_schema
    value = data_message(make_table(), make_change(1, "UPDATE", data={"id": 1}), own_schema=own)
    assert [row["_hs_columns"] for row in rows_of(make_decoder(tmp_path, make_table()).decode(raw_messages([value])))] == [
        b"\x01"
    ]


def test_decoder_gives_datetimes_without_a_zone_and_wide_numbers_as_text_when_told(tmp_path: Path) -> None:
    moment = datetime(2024, 2, 29, 23, 59, 59, 999999, UTC)
    columns = (COLUMNS[0], ColumnMetadata("at", 2, "DATETIME"), ColumnMetadata("big", 3, "NUMERIC", 0, 50, 2))
    table = make_table(*columns)
    value = data_message(
        table, make_change(1, data={"id": 1, "at": moment, "big": Decimal("12345678901234567890123456789012345678901.25")})
    )
    decoder = make_decoder(tmp_path, table, settings={"datetimes": "ntz"})
    (row,) = rows_of(decoder.decode(raw_messages([value])))
    assert (row["at"], row["big"]) == (moment.replace(tzinfo=None), "12345678901234567890123456789012345678901.25")
    assert decoder.schema(table.schema_id).types["at"] == "TIMESTAMP_NTZ"
    refused = make_decoder(tmp_path, table, settings={"decimal_overflow": "error"}).decode(raw_messages([value]))
    assert "NUMERIC(50,2)" in reasons_of(refused)[0]


@pytest.mark.parametrize(("scale", "stored"), [(2, "1.10"), (0, "1")])
def test_decoder_gives_a_wide_number_one_text_whichever_form_it_has(tmp_path: Path, scale: int, stored: str) -> None:
    table = make_table(ColumnMetadata("big", 1, "NUMERIC", 0, 50, scale, 1, False))
    decoder = make_decoder(tmp_path, table)
    written = Decimal(stored)
    avro = data_message(table, make_change(1, data={"big": written}))
    document = json.loads(data_message(table, make_change(1, data={"big": written}), form="json"))
    found = []
    for text in (stored, f"{stored}0" if scale else stored, stored.removesuffix("0"), f"0{stored}"):
        document["message"]["data"]["big"] = text
        found.append(json.dumps(document).encode())
    assert {row["big"] for row in rows_of(decoder.decode(raw_messages([avro, *found])))} == {stored}


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("08:05:01.000000", "08:05:01"),
        ("23:59:59.999000", "23:59:59.999"),
        ("12:00:00.5", "12:00:00.500"),
        ("12:00:00.1234", "12:00:00.123400"),
        ("12:00:00.1234560", "12:00:00.123456"),
        ("12:00:00.1234567", "12:00:00.1234567"),
        ("838:59:59", "838:59:59"),
        ("noon", "noon"),
    ],
)
def test_decoder_spells_a_time_in_one_way_when_it_comes_as_text(tmp_path: Path, written: str, stored: str) -> None:
    table = make_table(COLUMNS[0], ColumnMetadata("at", 2, "TIME"))
    table = replace(table, data_schema=data_schema(table.columns, logical_types=False))
    change = make_change(1, data={"id": 1, "at": written})
    values = [data_message(table, change), data_message(table, change, form="json")]
    decoded = make_decoder(tmp_path, table).decode(raw_messages(values))
    assert [row["at"] for row in rows_of(decoded)] == [stored, stored]


def test_decoder_passes_over_tables_that_are_not_wanted(tmp_path: Path) -> None:
    values = [data_message(make_table(), make_change(1)), data_message(make_table(), make_change(2), form="json")]
    decoded = make_decoder(tmp_path, make_table(), rules=TableRules(exclude=("shop.k*",))).decode(raw_messages(values))
    assert (decoded.unwanted, decoded.message_count, rows_of(decoded), reasons_of(decoded)) == (2, 2, [], {})


def test_rules_apply_in_order_and_the_later_one_wins() -> None:
    rules = TableRules(rules=(TableRule("shop.*", {"scd_type": 2, "deletes": "soft"}), TableRule("*.kit", {"scd_type": 1})))
    settings = rules.settings_of("shop", "kit")
    assert (settings.scd_type, settings.deletes) == (1, "soft")


@pytest.mark.parametrize(
    ("target", "name"),
    [("{schema}.{table}", ("shop", "kit")), ("lake.{task}_{table}", ("lake", "t_kit")), ("all", ("shop", "all"))],
)
def test_decoder_names_the_target_by_its_template(tmp_path: Path, target: str, name: tuple[str, str]) -> None:
    decoder = make_decoder(tmp_path, make_table(), settings={"target": target})
    assert decoder.schema(make_table().schema_id).table == name


def test_decoder_refuses_a_second_task_of_a_table_unless_told(tmp_path: Path) -> None:
    first, second = make_table(), make_table(schema_id="F" * 32, task="other")
    values = [data_message(table, make_change(number)) for number, table in enumerate((first, second), start=1)]
    refused = make_decoder(tmp_path, first, second).decode(raw_messages(values))
    assert [row["name"] for row in rows_of(refused)] == ["n1"]
    assert "captured by the task 't'" in reasons_of(refused)[1]
    for settings in ({"tasks": "all"}, {"target": "{task}.{table}"}):
        assert len(rows_of(make_decoder(tmp_path, first, second, settings=settings).decode(raw_messages(values)))) == 2


def test_decoder_refuses_a_second_table_with_the_same_target(tmp_path: Path) -> None:
    first, second = make_table(), make_table(schema_id="F" * 32, table="other")
    values = [data_message(table, make_change(1)) for table in (first, second)]
    decoded = make_decoder(tmp_path, first, second, settings={"target": "lake.one"}).decode(raw_messages(values))
    assert "already belongs to the source table shop.kit" in reasons_of(decoded)[1]


def test_decoder_gives_all_of_a_change_when_details_are_wanted(tmp_path: Path) -> None:
    change = make_change(1, "UPDATE", before={"id": 1, "name": "old"}, stream_position="p")
    values = [
        data_message(make_table(), change, headers={"who": "me"}),
        data_message(make_table(), change),
        data_message(make_table(), change, headers={"who": "you"}, form="json"),
    ]
    decoded = make_decoder(tmp_path, make_table(), details=True).decode(raw_messages(values))
    rows = rows_of(decoded)
    assert [row["_hs_envelope_headers"] for row in rows] == [[("who", "me")], None, [("who", "you")]]
    assert {(row["_hs_before_name"], row["_hs_timestamp"], row["_hs_stream_position"]) for row in rows} == {
        ("old", change.timestamp, "p")
    }


def test_decoder_counts_the_times_that_a_table_cuts_and_keeps_them_when_they_are_text(tmp_path: Path) -> None:
    table = make_table(COLUMNS[0], ColumnMetadata("at", 2, "DATETIME"))
    table = replace(table, data_schema=data_schema(table.columns, logical_types=False))
    spellings = ["2024-02-29 23:59:59.1234567", "2024-02-29 23:59:59.1234560", "2024-02-29T23:59:59Z"]
    values = [data_message(table, make_change(n, data={"id": n, "at": text})) for n, text in enumerate(spellings)]
    decoded = make_decoder(tmp_path / "cut", table).decode(raw_messages(values))
    assert [row["at"].microsecond for row in rows_of(decoded)] == [123456, 123456, 0]
    assert decoded.findings == {"table shop.kit: times of column 'at' are more precise than a microsecond, and were truncated": 1}
    decoded = make_decoder(tmp_path / "text", table, settings={"datetimes": "text"}).decode(raw_messages(values))
    texts = ["2024-02-29 23:59:59.1234567", "2024-02-29 23:59:59.123456", "2024-02-29 23:59:59.000000"]
    assert ([row["at"] for row in rows_of(decoded)], decoded.findings) == (texts, {})


def test_decoder_reads_nanoseconds_and_refuses_finer_times_than_a_microsecond_in_a_key(tmp_path: Path) -> None:
    table = make_table(ColumnMetadata("at", 1, "DATETIME", primary_key_position=1))
    table = replace(table, data_schema=table.data_schema.replace("timestamp-micros", "timestamp-nanos"))
    times_ns = (1_700_000_000_123_456_000, -1_000, -1)
    values = [data_message(table, make_change(number, data={"at": time_ns})) for number, time_ns in enumerate(times_ns)]
    decoded = make_decoder(tmp_path, table).decode(raw_messages(values))
    moments = [datetime(2023, 11, 14, 22, 13, 20, 123456, UTC), datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)]
    assert [row["at"] for row in rows_of(decoded)] == moments
    assert list(reasons_of(decoded)) == [2]
    texts = make_decoder(tmp_path / "text", table, settings={"datetimes": "text"}).decode(raw_messages(values))
    assert [row["at"] for row in rows_of(texts)][-1] == "1969-12-31 23:59:59.999999999"


@pytest.mark.parametrize("kind", ["long", "boolean", {"type": "long", "logicalType": "timestamp-micros"}, "bytes"])
def test_decoder_reads_avro_headers_of_other_types_when_no_table_needs_them(tmp_path: Path, kind: Any) -> None:
    table = make_table()
    schema = json.loads(table.data_schema)
    headers = {header["name"]: header for header in schema["fields"][2]["type"]["fields"]}
    for name in ("timestamp", "streamPosition", "transactionId"):
        headers[name]["type"] = kind
    table = replace(table, data_schema=json.dumps(schema))
    value = {"long": 5, "boolean": True, "bytes": b"\xff"}.get(kind if isinstance(kind, str) else "long")
    record: dict[str, Any] = {
        "data": {"id": 1, "name": "x"},
        "beforeData": None,
        "headers": {"operation": "INSERT", "changeSequence": "1"},
    }
    record["headers"] |= dict.fromkeys(("timestamp", "streamPosition", "transactionId"), value)
    message = encode_envelope(Envelope("DT", encode_value(parse_schema(table.data_schema), record), None, table.schema_id))
    for details in (False, True):
        decoded = make_decoder(tmp_path / str(details), table, details=details).decode(raw_messages([message]))
        assert ([row["name"] for row in rows_of(decoded)], reasons_of(decoded)) == (["x"], {})
