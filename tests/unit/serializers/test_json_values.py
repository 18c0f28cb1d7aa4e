"""Unit tests of headstream.serializers.json_values."""

from __future__ import annotations

from decimal import Decimal

import pytest

from headstream import serializers


def test_json_keeps_every_digit_of_numbers_when_decimals_are_wanted() -> None:
    serializer = serializers.json(decimals=True)
    value = {"price": Decimal("123456789012345678.91"), "count": 3}
    assert serializer.encode(value) == b'{"price":123456789012345678.91,"count":3}'
    assert serializer.decode(serializer.encode(value)) == value
    with pytest.raises(ValueError, match="NaN"):
        serializer.encode(Decimal("NaN"))
