"""Unit tests of headstream.spark.sink.columns."""

from __future__ import annotations

import pytest

from headstream.errors import InvalidOptionError
from headstream.spark.sink.options import parse_sink_options


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a uint7", "uint7 is not a kind"),
        ("a,,b", "cannot be parsed at"),
        ("a b c", "cannot be parsed"),
        ("A, a", "names a column twice"),
    ],
)
def test_header_columns_say_what_cannot_be_read(text: str, what: str) -> None:
    with pytest.raises(InvalidOptionError, match=what):
        parse_sink_options({"url": "file:///x", "headerColumns": text})
