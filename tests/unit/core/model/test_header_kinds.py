"""Unit tests of headstream.core.model.header_kinds."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import headstream as hs
from headstream.core.model.header_values import KIND_NAMES, KIND_WIDTHS


@pytest.mark.parametrize("kind", sorted(KIND_WIDTHS))
def test_bytes_of_the_wrong_length_are_refused(kind: int) -> None:
    width = KIND_WIDTHS[kind]
    for size in {0, 1, 3, 17} - {width}:
        with pytest.raises(hs.HeaderError, match=f"of kind {KIND_NAMES[kind]} must have {width} bytes, not {size}"):
            hs.HeaderValue(kind, bytes(size))


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [(3, b"\x02", "a bool header must be 0 or 1, not 2"), (2, b"a\xff", "UTF-8, but byte 1"), (0, b"", "1 to 255, not 0"),
     (256, b"", "1 to 255, not 256"), (-1, b"", "not -1"), ("2", b"", "str and bytes"), (2, "text", "int and str")],
)  # fmt: skip
def test_bytes_that_cannot_be_a_value_are_refused(kind: Any, data: Any, text: str) -> None:
    with pytest.raises(hs.HeaderError, match=text):
        hs.HeaderValue(kind, data)


def test_unknown_kinds_keep_their_bytes() -> None:
    value = hs.HeaderValue(200, b"\x01\x02")
    assert (value.kind, value.kind_name, value.value, str(value)) == (200, "unknown(200)", b"\x01\x02", "b'\\x01\\x02'")
    assert repr(value) == "HeaderValue(200, b'\\x01\\x02')"
    assert pickle.loads(pickle.dumps(value)) == value
    with pytest.raises(hs.HeaderError, match=r"the header is unknown\(200\), not raw\. The header's bytes are in \.data"):
        value.as_raw()
