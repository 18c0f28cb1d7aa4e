"""Serializers: each format alone, and behind producers and consumers."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from decimal import Decimal
from typing import Any

import fastavro
import msgspec
import pydantic
import pytest
from fastavro.schema import fingerprint

import headstream as hs
from headstream import serializers
from headstream.serializers import Serializer


class Order(msgspec.Struct, frozen=True):
    number: int
    what: str


class Model(pydantic.BaseModel):
    number: int
    what: str


SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "number", "type": "long"}, {"name": "what", "type": "string"}],
}
LATER = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "paid", "type": "boolean", "default": False}]}

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
    with pytest.raises(hs.InvalidOptionError, match="encode is 'json'"):
        log.producer("shop/orders", encode="json")  # type: ignore[call-overload]
    with pytest.raises(hs.InvalidOptionError, match="decode is 'json'"):
        log.consumer("shop/orders", decode="json")  # type: ignore[call-overload]


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

    asyncio.run(asyncio.wait_for(main(), 30))
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


def test_avro_reads_earlier_schemas_that_are_known_and_refuses_others() -> None:
    earlier, later = serializers.avro(json.dumps(SCHEMA)), serializers.avro(LATER, known=[SCHEMA])
    payload = earlier.encode({"number": 1, "what": "a"})
    assert later.decode(payload) == {"number": 1, "what": "a", "paid": False}
    with pytest.raises(hs.InvalidInputError, match="is unknown"):
        serializers.avro(LATER).decode(payload)
    with pytest.raises(hs.InvalidInputError, match="1 bytes follow"):
        later.decode(payload + b"x")
    with pytest.raises(hs.InvalidInputError, match="not an Avro schema"):
        serializers.avro("{")


def test_avro_writes_the_single_object_encoding_of_the_specification() -> None:
    # The specification's example: the fingerprint of "int" is 0x7275d51a3f395c8f, written little-endian.
    assert fingerprint('"int"', "CRC-64-AVRO") == "8f5c393f1ad57572"
    assert serializers.avro('"int"').encode(-1) == bytes.fromhex("c301 8f5c393f1ad57572 01")
    assert fastavro.__version__


def test_dataclasses_are_values_of_msgspec_and_pydantic() -> None:
    @dataclasses.dataclass
    class Point:
        x: int

    for serializer in (serializers.msgspec(Point), serializers.pydantic(Point)):
        assert serializer.decode(serializer.encode(Point(1))) == Point(1)
    with pytest.raises(hs.InvalidOptionError, match="Use json or msgpack"):
        serializers.msgspec(Point, format="yaml")  # type: ignore[arg-type]


def test_json_keeps_every_digit_of_numbers_when_decimals_are_wanted() -> None:
    serializer = serializers.json(decimals=True)
    value = {"price": Decimal("123456789012345678.91"), "count": 3}
    assert serializer.encode(value) == b'{"price":123456789012345678.91,"count":3}'
    assert serializer.decode(serializer.encode(value)) == value
    with pytest.raises(ValueError, match="NaN"):
        serializer.encode(Decimal("NaN"))
