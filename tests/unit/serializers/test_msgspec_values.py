"""Unit tests of headstream.serializers.msgspec_values."""

from __future__ import annotations

import dataclasses

import pytest

import headstream as hs
from headstream import serializers


def test_dataclasses_are_values_of_msgspec_and_pydantic() -> None:
    @dataclasses.dataclass
    class Point:
        x: int

    for serializer in (serializers.msgspec(Point), serializers.pydantic(Point)):
        assert serializer.decode(serializer.encode(Point(1))) == Point(1)
    with pytest.raises(hs.InvalidOptionError, match="must be json or msgpack"):
        serializers.msgspec(Point, format="yaml")  # type: ignore[arg-type]
