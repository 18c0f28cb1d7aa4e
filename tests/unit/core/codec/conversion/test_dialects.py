"""One message in other dialects: what is kept, what is refused by name, what a policy makes of it, told before."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headstream as hs
from headstream.core.codec.binary import encode_polled
from headstream.core.codec.conversion import DIALECTS, convert, convert_all, fit_message, plan_conversion, read_messages
from headstream.core.codec.kafka import decode_record
from headstream.errors import InvalidInputError, InvalidOptionError, LimitError
from headstream.replicate.codec.envelope import Envelope, decode_envelope, encode_envelope
from tests.support.messages.headers import IGGY_VALUES, KEYS, MESSAGES

LOSSLESS = ("binary-wide", "json-wide", "kip82")
IGGY = ("binary", "json")


def message(**headers: Any) -> hs.Message:
    return hs.Message(payload=b"x", headers=hs.Headers(headers), offset=1, timestamp=2000, id=3)


def header_after(value: Any, to: str, on_loss: Any = "error") -> hs.HeaderValue:
    (again,) = read_messages(convert(message(k=value), to=to, on_loss=on_loss), dialect=to)
    return again.headers["k"]


@pytest.mark.parametrize("to", [name for name, dialect in DIALECTS.items() if dialect.read is not None and name != "replicate"])
def test_what_every_dialect_spells_comes_back_from_each(to: str) -> None:
    plain = message() if to in ("kip82-1", "kip82-0") else message(trace="abc", attempt=3, ok=True, rate=0.5, digest=b"\0")
    plain = replace(plain, key=b"42", id=0 if to.startswith("kip82-") else plain.id, timestamp=None if to == "kip82-0" else 2000)
    assert plan_conversion(plain, to=to) == ()
    assert read_messages(convert(plain, to=to), dialect=to) == [plain]


@pytest.mark.parametrize("to", ["binary", "binary-wide", "json", "json-wide"])
def test_a_message_that_was_not_stored_is_written_as_a_sender_sends_it(to: str) -> None:
    sent = hs.Message(payload=b"x", key=b"k", headers=hs.Headers({"a": 1}), id=9)
    assert read_messages(convert(sent, to=to), dialect=to) == [sent]


@pytest.mark.parametrize(
    ("to", "policy", "value", "becomes"),
    [
        ("binary", "widen", hs.char("ß"), hs.string("ß")),
        ("binary", "text", hs.char("ß"), hs.string("ß")),
        ("json", "text", hs.null(), hs.string("null")),
        ("binary", "widen", hs.HeaderValue(99, b"?"), hs.raw(b"?")),
        ("binary", "text", hs.HeaderValue(99, b"?"), hs.string("3f")),
        ("kip82", "text", hs.uint64((1 << 64) - 1), hs.string("18446744073709551615")),
        ("kip82", "text", hs.uint128((1 << 128) - 1), hs.string("340282366920938463463374607431768211455")),
        ("kip82", "text", hs.char("\ud800"), hs.string("U+D800")),
        ("kip82", "widen", hs.HeaderValue(99, b"?"), hs.raw(b"?")),
        ("binary-wide", "widen", hs.HeaderValue(266, b"?"), hs.raw(b"?")),
    ],
)
def test_a_policy_accepts_a_loss_and_says_before_what_becomes_of_it(to: str, policy: Any, value: Any, becomes: Any) -> None:
    (finding,) = plan_conversion(message(k=value), to=to)
    assert finding.remedies[policy] == becomes
    assert f"{policy}: {becomes!r}" in str(finding)
    assert header_after(value, to, policy) == becomes


def test_policies_are_tried_in_order_and_one_without_a_remedy_is_passed_over() -> None:
    assert header_after(hs.uint64(1 << 63), "kip82", ("widen", "text", "drop")) == "9223372036854775808"
    with pytest.raises(LimitError, match=r"on_loss='drop' \(omitted\) or on_loss='text'"):
        convert(message(k=hs.uint64(1 << 63)), to="kip82", on_loss="widen")


@pytest.mark.parametrize("to", ["json", "json-wide", "replicate"])
def test_a_repeated_key_is_refused_where_it_cannot_be_held_and_dropping_keeps_the_last(to: str) -> None:
    payload = encode_envelope(Envelope("DT", b"data"))
    given = hs.Message(payload=payload, headers=hs.Headers([("k", "1"), ("a", "x"), ("k", "2")]))
    with pytest.raises(LimitError, match=r"the dialect does not allow a repeated key.*header 'k'"):
        convert(given, to=to)
    (again,) = read_messages(convert(given, to=to, on_loss="drop"), dialect=to)
    assert again.headers == hs.Headers([("a", "x"), ("k", "2")])


@pytest.mark.parametrize("to", IGGY)
@pytest.mark.parametrize("payload", [b"", None])
def test_a_payload_that_iggy_does_not_take_is_refused_whatever_the_policy(to: str, payload: bytes | None) -> None:
    with pytest.raises(LimitError, match=f"the dialect {to}-wide does.*payload.*No policy accepts the loss"):
        convert(replace(message(), payload=payload, checksum=0), to=to, on_loss="drop")
    given = replace(message(), payload=payload, checksum=0)
    assert read_messages(convert(given, to=f"{to}-wide"), dialect=f"{to}-wide") == [given]


@pytest.mark.parametrize("form", ["avro", "json"])
def test_headers_go_into_a_replicate_envelope_as_strings_and_come_out_again(form: Any) -> None:
    payload = encode_envelope(Envelope("DT", b"data" if form == "avro" else {"data": {}}, form=form))
    given = hs.Message(payload=payload, headers=hs.Headers({"trace": "abc"}))
    spelled = convert(given, to="replicate")
    assert decode_envelope(spelled).headers == {"trace": "abc"}
    assert read_messages(spelled, dialect="replicate") == [given]
    typed = replace(given, headers=hs.Headers({"n": hs.uint8(3), "c": hs.char("x"), "b": True}))
    with pytest.raises(LimitError, match="the headers of an envelope must be strings, not uint8"):
        convert(typed, to="replicate")
    assert decode_envelope(convert(typed, to="replicate", on_loss="text")).headers == {"n": "3", "c": "x", "b": "true"}


def test_a_row_has_the_columns_of_the_spark_source() -> None:
    row = convert(replace(message(a=1), key=b"k", topic="shop/orders", partition=2), to="row")
    assert row["headers"] == hs.Headers({"a": 1}).as_bytes()
    assert (row["key"], row["payload"], row["topic"], row["partition"], row["offset"]) == (b"k", b"x", "shop/orders", 2, 1)
    assert (row["state"], row["timestamp_us"]) == ("available", 2000)


@settings(max_examples=100)
@given(MESSAGES)
def test_a_kafka_record_says_the_same_message(given: hs.Message) -> None:
    fitted = fit_message(given, to="kafka", on_loss="drop")
    again = decode_record(convert(fitted, to="kafka"))
    assert replace(again, offset=fitted.offset) == fitted
    with pytest.raises(LimitError, match="the name is reserved in this dialect"):
        convert(replace(given, headers=hs.Headers({"hs.anything": 1})), to="kafka")


def test_many_messages_go_together() -> None:
    messages = [replace(message(n=n), offset=n) for n in range(3)]
    for to in LOSSLESS:
        assert read_messages(convert_all(messages, to=to), dialect=to) == messages
    assert convert_all(messages, to="binary") == encode_polled(messages)
    for to in ("row", "replicate"):
        with pytest.raises(InvalidInputError, match="can hold only one message, not 3"):
            convert_all([replace(m, offset=None, timestamp=None, id=0, headers=hs.Headers()) for m in messages], to=to)


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidOptionError, match=r"'amqp' is not a dialect.*kip82"):
        convert(message(), to="amqp")
    with pytest.raises(InvalidOptionError, match=r"'ignore' is not a valid policy.*drop"):
        convert(message(), to="json", on_loss=("ignore",))  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError, match="the dialect row cannot be read"):
        read_messages(b"", dialect="row")


@settings(max_examples=100)
@given(MESSAGES, st.sampled_from(LOSSLESS))
def test_convert_does_what_plan_announced(given: hs.Message, to: str) -> None:
    losses = [finding for finding in plan_conversion(given, to=to) if finding.is_loss]
    if losses:
        with pytest.raises(LimitError):
            fit_message(given, to=to)
    fitted = fit_message(given, to=to, on_loss=("widen", "text", "drop"))
    assert not any(finding.is_loss for finding in plan_conversion(fitted, to=to))
    assert read_messages(convert(fitted, to=to), dialect=to) == [fitted]
    if not plan_conversion(given, to=to):
        assert fitted == given


@settings(max_examples=100)
@given(st.dictionaries(KEYS, IGGY_VALUES, max_size=6), st.binary(min_size=1, max_size=20))
def test_the_same_message_through_every_transport_is_the_same_message(headers: dict[str, Any], payload: bytes) -> None:
    given = hs.Message(payload=payload, headers=hs.Headers(headers), key=b"k", offset=5, timestamp=6000, id=7)
    for to in ("binary-wide", "json-wide"):
        assert read_messages(convert(given, to=to), dialect=to) == [given]
    fitted = fit_message(given, to="binary", on_loss="drop")
    assert read_messages(convert(fitted, to="binary"), dialect="binary") == read_messages(
        convert(fitted, to="json"), dialect="json"
    )


@pytest.mark.parametrize(
    "headers",
    [[(f"k{number}", 1) for number in range(1025)], [(f"k{number}", b"x" * 65536) for number in range(20)]],
    ids=["count", "bytes"],
)
def test_plan_says_what_convert_refuses_of_the_whole_message(headers: list[tuple[str, Any]]) -> None:
    whole = hs.Message(payload=b"x", headers=hs.Headers(headers))
    (finding,) = plan_conversion(whole, to="kip82")
    assert finding.is_loss
    assert "at most 1024 headers with 1048576 bytes" in finding.reason
    with pytest.raises(hs.LimitError, match="at most 1024 headers"):
        convert(whole, to="kip82")


@pytest.mark.parametrize(
    "to", [name for name, dialect in DIALECTS.items() if name.endswith("wide") or name in ("kip82", "kafka", "row")]
)
def test_the_largest_key_and_value_of_a_wide_topic_fit_every_dialect_of_wide_messages(to: str) -> None:
    largest = hs.Message(payload=b"x", key=b"k" * 65536, headers=hs.Headers({"k" * 255: b"v" * 65536, "s": "v" * 65536}))
    with hs.connect("memory://") as log:
        log.create_topic("shop/wide", limits="wide")
        with log.producer("shop/wide") as producer:
            producer.send(largest.payload, key=largest.key, headers=largest.headers)
        (stored,) = log.poll("shop/wide")
        with pytest.raises(hs.LimitError), log.producer("shop/wide") as producer:
            producer.send(b"x", headers={"a": b"v" * 65537})
    assert stored.headers == largest.headers
    assert [finding for finding in plan_conversion(largest, to=to) if finding.is_loss] == []
    written = convert(largest, to=to)
    if DIALECTS[to].read is not None:
        assert read_messages(written, dialect=to)[0].headers == largest.headers


def test_a_limit_of_a_whole_batch_names_what_helps() -> None:
    with hs.connect("memory://") as log:
        log.create_topic("shop/orders")
        with log.producer("shop/orders") as producer, pytest.raises(hs.LimitError) as error:
            producer.send(b"x" * 10_000_001)
    assert "10000001 bytes of payload in one batch" in error.value.what
    assert "which allow 10000000" in error.value.what
    assert (error.value.advice or "").startswith("This message alone is too large: send less, or create a topic with wide limits")
