"""pack: columns to sent messages, byte by byte, and back through stamp and decode_columns."""

from __future__ import annotations

import itertools
import struct
from types import ModuleType

import pyarrow as pa
import pytest

from headstream.core.codec.batch.stored.stamp import stamp
from headstream.core.codec.batch.to_columns.columns import decode_columns
from headstream.core.codec.binary import encode_headers, encode_sent
from headstream.core.model import constructors as kinds
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message
from headstream.errors import DecodeError, HeaderError, InvalidInputError
from tests.support import kernels
from tests.support.messages.batches import header

MESSAGES = [
    Message(payload=b"plain", id=1),
    Message(payload=b"", id=2),
    Message(payload=None, key=b"", id=3),
    Message(payload=b"keyed", key=b"k" * 300, headers=Headers([("a", kinds.uint8(1)), ("a", "twice")]), id=(1 << 128) - 1),
    Message(payload=None, headers=Headers([("hs.null", True), ("b", 1.5)]), id=4),
    *(Message(payload=bytes([i]) * i, key=bytes([i]) if i % 3 else None, id=100 + i) for i in range(1, 20)),
]
pack = kernels.fixture("batch.from_columns.pack")


def column(values: list[bytes | None]) -> dict[str, bytes | None]:
    array = pa.array(values, pa.binary())
    validity, offsets, data = array.buffers()
    return {
        "validity": None if validity is None else validity.to_pybytes(),
        "offsets": offsets.to_pybytes()[: 4 * len(values) + 4],
        "data": b"" if data is None else data.to_pybytes(),
    }


def arguments(messages: list[Message]) -> dict[str, bytes | None]:
    payload, key = column([m.payload for m in messages]), column([m.key for m in messages])
    block = column([encode_headers(m.headers) for m in messages])
    return {
        **{f"payload_{name}": value for name, value in payload.items()},
        **{f"key_{name}": value for name, value in key.items()},
        "headers_offsets": block["offsets"],
        "headers_data": block["data"],
        "ids": b"".join(m.id.to_bytes(16, "little") for m in messages),
    }


def offsets_of(*values: bytes) -> bytes:
    return struct.pack(f"<{len(values) + 1}i", *itertools.accumulate(map(len, values), initial=0))


def test_pack_makes_the_bytes_that_the_messages_encode_to(pack: ModuleType) -> None:
    assert pack.pack(**arguments(MESSAGES)) == encode_sent(MESSAGES)
    for message in MESSAGES:
        assert pack.pack(**arguments([message])) == encode_sent([message])


def test_pack_makes_plain_messages_of_payloads_alone(pack: ModuleType) -> None:
    assert pack.pack(offsets_of(b"ab", b"", b"c"), b"abc") == encode_sent([Message(payload=p) for p in (b"ab", b"", b"c")])


def test_pack_takes_arrow_buffers_and_offsets_that_begin_later(pack: ModuleType) -> None:
    array = pa.array([b"skipped", b"first", b"second"], pa.binary())
    _, offsets, data = array.buffers()
    assert pack.pack(memoryview(offsets)[4:16], data) == encode_sent([Message(payload=b"first"), Message(payload=b"second")])


def test_pack_of_no_messages_is_empty(pack: ModuleType) -> None:
    assert pack.pack(b"", b"") == b""
    assert pack.pack(bytes(4), b"", key_offsets=b"", key_data=b"", ids=b"") == b""


def test_columns_come_back_through_the_log(pack: ModuleType) -> None:
    stored = stamp(pack.pack(**arguments(MESSAGES)), 0, 1, bytes(16), True).data
    read = decode_columns(stored, headers="binary")
    again = pack.pack(
        read.payload_offsets,
        read.payload_data,
        key_offsets=read.key_offsets,
        key_data=read.key_data,
        key_validity=read.key_validity,
        payload_validity=read.payload_validity,
        headers_offsets=read.headers_offsets,
        headers_data=read.headers_data,
        ids=b"".join(m.id.to_bytes(16, "little") for m in MESSAGES),
    )
    assert again == encode_sent(MESSAGES)


@pytest.mark.parametrize("offsets", [(0, 4), (2, 1), (-1, 3), (0, 3, 2), (3, 0, 3)])
def test_pack_refuses_offsets_that_do_not_ascend_within_the_data(pack: ModuleType, offsets: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInputError, match=r"the payload of message \d would be bytes"):
        pack.pack(struct.pack(f"<{len(offsets)}i", *offsets), b"abc")


def test_pack_refuses_columns_of_other_lengths(pack: ModuleType) -> None:
    two = offsets_of(b"a", b"b")
    with pytest.raises(InvalidInputError, match="2 messages need 12 bytes of key offsets, not 8"):
        pack.pack(two, b"ab", key_offsets=bytes(8), key_data=b"")
    with pytest.raises(InvalidInputError, match="12 bytes of headers offsets, not 16"):
        pack.pack(two, b"ab", headers_offsets=bytes(16), headers_data=b"")
    with pytest.raises(InvalidInputError, match="2 messages need 32 bytes of ids, not 16"):
        pack.pack(two, b"ab", ids=bytes(16))
    with pytest.raises(InvalidInputError, match="payload validity bitmap of"):
        pack.pack(two, b"ab", payload_validity=b"")


def test_pack_refuses_a_malformed_block_with_its_place(pack: ModuleType) -> None:
    good, bad = header("k", 1, b"v"), header("k", 6, b"vv")
    with pytest.raises(DecodeError, match=r"width of its kind at byte 21: 4 bytes needed, 2 available \(headers_data\)"):
        pack.pack(offsets_of(b"a", b"b"), b"ab", headers_offsets=offsets_of(good, bad), headers_data=good + bad)
    with pytest.raises(DecodeError, match="cut short"):
        pack.pack(offsets_of(b"a", b"b"), b"ab", headers_offsets=offsets_of(good[:-1], good), headers_data=good + good)


@pytest.mark.parametrize(
    ("payload", "block"), [(b"p", header("hs.key", 1, b"k")), (b"", header("hs.null", 3, b"\x01") + header("k", 1, b"v"))]
)
def test_pack_refuses_a_block_that_begins_with_a_reserved_header(pack: ModuleType, payload: bytes, block: bytes) -> None:
    with pytest.raises(HeaderError, match="message 0 begin with a reserved header"):
        pack.pack(offsets_of(payload), payload, headers_offsets=offsets_of(block), headers_data=block)
