"""Messages to and from the binary transport, byte by byte, with the two reserved headers."""

from __future__ import annotations

import struct

import pytest

from headstream.core.codec.binary import decode_headers, decode_polled, decode_sent, encode_headers, encode_polled, encode_sent
from headstream.core.model import constructors as kinds
from headstream.core.model.header_values import HeaderValue
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message, MessageState
from headstream.errors import DecodeError, HeaderError, InvalidInputError
from tests.support.messages.batches import header, sent, stored

KEY = header("hs.key", 1, b"42")
NULL = header("hs.null", 3, b"\x01")

EVERY_KIND = Headers(
    [
        ("raw", b"\x00\xff"),
        ("string", "żółw"),
        ("bool", True),
        ("int8", kinds.int8(-5)),
        ("int16", kinds.int16(-500)),
        ("int32", kinds.int32(-70_000)),
        ("int64", kinds.int64(-(1 << 40))),
        ("int128", kinds.int128(-(1 << 100))),
        ("uint8", kinds.uint8(250)),
        ("uint16", kinds.uint16(60_000)),
        ("uint32", kinds.uint32(4_000_000_000)),
        ("uint64", kinds.uint64((1 << 64) - 1)),
        ("uint128", kinds.uint128((1 << 128) - 1)),
        ("float32", kinds.float32(1.5)),
        ("float64", kinds.float64(-0.1)),
        ("null", kinds.null()),
        ("char", kinds.char("ß")),
        ("later", HeaderValue(200, b"of a kind of tomorrow")),
        ("raw", b"again"),
    ]
)


def test_encode_sent_spells_every_field() -> None:
    message = Message(payload=b"alpha", headers=Headers({"attempt": kinds.uint8(3)}), id=7)
    assert encode_sent([message]) == sent(b"alpha", header("attempt", 9, b"\x03"), 7)
    assert encode_sent([]) == b""


def test_encode_polled_spells_every_field() -> None:
    message = Message(
        payload=b"alpha", headers=Headers({"attempt": kinds.uint8(3)}), id=7, offset=9, timestamp=11, state=MessageState.POISONED
    )
    assert encode_polled([message]) == stored(
        b"alpha", header("attempt", 9, b"\x03"), offset=9, state=MessageState.POISONED, timestamp_us=11, message_id=7
    )


def test_headers_of_every_kind_come_back_in_order_with_repeats() -> None:
    block = encode_headers(EVERY_KIND)
    assert block.startswith(header("raw", 1, b"\x00\xff") + header("string", 2, "żółw".encode()) + header("bool", 3, b"\x01"))
    assert decode_headers(block) == EVERY_KIND
    assert decode_headers(b"??" + block, 2) == EVERY_KIND
    assert decode_headers(b"") == Headers()


@pytest.mark.parametrize(
    "message",
    [
        Message(payload=b"plain"),
        Message(payload=b""),
        Message(payload=None),
        Message(payload=b"keyed", key=b"42"),
        Message(payload=None, key=b"42"),
        Message(payload=None, key=b"", headers=EVERY_KIND),
        Message(payload=b"", key=b"k", headers=EVERY_KIND, id=(1 << 128) - 1),
        Message(payload=b"x", headers=Headers([("a", 1), ("hs.key", b"later"), ("hs.null", True)])),
        Message(payload=b"x", headers=Headers([("hs.null", True)])),
        Message(payload=b"x", headers=Headers([("hs.key", "text")])),
        Message(payload=b"x", key=b"k", headers=Headers([("hs.key", b"second")])),
        Message(payload=None, headers=Headers([("hs.null", True), ("hs.key", b"k")])),
        Message(payload=None, headers=Headers([("hs.key", b"k")])),
        Message(payload=b"", headers=Headers([("hs.null", False)])),
    ],
    ids=repr,
)
def test_a_message_comes_back_as_it_was(message: Message) -> None:
    assert decode_sent(encode_sent([message, message])) == [message, message]
    polled = Message(
        payload=message.payload,
        headers=message.headers,
        key=message.key,
        id=5,
        offset=1,
        timestamp=2,
        state=MessageState.POISONED,
    )
    assert decode_polled(encode_polled([polled])) == [polled]


def test_the_key_is_the_first_header_and_null_follows_it() -> None:
    message = Message(payload=None, key=b"42", headers=Headers({"a": kinds.uint8(1)}))
    assert encode_sent([message]) == sent(b"", KEY + NULL + header("a", 9, b"\x01"))
    assert encode_sent([Message(payload=None)]) == sent(b"", NULL)


def test_reserved_headers_count_only_in_their_places() -> None:
    assert decode_sent(sent(b"p", NULL))[0].headers == Headers([("hs.null", True)])  # there is a payload
    assert decode_sent(sent(b"", NULL + KEY))[0].headers == Headers([("hs.key", b"42")])  # not the first
    assert decode_sent(sent(b"", header("a", 9, b"\x01") + NULL))[0].payload == b""
    assert decode_sent(sent(b"", header("hs.null", 3, b"\x00")))[0].payload == b""


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (Message(payload=b"x", headers=Headers([("hs.key", b"k")])), "hs.key"),
        (Message(payload=b"", headers=Headers([("hs.null", True)])), "hs.null"),
        (Message(payload=b"", key=b"k", headers=Headers([("hs.null", True)])), "hs.null"),
    ],
)
def test_headers_that_would_be_read_back_as_something_else_are_refused(message: Message, name: str) -> None:
    with pytest.raises(HeaderError, match=name):
        encode_sent([message])


def test_decode_polled_keeps_what_it_does_not_know() -> None:
    data = stored(b"x", header("k", 99, b"?"), offset=3, state=77, timestamp_us=4, message_id=8)
    (message,) = decode_polled(data, topic="shop/orders", partition=2)
    assert (message.state, message.headers["k"].kind, message.headers["k"].data) == (77, 99, b"?")
    assert (message.topic, message.partition) == ("shop/orders", 2)
    assert encode_polled([message]) == data


def test_decode_polled_keeps_a_checksum_that_is_wrong() -> None:
    data = bytearray(stored(b"payload"))
    data[-1] ^= 1
    (message,) = decode_polled(data)
    assert not message.verify()
    assert encode_polled([message]) == data


def test_the_first_dialect_has_neither_state_nor_checksum() -> None:
    message = Message(payload=b"alpha", headers=Headers({"a": kinds.uint8(1)}), key=b"42", id=7, offset=9, timestamp=11)
    data = encode_polled([message], dialect="binary-first")
    block = KEY + header("a", 9, b"\x01")
    head = struct.pack("<QQ", 9, 11) + (7).to_bytes(16, "little")
    assert data == head + struct.pack("<I", len(block)) + block + struct.pack("<I", 5) + b"alpha"
    assert decode_polled(data, dialect="binary-first") == [message]


def test_what_a_dialect_cannot_hold_is_refused() -> None:
    poisoned = Message(payload=b"x", offset=9, timestamp=1, state=MessageState.POISONED)
    with pytest.raises(InvalidInputError, match="cannot hold the state of the message at offset 9"):
        encode_polled([poisoned], dialect="binary-first")
    with pytest.raises(InvalidInputError, match="encode_sent"):
        encode_polled([Message(payload=b"x")])
    for dialect in ("binary", "binary-first"):
        with pytest.raises(InvalidInputError, match="out of range"):
            encode_polled([Message(payload=b"x", offset=-1, timestamp=1)], dialect=dialect)


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (b"\x01\0\0", "a header is cut short"),
        (b"\x09\0\0\0k", "a header key is cut short"),
        (b"\x01\0\0\0k\x01", "a header key is cut short at byte (4|24): 6 bytes needed, 2 available"),
        (header("k", 1, b"vv")[:-1], "a header value is cut short"),
        (header("", 1, b"v"), "must have 1 to 255 bytes, not 0"),
        (header("k" * 256, 1, b"v"), "not 256"),
        (header(b"\xff", 1, b"v"), "a header key is not UTF-8"),
        (header("k", 2, b"\xff"), "a string header must be UTF-8, but byte 0 is invalid"),
        (header("k", 6, b"123"), "a header of kind int32 must have 4 bytes, not 3"),
        (header("k", 3, b"\x02"), "a bool header must be 0 or 1"),
        (header("k", 0, b"v"), "a header kind must be a number from 1 to 255, not 0"),
    ],
)
def test_a_block_that_is_not_headers_is_refused(block: bytes, text: str) -> None:
    with pytest.raises(DecodeError, match=text):
        decode_headers(block)
    with pytest.raises(DecodeError, match=text):
        decode_sent(sent(b"p", block))


def test_every_truncation_is_refused_with_its_place() -> None:
    first = stored(b"payload", header("k", 2, b"value"))
    data = first + stored(b"second")
    for size in range(1, len(data)):
        if size == len(first):
            continue
        with pytest.raises(DecodeError) as caught:
            decode_polled(data[:size])
        assert caught.value.at <= size
