"""Unit tests of headstream.core.codec.kip82.reserved_fields."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

import headstream as hs
from headstream.core.codec.kip82 import STRICT, decode_message, decode_set, encode_set, from_message, to_message
from headstream.errors import HeaderError
from tests.support.messages.headers import MESSAGES
from tests.support.messages.kip82 import message


@settings(max_examples=100)
@given(MESSAGES)
def test_a_message_comes_back_with_all_it_has(given: hs.Message) -> None:
    headers = hs.Headers([(key, value) for key, value in given.headers.items() if spellable(value)])
    given = replace(given, headers=headers, checksum=7 if given.id % 3 == 0 else given.checksum)
    (again,) = [to_message(m) for m in decode_set(encode_set([from_message(given)])).messages]
    assert again == given


def spellable(value: hs.HeaderValue) -> bool:
    return value.kind in (1, 2, 3, 4, 5, 6, 7, 14, 15, 64) or (value.kind == 65 and not "\ud800" <= str(value) <= "\udfff")


def test_carried_headers_count_only_in_their_places_and_when_they_fit() -> None:
    plain = [
        ("hs.id", hs.raw(b"short")),
        ("hs.state", hs.int16(300)),
        ("hs.checksum", hs.int64(-1)),
        ("hs.appended", hs.int64(5)),
    ]
    for pair in plain:
        block = hs.Headers([pair]).as_bytes(STRICT)
        assert to_message(decode_message(message(b"v", block))[0]).headers == hs.Headers([pair])
    later = hs.Headers([("a", True), ("hs.id", hs.raw(bytes(16)))])
    assert to_message(from_message(hs.Message(payload=b"v", headers=later, offset=0))).headers == later
    with pytest.raises(HeaderError, match=r"'hs\.id' is reserved as the first header"):
        from_message(hs.Message(payload=b"v", headers=hs.Headers([("hs.id", hs.raw(bytes(16)))])))
