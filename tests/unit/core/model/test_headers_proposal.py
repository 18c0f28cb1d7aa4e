"""The names of the typed-headers proposal (KIP-82) on Headers, and objects of one's own behind a key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import headstream as hs
from headstream.core.codec.kip82 import STRICT
from headstream.errors import HeaderError


@pytest.mark.parametrize(
    ("put", "value", "expected"),
    [
        ("put_boolean", True, hs.bool(True)),
        ("put_byte", -128, hs.int8(-128)),
        ("put_char", "ß", hs.char("ß")),
        ("put_short", -5, hs.int16(-5)),
        ("put_integer", 5, hs.int32(5)),
        ("put_long", 5, hs.int64(5)),
        ("put_float", 1.5, hs.float32(1.5)),
        ("put_double", 0.1, hs.float64(0.1)),
        ("put_string", "", hs.string("")),
        ("put_bytes", b"", hs.raw(b"")),
    ],
)
def test_a_put_of_each_type_adds_a_value_of_its_kind(put: str, value: Any, expected: hs.HeaderValue) -> None:
    after = hs.Headers({"k": 1})
    assert getattr(after, put)("k", value) is after  # the proposal's puts are void: the result may be dropped
    assert after.getall("k") == (hs.int64(1), expected)
    assert after.keys() == ("k",)
    assert hs.Headers.from_bytes(after.as_bytes()) == hs.Headers.from_bytes(after.as_bytes(STRICT), STRICT) == after


@pytest.mark.parametrize(
    ("put", "value"), [("put_byte", 128), ("put_short", 1 << 15), ("put_char", "𝄞"), ("put_boolean", 1), ("put_string", b"x")]
)
def test_a_put_never_wraps_or_converts(put: str, value: Any) -> None:
    with pytest.raises(HeaderError):
        getattr(hs.Headers(), put)("k", value)


def test_one_returns_the_value_of_a_key_and_refuses_a_key_that_repeats() -> None:
    headers = hs.Headers([("a", 1), ("b", 2), ("a", 3)])
    assert headers.one("b") == 2
    with pytest.raises(HeaderError, match="'a' occurs 2 times"):
        headers.one("a")
    with pytest.raises(KeyError):
        headers.one("c")


@dataclass(frozen=True)
class Trace:
    trace_id: int
    span_id: int

    def encode(self) -> str:
        return f"{self.trace_id:x}-{self.span_id:x}"

    @classmethod
    def decode(cls, text: str) -> Trace:
        return cls(*(int(part, 16) for part in text.split("-")))


TRACED = hs.Headers().register("trace", Trace.encode, Trace.decode)


def test_an_object_behind_a_registered_key_travels_typed() -> None:
    with hs.connect("memory://") as log:
        log.create_topic("shop/orders")
        with log.producer("shop/orders") as producer:
            producer.send(b"x", headers=hs.Headers(TRACED).put("trace", Trace(255, 7)).put("attempt", hs.uint8(1)))
        (message,) = log.poll("shop/orders", partition=1, start="first")
    assert message.headers["trace"] == hs.string("ff-7")  # whoever does not know the object reads its text
    assert message.headers.registered_as(TRACED).load("trace") == Trace(255, 7)
    assert message.headers.registered_as(TRACED).load("attempt") == 1
    assert message.headers.load("trace") == "ff-7"


def test_register_applies_to_that_object_and_to_headers_made_from_it() -> None:
    assert hs.Headers().put("trace", "text").load("trace") == "text"
    made = hs.Headers(TRACED).put("trace", Trace(1, 2)).put_string("a", "b").with_(("c", 1)).without("c")
    assert hs.Headers(made).put("trace", Trace(3, 4)).load("trace") == Trace(3, 4)
    assert hs.Headers(made).load("trace") == Trace(1, 2)
    assert made == hs.Headers([("trace", "1-2"), ("a", "b")])
    counted = TRACED.register("count", hs.uint16, int)
    assert counted.put("count", 5)["count"] == hs.uint16(5)
    no_value: Any = set
    with pytest.raises(HeaderError, match="set has no header kind"):
        hs.Headers().register("k", no_value, set).put("k", "ab")
    with pytest.raises(HeaderError, match="1 to 255 bytes"):
        hs.Headers().register("", str, str)


def test_unchanged_headers_keep_their_bytes_and_changed_ones_are_encoded_again() -> None:
    block = hs.Headers([("a", 1), ("b", "x")]).as_bytes()
    headers = hs.Headers.from_bytes(block)
    assert headers.received_bytes() == headers.as_bytes() == block
    assert headers.received_bytes(STRICT) is None
    assert headers.with_(("c", True)).received_bytes() is None
    assert headers.as_bytes(STRICT) == hs.Headers([("a", 1), ("b", "x")]).as_bytes(STRICT)
    assert hs.Headers.from_bytes(b"") == hs.Headers()
    assert bool(headers)
    assert not hs.Headers.from_bytes(b"")


def test_hashed_headers_stay_what_they_were_hashed_as() -> None:
    headers = hs.Headers({"a": 1})
    found = {headers: "x"}
    with pytest.raises(HeaderError, match="read-only"):
        headers.put("b", 2)
    assert found[hs.Headers({"a": 1})] == "x"
    assert headers.read_only
    assert not headers.with_(("b", 2)).read_only


def test_a_put_into_received_bytes_is_encoded_anew() -> None:
    headers = hs.Headers.from_bytes(hs.Headers({"a": 1}).as_bytes())
    headers.put_string("b", "x")
    assert hs.Headers.from_bytes(headers.as_bytes()) == hs.Headers([("a", 1), ("b", "x")])
