"""vectors/kip82-requests.json, by a reader that shares no code with ours: the grammar of the proposal's time as one table."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headstream.core.codec.kip82 import request_values, requests
from headstream.errors import DecodeError

VECTORS = json.loads((Path(__file__).parents[2] / "vectors/kip82-requests.json").read_text(encoding="utf-8"))["vectors"]

Grammar = list[tuple[str, Any]]


def grammar(api_key: int, version: int, side: str) -> Grammar:
    """Return the fields of a frame after its size, in the types of Kafka's protocol guide."""
    head: Grammar = [("correlation_id", "i")]
    if side == "request":
        head = [("api_key", "h"), ("api_version", "h"), *head, ("client_id", "string")]
    throttle: Grammar = [("throttle_ms", "i")] if version >= 1 else []
    if (api_key, side) == (0, "request"):
        return [*head, ("acks", "h"), ("timeout_ms", "i"), ("topics", [("partition", "i"), ("message_set", "bytes")])]
    if (api_key, side) == (0, "response"):
        times: Grammar = [("timestamp_ms", "q")] if version >= 2 else []
        return [*head, ("topics", [("partition", "i"), ("error", "h"), ("base_offset", "q"), *times]), *throttle]
    if (api_key, side) == (1, "request"):
        most: Grammar = [("max_bytes", "i")] if version >= 3 else []
        waits: Grammar = [("replica_id", "i"), ("max_wait_ms", "i"), ("min_bytes", "i"), *most]
        return [*head, *waits, ("topics", [("partition", "i"), ("offset", "q"), ("max_bytes", "i")])]
    fetched: Grammar = [("partition", "i"), ("error", "h"), ("high_watermark", "q"), ("message_set", "bytes")]
    return [*head, *throttle, ("topics", fetched)]


class PlainReader:
    """Reads frames by their grammar."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, form: str) -> Any:
        (value,) = struct.unpack_from(f">{form}", self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def bytes_of(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def field(self, form: str) -> Any:
        if form == "string":
            size = self.number("h")
            return None if size == -1 else self.bytes_of(size).decode()
        return self.bytes_of(self.number("i")).hex() if form == "bytes" else self.number(form)

    def read(self, fields: Grammar) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, form in fields:
            if name != "topics":
                found[name] = self.field(form)
                continue
            found["partitions"] = []
            for _ in range(self.number("i")):
                topic = self.field("string")
                for _ in range(self.number("i")):
                    found["partitions"].append({"topic": topic, **self.read(form)})
        return found


def side_of(vector: dict[str, Any]) -> str:
    return "request" if "request" in vector else "response"


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_plain_reader_finds_what_stands_beside_the_bytes(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    reader = PlainReader(data)
    assert reader.number("i") == len(data) - 4
    side = side_of(vector)
    found = reader.read(grammar(vector["api_key"], vector["api_version"], side))
    assert reader.at == len(data)
    if side == "request":
        assert (found.pop("api_key"), found.pop("api_version")) == (vector["api_key"], vector["api_version"])
    absent = {key for key, value in vector[side].items() if value is None} - found.keys()
    assert absent <= {"throttle_ms", "max_bytes"}
    expected = {key: value for key, value in vector[side].items() if key not in absent}
    for each in expected["partitions"]:
        if each.get("timestamp_ms", 0) is None:
            del each["timestamp_ms"]
    assert found == expected


def decode(vector: dict[str, Any], data: bytes) -> tuple[Any, request_values.RequestHead]:
    if side_of(vector) == "request":
        head, request = requests.decode_request(data)
        return request, head
    correlation_id, response = requests.decode_response(data, vector["api_key"], vector["api_version"])
    return response, request_values.RequestHead(vector["api_version"], correlation_id)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_frame_is_written_as_it_was_read(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    content, head = decode(vector, data)
    encode: Any = requests.encode_request if side_of(vector) == "request" else requests.encode_response
    assert encode(content, head) == data
    assert head.correlation_id == vector[side_of(vector)]["correlation_id"]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_a_broken_frame_is_a_decode_error_or_another_frame(vector: dict[str, Any]) -> None:
    data = bytes.fromhex(vector["hex"])
    for size in range(len(data)):
        with pytest.raises(DecodeError):
            decode(vector, data[:size])
    for at in range(len(data)):
        for bit in (0x01, 0x80, 0xFF):
            changed = bytearray(data)
            changed[at] ^= bit
            with suppress(DecodeError):  # any other exception fails the test
                decode(vector, bytes(changed))
