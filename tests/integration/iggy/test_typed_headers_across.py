"""Typed headers between today's Iggy client and the clients of the other protocols of one server."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import headstream as hs
from headstream.core.codec.binary import decode_polled, encode_sent
from headstream.core.codec.kafka import decode_record, encode_record
from headstream.core.model.polling import ConsumerKind, PollingKind
from headstream.core.wire.commands.messages import PollMessages, SendMessages
from headstream.core.wire.commands.offsets import ConsumerRef
from headstream.testing.local_server import LocalServer
from tests.support.server.iggy_environments import KINDS, play_today
from tests.support.server.kafka_listeners import KafkaListener, kafka_listener

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TODAY = {
    **{name: ["UnsignedInt" + name[4:], value.to_int()] for name, value in KINDS.items() if name.startswith("uint")},
    "float64": ["Float64", 0.1],
    "bool": ["Bool", True],
    "raw": ["Raw", "00ff"],
}
"""Some of what the client shows of them."""


def play(today: Path, listener: KafkaListener, scenario: str, stream: str) -> list[dict[str, dict[str, object]]]:
    found = play_today(today, str(listener.running.address), scenario, stream)
    messages: list[dict[str, dict[str, object]]] = found["messages"] if scenario == "headers" else found
    return messages


def consume_one(listener: KafkaListener, topic: str) -> hs.Message:
    """Return the first record of a topic, as a Kafka client that knows `hs.kinds` reads it."""
    consumer = Consumer(listener.confluent(group_id="reader", enable_auto_commit=False))
    consumer.assign([TopicPartition(topic, 0, 0)])
    until_s = time.monotonic() + 30
    while (record := consumer.poll(0.2)) is None and time.monotonic() < until_s:
        pass
    consumer.close()
    assert record is not None
    assert "hs.kinds" in dict(record.headers() or [])  # type: ignore[arg-type,unused-ignore]
    return decode_record(record)


def test_typed_headers_of_todays_client_reach_older_and_kafka_clients_and_come_back(today: Path) -> None:
    with kafka_listener() as listener:
        play(today, listener, "headers", "sent")
        older = listener.running.peer()
        asked = PollMessages(ConsumerRef(ConsumerKind.CONSUMER, 1), "sent", "eu", 1, PollingKind.FIRST, 0, 1, False)
        [received] = decode_polled(older.ask(asked).messages)
        assert {key: value for key, value in received.headers.items() if key != "hs.timestamp"} == KINDS
        headers = consume_one(listener, "sent.eu").headers
        assert {key: value for key, value in headers.items() if key != "hs.timestamp"} == KINDS

        with hs.connect(f"headstream://iggy:iggy@{listener.running.address}") as log:
            for stream in ("older", "kafka"):
                log.create_topic(f"{stream}/eu", partitions=1)
        messages = [hs.Message(payload=b"typed", headers=hs.Headers(list(KINDS.items())))]
        older.ask(SendMessages("older", "eu", hs.Partitioning.partition(1), encode_sent(messages)))
        record = encode_record(messages[0])
        producer = Producer(listener.confluent())
        producer.produce("kafka.eu", value=record.value, headers=list(record.headers), partition=0)
        assert producer.flush(30) == 0
        for stream in ("older", "kafka"):
            shown = play(today, listener, "read", stream)[0]["headers"]
            assert {key: shown[key] for key in TODAY} == TODAY, stream


@pytest.mark.nightly
@pytest.mark.spark
def test_typed_headers_of_todays_client_reach_spark_and_come_back(spark: SparkSession, today: Path, tmp_path: Path) -> None:
    with LocalServer(tmp_path / "log") as server:
        address = "{}:{}".format(*server.tcp_address)
        play_today(today, address, "headers", "sent")
        with hs.connect(server.url) as log:
            log.create_topic("spark/eu", partitions=1)
        source = spark.read.format("headstream").option("subscribe", "sent/eu").option("startingOffsets", "earliest")
        assert source.load(server.url).selectExpr("headers:uint8::int").first() == (3,)
        rows = source.option("headers", "array").load(server.url).where("offset = 0")
        kinds = rows.selectExpr("transform(headers, h -> h.key || ' ' || h.kind) AS kinds").first()
        assert kinds is not None
        assert set(kinds.kinds) - {"hs.timestamp int64"} == {f"{name} {name}" for name in KINDS}
        rows.select("headers", "payload").write.format("headstream").option("topic", "spark/eu").mode("append").save(server.url)
        shown = play_today(today, address, "read", "spark")[0]["headers"]
        assert {key: shown[key] for key in TODAY} == TODAY
