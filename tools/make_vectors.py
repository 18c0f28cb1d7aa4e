"""Write vectors/*.json: messages and header blocks byte by byte, for whoever implements a dialect; python tools/make_vectors.py.

Each file is {"dialect", "layout", "vectors": [...]}; a vector is one of

    {"name", "hex", "message" or "headers"}     the bytes, and what they say, as a line of `headstream export` has it
    {"name", "hex", "error", "at"}              broken bytes, why they are, and the byte position
    {"name", "hex", "api_key", "api_version", "request" or "response"}    a frame of Produce or Fetch
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import headstream as hs
from headstream.cli.shared.lines import encode_document
from headstream.core.codec import binary
from headstream.core.codec import json as json_transport
from headstream.core.codec.kip82 import (
    LENIENT,
    STRICT,
    Kip82Message,
    decode_set,
    encode_message,
    encode_set,
    from_message,
    requests,
)
from headstream.core.codec.kip82 import request_values as values
from headstream.core.model.header_block import BINARY, HeaderLayout
from headstream.errors import DecodeError

DIRECTORY: Final = Path(__file__).parents[1] / "vectors"

IGGY_KINDS: Final = hs.Headers(
    [
        ("raw", b"\x00\xff"),
        ("string", "żółw 🐢"),
        ("true", True),
        ("false", False),
        ("int8", hs.int8(-128)),
        ("int16", hs.int16(-32768)),
        ("int32", hs.int32(-(1 << 31))),
        ("int64", hs.int64(-(1 << 63))),
        ("int128", hs.int128(-(1 << 127))),
        ("uint8", hs.uint8(255)),
        ("uint16", hs.uint16(65535)),
        ("uint32", hs.uint32((1 << 32) - 1)),
        ("uint64", hs.uint64((1 << 64) - 1)),
        ("uint128", hs.uint128((1 << 128) - 1)),
        ("float32", hs.float32(1.5)),
        ("float64", -0.1),
        ("infinity", float("-inf")),
        ("nan", hs.HeaderValue(15, bytes.fromhex("230100000000f07f"))),
    ]
)
WIDE_KINDS: Final = hs.Headers(
    [("null", None), ("char", hs.char("ß")), ("empty", ""), ("later", hs.HeaderValue(200, b"kind 200"))]
)
TYPED_KINDS: Final = (
    hs.Headers()
    .put_boolean("boolean", True)
    .put_byte("byte", -2)
    .put_char("char", "ß")
    .put_short("short", -2)
    .put_integer("int", 258)
    .put_long("long", 123456)
    .put_float("float", 1.5)
    .put_double("double", -0.1)
    .put_string("string", "żółw")
    .put_bytes("bytes", b"\x00\xff")
    .put_string("empty", "")
    .with_(("null", None))
)
REPEATED: Final = hs.Headers([("hop", "a"), ("source", "web"), ("hop", "b")])

HEADERS: Final = {"none": hs.Headers(), "repeated": REPEATED}


def message(payload: bytes | None, headers: hs.Headers | None = None, **members: Any) -> hs.Message:
    """Return a message that a log has stored."""
    stored: dict[str, Any] = {"offset": 42, "timestamp": 1700000000000000, "id": 162, **members}
    return hs.Message(payload=payload, headers=hs.Headers() if headers is None else headers, **stored)


MESSAGES: Final = {
    "plain": message(b"hello"),
    "every kind": message(b"hello", IGGY_KINDS),
    "key": message(b"hello", hs.Headers({"attempt": hs.uint8(3)}), key=b"42"),
    "poisoned": message(b"hello", state=20),
    "state unknown": message(b"hello", state=77),
    "largest id": message(b"hello", id=(1 << 128) - 1),
    "wide kinds": message(b"hello", WIDE_KINDS),
    "empty payload": message(b""),
    "null payload": message(None, hs.Headers({"attempt": hs.uint8(3)}), key=b"42"),
}
TYPED_MESSAGES: Final = {
    "plain": message(b"hello", id=0),
    "every type": message(b"hello", TYPED_KINDS, id=0),
    "repeated": message(b"hello", REPEATED, key=b"42", id=0),
    "tombstone": message(None, hs.Headers({"reason": "erased"}), key=b"42", id=0),
    "empty value and key": message(b"", key=b"", id=0),
    "id, state and microseconds": message(b"hello", state=20, timestamp=1700000000000001),
}


def vectors() -> dict[str, dict[str, Any]]:
    """Return file name -> content."""
    return {
        "binary-headers.json": _file(
            "Header blocks of Iggy's binary transport",
            "src/headstream/core/model/header_block.py",
            _blocks(BINARY, {**HEADERS, "every kind": IGGY_KINDS, "wide kinds": WIDE_KINDS}),
        ),
        "binary-messages.json": _file(
            "Messages of Iggy's binary transport, as a log stores and delivers them",
            "src/headstream/core/codec/binary.py",
            _messages(MESSAGES, lambda one: binary.encode_polled([one]), binary.decode_polled),
        ),
        "binary-first-messages.json": _file(
            "The same from before messages had a state and a checksum",
            "src/headstream/core/codec/binary.py",
            _messages(
                {name: one for name, one in MESSAGES.items() if one.state == 1},
                lambda one: binary.encode_polled([one], dialect="binary-first"),
                lambda data: binary.decode_polled(data, dialect="binary-first"),
            ),
        ),
        "json-messages.json": _file(
            "Replies of Iggy's JSON transport to a poll, each with one message",
            "src/headstream/core/codec/json.py",
            _messages(
                {name: one for name, one in MESSAGES.items() if not one.headers.repeated},
                lambda one: json_transport.encode_polled([one], 1, 42),
                json_transport.decode_polled,
            ),
        ),
        "kip82-headers.json": _file(
            "Header blocks of KIP-82, read strictly",
            "src/headstream/core/codec/kip82/headers.py",
            _blocks(STRICT, {**HEADERS, "every type": TYPED_KINDS}),
        ),
        "kip82-lenient-headers.json": _file(
            "Header blocks that are read in lenient mode alone",
            "src/headstream/core/codec/kip82/headers.py",
            _lenient_blocks(),
        ),
        "kip82-messages.json": _file(
            "Messages of KIP-82",
            "src/headstream/core/codec/kip82/message.py",
            [*_messages(TYPED_MESSAGES, lambda one: encode_message(from_message(one)), decode_set), *_sets()],
        ),
        "kip82-requests.json": _file(
            "Requests and responses of Produce and Fetch, in version 4 as KIP-82 proposed it and in older ones",
            "src/headstream/core/codec/kip82/requests.py",
            _requests(),
        ),
    }


def _file(dialect: str, layout: str, vectors: Any) -> dict[str, Any]:
    return {"dialect": dialect, "layout": layout, "vectors": list(vectors)}


def _headers(headers: hs.Headers) -> Any:
    return encode_document(hs.Message(payload=b"", headers=headers))["headers"]


def _document(one: hs.Message) -> dict[str, Any]:
    document = encode_document(one)
    return {name: value for name, value in document.items() if name not in ("topic", "partition")}


def _blocks(layout: HeaderLayout, cases: dict[str, hs.Headers]) -> Iterator[dict[str, Any]]:
    for name, headers in cases.items():
        yield {"name": name, "hex": headers.as_bytes(layout).hex(), "headers": _headers(headers)}
    whole = hs.Headers({"source": "web"}).as_bytes(layout)
    yield from _broken(whole, lambda data: hs.Headers.from_bytes(data, layout).items())


def _lenient_blocks() -> Iterator[dict[str, Any]]:
    key = bytes.fromhex("000000016b")
    blocks = {
        "a type alone": key + bytes.fromhex("0000000105"),
        "no type": key + bytes.fromhex("00000000"),
        "a boolean of 7": key + bytes.fromhex("000000020007"),
        "an empty key": bytes.fromhex("00000000" + "0000000208") + b"x",
        "an unknown type": key + bytes.fromhex("000000030a0102"),
    }
    for name, block in blocks.items():
        yield {"name": name, "hex": block.hex(), "headers": _headers(hs.Headers.from_bytes(block, LENIENT))}


def _messages(
    cases: dict[str, hs.Message], encode: Callable[[hs.Message], bytes], decode: Callable[[bytes], Any]
) -> Iterator[dict[str, Any]]:
    for name, one in cases.items():
        yield {"name": name, "hex": encode(one).hex(), "message": _document(one)}
    if decode is not decode_set:  # a set ends where its last message is cut off
        yield from _broken(encode(next(iter(cases.values()))), decode)


def _sets() -> Iterator[dict[str, Any]]:
    inner = [from_message(message(b"first", id=0, offset=41)), from_message(message(b"second", id=0))]
    documents = [_document(message(b"first", id=0, offset=41)), _document(message(b"second", id=0))]
    yield {"name": "a set of two", "hex": encode_set(inner).hex(), "messages": documents}


def _requests() -> Iterator[dict[str, Any]]:
    typed = encode_set([from_message(message(b"first", hs.Headers({"attempt": hs.int16(3)}), id=0, offset=41))])
    plain = encode_set([requests_message(magic) for magic in (0, 1)])
    sets = {0: encode_set([requests_message(0)]), 1: plain, 2: typed}
    for version in (0, 1, 2, 4):
        head = values.RequestHead(version, 7, "headstream" if version else None)
        data = sets[requests.magic_of(requests.PRODUCE, version)]
        request = values.ProduceRequest(
            partitions=(
                values.ProducePartition("shop.orders", 0, data),
                values.ProducePartition("shop.orders", 1, b""),
            ),
            acks=1,
            timeout_ms=1500,
        )
        timestamp_ms = -1 if version >= 2 else None
        produced = values.ProduceResponse(
            partitions=(
                values.ProducedPartition("shop.orders", 0, 0, 41, timestamp_ms),
                values.ProducedPartition("shop.orders", 1, 2, -1, timestamp_ms),
            ),
            throttle_ms=5 if version else None,
        )
        yield _frame(f"Produce {version}, request", head, requests.PRODUCE, "request", request)
        yield _frame(f"Produce {version}, response", head, requests.PRODUCE, "response", produced)
    for version in range(5):
        head = values.RequestHead(version, 8, "headstream")
        data = sets[requests.magic_of(requests.FETCH, version)]
        places = (
            values.FetchPartition("shop.orders", 0, 41, 1 << 20),
            values.FetchPartition("kafka", 3, 0, 4096),
        )
        fetch = values.FetchRequest(partitions=places, max_bytes=1 << 21 if version >= 3 else None)
        fetched = values.FetchResponse(
            partitions=(
                values.FetchedPartition("shop.orders", 0, 0, 42, data),
                values.FetchedPartition("kafka", 3, 3, -1, b""),
            ),
            throttle_ms=0 if version else None,
        )
        yield _frame(f"Fetch {version}, request", head, requests.FETCH, "request", fetch)
        yield _frame(f"Fetch {version}, response", head, requests.FETCH, "response", fetched)


def requests_message(magic: int) -> Kip82Message:
    """Return a message of an older format."""
    return Kip82Message(value=b"old", key=b"42", offset=magic, timestamp_ms=1_700_000_000_000 if magic else None, magic=magic)


def _frame(name: str, head: values.RequestHead, api_key: int, side: str, content: Any) -> dict[str, Any]:
    encode: Any = requests.encode_request if side == "request" else requests.encode_response
    members: dict[str, Any] = {
        "correlation_id": head.correlation_id,
        **({"client_id": head.client_id} if side == "request" else {}),
    }
    for field in dataclasses.fields(content):
        members[field.name] = getattr(content, field.name)
    members["partitions"] = [
        {key: value.hex() if isinstance(value, bytes) else value for key, value in each._asdict().items()}
        for each in content.partitions
    ]
    data = encode(content, head)
    return {"name": name, "hex": data.hex(), "api_key": api_key, "api_version": head.api_version, side: members}


def _broken(whole: bytes, decode: Callable[[bytes], Any]) -> Iterator[dict[str, Any]]:
    for size in (1, len(whole) // 2, len(whole) - 1):
        try:
            decode(whole[:size])
        except DecodeError as error:
            yield {"name": f"cut after {size} bytes", "hex": whole[:size].hex(), "error": error.what, "at": error.at}


def main() -> None:
    """Write the files."""
    DIRECTORY.mkdir(exist_ok=True)
    for name, content in vectors().items():
        text = json.dumps(content, ensure_ascii=False, indent=1) + "\n"
        (DIRECTORY / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
