"""Avro payloads decoded for people: written by fastavro, their schemas from a real small registry or a directory."""

from __future__ import annotations

import io
import json
import ssl
import threading
import uuid
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import fastavro
import pytest

from headstream.errors import StorageError
from headstream.replicate.schemas import avro_payloads
from headstream.replicate.schemas.avro_payloads import AvroPayloads
from headstream.replicate.schemas.registry_client import RegistryClient
from headstream.replicate.settings.registry_settings import RegistrySettings
from headstream.serializers import avro
from tests.support.server.certificates import write_certificate
from tests.unit.replicate.schemas.test_registry import GUID, Server, server

__all__ = ["server"]  # a fixture

SCHEMA = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
        {"name": "share", "type": "double"},
        {"name": "mark", "type": {"type": "fixed", "name": "Mark", "size": 2}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "lines", "type": {"type": "array", "items": {"type": "map", "values": "int"}}},
    ],
}
VALUE = {
    "id": (1 << 62) + 1,
    "note": "<b>\u202e",
    "total": Decimal("12.50"),
    "share": float("nan"),
    "mark": b"\x00\xff",
    "kind": "OLD",
    "lines": [{"a": 1}, {}],
}
TOLD = {**VALUE, "total": "12.50", "share": "nan", "mark": "00FF"}


def framed(number: int, schema: Any = SCHEMA, value: Any = VALUE) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema, named_schemas={}), value)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def test_a_registry_s_payload_is_decoded_in_json_s_types(server: Server) -> None:
    server.schemas[3] = json.dumps(SCHEMA)
    payloads = AvroPayloads(RegistrySettings(url=server.url))
    payload = framed(3)
    told = {"size_bytes": len(payload), "form": "registry", "schema": "3", "type": "shop.Order", "value": TOLD}
    assert payloads.explain(payload) == {**told, "note": None, "fault": None}
    payloads.explain(payload)
    assert [path for path, _ in server.asked] == ["/schemas/ids/3"]


def test_a_guid_from_a_header_is_looked_up_as_its_number(server: Server) -> None:
    server.schemas[7] = json.dumps(SCHEMA)
    payloads = AvroPayloads(RegistrySettings(url=server.url))
    explained = payloads.explain(b"\1" + uuid.UUID(GUID).bytes + framed(7)[5:])
    assert (explained["form"], explained["schema"], explained["value"]) == ("registry", GUID, TOLD)
    assert "is unknown" in payloads.explain(bytes([1] * 20))["note"]


def test_what_cannot_be_decoded_says_why(server: Server) -> None:
    server.schemas[3], server.schemas[4] = json.dumps(SCHEMA), 'syntax = "proto3";'
    payloads = AvroPayloads(RegistrySettings(url=server.url))
    assert payloads.explain(framed(9))["note"] == "the schema 9 is unknown"
    assert "bytes follow the record" in payloads.explain(framed(3) + b"x")["fault"]
    assert "not JSON" in payloads.explain(framed(4))["fault"]
    assert "neither" in payloads.explain(b"plain")["fault"]
    for size in range(5, len(framed(3))):
        assert payloads.explain(framed(3)[:size])["fault"], size


def test_a_payload_cannot_claim_more_than_its_bytes_hold(server: Server) -> None:
    nulls = {"type": "array", "items": "null"}
    server.schemas[3] = json.dumps(nulls)
    many = b"\xfe\xff\xff\xff\xff\xff\xff\x7f"  # some 10^14 nulls in eight bytes
    assert "than its bytes can hold" in AvroPayloads(RegistrySettings(url=server.url)).explain(framed(3)[:5] + many)["fault"]


def test_a_registry_that_does_not_answer_is_asked_once_in_a_while(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.schemas[3] = json.dumps(SCHEMA)
    server.answers = [503]
    payloads = AvroPayloads(RegistrySettings(url=server.url, retries=0))
    for _ in range(3):
        with pytest.raises(StorageError, match="503") as refused:
            payloads.explain(framed(3))
        assert server.url not in str(refused.value)
    assert len(server.asked) == 1
    monkeypatch.setattr(avro_payloads, "_ASK_AGAIN_S", 0.0)
    assert payloads.explain(framed(3))["value"] == TOLD


def test_schemas_that_were_fetched_are_known_while_the_registry_does_not_answer(server: Server) -> None:
    server.schemas[3] = json.dumps(SCHEMA)
    payloads = AvroPayloads(RegistrySettings(url=server.url, retries=0))
    assert payloads.explain(framed(3))["value"] == TOLD
    server.answers = [503]
    with pytest.raises(StorageError, match="503"):
        payloads.explain(framed(4))
    assert payloads.explain(framed(3))["value"] == TOLD


def test_a_directory_has_schemas_by_number_and_by_fingerprint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_payloads, "_ASK_AGAIN_S", 0.0)
    payloads = AvroPayloads(RegistrySettings(directory=tmp_path))
    single = avro(SCHEMA).encode({**VALUE, "note": None})
    assert payloads.explain(single)["note"] == f"the schema {single[2:10].hex()} is unknown"
    (tmp_path / "3.avsc").write_text(json.dumps(SCHEMA))
    (tmp_path / "broken.avsc").write_bytes(b"\xff{")
    found = payloads.explain(single)
    assert (found["form"], found["type"], found["value"]) == ("single object", "shop.Order", {**TOLD, "note": None})
    assert payloads.explain(framed(3))["value"] == TOLD


def test_fingerprints_are_not_looked_up_in_a_registry(server: Server) -> None:
    found = AvroPayloads(RegistrySettings(url=server.url)).explain(avro(SCHEMA).encode(VALUE))
    assert found["note"].endswith("is unknown")
    assert server.asked == []


def test_an_invalid_certificate_tells_the_registrys_name_to_the_log_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = write_certificate(tmp_path, "other.example")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.certificate, files.key)
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as http:
        http.socket = context.wrap_socket(http.socket, server_side=True)
        threading.Thread(target=http.serve_forever, daemon=True).start()
        settings = RegistrySettings(url=f"https://LOCALHOST:{http.server_port}", ca_file=files.certificate, retries=0)
        with pytest.raises(StorageError, match="'localhost'"):
            RegistryClient(settings).fetch(3)
        with pytest.raises(StorageError) as refused:
            AvroPayloads(settings).explain(framed(3))
        http.shutdown()
    assert str(refused.value) == "the schemas cannot be read"
    assert "Avro payloads are not decoded: the schema registry did not return schema 3" in caplog.text
    assert str(settings.url) in caplog.text


def test_schemas_that_cannot_be_read_do_not_tell_their_place(tmp_path: Path) -> None:
    (tmp_path / "3.avsc").mkdir()
    with pytest.raises(StorageError) as refused:
        AvroPayloads(RegistrySettings(directory=tmp_path)).explain(framed(3))
    assert str(tmp_path) not in str(refused.value)
