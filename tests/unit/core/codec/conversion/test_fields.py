"""Unit tests of headstream.core.codec.conversion.fields."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import headstream as hs
from headstream.core.codec.conversion import DIALECTS, convert, plan_conversion, read_messages
from headstream.errors import LimitError
from tests.unit.core.codec.conversion.test_dialects import message


def test_a_field_without_a_place_is_refused_and_dropped() -> None:
    given = replace(message(), state=hs.MessageState.POISONED, checksum=5, key=b"", id=7, timestamp=2001)
    lost = {to: {finding.part for finding in plan_conversion(given, to=to)} for to in DIALECTS}
    assert lost["binary-wide"] == lost["json-wide"] == lost["kip82"] == lost["kafka"] == lost["row"] == set()
    assert lost["binary"] == lost["json"] == {"key"}
    assert lost["binary-first"] == {"key", "state", "checksum"}
    assert lost["kip82-1"] == {"state", "checksum", "id", "timestamp"}
    assert lost["kip82-0"] == {"state", "checksum", "id", "timestamp"}
    assert lost["replicate"] == {"key", "state", "checksum", "id", "timestamp", "offset", "payload"}
    (again,) = read_messages(convert(given, to="binary-first", on_loss="drop"), dialect="binary-first")
    assert again == hs.Message(payload=b"x", id=7, offset=1, timestamp=2001)
    (again,) = read_messages(convert(given, to="kip82-1", on_loss="drop"), dialect="kip82-1")
    assert again == hs.Message(payload=b"x", key=b"", offset=1, timestamp=2000)


@pytest.mark.parametrize(
    ("to", "key"), [("binary-wide", "hs.key"), ("json-wide", "hs.null"), ("kip82", "hs.id"), ("kip82", "hs.checksum")]
)
def test_a_name_that_stands_for_something_else_there_is_refused(to: str, key: str) -> None:
    value: Any = {"hs.key": b"k", "hs.null": True, "hs.id": bytes(16), "hs.checksum": 5}[key]
    given = hs.Message(payload=b"x", headers=hs.Headers([(key, value), ("a", 1)]), offset=1, timestamp=1000)
    with pytest.raises(LimitError, match="the name is reserved in this dialect"):
        convert(given, to=to)
    (again,) = read_messages(convert(given, to=to, on_loss="drop"), dialect=to)
    assert again.headers == hs.Headers({"a": 1})


def test_bare_leaves_out_what_would_travel_as_headers() -> None:
    sent = hs.Message(payload=b"x", id=7, offset=3, timestamp=1_690_000_000_123_456)
    plain = hs.Message(payload=b"x", offset=3, timestamp=1_690_000_000_123_000)
    assert convert(sent, to="kip82", on_loss="bare") == convert(plain, to="kip82")
    assert len(convert(sent, to="kip82")) > len(convert(plain, to="kip82"))
    assert convert(sent, to="kafka", on_loss=("bare", "drop")).headers == ()
    assert convert(sent, to="binary", on_loss="bare") == convert(sent, to="binary")
