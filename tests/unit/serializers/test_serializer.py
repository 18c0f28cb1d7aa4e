"""Unit tests of headstream.serializers.serializer."""

from __future__ import annotations

from typing import Any

import pytest

import headstream as hs
from headstream import serializers
from tests.unit.serializers.test_serializers import SCHEMA, Order, log

__all__ = ["log"]  # fixtures


@pytest.mark.parametrize(
    ("serializer", "value"),
    [
        (serializers.json(), {1, 2}),
        (serializers.json(), float("nan")),
        (serializers.msgspec(Order), object()),
        (serializers.avro(SCHEMA), {"number": "one", "what": "teapot"}),
        (serializers.avro(SCHEMA), {"number": 1, "what": "teapot", "other": 1}),
        (lambda value: str(value), 1),
    ],
)
def test_a_value_that_cannot_be_encoded_is_an_error_and_is_not_sent(log: hs.Client, serializer: Any, value: Any) -> None:
    with log.producer("shop/orders", encode=serializer) as producer, pytest.raises(hs.SerializerError, match="not sent"):
        producer.send(value)
    assert log.poll("shop/orders") == []


def test_functions_are_serializers_too(log: hs.Client) -> None:
    with log.producer("shop/orders", encode=str.encode) as producer:
        producer.send("teapot")
    with log.consumer("shop/orders", decode=bytes.decode, timeout_ms=0) as consumer:
        assert [message.value for message in consumer] == ["teapot"]
    with pytest.raises(hs.InvalidOptionError, match="encode must be a function or a serializer, not 'json'"):
        log.producer("shop/orders", encode="json")  # type: ignore[call-overload]
    with pytest.raises(hs.InvalidOptionError, match="decode must be a function or a serializer, not 'json'"):
        log.consumer("shop/orders", decode="json")  # type: ignore[call-overload]
