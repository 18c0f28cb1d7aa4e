"""Debezium's messages become the same changes as Replicate's; real ones of a PostgreSQL among them."""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.settings.debezium_settings import DebeziumSettings
from headstream.replicate.settings.registry_settings import RegistrySettings
from headstream.replicate.settings.table_settings import TableRules
from tests.support.replicate.debezium_messages import AvroWriter, envelope, key_of, read_sample, with_headers
from tests.support.replicate.replicate_messages import make_decoder, raw_messages, reasons_of, rows_of

INSERT, UPDATE, DELETE, REFRESH = range(4)


def decode(directory: Path, *values: bytes | None, headers: dict[int, dict[str, bytes]] | None = None, **options: Any) -> Decoded:
    keys = options.pop("keys", [key_of(id=1)] * len(values))
    decoder = make_decoder(directory, **{"debezium": DebeziumSettings(), **options})
    return decoder.decode(with_headers(raw_messages(values, keys=keys, topic="shop/shop.kit"), headers or {}))


def test_decoder_reads_real_messages_of_a_postgresql(tmp_path: Path) -> None:
    keys, values = read_sample()
    decoded = decode(tmp_path, *values, keys=keys)
    rows = {row["_hs_offset"]: row for row in rows_of(decoded)}
    assert (decoded.message_count, decoded.tombstones, reasons_of(decoded)) == (24, 2, {})
    expected = {
        "free": "0.0015", "born": dt.date(1999, 12, 31), "seen": dt.datetime(2024, 5, 1, 10, 0, 0, 123456, dt.UTC),
        "local": dt.datetime(2024, 5, 1, 12, 0, 0, 654321, dt.UTC), "at": "23:59:59.999999", "active": True,
        "tags": '["a","b",null]', "raw": b"\xde\xad\xbe\xef", "m": "ok", "span": 93_784_000_000, "x": 1.5,
    }  # fmt: skip
    assert {name: rows[1][name] for name in expected} == expected
    assert rows[1]["y"] != rows[1]["y"]
    assert rows[0]["balance"] == Decimal("123456789012345678.91")
    assert [rows[offset]["_hs_operation"] for offset in sorted(rows)] == [3, 3, 3, 3, 1, 2, 0, 0, 2, 0, 1]
    changes = [rows[offset]["_hs_sequence"] for offset in sorted(rows) if rows[offset]["_hs_operation"] != REFRESH]
    assert changes == sorted(changes)
    (truncation,) = [notice for notice in decoded.notices if notice.kind == "truncated"]
    assert (truncation.table, truncation.sequence > max(changes)) == ("orders", True)


def test_decoder_reads_messages_without_a_schema_with_inferred_types_and_a_warning(tmp_path: Path) -> None:
    keys, values = read_sample(schemas=False)
    decoded = decode(tmp_path, *values, keys=keys)
    rows = {row["_hs_offset"]: row for row in rows_of(decoded)}
    assert (decoded.message_count, reasons_of(decoded), len(rows)) == (24, {}, 11)
    assert (rows[1]["name"], rows[1]["born"], rows[1]["x"], rows[16]["extra"]) == ("Bob", 10956, 1.5, 7)
    assert "types are inferred" in " ".join(decoded.findings)


@pytest.mark.parametrize("mark", ["__debezium_unavailable_value", "é"])
def test_a_value_that_was_not_sent_is_absent_in_every_form_that_debezium_gives_it(tmp_path: Path, mark: str) -> None:
    content = mark.encode()
    bytes_of_java = [byte if byte < 128 else byte - 256 for byte in content]
    decimal = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    kinds: list[tuple[dict[str, Any], Any, Any]] = [
        ({"type": "string"}, "x", mark),
        ({"type": "string", "name": "io.debezium.data.Json"}, "{}", f'{{"{mark}":"{mark}"}}'),
        ({"type": "bytes"}, "AQ==", base64.b64encode(content).decode()),
        ({"type": "array", "items": {"type": "string"}}, ["y"], [mark]),
        ({"type": "array", "items": {"type": "int32"}}, [1], bytes_of_java),
        ({"type": "array", "items": {"type": "double"}}, [1.5], list(map(float, bytes_of_java))),
        ({"type": "array", "items": decimal}, ["AQ=="], [base64.b64encode(bytes([byte])).decode() for byte in content]),
    ]
    fields = [{"type": "int64", "field": "id"}, *({**kind, "field": f"c{at}"} for at, (kind, _, _) in enumerate(kinds))]
    sent = {"id": 1, **{f"c{at}": value for at, (_, value, _) in enumerate(kinds)}}
    values = [envelope("u", {**sent, f"c{at}": absent}, fields=fields, lsn=2) for at, (_, _, absent) in enumerate(kinds)]
    found = rows_of(
        decode(tmp_path, envelope("u", sent, fields=fields, lsn=1), *values, debezium=DebeziumSettings(placeholder=mark))
    )
    assert [row["_hs_columns"] for row in found] == [None, *(bytes([0xFF & ~(2 << at)]) for at in range(len(kinds)))]


def test_a_configured_placeholder_replaces_the_usual_one(tmp_path: Path) -> None:
    values = [envelope("u", {"id": 1, "a": text}, lsn=1) for text in ("gone", "__debezium_unavailable_value")]
    found = rows_of(decode(tmp_path, *values, debezium=DebeziumSettings(placeholder="gone")))
    assert [(row["a"], row["_hs_columns"]) for row in found] == [(None, b"\x01"), ("__debezium_unavailable_value", None)]


def test_a_deletion_with_its_key_alone_has_no_other_columns(tmp_path: Path) -> None:
    bare, whole = (envelope("d", None, {"id": 1, "a": value}, lsn=1, fields=FIELDS) for value in (None, "x"))
    assert [(row["id"], row["_hs_columns"]) for row in rows_of(decode(tmp_path, bare, whole))] == [(1, b"\x01"), (1, None)]


@pytest.mark.parametrize(
    ("kind", "filler", "value"),
    [
        ({"type": "int32"}, 0, 5),
        ({"type": "int32", "name": "io.debezium.time.Date"}, 0, 7),
        ({"type": "string"}, "", "x"),
        ({"type": "boolean", "default": True}, True, False),
        ({"type": "double"}, 0.0, 0.5),
        ({"type": "array", "items": {"type": "string"}}, [], ["x"]),
    ],
)
def test_a_bare_deletion_has_no_other_columns_when_debezium_fills_not_null_ones(
    tmp_path: Path, kind: dict[str, Any], filler: object, value: object
) -> None:
    fields = [*FIELDS, {**kind, "optional": False, "field": "b"}]
    before = [{"id": 1, "a": None, "b": filler}, {"id": 1, "a": None, "b": value}, {"id": 1, "a": "x", "b": filler}]
    found = rows_of(decode(tmp_path, *(envelope("d", None, row, lsn=1, fields=fields) for row in before)))
    assert [row["_hs_columns"] for row in found] == [b"\x01", None, None]


FIELDS: list[dict[str, Any]] = [{"type": "int64", "field": "id"}, {"type": "string", "optional": True, "field": "a"}]


def test_a_change_of_key_is_one_update_that_names_the_old_key(tmp_path: Path) -> None:
    values = [
        envelope("d", None, {"id": 1, "a": None}, lsn=9, fields=FIELDS),
        None,
        envelope("c", {"id": 3, "a": "__debezium_unavailable_value"}, lsn=9, fields=FIELDS),
    ]
    old = json.dumps({"schema": {"type": "struct"}, "payload": {"id": 1}}).encode()
    headers = {0: {"__debezium.newkey": key_of(id=3)}, 2: {"__debezium.oldkey": old}}
    decoded = decode(tmp_path, *values, headers=headers, keys=[key_of(id=1), key_of(id=1), key_of(id=3)])
    (row,) = rows_of(decoded)
    assert (row["_hs_operation"], row["id"], row["_hs_old.id"], row["_hs_columns"]) == (UPDATE, 3, 1, b"\x01")
    assert (decoded.unwanted, decoded.tombstones, decoded.message_count) == (1, 1, 3)


def test_an_incremental_snapshot_gives_insertions_at_their_position(tmp_path: Path) -> None:
    values = [envelope("r", {"id": 1}, lsn=7, snapshot=kind) for kind in ("true", "incremental")]
    assert [(row["_hs_operation"], row["_hs_sequence"] != "") for row in rows_of(decode(tmp_path, *values))] == [
        (REFRESH, False),
        (INSERT, True),
    ]


MYSQL = {"connector": "mysql", "file": "bin.3", "pos": 7, "row": 0}


@pytest.mark.parametrize(
    ("read", "changed"),
    [({"sequence": '["5","7"]'}, {"sequence": '["5","7"]', "lsn": 7}), ({"sequence": '[null,"7"]'}, {"lsn": 7}), (MYSQL, MYSQL)],
)
def test_a_change_wins_over_the_row_of_an_incremental_snapshot_at_its_position(
    tmp_path: Path, read: dict[str, Any], changed: dict[str, Any]
) -> None:
    values = [envelope("r", {"id": 1}, snapshot="incremental", **read), envelope("u", {"id": 1}, **changed)]
    decoded = decode(tmp_path, *values)
    first, second = (row["_hs_sequence"] for row in rows_of(decoded))
    assert (reasons_of(decoded), first < second) == ({}, True)


def test_the_marked_rows_of_a_snapshot_begin_and_end_a_load(tmp_path: Path) -> None:
    marks = ("first_in_data_collection", "true", "last_in_data_collection", "first", "last", "incremental")
    decoded = decode(tmp_path, *(envelope("r", {"id": 1}, lsn=7, snapshot=mark) for mark in marks))
    assert sorted(notice.kind for notice in decoded.notices) == ["load", "load", "loaded", "loaded"]


def test_one_bad_value_rejects_one_message(tmp_path: Path) -> None:
    good = envelope("c", {"id": 1, "a": 1.5}, lsn=1)
    values = [good, good.replace(b"1.5", b'"x"'), good.replace(b"1.5", b'"-Infinity"'), b'{"schema":1,', b"\0\0\0\0\1x", good]
    decoded = decode(tmp_path, *values)
    assert [row["a"] for row in rows_of(decoded)] == [1.5, float("-inf"), 1.5]
    assert sorted(reasons_of(decoded)) == [1, 3, 4]


def test_messages_are_read_whatever_white_space_and_order_of_members_they_have(tmp_path: Path) -> None:
    usual = [envelope("c", {"id": number, "name": "a b"}, lsn=number) for number in range(1, 6)]
    documents = [json.loads(text) for text in usual]
    swapped = {"payload": documents[2]["payload"], "schema": documents[2]["schema"]}
    without = {"schema": None, "payload": documents[4]["payload"]}
    spelled = [
        usual[0],
        *(json.dumps(one).encode() for one in (documents[1], swapped)),
        json.dumps(documents[3], indent=2).encode(),
    ]
    decoded = decode(tmp_path, *spelled, json.dumps(without).encode())
    assert (reasons_of(decoded), decoded.unwanted) == ({}, 0)
    assert sorted((row["id"], row["name"]) for row in rows_of(decoded)) == [(number, "a b") for number in range(1, 6)]


def test_a_key_that_cannot_be_read_rejects_its_message_unless_the_settings_name_a_key(tmp_path: Path) -> None:
    values = [envelope("c", {"id": number}, lsn=number) for number in (1, 2, 3)]
    keys = [b"Struct{id=1}", b"", key_of(id=3)]
    decoded = decode(tmp_path / "a", *values, keys=keys)
    assert {row["id"]: "_hs_old.id" in row for row in rows_of(decoded)} == {2: False, 3: True}
    assert "the record key" in reasons_of(decoded)[0]
    declared = decode(tmp_path / "b", *values, keys=keys, settings={"keys": ("id",)})
    assert [("_hs_old.id" in row) for row in rows_of(declared)] == [True] * 3


def test_keys_of_one_batch_have_their_own_columns_when_the_primary_key_has_changed(tmp_path: Path) -> None:
    values = [envelope("c", {"id": number, "no": number}, lsn=number) for number in (1, 2, 3)]
    decoded = decode(tmp_path, *values, keys=[key_of(id=1), key_of(id=2, no=2), key_of(id=3)])
    assert {row["id"]: "_hs_old.no" in row for row in rows_of(decoded)} == {1: False, 2: True, 3: False}


def test_a_number_keeps_all_of_its_digits(tmp_path: Path) -> None:
    digits = "123456789" * 500
    content = base64.b64encode(int(digits[:4000]).to_bytes(2000, "big")).decode()
    fields: list[dict[str, Any]] = [{"type": "int64", "field": "id"}, {
        "type": "struct", "field": "n", "name": "io.debezium.data.VariableScaleDecimal",
        "fields": [{"type": "int32", "field": "scale"}, {"type": "bytes", "field": "value"}],
    }]  # fmt: skip
    (row,) = rows_of(decode(tmp_path, envelope("c", {"id": 1, "n": {"scale": 3, "value": content}}, fields=fields, lsn=1)))
    assert row["n"] == f"{digits[:3997]}.{digits[3997:4000]}"


def test_a_time_of_mysql_can_be_negative_and_longer_than_a_day(tmp_path: Path) -> None:
    fields = [{"type": "int64", "field": "id"}, {"type": "int64", "name": "io.debezium.time.MicroTime", "field": "t"}]
    micros = [-1, -500_000, -3_020_399_000_000, 3_020_399_000_000, 0]
    found = rows_of(decode(tmp_path, *(envelope("c", {"id": 1, "t": each}, fields=fields, lsn=1) for each in micros)))
    assert [row["t"] for row in found] == ["-00:00:00.000001", "-00:00:00.5", "-838:59:59", "838:59:59", "00:00:00"]


def test_heartbeats_and_changes_of_unselected_tables_are_counted(tmp_path: Path) -> None:
    values = [b'{"ts_ms":1}', b'{"source":{},"databaseName":"x","ddl":"drop"}', envelope("c", {"id": 1}, lsn=1), envelope("m")]
    rules = TableRules(exclude=("shop.kit",))
    decoded = decode(tmp_path, *values, rules=rules)
    assert (decoded.unwanted, decoded.message_count, reasons_of(decoded)) == (4, 4, {})


def test_topics_that_are_not_named_have_messages_of_replicate(tmp_path: Path) -> None:
    settings = DebeziumSettings(topics=("shop.other*",))
    reasons = reasons_of(decode(tmp_path, envelope("c", {"id": 1}, lsn=1), debezium=settings))
    assert "not a Replicate message" in reasons[0]


def test_the_end_of_a_transaction_is_an_event_after_its_changes(tmp_path: Path) -> None:
    keys, values = read_sample()
    decoder = make_decoder(tmp_path, debezium=DebeziumSettings(), atomic=True)
    events = [
        row
        for batch in decoder.decode(raw_messages(values, keys=keys, topic="shop/transaction")).events
        for row in batch.to_pylist()
    ]
    assert {"key": "debezium/shop/746", "event": 5, "last": True} in events
    assert {"key": "debezium/shop/751", "event": 1, "last": None} in events, "a truncation counts"


@pytest.mark.parametrize(
    ("connector", "first", "second"),
    [
        ("postgresql", {"lsn": 100, "sequence": '["90","100"]'}, {"lsn": 95, "sequence": '["120","95"]'}),
        ("postgresql", {"lsn": 100, "sequence": '[null,"100"]'}, {"lsn": 95, "sequence": '["120","95"]'}),
        ("mysql", {"file": "binlog.000009", "pos": 999, "row": 0}, {"file": "binlog.000010", "pos": 4, "row": 0}),
        ("mariadb", {"file": "m.000001", "pos": 10, "row": 9}, {"file": "m.000001", "pos": 10, "row": 10}),
        (
            "sqlserver",
            {"commit_lsn": "00000027:00000758:0005", "change_lsn": "00000027:00000758:0003", "event_serial_no": 1},
            {"commit_lsn": "00000027:00000758:0005", "change_lsn": "00000027:00000758:0003", "event_serial_no": 2},
        ),
        ("oracle", {"scn": "99", "commit_scn": "1000"}, {"scn": "98", "commit_scn": "1001"}),
    ],
)
def test_changes_have_the_order_of_their_connector(
    tmp_path: Path, connector: str, first: dict[str, Any], second: dict[str, Any]
) -> None:
    values = [envelope("u", {"id": 1}, connector=connector, **place) for place in (first, second)]
    sequences = [row["_hs_sequence"] for row in rows_of(decode(tmp_path, *values))]
    assert [len(text) for text in sequences] == [35, 35]
    assert sequences[0] < sequences[1]


def test_a_connector_without_an_order_needs_the_setting(tmp_path: Path) -> None:
    value = envelope("u", {"id": 1}, connector="db2", ts_ns=5)
    assert "debezium.sequence" in reasons_of(decode(tmp_path / "a", value))[0]
    (row,) = rows_of(decode(tmp_path / "b", value, debezium=DebeziumSettings(sequence=("ts_ns",))))
    assert row["_hs_sequence"].startswith("0000000000000005")


def flattened(row: dict[str, Any], operation: str, **added: Any) -> bytes:
    """A message of ExtractNewRecordState for the table shop.kit; what is added is None where a field is left out."""
    place: dict[str, Any] = {"op": operation, "connector": "postgresql", "name": "shop", "schema": "shop", "table": "kit"}
    place |= {"source_ts_ms": 1, "deleted": str(operation == "d").lower(), **added}
    extra = {f"__{name}": value for name, value in place.items() if value is not None}
    members = [*FIELDS, *({"type": "int64" if isinstance(v, int) else "string", "field": name} for name, v in extra.items())]
    schema = {"type": "struct", "name": "shop.shop.kit.Value", "fields": members}
    return json.dumps({"schema": schema, "payload": {**row, **extra}}, separators=(",", ":")).encode()


@pytest.mark.parametrize("form", ["json", "json with one text among numbers", "avro"])
def test_flattened_messages_with_their_operation_and_position_are_the_changes_of_envelopes(tmp_path: Path, form: str) -> None:
    rows: list[tuple[str, dict[str, Any]]] = [
        ("c", {"id": 1, "a": "x"}),
        ("u", {"id": 1, "a": "__debezium_unavailable_value"}),
        ("d", {"id": 1, "a": None}),
    ]
    whole, flat = list[bytes](), list[bytes]()
    for lsn, (operation, row) in enumerate(rows, start=1):
        before, after = (row, None) if operation == "d" else (None, row)
        whole.append(envelope(operation, after, before, fields=FIELDS, lsn=lsn))
        flat.append(flattened(row, operation, lsn=lsn))
    wanted = decode(tmp_path / "whole", *whole)
    options: dict[str, Any] = {"debezium": DebeziumSettings(flattened="__")}
    if form == "avro":
        writer, keys = AvroWriter(tmp_path), [key_of(id=1)] * 3
        options |= {"registry": RegistrySettings(directory=tmp_path), "keys": keys}
        found = decode(tmp_path, *map(writer.framed, flat), **options)
    else:
        bad = [] if form == "json" else [flat[0].replace(b'"id":1', b'"id":"x"')]
        found = decode(tmp_path, *flat, *bad, **options)
        assert list(reasons_of(found)) == [3] * len(bad)
    assert rows_of(found) == rows_of(wanted)


def test_flattened_messages_that_cannot_be_applied_are_rejected_with_the_reason(tmp_path: Path) -> None:
    row = {"id": 1, "a": "x"}
    values = [flattened(row, "c", op=None, lsn=1), flattened(row, "c", connector=None, lsn=1), flattened(row, "c"), b'{"id":1}']
    reasons = reasons_of(decode(tmp_path / "a", *values, debezium=DebeziumSettings(flattened="__")))
    expected = ["no field __op", "no field __connector", "position of the change is unknown", "without a schema"]
    assert [part in reasons[row] for row, part in enumerate(expected)] == [True] * 4, reasons
    assert "debezium.flattened" in reasons_of(decode(tmp_path / "b", flattened(row, "c", lsn=1)))[0]
