"""Messages as Kafka records: kinds that come back, bytes that others can read, and what others do to them."""

from __future__ import annotations

import pytest

import headstream as hs
from headstream.core.codec.kafka import KafkaRecord, decode_record, encode_record, find_losses
from headstream.errors import HeaderError


def test_encode_record_writes_what_a_foreign_client_expects_when_it_reads_bytes() -> None:
    headers = {"attempt": hs.uint8(3), "source": "web", "total": 12.5, "fresh": True, "trace": b"\x01", "none": None}
    record = encode_record(hs.Message(payload=None, key=None, headers=hs.Headers(headers), topic="shop/orders"))
    assert record == KafkaRecord(
        value=None,
        topic="shop.orders",
        headers=(
            ("attempt", b"3"), ("source", b"web"), ("total", b"12.5"), ("fresh", b"true"), ("trace", b"\x01"), ("none", None),
            ("hs.kinds", b"attempt=uint8&source=string&total=float64&fresh=bool"),
        ),
    )  # fmt: skip


def test_encode_record_refuses_a_reserved_name_when_a_user_gives_one() -> None:
    with pytest.raises(HeaderError, match=r"'hs\.kinds' is reserved"):
        encode_record(hs.Message(payload=b"", headers=hs.Headers({"hs.kinds": "x"})))
    stamped = hs.Message(payload=b"", headers=hs.Headers({"hs.timestamp": 5}))
    assert decode_record(encode_record(stamped)) == stamped


def test_decode_record_keeps_a_reserved_header_when_it_cannot_be_read() -> None:
    odd = (("hs.id", b"nobody"), ("hs.state", b"\xff"), ("hs.checksum", b"-1"), ("hs.appended", None), ("hs.later", b"x"))
    message = decode_record(KafkaRecord(value=b"", headers=odd))
    assert [(key, value.value) for key, value in message.headers.items()] == list(odd)
    assert (message.id, message.state, message.checksum) == (0, 1, 0)


def test_decode_record_takes_kafkas_time_when_the_record_was_copied() -> None:
    record = KafkaRecord(value=b"", timestamp_ms=9, headers=(("hs.appended", b"5001"),))
    assert decode_record(record).timestamp == 9_000


def test_decode_record_refuses_what_a_message_cannot_have_unless_it_is_to_be_dropped() -> None:
    record = KafkaRecord(value=b"", topic="t", partition=0, offset=7, headers=(("", b"1"), ("k" * 256, b"2"), ("a", b"3")))
    with pytest.raises(HeaderError, match=r"a header has an empty key \(topic t, partition 0, offset 7\)"):
        decode_record(record)
    assert find_losses(record) == ["a header has an empty key", f"the header key '{'k' * 59} has 256 bytes, more than 255"]
    assert decode_record(record, on_loss="drop").headers == hs.Headers({"a": b"3"})
