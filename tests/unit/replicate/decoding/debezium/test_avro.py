"""Debezium's messages in Avro become the rows that they become in JSON; fastavro writes them by Connect's schemas."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.settings.debezium_settings import DebeziumSettings
from headstream.replicate.settings.registry_settings import RegistrySettings
from tests.support.replicate.debezium_messages import AvroWriter, envelope, read_sample, with_headers
from tests.support.replicate.replicate_messages import make_decoder, raw_messages, reasons_of, rows_of, waiting_of

_MARK = "__debezium_unavailable_value"
_DECIMAL = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "optional": True}
_FIELDS: list[dict[str, Any]] = [
    {"type": "int16", "field": "id"},
    {"type": "string", "optional": True, "field": "a"},
    {"type": "bytes", "optional": True, "field": "b"},
    {**_DECIMAL, "parameters": {"scale": "2", "connect.decimal.precision": "9"}, "field": "n"},
    {**_DECIMAL, "parameters": {"scale": "1"}, "field": "wide"},
    {"type": "int32", "name": "io.debezium.time.Date", "optional": True, "field": "day"},
    {"type": "int64", "name": "io.debezium.time.MicroTime", "optional": True, "field": "at"},
    {"type": "float", "optional": True, "field": "r"},
]


def decode(directory: Path, *, registry: bool = True, **given: Any) -> Decoded:
    settings = RegistrySettings(directory=directory) if registry else None
    headers = given.pop("headers", {})
    decoder = make_decoder(given.pop("schema_store", directory), debezium=DebeziumSettings(), registry=settings)
    return decoder.decode(with_headers(raw_messages(**given, topic="shop/shop.kit"), headers))


def spelled(decoded: Decoded) -> list[str]:
    assert reasons_of(decoded) == {}
    return sorted(repr(row) for row in rows_of(decoded))


def base64_of(number: int) -> str:
    return base64.b64encode(number.to_bytes(4, "big", signed=True)).decode()


def key(number: int) -> bytes:
    fields = [{"type": "int16", "field": "id"}]
    return json.dumps({"schema": {"type": "struct", "fields": fields, "name": "Key"}, "payload": {"id": number}}).encode()


@pytest.mark.parametrize("framing", ["prefix", "headers"])
def test_real_messages_give_the_rows_that_they_give_in_json(tmp_path: Path, framing: str) -> None:
    keys, values = read_sample()
    wanted = decode(tmp_path / "json", values=values, keys=keys, registry=False)
    writer, headers, pairs = AvroWriter(tmp_path), dict[int, dict[str, bytes]](), list[list[bytes | None]]()
    for row, pair in enumerate(zip(keys, values, strict=True)):
        written = [writer.write(one) for one in pair]
        if framing == "headers":
            names = ("__key_schema_id", "__value_schema_id")
            numbers = zip(names, written, strict=True)
            headers[row] = {name: b"\0" + number.to_bytes(4, "big") for name, (number, _) in numbers if number}
            pairs.append([None if not number else record for number, record in written])
        else:
            pairs.append([writer.framed(one) for one in pair])
    found = decode(tmp_path, values=[pair[1] for pair in pairs], keys=[pair[0] for pair in pairs], headers=headers)
    assert len(rows_of(found)) == 11
    assert spelled(found) == spelled(wanted)
    assert (found.tombstones, found.unwanted, found.notices) == (wanted.tombstones, wanted.unwanted, wanted.notices)


def test_plain_columns_placeholders_and_changes_of_keys_are_those_of_json(tmp_path: Path) -> None:
    row = {"id": 1, "a": "x", "b": "AQI=", "n": base64_of(-12345), "wide": base64_of(77), "day": -5, "at": 1, "r": 0.1}
    mark = base64.b64encode(_MARK.encode()).decode()
    values: list[bytes | None] = [
        envelope("c", row, fields=_FIELDS, lsn=1),
        envelope("u", {**row, "a": _MARK, "b": mark}, fields=_FIELDS, lsn=2),
        envelope("d", None, {"id": 1}, fields=_FIELDS, lsn=3),
        None,
        envelope("c", {"id": 2, "a": _MARK}, fields=_FIELDS, lsn=3),
    ]
    keys = [key(1)] * 4 + [key(2)]
    headers = {2: {"__debezium.newkey": key(2)}, 4: {"__debezium.oldkey": key(1)}}
    wanted = decode(tmp_path / "json", values=values, keys=keys, headers=headers, registry=False)
    writer = AvroWriter(tmp_path)
    framed = [[writer.framed(one) for one in column] for column in (values, keys)]
    found = decode(tmp_path, values=framed[0], keys=framed[1], headers=headers)
    assert [one["_hs_columns"] for one in rows_of(found)] == [None, b"\xf9", b"\xfd"]
    assert spelled(found) == spelled(wanted)


def test_messages_wait_for_the_schemas_of_their_values_and_keys(tmp_path: Path) -> None:
    writer = AvroWriter(tmp_path / "all")
    writer.directory.mkdir()
    values, keys = [writer.framed(envelope("c", {"id": 1}, lsn=1))], [writer.framed(key(1))]
    partly = tmp_path / "partly"
    partly.mkdir()
    for number, waited_for in ((1, "debezium-avro-1"), (2, "debezium-avro-2")):
        assert waiting_of(decode(partly, values=values, keys=keys, schema_store=tmp_path)) == {0: waited_for}
        (writer.directory / f"{number}.avsc").rename(partly / f"{number}.avsc")
    (row,) = rows_of(decode(partly, values=values, keys=keys, schema_store=tmp_path))
    assert row["id"] == 1
    assert "no registry is configured" in reasons_of(decode(tmp_path, values=values, keys=keys, registry=False))[0]


def test_a_message_that_is_no_record_of_its_schema_is_rejected_alone(tmp_path: Path) -> None:
    good = AvroWriter(tmp_path).framed(envelope("c", {"id": 1}, lsn=1))
    assert good is not None
    decoded = decode(tmp_path, values=[good, good[:9], good + b"\0", good], keys=[None] * 4)
    assert (sorted(reasons_of(decoded)), len(rows_of(decoded))) == ([1, 2], 2)
