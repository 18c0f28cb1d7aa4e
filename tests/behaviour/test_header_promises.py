"""What hurts people with message headers elsewhere, each shown not to be so here.

The pains are those that users of other brokers, clients and connectors reported: values that are guessed, cut, flattened,
lost or shown as garbage. Each test says in its name what happens elsewhere.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner

import headstream as hs
from headstream.cli.main import cli
from headstream.cli.shared.header_text import format_header, parse_header
from headstream.core.codec.conversion import convert, read_messages
from headstream.core.codec.kafka import KafkaRecord, decode_record, encode_record

DIALECTS = ("binary-wide", "json-wide", "kip82")


@pytest.fixture
def log() -> Iterator[hs.Client]:
    with hs.connect("memory://") as log:
        log.create_topic("shop/orders", limits="wide")
        yield log


def through_everything(log: hs.Client, key: str, value: Any) -> list[hs.HeaderValue]:
    """Return a header after the log, after each dialect, and after Kafka."""
    with log.producer("shop/orders") as producer:
        producer.send(b"x", headers={key: value})
    (message,) = log.poll("shop/orders", start="last", count=1)
    again = [read_messages(convert(message, to=to), dialect=to)[0] for to in DIALECTS]
    return [one.headers[key] for one in (message, *again, decode_record(encode_record(message)))]


@pytest.mark.parametrize("text", ["69203120e780", "1::2", " 1E-2", "0012", "true", "null", "2026-01-31", "[1", '{"a"', "12345"])
def test_p1_p2_p3_p5_a_text_that_looks_like_something_else_is_not_guessed_or_cut(log: hs.Client, text: str) -> None:
    assert set(map(repr, through_everything(log, "id", text))) == {f"string({text!r})"}
    assert parse_header(f"id={text}") == ("id", hs.string(text))


def test_p4_p23_a_kind_does_not_depend_on_the_value() -> None:
    for kind, plains in (("int64", [5, 300, -5, 1 << 40]), ("float64", [0.5, 0.1, 1e300, float("inf")]), ("string", ["", "5"])):
        assert {hs.Headers({"k": plain})["k"].kind_name for plain in plains} == {kind}


def test_p6_mirroring_forwards_headers_byte_by_byte(log: hs.Client) -> None:
    log.create_topic("mirror/orders", limits="wide")
    given = hs.Headers(
        [("digest", bytes(range(256))), ("n", hs.HeaderValue(15, bytes.fromhex("230100000000f07f"))), ("digest", b"")]
    )
    with log.producer("shop/orders") as producer:
        producer.send(b"x", headers=given)
    (message,) = log.poll("shop/orders", start="first")
    with log.producer("mirror/orders") as producer:
        producer.send(message.payload, headers=message.headers)
    (mirrored,) = log.poll("mirror/orders", start="first")
    assert mirrored.headers.received_bytes() == message.headers.received_bytes() == given.as_bytes()


def test_p7_numbers_are_shown_as_numbers(tmp_path: Any) -> None:
    url = f"file://{tmp_path}/log"
    with hs.connect(url) as log:
        log.create_topic("shop/orders")
        with log.producer("shop/orders") as producer:
            producer.send(b"x", headers={"partition": hs.int32(3), "offset": hs.int64(1 << 40)})
    shown = CliRunner().invoke(cli, ["poll", "shop/orders", "--url", url, "--offset", "first"]).output
    assert "partition=int32:3 offset=int64:1099511627776" in shown


def test_p8_a_long_is_read_as_the_number_it_is_and_as_nothing_else(log: hs.Client) -> None:
    for value in through_everything(log, "original-offset", hs.int64(4711)):
        assert value.as_int64() == value.to_int() == value == 4711
        with pytest.raises(hs.HeaderError, match="the header is int64, not int32"):
            value.as_int32()


def test_p9_p14_an_empty_text_and_null_are_themselves(log: hs.Client) -> None:
    assert set(map(repr, through_everything(log, "empty", ""))) == {"string('')"}
    assert set(map(repr, through_everything(log, "gone", None))) == {"null()"}
    assert set(map(repr, through_everything(log, "nothing", b""))) == {"raw(b'')"}


@pytest.mark.parametrize("text", ["x", '"x"', "'x'", '\\"x', '{"a": "b"}'])
def test_p10_quotes_are_neither_added_nor_taken(log: hs.Client, text: str) -> None:
    assert {value.value for value in through_everything(log, "k", text)} == {text}
    record = encode_record(hs.Message(payload=b"", headers=hs.Headers({"k": text})))
    assert ("k", text.encode()) in record.headers  # what a foreign consumer sees


def test_p11_nobody_writes_type_tables_by_hand() -> None:
    message = hs.Message(payload=b"", headers=hs.Headers({"n": hs.int64(5), "s": "x"}))
    assert decode_record(encode_record(message)).headers == message.headers
    spring = dict(encode_record(message, convention="spring").headers)
    assert json.loads(spring["spring_json_header_types"] or b"") == {"n": "java.lang.Long", "s": "java.lang.String"}


def test_p12_names_of_classes_in_headers_load_nothing() -> None:
    before = set(sys.modules)
    types = {"a": "java.lang.Runtime", "b": "antigravity.Fly", "c": "__import__('os')"}
    headers: tuple[Any, ...] = (*((key, b'"value"') for key in types), ("spring_json_header_types", json.dumps(types).encode()))
    message = decode_record(KafkaRecord(value=b"x", headers=headers))
    assert {message.headers[key].data for key in types} == {b'"value"'}
    assert "antigravity" not in set(sys.modules) - before


def test_p13_bytes_that_are_no_text_do_not_stop_the_consumer(log: hs.Client) -> None:
    record = KafkaRecord(value=b"the payload", headers=(("good", b"x"), ("bad", b"\xff\xfe")))
    message = decode_record(record)
    with log.producer("shop/orders") as producer:
        producer.send(message.payload, headers=message.headers)
    (polled,) = log.poll("shop/orders", start="first")
    assert polled.payload == b"the payload"
    assert polled.headers["bad"] == b"\xff\xfe"
    with pytest.raises(hs.HeaderError, match="cannot be read as text"):
        polled.headers["bad"].to_str()


def test_p15_repeated_keys_are_kept_or_refused_never_dropped(log: hs.Client) -> None:
    given = hs.Headers([("hop", "a"), ("x", 1), ("hop", "b")])
    with log.producer("shop/orders") as producer:
        producer.send(b"x", headers=given)
    (message,) = log.poll("shop/orders", start="first")
    for again in (message, *(read_messages(convert(message, to=to), dialect=to)[0] for to in ("binary", "kip82"))):
        assert again.headers == given
    assert decode_record(encode_record(message)).headers == given
    with pytest.raises(hs.LimitError, match="repeated key"):
        convert(message, to="json")
    with pytest.raises(hs.HeaderError, match="is repeated, which a dict cannot represent"):
        message.headers.to_dict()


def test_p16_a_trace_context_is_the_same_text_for_everybody(log: hs.Client) -> None:
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    assert set(map(repr, through_everything(log, "traceparent", trace))) == {f"string({trace!r})"}
    record = encode_record(hs.Message(payload=b"", headers=hs.Headers({"traceparent": trace})))
    assert ("traceparent", trace.encode()) in record.headers


@pytest.mark.parametrize("value", [hs.int32(42), hs.bool(True), hs.float64(0.1), hs.float32(0.1), hs.int8(-1)])
def test_p17_a_typed_value_arrives_typed(log: hs.Client, value: hs.HeaderValue) -> None:
    assert set(map(repr, through_everything(log, "k", value))) == {repr(value)}


def test_p18_p19_every_message_of_a_batch_has_its_headers_under_load(log: hs.Client) -> None:
    with log.producer("shop/orders", linger_ms=50) as producer:
        for number in range(5000):
            producer.send(b"x", headers={"number": number, "text": f"{number}"})
    with log.consumer("shop/orders", group="check", start="first", timeout_ms=0) as consumer:
        seen = [(message.headers["number"].value, message.headers["text"].value) for message in consumer]
    assert seen == [(number, str(number)) for number in range(5000)]


def test_p20_headers_that_grew_too_much_are_refused_where_they_are_sent(log: hs.Client) -> None:
    headers = hs.Headers({"error": "x" * 65_537})
    with log.producer("shop/orders") as producer, pytest.raises(hs.LimitError, match=r"65536|65,536"):
        producer.send(b"x", headers=headers)
    bounded = hs.Headers([("error", f"attempt {n}") for n in range(100)])
    assert len(bounded.without("error").with_(("error", "the last"))) == 1


def test_p21_whoever_wraps_send_can_add_headers_to_whatever_was_given(log: hs.Client) -> None:
    with log.producer("shop/orders") as producer:
        send: Any = producer.send
        with pytest.raises(TypeError):
            send(b"x", {"a": 1})  # by name alone: there is no place to collide in
        given: list[Any] = [None, {"a": 1}, [("a", 1)], hs.Headers({"a": 1})]
        for headers in given:
            producer.send(b"x", headers=hs.Headers(headers or ()).with_(("traceparent", "00-…")))
    messages = log.poll("shop/orders", start="first")
    assert [message.headers.keys() for message in messages] == [("traceparent",), *[("a", "traceparent")] * 3]


def test_p22_another_format_loses_nothing_in_silence(log: hs.Client) -> None:
    with pytest.raises(hs.LimitError, match="cannot represent the uint64"):
        convert(hs.Message(payload=b"", headers=hs.Headers({"k": hs.uint64((1 << 64) - 1)})), to="kip82")
    nan = hs.HeaderValue(15, bytes.fromhex("230100000000f07f"))
    for value in (nan, hs.float64(float("-inf")), hs.string("x" * 300)):
        assert {(one.kind, one.data) for one in through_everything(log, "k", value)} == {(value.kind, value.data)}
    stored = hs.Message(payload=b"", offset=1, timestamp=1_700_000_000_000_123)
    for to in DIALECTS:
        assert read_messages(convert(stored, to=to), dialect=to)[0].timestamp == 1_700_000_000_000_123


def test_p24_values_of_different_kinds_are_different_and_both_kept() -> None:
    headers = hs.Headers([("k", hs.uint8(1)), ("k", hs.uint16(1)), ("k", True), ("k", 1.0)])
    assert len(set(map(repr, headers.getall("k")))) == 4
    assert hs.uint8(1) != hs.uint16(1)
    assert hs.uint8(1) == 1
    assert [format_header("k", value) for value in headers.getall("k")] == [
        "k=uint8:1",
        "k=uint16:1",
        "k=bool:true",
        "k=float64:1.0",
    ]
    block = headers.as_bytes()
    assert block.count(struct.pack("<I", 1) + b"k") == 4
