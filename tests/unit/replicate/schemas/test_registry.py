"""The schema registry: a real small HTTP server, and messages with its framing."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headstream as hs
from headstream.core.codec.binary import encode_sent
from headstream.replicate.codec import Change, data_schema
from headstream.replicate.codec.avro.schema import parse_schema
from headstream.replicate.codec.avro.values import encode_value
from headstream.replicate.schemas import registry_client
from headstream.replicate.settings.registry_settings import RegistrySettings
from tests.support.replicate.replicate_messages import (
    COLUMNS,
    make_change,
    make_decoder,
    raw_messages,
    reasons_of,
    rows_of,
    waiting_of,
)

NAMESPACE = "com.attunity.queue.msg.chips-qa.shop.kit"
VALUE = json.dumps({**json.loads(data_schema(COLUMNS, logical_types=True)), "namespace": NAMESPACE})
KEY_RECORD = {"type": "record", "name": "KeyRecord", "namespace": NAMESPACE, "fields": [{"name": "id", "type": ["null", "int"]}]}
KEY = json.dumps(KEY_RECORD)


GUID = "89791762-2336-4186-9674-299b90a802e2"


class Server:
    """A registry; `answers` are statuses to give before the truth, `asked` what was asked with which authorization."""

    def __init__(self) -> None:
        self.schemas = {7: VALUE, 8: KEY}
        self.answers: list[int] = []
        self.asked: list[tuple[str, str | None]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append((self.path, self.headers.get("Authorization")))
                if self.path.startswith("/schemas/guids/"):
                    known = [{"context": ".other", "id": 99}, {"context": ".", "id": 7}]
                    return self._reply(200, known if self.path == f"/schemas/guids/{GUID}/ids" else [])
                number = int(self.path.rpartition("/")[2])
                status = outer.answers.pop(0) if outer.answers else 200 if number in outer.schemas else 404
                return self._reply(status, {"schema": outer.schemas[number]} if status == 200 else {"error_code": 40403})

            def _reply(self, status: int, answer: Any) -> None:
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(registry_client, "_FIRST_PAUSE_SECONDS", 0.0)
    server = Server()
    thread = threading.Thread(target=server.http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.http.shutdown()
    server.http.server_close()
    thread.join()


def framed(number: int, change: Change) -> bytes:
    """A row as Replicate writes it for a registry: 0x00, the schema's number, the bare record."""
    record = parse_schema(VALUE)
    headers = {
        "operation": change.operation, "changeSequence": change.change_sequence, "timestamp": "", "streamPosition": "",
        "transactionId": "", "changeMask": None, "columnMask": change.column_mask, "transactionEventCounter": None,
        "transactionLastEvent": None,
    }  # fmt: skip
    row = {"data": change.data, "beforeData": change.before, "headers": headers}
    return b"\0" + number.to_bytes(4, "big") + encode_value(record, row, "the row")


def key_of(number: int) -> bytes:
    return b"\0" + number.to_bytes(4, "big") + b"\x02\x02"


def test_decoder_reads_registry_messages_by_the_schemas_of_values_and_keys(tmp_path: Path, server: Server) -> None:
    decoder = make_decoder(tmp_path, registry=RegistrySettings(url=server.url))
    values = [framed(7, make_change(number)) for number in (1, 2)]
    decoded = decoder.decode(raw_messages(values, keys=[key_of(8)] * 2))
    assert reasons_of(decoded) == {}
    assert [row["name"] for row in rows_of(decoded)] == ["n1", "n2"]
    schema = decoder.schema("registry-7-8")
    assert (schema.table, schema.metadata.key_columns, schema.metadata.lineage.task) == (("shop", "kit"), ("id",), "chips-qa")
    assert [path for path, _ in server.asked] == ["/schemas/ids/7", "/schemas/ids/8"]


def test_decoder_reads_schema_ids_in_headers_as_those_before_the_payload(tmp_path: Path, server: Server) -> None:
    decoder = make_decoder(tmp_path, registry=RegistrySettings(url=server.url))
    bare, by_number, by_guid = framed(7, make_change(1))[5:], b"\0\0\0\0\7", b"\1" + uuid.UUID(GUID).bytes
    headers = [
        hs.Headers({"a": 1, "__value_schema_id": hs.raw(by_number), "__key_schema_id": hs.raw(b"\0\0\0\0\x08")}),
        hs.Headers({"__key_schema_id": hs.raw(b"\0\0\0\0\x08"), "__value_schema_id": hs.raw(by_guid), "z": "x"}),
        hs.Headers({}),
        hs.Headers({"__value_schema_id": hs.raw(b"\1" + bytes(16))}),
    ]
    values = [bare, bare, framed(7, make_change(2)), bare]
    raw = raw_messages(values, keys=[b"\x02\x02", b"\x02\x02", key_of(8), b"\x02\x02"])
    blocks = pa.array([encode_sent([hs.Message(payload=b"", headers=each)])[20:-4] for each in headers], pa.binary())
    raw = raw.set_column(raw.schema.get_field_index("headers"), "headers", blocks)
    decoded = decoder.decode(raw)
    assert [row["name"] for row in rows_of(decoded)] == ["n1", "n1", "n2"]
    assert list(reasons_of(decoded)) == [3]
    assert decoder.schema("registry-7-8").metadata.key_columns == ("id",)
    assert [path for path, _ in server.asked] == [
        f"/schemas/guids/{GUID}/ids", f"/schemas/guids/{uuid.UUID(int=0)}/ids", "/schemas/ids/7", "/schemas/ids/8"
    ]  # fmt: skip


def test_decoder_reads_registry_messages_without_the_registry_once_the_zone_has_their_schema(
    tmp_path: Path, server: Server
) -> None:
    first = make_decoder(tmp_path, registry=RegistrySettings(url=server.url))
    first.decode(raw_messages([framed(7, make_change(1))], keys=[key_of(8)]))
    again = make_decoder(tmp_path, registry=RegistrySettings(url="http://127.0.0.1:9", retries=0, timeout_ms=100))
    assert len(rows_of(again.decode(raw_messages([framed(7, make_change(2))], keys=[key_of(8)])))) == 1


def test_decoder_takes_keys_from_the_settings_when_message_keys_have_no_schema(tmp_path: Path, server: Server) -> None:
    decoder = make_decoder(tmp_path, registry=RegistrySettings(url=server.url), settings={"keys": ("id",)})
    assert len(rows_of(decoder.decode(raw_messages([framed(7, make_change(1))], keys=[b'{"id":1}'])))) == 1


def test_decoder_lets_registry_messages_wait_when_their_schema_is_not_there(tmp_path: Path, server: Server) -> None:
    decoded = make_decoder(tmp_path, registry=RegistrySettings(url=server.url)).decode(
        raw_messages([framed(9, make_change(1)), framed(7, make_change(2))], keys=[None, key_of(8)])
    )
    assert waiting_of(decoded) == {0: "registry-9"}
    assert len(rows_of(decoded)) == 1


def test_decoder_gives_registry_messages_up_when_there_is_no_registry(tmp_path: Path) -> None:
    decoded = make_decoder(tmp_path).decode(raw_messages([framed(7, make_change(1))]))
    assert "Set registry" in reasons_of(decoded)[0]


def test_decoder_reads_schemas_from_a_directory(tmp_path: Path) -> None:
    (tmp_path / "7.avsc").write_text(VALUE)
    decoder = make_decoder(tmp_path, registry=RegistrySettings(directory=tmp_path), settings={"keys": ("id",)})
    assert len(rows_of(decoder.decode(raw_messages([framed(7, make_change(1))])))) == 1
