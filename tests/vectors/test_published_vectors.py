"""vectors/*.json: what is published is what is written today, says what it should by readers that share no code with ours,
and broken in any way gives a value or a DecodeError."""

from __future__ import annotations

import base64
import functools
import importlib.util
import json
import struct
import tracemalloc
import uuid
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import headstream as hs
from headstream.cli.shared.lines import decode_document, encode_document
from headstream.core.codec import binary
from headstream.core.codec import json as json_transport
from headstream.core.codec.kip82 import LENIENT, STRICT, decode_set, to_message
from headstream.core.model.header_block import BINARY, HeaderLayout
from tests.support import kernels
from tests.support.messages.broken import breakages, refusal

ROOT = Path(__file__).parents[2]
FILES = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "vectors").glob("*.json"))}
VECTORS: list[Any] = [
    pytest.param(name, vector, id=f"{name.removesuffix('.json')}-{vector['name']}")
    for name, content in FILES.items()
    for vector in content["vectors"]
    if name != "kip82-requests.json"  # test_request_vectors.py
]
KINDS = [
    "raw", "string", "bool", "int8", "int16", "int32", "int64", "int128", "uint8", "uint16", "uint32", "uint64", "uint128",
    "float32", "float64",
]  # fmt: skip
TYPES = ["bool", "int8", "char", "int16", "int32", "int64", "float32", "float64", "string", "raw"]


def opened(layout: HeaderLayout) -> Callable[[bytes], hs.Headers]:
    def read(data: bytes) -> hs.Headers:
        headers = hs.Headers.from_bytes(data, layout)
        headers.items()
        return headers

    return read


def opened_set(layout: Any) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        for message in decode_set(data, layout=layout, max_bytes=1 << 16).messages:
            message.headers.items()

    return read


def read_headers(name: str) -> Callable[[bytes], hs.Headers]:
    if name.startswith("binary"):
        return opened(BINARY)
    layout = LENIENT if "lenient" in name else STRICT
    return opened(layout)


def read_messages(name: str) -> Callable[[bytes], Sequence[hs.Message]]:
    if name.startswith("binary-first"):
        return lambda data: binary.decode_polled(data, dialect="binary-first")
    if name.startswith("binary"):
        return binary.decode_polled
    if name.startswith("json"):
        return lambda data: json_transport.decode_polled(data).messages
    return lambda data: [to_message(message) for message in decode_set(data).messages]


def test_the_files_are_what_the_command_writes_today() -> None:
    spec = importlib.util.spec_from_file_location("make_vectors", ROOT / "tools/make_vectors.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.vectors() == FILES
    assert all((ROOT / content["layout"]).exists() for content in FILES.values())


@pytest.mark.parametrize(("name", "vector"), VECTORS)
def test_a_vector_says_what_stands_beside_it(name: str, vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    if "error" in vector:
        found = refusal(read_headers(name) if "headers" in name else read_messages(name), data)
        assert found is not None
        assert (found.what, found.at) == (vector["error"], vector["at"])
    elif "headers" in vector:
        found_headers = read_headers(name)(data)
        assert encode_document(hs.Message(payload=b"", headers=found_headers))["headers"] == vector["headers"]
    else:
        documents = vector.get("messages") or [vector["message"]]
        expected_messages = [decode_document(document) for document in documents]
        assert read_messages(name)(data) == expected_messages


# -- readers that share nothing with the codec -----------------------------------------------------------------------


def plain_value(kind: str, data: bytes, order: Any) -> Any:
    if kind in ("raw", "null") or kind.startswith("unknown"):
        return None if kind == "null" else base64.b64encode(data).decode()
    if kind == "string":
        return data.decode()
    if kind == "char":
        return data.decode("utf-16-be" if order == "big" else "utf-16-le")
    if kind.startswith("float"):
        number = struct.unpack({"big": ">", "little": "<"}[order] + {4: "f", 8: "d"}[len(data)], data)[0]
        return number if number == number and abs(number) != float("inf") else None
    return bool(data[0]) if kind == "bool" else int.from_bytes(data, order, signed=kind.startswith("int"))


def plain_headers(name: str, data: bytes) -> list[tuple[str, str, Any]]:
    pairs, at = [], 0
    order: Any = "big" if name.startswith("kip82") else "little"

    def length() -> int:
        nonlocal at
        at += 4
        return int.from_bytes(data[at - 4 : at], order, signed=True)

    while at < len(data):
        size = length()
        key = data[at : at + size].decode()
        at += size
        if order == "little":
            code = data[at]
            at += 1
            size = length()
            kind = KINDS[code - 1] if code <= 15 else {64: "null", 65: "char"}.get(code, f"unknown({code})")
        else:
            size = length() - 1
            kind = "null"
            if size >= 0:
                kind = TYPES[data[at]]
                at += 1
        value = data[at : at + max(size, 0)]
        at += max(size, 0)
        pairs.append((key, kind, plain_value(kind, value, order)))
    return pairs


def told(headers: list[dict[str, Any]]) -> list[tuple[str, str, Any]]:
    special = ("inf", "-inf", "nan")
    return [
        (h["key"], h["kind"], None if h["kind"].startswith("float") and str(h["value"]).startswith(special) else h["value"])
        for h in headers
    ]


@pytest.mark.parametrize(
    ("name", "vector"), [p for p in VECTORS if "headers" in p.values[1] and "lenient" not in str(p.values[0])]
)
def test_a_plain_reader_finds_the_same_headers(name: str, vector: dict[str, Any]) -> None:
    assert plain_headers(name, bytes.fromhex(vector["hex"])) == told(vector["headers"])


@pytest.mark.parametrize(
    ("name", "vector"), [p for p in VECTORS if "message" in p.values[1] and str(p.values[0]).startswith(("binary-m", "kip82"))]
)
def test_a_plain_reader_finds_the_same_message(name: str, vector: dict[str, Any]) -> None:
    data, document = bytes.fromhex(vector["hex"]), vector["message"]
    if name.startswith("kip82"):
        offset, size, crc, magic, attributes, timestamp = struct.unpack_from(">qiIbBq", data)
        assert (len(data), magic, crc) == (size + 12, 2, zlib.crc32(data[16:]))
        at, parts = 26, []
        for present in (True, attributes & 0x10, True):
            length = struct.unpack_from(">i", data, at)[0] if present else 0
            at += 4 if present else 0
            parts.append(None if length < 0 else data[at : at + length])
            at += max(length, 0)
        assert at == len(data)
        key, block, payload = parts
        assert timestamp == document["timestamp_us"] // 1000
        headers = [header for header in plain_headers(name, block or b"") if not header[0].startswith("hs.")]
    else:
        offset, state, timestamp, message_id, crc, size = struct.unpack_from("<QBQ16sII", data)
        headers = plain_headers(name, data[41 : 41 + size])
        payload = data[45 + size :]
        assert struct.unpack_from("<I", data, 41 + size)[0] == len(payload)
        assert (str(uuid.UUID(bytes=message_id)), crc) == (document["id"], zlib.crc32(payload))
        assert (timestamp, state) == (document["timestamp_us"], {"available": 1, "poisoned": 20}.get(document["state"], 77))
        carried = {header[0]: header[2] for header in headers if header[0].startswith("hs.")}
        key = base64.b64decode(carried["hs.key"]) if "hs.key" in carried else None
        payload = None if carried.get("hs.null") else payload
        headers = [header for header in headers if not header[0].startswith("hs.")]
    assert offset == document["offset"]
    assert headers == told(document["headers"])
    for found, spelled in ((key, document["key"]), (payload, document["payload"])):
        assert found == (None if spelled is None else base64.b64decode(spelled))


# -- every vector, broken in every way -------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "vector"), [p for p in VECTORS if "error" not in p.values[1]])
def test_a_broken_vector_is_a_value_or_a_decode_error_in_bounded_memory(name: str, vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])

    readers: list[Callable[[bytes], Any]] = [read_headers(name) if "headers" in vector else read_messages(name)]
    if name.startswith("kip82"):
        readers = [(opened if "headers" in vector else opened_set)(layout) for layout in (STRICT, LENIENT)]
    elif name.startswith("binary") and "message" in vector:
        dialect: Any = "binary-first" if "first" in name else "binary"
        modules: list[Any] = [binary, kernels.interpreted("binary")]
        readers = [functools.partial(module.decode_polled, dialect=dialect) for module in modules]
    if len(data) > 300:
        flips: tuple[int, ...] = (0x80,)
    else:
        flips = (0x01, 0x80, 0xFF)
    tracemalloc.start()
    refused = sum(refusal(reader, broken) is not None for reader in readers for broken in breakages(data, flips))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert refused or not data or "lenient" in name
    assert peak < 2_000_000
