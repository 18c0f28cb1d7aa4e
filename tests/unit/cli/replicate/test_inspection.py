from __future__ import annotations

import base64
import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from headstream.cli.main import cli
from headstream.cli.shared.lines import encode_line
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message
from headstream.replicate import codec
from headstream.replicate.schemas.explanation import Explainer
from headstream.replicate.schemas.schema_store import SchemaStore, StoredSchema

COLUMNS = (
    codec.ColumnMetadata("ID", 1, "INT4", primary_key_position=1, nullable=False),
    codec.ColumnMetadata("NAME", 2, "WSTRING", length=20),
    codec.ColumnMetadata("TOTAL", 4, "NUMERIC", precision=10, scale=2),
    codec.ColumnMetadata("DAY", 9, "DATE"),
    codec.ColumnMetadata("AT", 10, "DATETIME"),
    codec.ColumnMetadata("PHOTO", 11, "BLOB"),
    codec.ColumnMetadata("RATE", 12, "REAL8"),
)
LINEAGE = codec.Lineage("server", "task", "SHOP", "ORDERS", 3, "2026-01-31T12:00:00")
METADATA = codec.TableMetadata("A1" * 16, LINEAGE, COLUMNS, codec.data_schema(COLUMNS, logical_types=True))
ROW = {
    "ID": 7, "NAME": None, "TOTAL": Decimal("12.50"), "DAY": date(2026, 1, 31), "AT": datetime(2026, 1, 31, 12),
    "PHOTO": b"\x00\xff", "RATE": float("inf"),
}  # fmt: skip
CHANGE = codec.Change(
    "UPDATE", ROW, {"ID": 7}, "2026" + "0" * 31, "2026-01-31T12:00:01", "p", "t",
    codec.encode_mask([4, 9]), codec.encode_mask([1, 4, 9, 10, 11, 12, 16]), 1, True,
)  # fmt: skip


def explain(*values: bytes, known: codec.TableMetadata | None = None, **options: Any) -> dict[str, Any]:
    explainer = Explainer(lambda schema_id: known if known and known.schema_id == schema_id else None, **options)
    for value in values:
        explained = explainer.explain(value)
    json.dumps(explained, allow_nan=False)
    return explained


@pytest.mark.parametrize("value", [b"", b"x", b"atMSG", b"atMSG\x04XX", b"{", b'{"a": 1}', b"\xff\xfe"])
def test_inspect_calls_bytes_broken_that_are_not_a_message(value: bytes) -> None:
    explained = explain(value)
    assert explained["fault"]
    assert explained["size_bytes"] == len(value)


def test_registry_framing_is_recognized() -> None:
    assert "schema registry framing (id 7)" in explain(b"\0\0\0\0\7abc")["fault"]


def inspect(*arguments: str | Path, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(cli, ["replicate", "inspect", *map(str, arguments)], input=stdin)


def listed(*arguments: str | Path, stdin: bytes = b"", code: int = 0) -> list[dict[str, Any]]:
    ran = inspect(*arguments, "--output", "json", stdin=stdin)
    assert ran.exit_code == code, ran.output
    found: list[dict[str, Any]] = json.loads(ran.stdout)
    return found


FINITE = codec.Change("INSERT", {**ROW, "RATE": 1.5}, None)


def test_inspect_reads_one_message_a_file(tmp_path: Path) -> None:
    (tmp_path / "md").write_bytes(codec.metadata_message(METADATA))
    (tmp_path / "dt").write_bytes(codec.data_message(METADATA, CHANGE))
    pretty = json.dumps(json.loads(codec.data_message(METADATA, FINITE, form="json")), indent=2)
    (tmp_path / "json").write_text(pretty)
    found = listed(tmp_path / "md", tmp_path / "dt", tmp_path / "json")
    assert [(item["where"], item["type"], item["table"]) for item in found] == [
        (str(tmp_path / name), kind, "SHOP.ORDERS") for name, kind in (("md", "MD"), ("dt", "DT"), ("json", "DT"))
    ]


def test_inspect_reads_messages_by_line_and_lines_of_export_from_standard_input() -> None:
    stored = Message(
        payload=codec.data_message(METADATA, CHANGE),
        topic="cdc/data",
        partition=2,
        offset=5,
        timestamp=0,
        headers=Headers({"attempt": 1}),
    )
    lines = [codec.metadata_message(METADATA, form="json"), b"", encode_line(stored).encode()]
    lines += [
        json.dumps({"topic": "cdc/data", "payload": base64.b64encode(codec.data_message(METADATA, CHANGE)).decode()}).encode()
    ]
    found = listed("-", stdin=b"\n".join(lines))
    assert [item["where"] for item in found] == [
        "standard input, line 1", "standard input, line 3: cdc/data partition 2 offset 5", "standard input, line 4"
    ]  # fmt: skip
    assert [item["fault"] for item in found] == [None, None, None]
    assert [item["table"] for item in found] == ["SHOP.ORDERS"] * 3


def test_inspect_ends_with_1_where_a_message_is_broken_and_explains_the_others() -> None:
    lines = [
        codec.data_message(METADATA, FINITE, form="json"),
        b"nonsense",
        b'{"topic": "a/b", "payload": null}',
        b'{"topic": "x", "offset": 1}',
    ]
    found = listed("-", stdin=b"\n".join(lines), code=1)
    assert [item["fault"] is None for item in found] == [True, False, False, False]
    assert "3 messages are invalid" in inspect("-", stdin=b"\n".join(lines)).stderr


def test_inspect_finds_schemas_in_a_zone(tmp_path: Path) -> None:
    SchemaStore(tmp_path / "zone").add(StoredSchema(METADATA, 1, "cdc/metadata", 1, 0))
    (tmp_path / "dt").write_bytes(codec.data_message(METADATA, CHANGE))
    (found,) = listed(tmp_path / "dt", "--zone", tmp_path / "zone")
    assert found["table"] == "SHOP.ORDERS"


def test_inspect_shows_tables_to_people(tmp_path: Path) -> None:
    (tmp_path / "md").write_bytes(codec.metadata_message(METADATA))
    (tmp_path / "dt").write_bytes(codec.data_message(METADATA, CHANGE))
    shown = [line.split() for line in inspect(tmp_path / "md", tmp_path / "dt").stdout.splitlines()]
    assert ["4", "TOTAL", "NUMERIC", "0", "10", "2", "0", "yes", "DECIMAL(10,2)"] in shown
    assert ["changed", "TOTAL,", "DAY"] in shown
    assert ["ID", "7", "7"] in shown
    assert ["NAME", "(absent)", "(null)"] in shown
