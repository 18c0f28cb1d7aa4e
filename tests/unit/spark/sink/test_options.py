"""A header column may not have a reserved name; a sender's own time may."""

from __future__ import annotations

import pytest

from headstream.errors import InvalidOptionError
from headstream.spark.sink.options import parse_sink_options


def test_a_reserved_name_among_header_columns_is_refused_by_name() -> None:
    given = {"url": "file:///x", "topic": "shop/orders"}
    with pytest.raises(InvalidOptionError, match=r"headerColumns: the header 'hs\.key' is reserved"):
        parse_sink_options({**given, "headerColumns": "a, `hs.key`"})
    assert [name for name, _ in parse_sink_options({**given, "headerColumns": "`hs.timestamp`"}).header_columns] == [
        "hs.timestamp"
    ]
