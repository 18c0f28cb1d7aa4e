"""Unit tests of headstream.core.codec.kafka.conventions."""

from __future__ import annotations

import struct
from typing import Any, get_args

import pytest

import headstream as hs
from headstream.core.codec.kafka import KafkaRecord, decode_record, encode_record
from headstream.core.codec.kafka.conventions import Convention, decode_headers, encode_any, encode_headers
from headstream.core.model.constructors import bool_
from headstream.core.model.header_values import HeaderKind, HeaderValue
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


_HALF = HeaderValue(HeaderKind.CHAR, b"\x00\xd8")
_NAN = HeaderValue(HeaderKind.FLOAT32, struct.pack("<I", 0x7FC00001))
_VALUES: list[Any] = [
    hs.int8(-3), hs.int16(300), hs.int32(1 << 20), hs.int64(1 << 40), hs.uint8(200), hs.uint16(60000), hs.uint32(4),
    hs.uint64(1 << 62), hs.uint64(1 << 63), hs.int128(5), hs.uint128(7), hs.float32(0.1), hs.float64(0.1), hs.float64(3.0),
    hs.float64(1e30), hs.float64(float("-inf")), _NAN, True, hs.char("x"), _HALF, "web", "12", "007", "10:30", '"q"', "null", "",
    "Größe", hs.raw(b"12"), hs.raw(b"\xff"), hs.raw(b"abc"), None, '{"schema":{"type":"int32"},"payload":3}',
    HeaderValue(99, b"7"),
]  # fmt: skip


@pytest.mark.parametrize("convention", get_args(Convention))
def test_encode_headers_gives_each_kind_back_exactly_or_refuses_it_by_name(convention: Convention) -> None:
    refused = 0
    for value in _VALUES:
        headers = Headers({"type": "t", "source": "s", "ce_id": "1", "n": value} if convention == "cloudevents" else {"n": value})
        message = Message(payload=b"", headers=headers)
        encoded, refusal = encode_any(message, convention)
        if refusal is not None or (convention == "raw" and headers["n"].kind not in (HeaderKind.RAW, HeaderKind.NULL)):
            refused += 1
            with pytest.raises(HeaderError, match="'n'"):
                encode_headers(message, convention)
        if convention != "raw" or headers["n"].kind in (HeaderKind.RAW, HeaderKind.NULL):
            assert decode_headers(encoded, convention) == list(headers.items()), (convention, value)
    assert refused == {"spring": 1, "connect": 4, "connect-json": 2, "cloudevents": 11, "raw": 30}.get(convention, 0)


def test_decode_headers_keeps_a_kind_only_while_the_value_is_one_of_it() -> None:
    headers = dict(encode_headers(Message(payload=b"", headers=Headers({"n": hs.uint8(3)})), "spring"))
    assert headers["hs.kinds"] == b"n=uint8"
    for text, value in ((b"4", hs.uint8(4)), (b"300", hs.int16(300))):
        assert decode_headers(list((headers | {"n": text}).items()), "spring") == [("n", value)]
        assert decode_headers(list((headers | {"n": text}).items()), None)[0] == ("n", value)


def test_decode_headers_keeps_springs_classes_without_a_kind() -> None:
    types = b'{"n":"java.lang.Long","order":"com.acme.Order"}'
    headers = [("n", b"3"), ("order", b'{"id":1}'), ("spring_json_header_types", types)]
    read = decode_headers(headers, "spring")
    assert read[:2] == [("n", hs.int64(3)), ("order", hs.raw(b'{"id":1}'))]
    assert encode_headers(Message(payload=b"", headers=Headers(read)), "spring") == headers
    assert decode_headers([headers[0], headers[2]], "spring") == [("n", hs.int64(3))]


def test_decode_headers_takes_connects_guess_only_if_it_keeps_the_text() -> None:
    texts: dict[str, HeaderValue] = {
        "3": hs.int8(3),
        "300": hs.int16(300),
        "99999": hs.int32(99999),
        "-5000000000": hs.int64(-5_000_000_000),
    }
    texts |= {"0.1": hs.float32(0.1), "true": bool_(True), "web": hs.string("web")}
    kept = ["007", "+5", "1e3", "3.0", " 12", "10:30", "null", "2020-01-01", "12:34:56.789Z", "[1]", "1" * 30, ""]
    for text, value in (texts | {text: hs.string(text) for text in kept}).items():
        assert decode_headers([("k", text.encode())], "connect") == [("k", value)], text


def test_encode_headers_completes_an_event_and_gives_back_what_the_message_had() -> None:
    headers = Headers({"type": "order", "content-type": "application/json", "count": hs.int32(3), "My-Name": hs.raw(b"x")})
    message = Message(payload=b"{}", headers=headers, id=1, timestamp=1_700_000_000_000_000, topic="shop/orders")
    encoded = encode_headers(message, "cloudevents")
    assert encoded[:-1] == [
        ("ce_type", b"order"),
        ("content-type", b"application/json"),
        ("ce_count", b"3"),
        ("My-Name", b"x"),
        ("ce_id", b"01000000-0000-0000-0000-000000000000"),
        ("ce_source", b"shop/orders"),
        ("ce_time", b"2023-11-14T22:13:20Z"),
        ("ce_specversion", b"1.0"),
    ]
    assert decode_headers(encoded, "cloudevents") == list(headers.items())
    assert dict(decode_headers(encoded, None))["ce_count"] == hs.int32(3)
    with pytest.raises(HeaderError, match="requires the attribute type"):
        encode_record(Message(payload=b"", id=1, topic="a/b"), convention="cloudevents")
    for convention, pairs in (("cloudevents", {"type": "a", "ce_type": "b"}), ("spring", [("a", 1), ("a", 2)])):
        with pytest.raises(HeaderError, match=f"is repeated, which {convention} cannot represent"):
            encode_record(Message(payload=b"", headers=Headers(pairs)), convention=convention)  # type: ignore[arg-type]


def test_encode_headers_keeps_the_kinds_of_own_headers_when_the_convention_is_raw() -> None:
    pairs = [("hs.mirror", hs.string("a/shop/orders/1/0")), ("hs.attempts", hs.int32(3)), ("r", hs.raw(b"5"))]
    headers = encode_headers(Message(payload=b"", headers=Headers(pairs)), "raw")
    assert headers[:-1] == [("hs.mirror", b"a/shop/orders/1/0"), ("hs.attempts", b"3"), ("r", b"5")]
    assert decode_headers(headers, "raw") == pairs
    with pytest.raises(HeaderError, match="raw loses the kind int32"):
        encode_headers(Message(payload=b"", headers=Headers({"n": hs.int32(3)})), "raw")
