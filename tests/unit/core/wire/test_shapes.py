"""Unit tests of headstream.core.wire.shapes."""

from __future__ import annotations

import pytest

from headstream.core.wire.shapes import format_size, parse_size
from headstream.errors import DecodeError


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1 KB"), (1024, "1 KiB"), (1500, "1.5 KB"), (1536, "1.5 KiB"), (55914, "55.914 KB")],
)
def test_sizes_have_the_largest_exact_unit(size: int, text: str) -> None:
    assert format_size(size) == text
    assert parse_size(text) == size
    assert parse_size(size) == size


def test_parse_size_refuses_malformed_sizes() -> None:
    for wrong in ("", "1.5 XB", "-1 B", -1, None, True, "100 EiB", "1 " * 100):
        with pytest.raises(DecodeError):
            parse_size(wrong)
