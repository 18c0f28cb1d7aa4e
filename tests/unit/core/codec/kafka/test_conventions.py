"""Unit tests of headstream.core.codec.kafka.conventions."""

from __future__ import annotations

import struct
from typing import Any

import pytest

import headstream as hs
from headstream.core.codec.kafka import (
    KafkaRecord,
    decode_record,
    encode_record,
)
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message
from headstream.errors import HeaderError


def test_decode_record_reads_springs_types_when_the_record_has_them() -> None:
    types = (
        b'{"n":"java.lang.Long","s":"java.lang.String","q":"java.lang.String",'
        b'"m":"org.springframework.util.MimeType","d":"java.lang.Double"}'
    )
    headers = (("n", b"3"), ("s", b"web"), ("q", b'"web"'), ("m", b'"text/plain"'), ("d", b'"NaN"'), ("other", b"5"))
    partition = ("kafka_dlt-original-partition", b"\x00\x00\x00\x02")
    record = KafkaRecord(value=b"", headers=(*headers, ("spring_json_header_types", types), partition))
    found = decode_record(record).headers
    assert found["n"] == hs.int64(3)
    assert (found["s"], found["q"]) == (hs.string("web"), hs.string("web"))
    assert found["m"] == hs.raw(b'"text/plain"')
    assert found["d"].data == struct.pack("<d", float("nan"))
    assert found["other"] == hs.raw(b"5")
    assert found["kafka_dlt-original-partition"] == hs.int32(2)
    assert dict(encode_record(decode_record(record)).headers)["kafka_dlt-original-partition"] == b"\x00\x00\x00\x02"


def test_decode_record_reads_connects_and_cloudevents_marks() -> None:
    headers = (
        ("n", b'{"schema":{"type":"int32","optional":false},"payload":3}'),
        ("b", b'{"schema":{"type":"bytes"},"payload":"AQI="}'),
        ("date", b'{"schema":{"type":"int32","name":"org.apache.kafka.connect.data.Date"},"payload":3}'),
        ("broken", b'{"schema":{"type":"int32"},"payload":'),
        ("__connect.errors.topic", b"orders"),
        ("ce_specversion", b"1.0"),
        ("ce_id", b"A-1"),
        ("content-type", b"application/json"),
    )
    found = decode_record(KafkaRecord(value=b"", headers=headers)).headers
    assert (found["n"], found["b"]) == (hs.int32(3), hs.raw(b"\x01\x02"))
    assert (found["date"].kind_name, found["broken"].kind_name) == ("raw", "raw")
    assert found["__connect.errors.topic"] == hs.string("orders")
    assert (found["ce_id"], found["content-type"]) == (hs.string("A-1"), hs.string("application/json"))


_TYPED = {
    "n": hs.int64(3), "u": hs.uint32(4), "s": "web", "q": '"x"', "b": True, "f": float("inf"), "c": hs.char("x"), "r": b"\xff",
}  # fmt: skip


@pytest.mark.parametrize("convention", ["spring", "connect"])
def test_encode_record_writes_a_convention_that_is_read_back_when_it_is_asked_for(convention: Any) -> None:
    message = Message(payload=b"p", headers=Headers(_TYPED), id=9)
    read = decode_record(encode_record(message, convention=convention))
    told = {key: value.value for key, value in read.headers.items() if key != "spring_json_header_types"}
    assert told == {key: value.value for key, value in message.headers.items()}
    assert read.headers["u"].kind_name == "int64"
    assert read.id == 9
    with pytest.raises(HeaderError, match="is beyond a long"):
        encode_record(Message(payload=b"", headers=Headers({"u": hs.uint64(2**63)})), convention=convention)


def test_encode_record_writes_cloudevents_when_it_is_asked_for() -> None:
    headers = Headers({"type": "order", "source": "/shop", "content-type": "application/json", "count": hs.int32(3)})
    message = Message(payload=b"{}", headers=headers, id=1, timestamp=1_700_000_000_000_000)
    assert encode_record(message, convention="cloudevents").headers == (
        ("ce_type", b"order"),
        ("ce_source", b"/shop"),
        ("ce_count", b"3"),
        ("ce_id", b"01000000-0000-0000-0000-000000000000"),
        ("ce_time", b"2023-11-14T22:13:20Z"),
        ("ce_specversion", b"1.0"),
        ("content-type", b"application/json"),
    )
    with pytest.raises(HeaderError, match="requires the attribute type"):
        encode_record(Message(payload=b"", id=1, topic="a/b"), convention="cloudevents")
    with pytest.raises(HeaderError, match="no type for a float64"):
        encode_record(Message(payload=b"", headers=Headers({"x": 1.5})), convention="cloudevents")
    with pytest.raises(HeaderError, match="not a valid attribute"):
        encode_record(Message(payload=b"", headers=Headers({"My-Name": "x"})), convention="cloudevents")
    with pytest.raises(HeaderError, match="'a' repeats, which spring cannot hold"):
        encode_record(Message(payload=b"", headers=Headers([("a", 1), ("a", 2)])), convention="spring")
