"""Messages as Kafka records: kinds that come back, bytes that others can read, and what others do to them."""

from __future__ import annotations

import struct
from typing import Any

import pytest

import headstream as hs
from headstream.core.codec.kafka import (
    KafkaRecord,
    decode_record,
    encode_record,
    find_losses,
    from_kafka_topic,
    read_record,
    to_kafka_topic,
)
from headstream.core.model.constructors import bool_
from headstream.core.model.header_values import HeaderValue
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message, MessageState
from headstream.errors import HeaderError, InvalidInputError

_ALL = [
    ("name", hs.string("Zoë")), ("empty", hs.string("")), ("bytes", hs.raw(b"\x00\xff")), ("no bytes", hs.raw(b"")),
    ("yes", bool_(True)), ("no", bool_(False)), ("i8", hs.int8(-128)), ("i64", hs.int64(-(2**63))),
    ("i128", hs.int128(-(2**127))), ("u8", hs.uint8(3)), ("u128", hs.uint128(2**128 - 1)), ("f32", hs.float32(0.1)),
    ("f64", hs.float64(1e300)), ("minus", hs.float64(-0.0)), ("nan", hs.float64(float("nan"))),
    ("inf", hs.float32(float("-inf"))),
    ("null", hs.null()), ("char", hs.char("é")), ("half", hs.char("\ud800")), ("odd nan", HeaderValue(15, b"\x01" + b"\xff" * 7)),
    ("future", HeaderValue(200, b"\x01\x02")), ("a&b=c,d%", hs.uint16(7)), ("again", hs.int32(1)), ("again", hs.string("1")),
    ("again", hs.raw(b"1")), ("again", hs.null()),
]  # fmt: skip


def test_encode_record_gives_back_every_kind_when_it_is_decoded() -> None:
    message = Message(
        payload=b"p",
        key=b"",
        headers=Headers(_ALL),
        id=77,
        state=MessageState.POISONED,
        timestamp=1_700_000_000_123_456,
        checksum=5,
    )
    record = encode_record(message)
    assert decode_record(record) == message
    assert record.timestamp_ms == 1_700_000_000_123
    assert [key for key, _ in record.headers[-5:]] == ["hs.kinds", "hs.id", "hs.state", "hs.appended", "hs.checksum"]


def test_encode_record_writes_what_a_foreign_client_expects_when_it_reads_bytes() -> None:
    headers = {"attempt": hs.uint8(3), "source": "web", "total": 12.5, "fresh": True, "trace": b"\x01", "none": None}
    record = encode_record(Message(payload=None, key=None, headers=Headers(headers), topic="shop/orders"))
    assert record == KafkaRecord(
        value=None,
        topic="shop.orders",
        headers=(
            ("attempt", b"3"), ("source", b"web"), ("total", b"12.5"), ("fresh", b"true"), ("trace", b"\x01"), ("none", None),
            ("hs.kinds", b"attempt=uint8&source=string&total=float64&fresh=bool"),
        ),
    )  # fmt: skip


def test_encode_record_adds_nothing_when_no_header_is_typed() -> None:
    record = encode_record(Message(payload=b"", headers=Headers({"a": b"1", "b": None}), timestamp=5_000))
    assert record.headers == (("a", b"1"), ("b", None))
    assert (record.value, record.key, record.timestamp_ms) == (b"", None, 5)


def test_encode_record_refuses_a_reserved_name_when_a_user_gives_one() -> None:
    with pytest.raises(HeaderError, match=r"'hs\.kinds' is reserved"):
        encode_record(Message(payload=b"", headers=Headers({"hs.kinds": "x"})))
    stamped = Message(payload=b"", headers=Headers({"hs.timestamp": 5}))
    assert decode_record(encode_record(stamped)) == stamped


@pytest.mark.parametrize(
    ("headers", "kinds", "expected"),
    [
        ([("a", b"x")], b"a=uint8", [("a", hs.raw(b"x"))]),  # rewritten on the way
        ([("a", b"300")], b"a=uint8", [("a", hs.raw(b"300"))]),
        ([("a", None)], b"a=uint8", [("a", hs.null())]),
        ([("a", b"1"), ("a", b"2")], b"a=uint8", [("a", hs.raw(b"1")), ("a", hs.raw(b"2"))]),  # one was added
        ([("b", b"1"), ("a", b"2")], b"a=uint8", [("b", hs.raw(b"1")), ("a", hs.uint8(2))]),
        ([("a", b"1")], b"a=uint8&gone=string", [("a", hs.uint8(1))]),
        ([("a", b"1")], b"\xff\x00&=&a&%zz=bool", [("a", hs.raw(b"1"))]),
        ([("a", b"1")], b"a=decimal", [("a", hs.raw(b"1"))]),
        ([("a", b"1")], b"a=0", [("a", hs.raw(b"1"))]),
        ([("a", b"1")], b"a=999", [("a", hs.raw(b"1"))]),
        ([("a", b"1")], "a=²".encode(), [("a", hs.raw(b"1"))]),
        ([("a", b"0x1p3")], b"a=float64", [("a", hs.raw(b"0x1p3"))]),
        ([("a", b"1_0")], b"a=float64", [("a", hs.raw(b"1_0"))]),
        ([("a", b"1e39")], b"a=float32", [("a", hs.raw(b"1e39"))]),
        ([("a", b"\xff")], b"a=string", [("a", hs.raw(b"\xff"))]),
        ([("a", b"nan")], b"a=float64:01ff", [("a", hs.raw(b"nan"))]),
        ([("a", b"5")], b"a=float64:01ffffffffffffff", [("a", hs.raw(b"5"))]),  # the text was changed, the bits were not
        ([("a", b"True")], b"a=bool", [("a", hs.raw(b"True"))]),
    ],
)
def test_decode_record_guesses_nothing_when_the_kinds_do_not_fit(
    headers: list[tuple[str, bytes | None]], kinds: bytes, expected: list[tuple[str, HeaderValue]]
) -> None:
    message = decode_record(KafkaRecord(value=b"", headers=(*headers, ("hs.kinds", kinds))))
    assert list(message.headers.items()) == expected


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
    assert decode_record(record, on_loss="drop").headers == Headers({"a": b"3"})


class _Confluent:
    """A message as confluent-kafka's: every member is a method."""

    def __init__(self, error: str | None = None, timestamp: tuple[int, int] = (1, 5)) -> None:
        self._error, self._timestamp = error, timestamp

    def error(self) -> str | None:
        return self._error

    def timestamp(self) -> tuple[int, int]:
        return self._timestamp

    def key(self) -> bytes:
        return b"k"

    def value(self) -> None:
        return None

    def headers(self) -> None:
        return None

    def topic(self) -> str:
        return "shop.orders"

    def partition(self) -> int:
        return 2

    def offset(self) -> int:
        return 9


def test_read_record_reads_methods_and_refuses_what_is_no_record() -> None:
    message = decode_record(_Confluent())
    assert (message.topic, message.partition, message.offset, message.timestamp) == ("shop/orders", 2, 9, 5_000)
    assert read_record(_Confluent(timestamp=(0, -1))).timestamp_ms is None
    with pytest.raises(InvalidInputError, match="reports an error instead of a record: end of partition"):
        read_record(_Confluent("end of partition"))
    no_record: Any = type("Decoded", (), {"value": {"a": 1}})()
    with pytest.raises(InvalidInputError, match="leave keys and values undecoded"):
        read_record(no_record)


def test_arguments_name_what_each_client_takes() -> None:
    record = KafkaRecord(value=b"v", topic="t", timestamp_ms=5, headers=(("a", None),))
    assert record.arguments("confluent") == {"topic": "t", "timestamp": 5, "value": b"v", "key": None, "headers": [("a", None)]}
    assert record.arguments("aiokafka")["timestamp_ms"] == 5
    with pytest.raises(InvalidInputError, match="cannot send a header that is null"):
        record.arguments("kafka-python")


@pytest.mark.parametrize(
    ("ours", "kafkas"),
    [
        ("shop/orders", "shop.orders"),
        ("shop/a.b", "shop.a.b"),
        ("plain", "plain"),
        ("__x", "__x"),
        ("/apps/cdc.v1/stream:shop.orders", "/apps/cdc.v1/stream:shop.orders"),  # HPE Data Fabric
    ],
)
def test_to_kafka_topic_is_undone_by_from_kafka_topic(ours: str, kafkas: str) -> None:
    assert to_kafka_topic(ours) == kafkas
    assert from_kafka_topic(kafkas) == ours


@pytest.mark.parametrize(
    "name", ["shop/ä", "", "..", "a b", "x" * 250, "a/b/c", "/apps/s", "/apps//s:t", "/a,b:t", "/apps:s:t", "/apps/s:ä"]
)
def test_to_kafka_topic_refuses_a_name_that_kafka_does_not_take(name: str) -> None:
    with pytest.raises(InvalidInputError, match=r"not a valid topic name in Kafka|name has"):
        to_kafka_topic(name)


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
