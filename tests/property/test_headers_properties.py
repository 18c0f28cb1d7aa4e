"""Headers against the plainest model of them: a list of pairs."""

from __future__ import annotations

import pickle
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import headstream as hs
from headstream.core.codec.binary import decode_headers, encode_headers
from headstream.core.model.constructors import CONSTRUCTORS
from headstream.core.model.header_values import KIND_WIDTHS
from tests.support.messages.broken import refusal
from tests.support.messages.headers import FEW_KEYS, PAIRS


@given(PAIRS)
def test_headers_hold_their_pairs(pairs: list[tuple[str, hs.HeaderValue]]) -> None:
    headers = hs.Headers(pairs)
    assert list(headers.items()) == pairs
    assert len(headers) == len(pairs)
    assert headers.keys() == tuple(dict(pairs))
    for key in dict(pairs):
        assert headers.getall(key) == tuple(value for name, value in pairs if name == key)
        assert headers[key] == headers.getall(key)[-1]
    assert headers.repeated == (len(dict(pairs)) < len(pairs))


@given(PAIRS)
def test_headers_survive_pickle_repr_and_bytes(pairs: list[tuple[str, hs.HeaderValue]]) -> None:
    headers = hs.Headers(pairs)
    names: dict[str, Any] = {**CONSTRUCTORS, "Headers": hs.Headers, "HeaderValue": hs.HeaderValue}
    for again in (pickle.loads(pickle.dumps(headers)), eval(repr(headers), names), decode_headers(encode_headers(headers))):
        assert again == headers
        assert hash(again) == hash(headers)
        assert [value.kind for value in again.values()] == [value.kind for value in headers.values()]


@given(PAIRS, PAIRS)
def test_headers_are_equal_as_their_pairs_are(
    one: list[tuple[str, hs.HeaderValue]], two: list[tuple[str, hs.HeaderValue]]
) -> None:
    assert (hs.Headers(one) == hs.Headers(two)) == (one == two)
    assert hs.Headers(one).with_(*two) == hs.Headers(one + two)


@given(PAIRS, FEW_KEYS)
def test_without_takes_every_value_of_a_key_and_no_other(pairs: list[tuple[str, hs.HeaderValue]], key: str) -> None:
    assert list(hs.Headers(pairs).without(key).items()) == [pair for pair in pairs if pair[0] != key]


@settings(max_examples=200)
@given(st.integers(-5, 300), st.binary(max_size=18))
def test_any_kind_and_bytes_are_a_value_or_a_header_error(kind: int, data: bytes) -> None:
    try:
        value = hs.HeaderValue(kind, data)
    except hs.HeaderError:
        assert not 66 <= kind <= 255
        assert kind != hs.HeaderKind.RAW
    else:
        assert value.data == data
        assert len(data) == KIND_WIDTHS.get(kind, len(data))
        assert value == hs.HeaderValue(kind, data)


@settings(max_examples=200)
@given(st.integers(-(1 << 130), 1 << 130), st.sampled_from([name for name in CONSTRUCTORS if "int" in name]))
def test_integers_fit_their_kind_or_are_refused(number: int, name: str) -> None:
    bits, signed = int(name.lstrip("uint")), not name.startswith("u")
    fits = -(1 << bits - 1) <= number < 1 << bits - 1 if signed else 0 <= number < 1 << bits
    try:
        value = CONSTRUCTORS[name](number)
    except hs.HeaderError:
        assert not fits
    else:
        assert fits
        assert value.value == number == value.to_int()


@given(PAIRS)
def test_headers_of_a_block_are_those_that_were_written_however_they_are_looked_at(
    pairs: list[tuple[str, hs.HeaderValue]],
) -> None:
    headers = hs.Headers(pairs)
    block = headers.as_bytes()
    for key in [*dict(pairs), "none"]:
        undecoded_headers = hs.Headers.from_bytes(block)
        assert undecoded_headers.getall(key) == headers.getall(key)
        assert undecoded_headers.get(key) == headers.get(key)
    undecoded_headers = hs.Headers.from_bytes(block)
    assert (len(undecoded_headers), undecoded_headers.keys(), undecoded_headers.repeated) == (
        len(headers),
        headers.keys(),
        headers.repeated,
    )
    assert undecoded_headers == headers == hs.Headers(hs.Headers.from_bytes(block))
    assert undecoded_headers.as_bytes() == block
    assert pickle.loads(pickle.dumps(hs.Headers.from_bytes(block))) == headers


@settings(max_examples=200)
@given(PAIRS, st.integers(0), st.integers(0, 255))
def test_a_broken_block_is_values_or_a_decode_error_within_it(
    pairs: list[tuple[str, hs.HeaderValue]], place: int, byte: int
) -> None:
    block = bytearray(hs.Headers(pairs).as_bytes() or b"?")
    place %= len(block)
    block[place] = byte
    for data in (bytes(block), bytes(block[:place])):
        if refusal(lambda data: hs.Headers.from_bytes(data).items(), data) is None:
            assert hs.Headers(hs.Headers.from_bytes(data).items()).as_bytes() == data
        assert hs.Headers.from_bytes(data).as_bytes() == data
