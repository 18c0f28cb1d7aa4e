"""Purging a topic, more partitions and fewer, under those who read and write it."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import headstream as hs
from headstream.errors import InvalidOptionError, OffsetOutOfRangeError, PartitionNotFoundError, TopicNotFoundError
from headstream.log.segments.follower import PartitionFollower
from tests.behaviour.conftest import Place, at, numbers

Send = Callable[..., None]


def payloads(messages: Sequence[hs.Message]) -> list[bytes | None]:
    return [message.payload for message in messages]


def test_purge_removes_messages_and_offsets_and_begins_at_0_again(log: hs.Client, send: Send) -> None:
    send(b"a", b"b", b"c")
    log.poll("shop/orders", consumer="me", auto_commit=True)
    log.set_state("shop/orders", at(1), 0, "poisoned")
    assert log.offsets("shop/orders", name="me") == {at(1): 3}
    before = log.topic("shop/orders")
    log.purge_topic("shop/orders")
    after = log.topic("shop/orders")
    assert (after.messages_count, after.size_bytes, after.id, after.created_us) == (0, 0, before.id, before.created_us)
    assert log.offsets("shop/orders", name="me") == {}
    assert log.states("shop/orders") == []
    send(b"new")
    assert [(m.offset, m.payload) for m in log.poll("shop/orders", consumer="me")] == [(0, b"new")]
    with pytest.raises(TopicNotFoundError):
        log.purge_topic("shop/none")


def test_purge_leaves_other_topics_alone(log: hs.Client, send: Send) -> None:
    send(b"a", topic="shop/carts", partition=at(3))
    send(b"b")
    log.purge_topic("shop/orders")
    log.purge_topic("shop/orders")
    assert payloads(log.poll("shop/carts", at(3))) == [b"a"]


def test_a_consumer_of_a_purged_topic_is_told_and_goes_on_after_seek(place: Place, log: hs.Client, send: Send) -> None:
    send(b"a", b"b")
    with place.connect().consumer("shop/orders", group="g", timeout_ms=0) as consumer:
        assert next(consumer).payload == b"a"
        log.purge_topic("shop/orders")
        send(*(b"%d" % number for number in range(10)))  # so many that the old position would be there again
        with pytest.raises(OffsetOutOfRangeError, match="was purged or recreated after"):
            next(consumer)
        assert log.offsets("shop/orders", "g") == {}
        consumer.seek(at(1), "first")
        assert payloads(list(consumer)) == [b"%d" % number for number in range(10)]


def test_a_producer_goes_on_through_purges_and_loses_nothing_sent_after_the_last(log: hs.Client) -> None:
    purged, done = threading.Semaphore(0), threading.Event()
    failures: list[BaseException] = []

    def purge() -> None:
        try:
            while not done.is_set():
                log.purge_topic("shop/orders")
                purged.release()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=purge)
    thread.start()
    number = 0
    with log.producer("shop/orders", linger_ms=0) as producer:
        for _ in range(10):  # purges in the midst of sending, whatever the machine does besides
            assert purged.acquire(timeout=120)
            for _ in range(5):
                producer.send(b"%d" % number)
                number += 1
            producer.flush()
        done.set()
        thread.join()
        left = [int(payload or b"") for payload in payloads(log.poll("shop/orders", count=1000))]
        for _ in range(5):
            producer.send(b"%d" % number)
            number += 1
    assert failures == []
    messages = log.poll("shop/orders", count=1000)
    assert [message.offset for message in messages] == list(range(len(messages)))
    assert [int(message.payload or b"") for message in messages] == list(range(number - len(messages), number))
    assert len(messages) == len(left) + 5


def test_members_of_a_group_are_told_of_a_purge_and_go_on_after_seek(log: hs.Client, send: Send) -> None:
    for partition in numbers(3):
        send(b"a", b"b", topic="shop/carts", partition=partition)
    with log.consumer("shop/carts", group="g", timeout_ms=0) as one, log.consumer("shop/carts", group="g", timeout_ms=0) as two:
        assert len(list(one)) + len(list(two)) == 6
        log.purge_topic("shop/carts")
        for partition in numbers(3):
            send(b"c", b"d", b"e", topic="shop/carts", partition=partition)
        found: list[bytes | None] = []
        told: list[int] = []
        for consumer in (one, two):
            for _ in range(20):
                try:
                    found += payloads(list(consumer))
                    break
                except OffsetOutOfRangeError as error:
                    told.append(int(error.what.split()[1]))
                    consumer.seek(told[-1], "first")
        assert sorted(told) == [1, 2, 3]
        assert set(found) == {b"c", b"d", b"e"}
    assert log.offsets("shop/carts", "g") == {at(1): 3, at(2): 3, at(3): 3}


def test_partitions_are_added_behind_the_last(log: hs.Client, send: Send) -> None:
    send(b"a")
    topic = log.create_partitions("shop/orders", 2)
    assert [(p.number, p.end_offset) for p in topic.partitions] == [(at(1), 1), (at(2), 0), (at(3), 0)]
    send(b"b", partition=at(3))
    assert payloads(log.poll("shop/orders", at(3))) == [b"b"]
    assert payloads(log.poll("shop/orders", at(1))) == [b"a"]


def test_the_highest_partitions_are_deleted_and_made_anew_they_are_empty(log: hs.Client, send: Send) -> None:
    for partition in numbers(3):
        send(b"%d" % partition, b"more", topic="shop/carts", partition=partition)
        log.poll("shop/carts", partition, consumer="me", auto_commit=True)
    log.set_state("shop/carts", at(3), 0, "poisoned")
    assert [p.number for p in log.delete_partitions("shop/carts", 2).partitions] == [1]
    with pytest.raises(PartitionNotFoundError, match="no partition 2"):
        log.poll("shop/carts", at(2))
    log.create_partitions("shop/carts", 2)
    assert log.states("shop/carts", at(3)) == []
    assert log.offsets("shop/carts", name="me") == {at(1): 2}
    assert log.poll("shop/carts", at(3), states=None) == []
    send(b"new", topic="shop/carts", partition=at(3))
    assert [(m.offset, m.payload) for m in log.poll("shop/carts", at(3), consumer="me")] == [(0, b"new")]
    assert payloads(log.poll("shop/carts", at(1))) == [b"1", b"more"]


def test_a_consumer_of_a_partition_that_is_made_anew_is_told(log: hs.Client, send: Send) -> None:
    send(b"a", b"b", topic="shop/carts", partition=at(3))
    consumer = log.consumer("shop/carts", partitions=[at(3)], timeout_ms=0)
    assert payloads(list(consumer)) == [b"a", b"b"]
    log.delete_partitions("shop/carts")
    with pytest.raises(PartitionNotFoundError, match="no partition 3"):
        next(consumer)
    log.create_partitions("shop/carts")
    send(b"x", b"y", b"z", topic="shop/carts", partition=at(3))
    with pytest.raises(OffsetOutOfRangeError, match="recreated"):
        next(consumer)


@pytest.mark.parametrize("count", [0, -1, 3, 9])
def test_partitions_are_not_deleted_or_added_beyond_the_limits_of_a_topic(log: hs.Client, count: int) -> None:
    with pytest.raises(InvalidOptionError, match="of 3 partitions"):
        log.delete_partitions("shop/carts", count)
    with pytest.raises(InvalidOptionError, match=r"cannot delete.*A topic needs at least one"):
        log.delete_partitions("shop/orders")
    with pytest.raises(InvalidOptionError, match=r"cannot add -?\d+ partitions to 3"):
        log.create_partitions("shop/carts", 998 if count > 0 else count)
    assert len(log.topic("shop/carts").partitions) == 3


_READER = """
import sys, headstream as hs
with hs.connect(sys.argv[1]) as log, log.consumer("shop/orders", timeout_ms=10000) as consumer:
    print(next(consumer).payload.decode(), flush=True)
    try:
        print(next(consumer).payload.decode(), flush=True)
    except hs.OffsetOutOfRangeError as error:
        print("told", flush=True)
    consumer.seek(1, "first")
    print(next(consumer).payload.decode(), flush=True)
"""


def test_a_reader_in_another_process_is_told_of_a_purge_and_goes_on(tmp_path: Path) -> None:
    url = (tmp_path / "log").as_uri()
    with hs.connect(url) as log:
        log.create_topic("shop/orders")
        with log.producer("shop/orders") as producer:
            producer.send(b"old")
        with subprocess.Popen([sys.executable, "-c", _READER, url], stdout=subprocess.PIPE, text=True) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "old\n"
            log.purge_topic("shop/orders")
            assert reader.stdout.readline() == "told\n"
            with log.producer("shop/orders") as producer:
                producer.send(b"new")
            assert reader.stdout.readline() == "new\n"
        assert reader.returncode == 0


def test_a_follower_of_a_purged_topic_finds_its_directory_gone(tmp_path: Path) -> None:
    with hs.connect(tmp_path.as_uri()) as log:
        log.create_topic("shop/orders")
        with log.producer("shop/orders") as producer:
            producer.send(b"old")
        follower = PartitionFollower(tmp_path / "streams" / "1" / "1" / "1")
        log.purge_topic("shop/orders")
        with pytest.raises(PartitionNotFoundError, match="has been deleted"):
            follower.refresh()
        assert [path.name for path in (tmp_path / "streams" / "1").iterdir()] == ["2"]
        assert log.create_topic("shop/new").id == 2
        assert sorted(path.name for path in (tmp_path / "streams" / "1").iterdir()) == ["2", "3"]
