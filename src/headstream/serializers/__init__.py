"""Serializers: convert values to payloads and back, for `log.producer(topic, encode=…)` and `log.consumer(topic, decode=…)`.

    from headstream import serializers

    orders = serializers.msgspec(Order)
    with log.producer("shop/orders", encode=orders) as producer:
        producer.send(Order(42, "teapot"))
    for message in log.consumer("shop/orders", group="billing", decode=orders):
        message.value

A function that converts a value to bytes, or bytes to a value, can be passed instead of a serializer.
"""

from __future__ import annotations

from headstream.serializers.avro_values import avro
from headstream.serializers.json_values import json
from headstream.serializers.msgspec_values import msgspec
from headstream.serializers.pydantic_values import pydantic
from headstream.serializers.serializer import Decode, Encode, Serializer

__all__ = ["Decode", "Encode", "Serializer", "avro", "json", "msgspec", "pydantic"]
