"""Serializers: each format alone, and behind producers and consumers."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pydantic
import pytest

import headstream as hs
from headstream import serializers
from headstream.serializers import Serializer


class Order(msgspec.Struct, frozen=True):
    number: int
    what: str


class Model(pydantic.BaseModel):
    number: int
    what: str


SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "number", "type": "long"}, {"name": "what", "type": "string"}]}

FORMATS: list[tuple[Serializer[Any], Any, bytes]] = [
    (serializers.json(), {"number": 1, "what": "tea—pot"}, b'{"number": "1"'),
    (serializers.msgspec(Order), Order(1, "teapot"), b'{"number":"1","what":"teapot"}'),
    (serializers.msgspec(Order, format="msgpack"), Order(1, "teapot"), b"\x81"),
    (serializers.pydantic(Model), Model(number=1, what="teapot"), b'{"number":"one","what":"teapot"}'),
    (serializers.avro(SCHEMA), {"number": 1, "what": "teapot"}, b"\xc3\x01"),
]


@pytest.fixture
def log() -> Any:
    with hs.connect("memory://") as client:
        client.create_topic("shop/orders", limits="wide")
        yield client


@pytest.mark.parametrize(("serializer", "value", "bad"), FORMATS, ids=lambda each: getattr(each, "name", ""))
def test_a_consumer_decodes_what_a_producer_encodes(log: hs.Client, serializer: Any, value: Any, bad: bytes) -> None:
    with log.producer("shop/orders", encode=serializer) as producer:
        producer.send(value, key=b"k", headers={"n": hs.uint8(1)})
        producer.send_many([value])
        assert producer.send_and_wait(value).offset == 2
    with log.consumer("shop/orders", decode=serializer, timeout_ms=0) as consumer:
        messages = list(consumer)
    assert [message.value for message in messages] == [value] * 3
    assert (messages[0].key, messages[0].headers["n"], messages[0].offset) == (b"k", hs.uint8(1), 0)
    assert messages[0] == log.poll("shop/orders")[0]


@pytest.mark.parametrize(("serializer", "value", "bad"), FORMATS, ids=lambda each: getattr(each, "name", ""))
def test_a_payload_that_cannot_be_decoded_is_an_error_until_it_is_passed_over(
    log: hs.Client, serializer: Any, value: Any, bad: bytes
) -> None:
    good = serializer.encode(value)
    for payload in (good, bad, good):
        log.send("shop/orders", payload)
    found = []
    with log.consumer("shop/orders", group="billing", decode=serializer, timeout_ms=0) as consumer:
        found.append(next(consumer).value)
        for _ in range(2):
            with pytest.raises(hs.SerializerError, match=r"shop/orders, partition 1, offset 1\). .*seek\(1, 2\)"):
                next(consumer)
        assert log.offsets("shop/orders", "billing") == {1: 1}
        consumer.seek(1, 2)
        found += [message.value for message in consumer]
    assert found == [value, value]
    assert log.offsets("shop/orders", "billing") == {1: 3}


def test_a_null_payload_is_delivered_and_has_no_value(log: hs.Client) -> None:
    with log.producer("shop/orders", encode=serializers.json()) as producer:
        producer.send(None, key=b"k")
    with log.consumer("shop/orders", decode=serializers.json(), timeout_ms=0) as consumer:
        (message,) = list(consumer)
    assert message.payload is None
    with pytest.raises(hs.SerializerError, match="a null payload cannot be decoded"):
        _ = message.value


def test_values_of_several_topics_and_of_asyncio_are_decoded() -> None:
    async def main() -> None:
        async with hs.connect_async("memory://") as log:
            await log.create_topic("shop/orders")
            async with log.producer("shop/orders", encode=serializers.msgspec(Order)) as producer:
                await producer.send(Order(1, "a"))
                await producer.send_many([Order(2, "b")])
                assert (await producer.send_and_wait(Order(3, "c"))).offset == 2
                await producer.flush()
                assert (await producer.stats()).stored_count == 3
            async with log.consumer("shop/orders", decode=serializers.msgspec(Order), timeout_ms=0) as consumer:
                assert [message.value.number async for message in consumer] == [1, 2, 3]
            async with log.consumer(["shop/*"], decode=serializers.msgspec(Order), timeout_ms=0) as several:
                assert [message.value.what for message in await several.poll(10)] == ["a", "b", "c"]

    asyncio.run(asyncio.wait_for(main(), 120))
    with hs.connect("memory://") as log:
        log.create_topic("shop/orders")
        log.send("shop/orders", b'{"number":1,"what":"a"}')
        with log.consumer(["shop/*"], decode=serializers.msgspec(Order), timeout_ms=0) as several:
            assert [message.value for message in several] == [Order(1, "a")]


def test_decoding_comes_after_the_interceptors() -> None:
    from headstream.interceptors import Compression

    with hs.connect("memory://", interceptors=[Compression(min_bytes=0)]) as log:
        log.create_topic("shop/orders")
        with log.producer("shop/orders", encode=serializers.json()) as producer:
            producer.send(["same"] * 100)
        with log.consumer("shop/orders", decode=serializers.json(), timeout_ms=0) as consumer:
            assert [message.value for message in consumer] == [["same"] * 100]
