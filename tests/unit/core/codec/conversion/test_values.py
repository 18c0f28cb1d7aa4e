"""Unit tests of headstream.core.codec.conversion.values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import headstream as hs
from headstream.errors import LimitError
from tests.unit.core.codec.conversion.test_dialects import header_after, message


@pytest.mark.parametrize(
    ("to", "value", "reason"),
    [
        ("binary", "", "an Iggy header must have 1 to 255 bytes, but this string has 0"),
        ("json", b"", "an Iggy header must have 1 to 255 bytes, but this raw has 0"),
        ("binary", "x" * 256, "this string has 256"),
        ("binary", hs.char("ß"), "Iggy has no kind char"),
        ("json", None, "Iggy has no kind null"),
        ("binary", hs.HeaderValue(99, b"?"), r"Iggy has no kind unknown\(99\)"),
        ("kip82", hs.uint64(1 << 63), "cannot represent the uint64 9223372036854775808"),
        ("kip82", hs.int128(-(1 << 63) - 1), "cannot represent the int128 -9223372036854775809"),
        ("kip82", hs.char("\ud800"), "half of a surrogate pair"),
        ("kip82-1", 5, "the dialect does not support headers"),
        ("binary-wide", hs.HeaderValue(266, b"?"), r"Headstream has no kind kip82\(10\)"),
    ],
)
def test_convert_refuses_a_header_that_the_dialect_cannot_express_as_plan_conversion_said(
    to: str, value: Any, reason: str
) -> None:
    given = replace(message(k=value), id=0, timestamp=2000)
    with pytest.raises(LimitError, match=reason) as caught:
        hs.convert(given, to=to)
    assert f"(header 'k', converting to {to})" in str(caught.value)
    (finding,) = hs.plan_conversion(given, to=to)
    assert (finding.part, finding.is_loss, finding.reason) == ("header 'k'", True, caught.value.what)
    assert hs.convert(given, to=to, on_loss="drop") == hs.convert(replace(given, headers=hs.Headers()), to=to)


@pytest.mark.parametrize(
    ("value", "becomes"),
    [
        (hs.uint8(255), hs.int16(255)),
        (hs.uint8(1), hs.int16(1)),
        (hs.uint16(65535), hs.int32(65535)),
        (hs.uint32(1), hs.int64(1)),
        (hs.uint64((1 << 63) - 1), hs.int64((1 << 63) - 1)),
        (hs.int128(-5), hs.int64(-5)),
    ],
)
def test_an_integer_that_fits_keeps_its_value_and_the_plan_says_under_which_kind(value: Any, becomes: Any) -> None:
    (finding,) = hs.plan_conversion(message(k=value), to="kip82")
    assert not finding.is_loss
    assert str(finding) == f"header 'k': {value.kind_name} becomes {becomes.kind_name} without a loss"
    assert header_after(value, "kip82") == becomes
