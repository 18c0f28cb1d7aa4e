"""Records that Kafka's clients delete from the server's log: by librdkafka, and by Kafka's command-line tool."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import headstream as hs
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Limits, NewTopic
from headstream.server.kafka.apis import FETCH
from headstream.server.kafka.protocol.error_codes import ErrorCode
from tests.support.kafka_tools import run_kafka_tool
from tests.support.server.kafka_listeners import KafkaListener, kafka_listener
from tests.support.server.kafka_socket import KafkaSocket

ORDERS = TopicName("shop", "orders")


@pytest.fixture
def listener() -> Iterator[KafkaListener]:
    with kafka_listener() as found:
        found.broker.topics.create(NewTopic(ORDERS, 2, Limits.WIDE))
        producer = Producer(found.confluent())
        for number in range(200):
            producer.produce("shop.orders", b"%d" % number, partition=number % 2)
        assert not producer.flush(30)
        yield found


def read(listener: KafkaListener, partition: int, count: int) -> list[bytes | None]:
    """Return the values of a partition from its first offset on."""
    with_group = listener.confluent(group_id="reader", auto_offset_reset="earliest", enable_auto_commit=False)
    consumer = Consumer(with_group)
    consumer.assign([TopicPartition("shop.orders", partition, -2)])
    found: list[bytes | None] = []
    while len(found) < count:
        message = consumer.poll(30)
        assert message is not None, found
        found.append(message.value())
    consumer.close()
    return found


def test_records_before_an_offset_are_gone_for_every_reader(listener: KafkaListener) -> None:
    admin = AdminClient(listener.confluent())
    wanted = [TopicPartition("shop.orders", 0, 37), TopicPartition("shop.orders", 1, -1)]
    results = {place.partition: found.result(30) for place, found in admin.delete_records(wanted).items()}
    assert {number: result.low_watermark for number, result in results.items()} == {0: 37, 1: 100}
    assert read(listener, 0, 63) == [b"%d" % number for number in range(74, 200, 2)]
    assert read(listener, 1, 0) == []
    producer = Producer(listener.confluent())
    producer.produce("shop.orders", b"next", partition=1)
    assert not producer.flush(30)
    assert read(listener, 1, 1) == [b"next"]


def test_what_cannot_be_deleted_is_refused_for_its_partition_alone(listener: KafkaListener) -> None:
    admin = AdminClient(listener.confluent())
    wanted = [TopicPartition("shop.orders", 0, 101), TopicPartition("shop.orders", 1, 3), TopicPartition("shop.none", 0, 1)]
    faults = {}
    for place, found in admin.delete_records(wanted).items():
        try:
            found.result(30)
        except KafkaException as error:
            faults[place.topic, place.partition] = error.args[0].code()
    assert faults.pop(("shop.orders", 0)) == KafkaError.OFFSET_OUT_OF_RANGE
    assert list(faults) == [("shop.none", 0)]
    assert read(listener, 0, 1) == [b"0"]
    assert read(listener, 1, 1) == [b"7"]


@pytest.mark.nightly
def test_the_tool_of_kafka_deletes_records(listener: KafkaListener, tmp_path: Path) -> None:
    settings, offsets = tmp_path / "client.properties", tmp_path / "offsets.json"
    settings.write_text(listener.java())
    offsets.write_text(json.dumps({"version": 1, "partitions": [{"topic": "shop.orders", "partition": 0, "offset": 10}]}))
    flags = ("--bootstrap-server", listener.bootstrap_servers, "--command-config", str(settings))
    done = run_kafka_tool("org.apache.kafka.tools.DeleteRecordsCommand", *flags, "--offset-json-file", str(offsets))
    assert "low_watermark: 10" in done.stdout
    assert read(listener, 0, 1) == [b"20"]


def test_readers_that_had_read_deleted_records_do_not_get_them_again(listener: KafkaListener) -> None:
    admin = AdminClient(listener.confluent())
    with hs.connect(f"headstream://iggy:iggy@{listener.running.address}") as log, KafkaSocket(listener) as kafka:

        def read_from_start() -> tuple[list[int], list[int]]:
            five, every = ([each.offset for each in log.poll("shop/orders", 1, start=0, count=count)] for count in (5, 100))
            return five, every

        def fetch(offset: int) -> tuple[int, int]:
            partitions = [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}]
            topics = [{"topic": "shop.orders", "partitions": partitions}]
            limits = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 0}
            found = kafka.ask(FETCH, 4, **limits, topics=topics)["responses"][0]["partitions"][0]
            return found["error_code"], _count_records(found["records"])

        for _ in range(3):  # files are open from here on, and messages in memory
            assert read_from_start() == ([*range(5)], [*range(100)])
            assert fetch(0) == (ErrorCode.NONE, 100)
        for offset in (10, 37, 90):
            (found,) = admin.delete_records([TopicPartition("shop.orders", 0, offset)]).values()
            assert found.result(30).low_watermark == offset
            for _ in range(3):
                assert read_from_start() == ([*range(offset, offset + 5)], [*range(offset, 100)])
                assert fetch(offset - 1) == (ErrorCode.OFFSET_OUT_OF_RANGE, 0)
                assert fetch(offset) == (ErrorCode.NONE, 100 - offset)
            assert log.topic("shop/orders").partitions[0].first_offset == offset


def _count_records(batches: memoryview) -> int:
    """Return the number of records in batches: of each the length is at byte 8, the number of records at byte 57."""
    at = count = 0
    while at < len(batches):
        count += struct.unpack_from(">i", batches, at + 57)[0]
        at += 12 + struct.unpack_from(">i", batches, at + 8)[0]
    return count
