"""The types of encoding producers and decoding consumers, as type checkers see them: mypy checks this file with all tests."""

from __future__ import annotations

from typing import assert_type

import msgspec

import headstream as hs
from headstream import serializers
from headstream.client.consumer.async_decoding import AsyncDecodingConsumer
from headstream.client.consumer.decoding import DecodingConsumer, DecodingTopicsConsumer
from headstream.client.producer.encoding_producer import AsyncEncodingProducer, EncodingProducer


class Order(msgspec.Struct):
    number: int


def _check_types(log: hs.Client, alog: hs.AsyncClient) -> None:
    orders = serializers.msgspec(Order)
    assert_type(log.producer("shop/orders"), hs.Producer)
    assert_type(log.producer("shop/orders", encode=orders, linger_ms=1), EncodingProducer[Order])
    assert_type(log.consumer("shop/orders"), hs.Consumer)
    assert_type(log.consumer("shop/orders", group="g", decode=orders), DecodingConsumer[Order])
    assert_type(log.consumer(["shop/*"], decode=orders), DecodingTopicsConsumer[Order])
    assert_type(alog.producer("shop/orders", encode=orders), AsyncEncodingProducer[Order])
    assert_type(alog.consumer("shop/orders", decode=orders), AsyncDecodingConsumer[Order])
    for message in log.consumer("shop/orders", decode=orders):
        assert_type(message, hs.DecodedMessage[Order])
        assert_type(message.value, Order)
        assert_type(message.offset, int)
    with log.consumer("shop/orders", decode=orders) as consumer:
        assert_type(next(consumer).value, Order)
    log.producer("shop/orders", encode=orders).send(1)  # type: ignore[arg-type]
    log.consumer("shop/orders", decode=orders, groups="g")  # type: ignore[call-overload]


def test_a_decoded_message_is_a_received_message() -> None:
    with hs.connect("memory://") as log:
        log.create_topic("shop/orders")
        log.send("shop/orders", b'{"number":1}')
        with log.consumer("shop/orders", decode=serializers.msgspec(Order), timeout_ms=0) as consumer:
            (message,) = list(consumer)
    assert isinstance(message, hs.ReceivedMessage)
    assert isinstance(message, hs.DecodedMessage)
