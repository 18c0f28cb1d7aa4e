"""The server's listener for Kafka's clients when a client does not wait for responses, as its protocol allows."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Limits, NewTopic
from headstream.server.kafka.apis import FETCH, PRODUCE
from tests.support.server.kafka_listeners import KafkaListener, kafka_listener
from tests.support.server.kafka_socket import KafkaSocket, encode_request

_LONG_MS = 60_000


def produce(correlation_id: int, *values: bytes, topic: str = "shop.orders") -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1, batch_size=1 << 20
    )
    for number, value in enumerate(values):
        builder.append(number, timestamp=1, key=None, value=value, headers=[])
    data = [{"name": topic, "partition_data": [{"index": 0, "records": [bytes(builder.build())]}]}]
    return encode_request(PRODUCE, 3, correlation_id, transactional_id=None, acks=-1, timeout_ms=1000, topic_data=data)


def fetch(correlation_id: int, offset: int, *, min_bytes: int) -> bytes:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    topics = [{"topic": "shop.orders", "partitions": [partition]}]
    waits = {"max_wait_ms": _LONG_MS, "min_bytes": min_bytes, "max_bytes": 1 << 20}
    return encode_request(FETCH, 4, correlation_id, isolation_level=0, topics=topics, **waits)


def offset_of(response: dict[str, Any]) -> int:
    answer = response["responses"][0]["partition_responses"][0]
    assert answer["error_code"] == 0
    return int(answer["base_offset"])


@pytest.fixture
def listener() -> Iterator[KafkaListener]:
    with kafka_listener() as found:
        found.broker.topics.create(NewTopic(TopicName("shop", "orders"), 1, Limits.WIDE))
        yield found


def test_requests_that_come_together_are_answered_in_their_order(listener: KafkaListener) -> None:
    with KafkaSocket(listener) as client:
        client.send(b"".join(produce(10 + number, bytes(100 * number)) for number in range(50)))
        assert [offset_of(client.receive(PRODUCE, 3, 10 + number)) for number in range(50)] == list(range(50))


def test_a_response_does_not_wait_for_the_rest_of_the_next_request(listener: KafkaListener) -> None:
    first, second = produce(10, b"a", b"b"), produce(11, bytes(20_000))
    with KafkaSocket(listener) as client:
        for size in (3, 100, len(second) - 1):
            client.send(first + second[:size])
            assert offset_of(client.receive(PRODUCE, 3, 10)) >= 0
            client.send(second[size:])
            assert offset_of(client.receive(PRODUCE, 3, 11)) >= 2


def test_a_response_does_not_wait_for_a_fetch_that_came_with_its_request(listener: KafkaListener) -> None:
    with KafkaSocket(listener) as client, KafkaSocket(listener) as other:
        client.send(produce(10, b"a") + produce(11, b"b") + fetch(12, 2, min_bytes=1))
        assert offset_of(client.receive(PRODUCE, 3, 10)) == 0
        assert offset_of(client.receive(PRODUCE, 3, 11)) == 1
        other.send(produce(10, b"c"))
        assert offset_of(other.receive(PRODUCE, 3, 10)) == 2
        answer = client.receive(FETCH, 4, 12)["responses"][0]["partitions"][0]
        assert (answer["error_code"], answer["high_watermark"]) == (0, 3)


def test_what_was_answered_is_sent_before_an_invalid_request_closes_the_connection(listener: KafkaListener) -> None:
    with KafkaSocket(listener) as client:
        client.send(produce(10, b"a") + struct.pack(">i", -5) + b"rest")
        assert offset_of(client.receive(PRODUCE, 3, 10)) == 0
        with pytest.raises(AssertionError, match="closed the connection"):
            client.receive(PRODUCE, 3, 11)
