"""What is sent is there: once, in order, in its partition, as it was."""

from __future__ import annotations

import random
from typing import Any

import pytest

import headstream as hs
from tests.behaviour.conftest import Place, at, numbers


def payloads(log: hs.Client, topic: str, partition: int | None = None) -> list[bytes | None]:
    return [message.payload for message in log.poll(topic, at(1) if partition is None else partition, count=1_000_000)]


def test_a_message_comes_back_as_it_was_sent(log: hs.Client) -> None:
    pairs: list[tuple[str, Any]] = [
        ("attempt", hs.uint8(3)), ("source", "web"), ("total", 12.5), ("raw", b"\x00\xff"), ("yes", True),
        ("big", hs.int128(-(1 << 100))), ("repeated", 1), ("repeated", "two"), ("ünïcode", "✓"),
    ]  # fmt: skip
    headers = hs.Headers(pairs)
    with log.producer("shop/orders") as producer:
        producer.send(b"payload", key=b"42", headers=headers, id=77)
    (message,) = log.poll("shop/orders")
    assert (message.payload, message.key, message.headers, message.id) == (b"payload", b"42", headers, 77)
    assert [value.kind_name for value in message.headers.values()] == [value.kind_name for value in headers.values()]
    assert (message.offset, message.state, message.topic, message.partition) == (
        0,
        hs.MessageState.AVAILABLE,
        "shop/orders",
        at(1),
    )
    assert message.checksum == hs.checksum(b"payload")
    assert message.timestamp is not None
    assert message.timestamp > 1_600_000_000_000_000


def test_ids_are_made_where_none_is_given(log: hs.Client) -> None:
    with log.producer("shop/orders") as producer:
        for _ in range(100):
            producer.send(b"x")
    ids = {message.id for message in log.poll("shop/orders", count=100)}
    assert len(ids) == 100
    assert 0 not in ids


@pytest.mark.parametrize("options", [{}, {"linger_ms": 0}, {"batch_count": 7}, {"batch_bytes": 100}, {"buffer_bytes": 1000}])
def test_order_is_kept_however_messages_are_batched(log: hs.Client, options: dict[str, int]) -> None:
    sent = [b"%05d" % number * random.Random(number).randrange(1, 30) for number in range(500)]
    with log.producer("shop/orders", **options) as producer:
        for payload in sent:
            producer.send(payload)
    assert payloads(log, "shop/orders") == sent


def test_a_key_always_goes_to_the_same_partition(log: hs.Client) -> None:
    with log.producer("shop/carts", batch_count=10) as producer:
        for number in range(300):
            producer.send(b"%d" % number, key=b"customer-%d" % (number % 20))
    seen: dict[bytes | None, tuple[int, list[int]]] = {}
    for partition in numbers(3):
        for message in log.poll("shop/carts", partition, count=300):
            where, order = seen.setdefault(message.key, (partition, []))
            assert where == partition
            order.append(int(message.payload or b""))
    assert len(seen) == 20
    assert {where for where, _ in seen.values()} == set(numbers(3))
    for key, (_, order) in seen.items():
        assert order == [n for n in range(300) if b"customer-%d" % (n % 20) == key]


@pytest.mark.parametrize(("key", "partition"), [((1).to_bytes(4, "little"), 2), ((2).to_bytes(4, "little"), 3), (b"key-1", 1)])
def test_a_key_chooses_the_partition_that_iggy_chooses(log: hs.Client, key: bytes, partition: int) -> None:
    with log.producer("shop/carts") as producer:
        producer.send(b"x", key=key)
    assert [p.number for p in log.topic("shop/carts").partitions if p.end_offset] == [partition]


def test_a_partition_that_is_asked_for_is_taken(log: hs.Client) -> None:
    with log.producer("shop/carts") as producer:
        for number in range(30):
            producer.send(b"%d" % number, partition=at(number % 3 + 1), key=b"same")
    for partition in numbers(3):
        assert payloads(log, "shop/carts", partition) == [b"%d" % n for n in range(30) if at(n % 3 + 1) == partition]


def test_messages_without_key_are_spread_over_all_partitions(log: hs.Client) -> None:
    with log.producer("shop/carts", batch_count=10) as producer:
        for number in range(300):
            producer.send(b"%d" % number)
    topic = log.topic("shop/carts")
    assert topic.messages_count == 300
    assert [partition.end_offset for partition in topic.partitions] == [100, 100, 100]


def test_two_producers_of_one_process_share_the_log(place: Place, log: hs.Client) -> None:
    other = place.connect()
    with log.producer("shop/orders", linger_ms=0) as one, other.producer("shop/orders", linger_ms=0) as two:
        for number in range(50):
            one.send(b"one %d" % number)
            two.send(b"two %d" % number)
    stored = payloads(log, "shop/orders")
    for who in (b"one", b"two"):
        assert [p for p in stored if p and p.startswith(who)] == [b"%s %d" % (who, number) for number in range(50)]


def test_messages_and_topics_survive_closing(place: Place, log: hs.Client) -> None:
    with log.producer("shop/orders") as producer:
        producer.send(b"before")
    identity = log.identity
    log.close()
    again = place.connect()
    assert again.identity == identity
    assert {topic.full_name for topic in again.topics()} == {"shop/orders", "shop/carts"}
    with again.producer("shop/orders") as producer:
        producer.send(b"after")
    assert payloads(again, "shop/orders") == [b"before", b"after"]


def test_big_and_small_messages_go_together(log: hs.Client) -> None:
    sizes = [1, 9_000_000, 5, 1_048_576, 1, 3_000_000, 9_999_999, 2]
    with log.producer("shop/orders") as producer:
        for size in sizes:
            producer.send(bytes([size % 251]) * size)
    assert [len(payload or b"") for payload in payloads(log, "shop/orders")] == sizes


def test_a_deleted_topic_begins_again_empty(log: hs.Client) -> None:
    with log.producer("shop/orders") as producer:
        producer.send(b"old")
    with log.consumer("shop/orders", group="g", timeout_ms=0) as consumer:
        assert [message.payload for message in consumer] == [b"old"]
    log.delete_topic("shop/orders")
    with pytest.raises(hs.TopicNotFoundError, match="no topic 'shop/orders'"):
        log.poll("shop/orders")
    log.create_topic("shop/orders")
    assert payloads(log, "shop/orders") == []
    assert log.offsets("shop/orders", "g") == {}


def test_sending_to_a_topic_that_is_deleted_meanwhile_is_an_error(log: hs.Client) -> None:
    producer = log.producer("shop/orders")
    log.delete_topic("shop/orders")
    producer.send(b"x")
    with pytest.raises(hs.TopicNotFoundError):
        producer.flush()


def test_a_message_is_sent_to_a_partition_that_was_added_after_the_last_one(log: hs.Client) -> None:
    log.send("shop/orders", b"before")
    topic = log.create_partitions("shop/orders", 1)
    added = max(partition.number for partition in topic.partitions)
    assert log.send("shop/orders", b"after", partition=added).partition == added
    with pytest.raises(hs.PartitionNotFoundError):
        log.send("shop/orders", b"nowhere", partition=added + 1)


def test_messages_go_to_the_partitions_of_a_topic_that_was_made_anew_with_fewer(log: hs.Client) -> None:
    log.create_topic("shop/wide", partitions=3)
    for _ in range(3):
        log.send("shop/wide", b"before")
    log.delete_topic("shop/wide")
    log.create_topic("shop/wide", partitions=1)
    assert [log.send("shop/wide", b"after").partition for _ in range(3)] == [at(1)] * 3
