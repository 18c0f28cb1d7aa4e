"""Typed headers through a real broker, with the clients that people use."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import headstream as hs
from headstream.core.codec.kafka import decode_record, encode_record
from headstream.testing import KafkaBroker

_MESSAGES = [
    hs.Message(
        payload=b"paid",
        key=b"42",
        headers=hs.Headers(
            [("attempt", hs.uint8(3)), ("source", "web"), ("source", "app"), ("big", hs.uint128(2**128 - 1)), ("n", None)]
        ),
        topic="shop/orders",
        id=7,
        timestamp=1_700_000_000_123_456,
    ),
    hs.Message(
        payload=None, key=b"42", headers=hs.Headers({"reason": "forgotten"}), topic="shop/orders", timestamp=1_700_000_000_124_000
    ),
    hs.Message(payload=b"", topic="shop/orders", timestamp=1_700_000_000_125_000),
]


def _compare(received: list[hs.Message]) -> None:
    assert [(message.payload, message.key, message.headers) for message in received] == [
        (message.payload, message.key, message.headers) for message in _MESSAGES
    ]
    assert [message.timestamp for message in received] == [message.timestamp for message in _MESSAGES]
    assert [(message.topic, message.partition, message.offset) for message in received] == [
        ("shop/orders", 0, n) for n in range(3)
    ]
    assert received[0].id == 7


@pytest.fixture
def topic(kafka_broker: KafkaBroker, request: pytest.FixtureRequest) -> str:
    name = f"shop.{request.node.name.split('[')[0][-40:]}"
    kafka_broker.create_topic(name)
    return name


def test_messages_pass_through_confluent_kafka_when_their_headers_are_typed(kafka_broker: KafkaBroker, topic: str) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition

    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
    for message in _MESSAGES:
        producer.produce(**{**encode_record(message).arguments("confluent"), "topic": topic})
    assert producer.flush(120) == 0
    consumer = Consumer({"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": "g"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    received: list[Any] = consumer.consume(3, 120)
    consumer.close()
    _compare([_renamed(decode_record(record), topic) for record in received])


def test_messages_pass_through_aiokafka_when_their_headers_are_typed(kafka_broker: KafkaBroker, topic: str) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    async def pass_through() -> list[Any]:
        async with AIOKafkaProducer(bootstrap_servers=kafka_broker.bootstrap_servers) as producer:
            for message in _MESSAGES:
                await producer.send_and_wait(**{**encode_record(message).arguments("aiokafka"), "topic": topic})
        consumer = AIOKafkaConsumer(bootstrap_servers=kafka_broker.bootstrap_servers)
        await consumer.start()
        try:
            place = TopicPartition(topic, 0)
            consumer.assign([place])
            await consumer.seek_to_beginning(place)
            return [await asyncio.wait_for(consumer.getone(), 120) for _ in _MESSAGES]
        finally:
            await consumer.stop()

    _compare([_renamed(decode_record(record), topic) for record in asyncio.run(pass_through())])


def _renamed(message: hs.Message, topic: str) -> hs.Message:
    assert message.topic == topic.replace(".", "/", 1)
    return hs.Message(**{name: getattr(message, name) for name in message.__slots__} | {"topic": "shop/orders"})
