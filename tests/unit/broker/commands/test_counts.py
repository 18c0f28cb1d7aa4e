"""What is counted of partitions, and how often their files are looked into for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headstream as hs
from headstream.broker.broker import Broker
from headstream.broker.commands.counts import CountsCache
from headstream.core.wire.commands.topics import PartitionInfo
from headstream.log.catalog.records import TopicRecord
from headstream.log.upkeep.retention import Retention


@pytest.fixture
def client(tmp_path: Path) -> Iterator[hs.Client]:
    """A log with a topic of three partitions, each with a message; its counts look at settled directories."""
    with hs.connect((tmp_path / "log").as_uri(), segment_bytes=4096) as client:
        client.create_topic("shop/orders", partitions=3)
        for partition in (1, 2, 3):
            send(client, partition)
        yield client


def send(client: hs.Client, partition: int, size: int = 100, count: int = 1) -> None:
    with client.producer("shop/orders") as producer:
        for _ in range(count):
            producer.send(b"x" * size, partition=partition)
            producer.flush()


def counts_of(client: hs.Client, monkeypatch: pytest.MonkeyPatch) -> tuple[CountsCache, list[int], Any]:
    """Return the counts of a client's log, a list of the partitions that are counted anew, and the topic."""
    broker: Any = client._transport
    assert isinstance(broker, Broker)
    log = broker.backing.log
    counts, counted = CountsCache(log), list[int]()
    count = counts._count_partition

    def count_anew(topic: TopicRecord, number: int) -> PartitionInfo:
        counted.append(number)
        return count(topic, number)

    monkeypatch.setattr(counts, "_count_partition", count_anew)
    monkeypatch.setattr("headstream.log.segments.files._TICK_NS", 0)  # directories that were changed just now are settled too
    return counts, counted, log.snapshot()["shop"].topics["orders"]


def test_counts_look_into_no_file_when_nothing_has_changed(client: hs.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    counts, counted, topic = counts_of(client, monkeypatch)
    first = counts.partitions(topic)
    assert [partition.messages_count for partition in first] == [1, 1, 1]
    assert counts.partitions(topic) == first
    assert counted == [1, 2, 3]


def test_counts_ask_the_system_nothing_when_nothing_has_changed(client: hs.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    counts, _, topic = counts_of(client, monkeypatch)
    first, asked = counts.topic(topic), list[str]()
    files = type(counts._log.files)
    for name in ("changed", "list_names", "open_read", "exists"):
        monkeypatch.setattr(files, name, lambda _, path, name=name: asked.append(name))
    assert counts.topic(topic) is first
    assert asked == []


def test_counts_look_at_one_partition_when_segments_of_it_were_removed(
    client: hs.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts, counted, topic = counts_of(client, monkeypatch)
    counts.topic(topic)
    counts._log.note_removed(topic, 3)
    counts.topic(topic)
    assert counted == [1, 2, 3, 3]


def test_counts_are_exact_when_a_partition_has_been_appended_to(client: hs.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    counts, counted, topic = counts_of(client, monkeypatch)
    counts.partitions(topic)
    send(client, 2)
    assert [partition.messages_count for partition in counts.partitions(topic)] == [1, 2, 1]
    assert counted == [1, 2, 3, 2]


def test_counts_are_exact_when_retention_has_removed_segments(client: hs.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    counts, _, topic = counts_of(client, monkeypatch)
    send(client, 1, size=1500, count=9)
    before = counts.partitions(topic)[0]
    broker: Any = client._transport
    log = broker.backing.log
    retention = Retention(log, broker.backing.clock_us)
    assert retention.drop_oldest(topic, 1, 2) == 2
    after = counts.partitions(topic)[0]
    assert after.segments_count < before.segments_count
    assert after.messages_count < before.messages_count
