"""Consumers of several topics and patterns, partitions that come and go, and commits of one message."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import headstream as hs
from headstream.client.consumer import topics_consumer
from headstream.testing.local_server import LocalServer
from tests.behaviour.conftest import at, numbers, open_place
from tests.behaviour.kafka_differences import skip_differing


@pytest.fixture(params=["memory", "file", "tcp", "http", "kafka"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[hs.Client]:
    skip_differing(request)
    if request.param == "kafka":
        with open_place("kafka", tmp_path) as place:
            yield place.connect()
        return
    if request.param in ("memory", "file"):
        with hs.connect("memory://" if request.param == "memory" else tmp_path.as_uri()) as log:
            yield log
        return
    with LocalServer() as server, hs.connect(server.url if request.param == "tcp" else server.http_url) as log:
        yield log


def payloads(messages: Sequence[hs.Message]) -> list[tuple[str | None, bytes | None]]:
    return sorted((message.topic, message.payload) for message in messages)


def test_a_consumer_of_several_topics_gets_and_commits_all_of_them(log: hs.Client) -> None:
    for name in ("shop/orders", "shop/returns", "bank/orders"):
        log.create_topic(name)
        log.send(name, name.encode())
    with log.consumer(["shop/orders", "bank/*"], group="billing", timeout_ms=0) as consumer:
        assert consumer.topics == ["bank/orders", "shop/orders"]
        assert payloads(list(consumer)) == [("bank/orders", b"bank/orders"), ("shop/orders", b"shop/orders")]
    with log.consumer(["*"], group="billing", timeout_ms=0) as consumer:
        assert payloads(list(consumer)) == [("shop/returns", b"shop/returns")]


def test_a_pattern_finds_topics_that_are_made_later_from_their_beginning(log: hs.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics_consumer, "_CHECK_EVERY_S", 0.0)
    log.create_topic("shop/orders")
    log.send("shop/orders", b"old")
    with log.consumer(["shop/*"], start="last") as consumer:
        assert consumer.poll() == []
        log.create_topic("shop/returns")
        log.send("shop/returns", b"new")
        assert payloads(consumer.poll(timeout_ms=10_000)) == [("shop/returns", b"new")]
        log.delete_topic("shop/returns")
        log.send("shop/orders", b"newer")
        assert payloads(consumer.poll(timeout_ms=10_000)) == [("shop/orders", b"newer")]
        assert consumer.topics == ["shop/orders"]


def test_a_loop_over_a_pattern_goes_on_when_the_topic_of_the_message_in_hand_is_deleted(log: hs.Client) -> None:
    for name in ("shop/orders", "shop/returns"):
        log.create_topic(name)
        for _ in range(2):
            log.send(name, b"x")
    with log.consumer(["shop/*"], group="billing", timeout_ms=0) as consumer:
        deleted = next(consumer).topic or ""
        log.delete_topic(deleted)
        left = {message.topic for message in consumer} - {deleted}
        assert consumer.topics == list(left)
        assert len(left) == 1


def test_a_topic_that_is_not_there_is_an_error_and_a_pattern_that_finds_none_is_not(log: hs.Client) -> None:
    log.create_topic("shop/orders")
    with pytest.raises(hs.TopicNotFoundError):
        log.consumer(["shop/orders", "shop/nothing"])
    with pytest.raises(hs.InvalidOptionError, match="the list of topics is empty"):
        log.consumer([])
    with log.consumer(["bank/*"], timeout_ms=0) as consumer:
        assert list(consumer) == []


def test_a_commit_of_one_message_commits_its_partition_up_to_it(log: hs.Client) -> None:
    log.create_topic("shop/orders", partitions=2)
    for number in range(4):
        log.send("shop/orders", b"%d" % number, partition=at(1))
    log.send("shop/orders", b"other", partition=at(2))
    with log.consumer("shop/orders", group="billing") as consumer:
        messages = [message for message in consumer.poll(timeout_ms=10_000) if message.partition == at(1)]
        consumer.commit(messages[1])
        assert log.offsets("shop/orders", "billing") == {at(1): 2}
        with pytest.raises(hs.InvalidInputError, match="from no topic"):
            consumer.commit(hs.Message(payload=b"x"))
        consumer.close(commit=False)
    with log.consumer("shop/orders", group="billing", timeout_ms=60_000) as consumer:
        assert sorted(next(consumer).payload or b"" for _ in range(3)) == [b"2", b"3", b"other"]


def test_a_commit_of_one_message_by_a_consumer_of_several_topics_goes_to_its_topic(log: hs.Client) -> None:
    for name in ("shop/orders", "shop/returns"):
        log.create_topic(name)
        log.send(name, b"x")
    with log.consumer(["shop/*"], group="billing") as consumer:
        (message,) = [each for each in consumer.poll(timeout_ms=10_000) if each.topic == "shop/returns"]
        consumer.commit(message)
        consumer.close(commit=False)
    assert log.offsets("shop/returns", "billing") == {at(1): 1}
    assert log.offsets("shop/orders", "billing") == {}


def test_a_consumer_tells_of_partitions_that_come_and_go(log: hs.Client) -> None:
    log.create_topic("shop/orders", partitions=2)
    told: list[tuple[str, str, set[int]]] = []

    def consumer_of(who: str) -> hs.Consumer:
        return log.consumer(
            "shop/orders",
            group="billing",
            on_assigned=lambda topic, partitions: told.append((who, "+", set(partitions))),
            on_revoked=lambda topic, partitions: told.append((who, "-", set(partitions))),
        )

    with consumer_of("a") as first:
        assert told == [("a", "+", set(numbers(2)))]
        second = consumer_of("b")
        for _ in range(1000):
            first.poll()
            second.poll()
            if len(told) == 3:
                break
        (given,) = [partitions for who, what, partitions in told if (who, what) == ("a", "-")]
        assert len(given) == 1
        # One that waits for nothing in hand may hear of it after the other has begun.
        assert sorted(told[1:], key=lambda each: each[0]) == [("a", "-", given), ("b", "+", given)]
        second.close()
        assert told[3:] == [("b", "-", given)]
        for _ in range(1000):
            first.poll()
            if len(told) == 5:
                break
        assert told[4:] == [("a", "+", given)]
    assert told[5:] == [("a", "-", set(numbers(2)))]


def test_a_consumer_without_a_group_tells_of_its_partitions_once(log: hs.Client) -> None:
    log.create_topic("shop/orders", partitions=2)
    told: list[tuple[str, frozenset[int]]] = []
    with log.consumer("shop/orders", partitions=[at(2)], on_assigned=lambda *what: told.append(what)) as consumer:
        consumer.poll()
    assert told == [("shop/orders", frozenset({at(2)}))]


@contextmanager
def coming_and_going(log: hs.Client, name: str, times: int) -> Iterator[threading.Thread]:
    """Create and delete topics in another thread; its errors are raised at the end."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            for number in range(times):
                log.create_topic(f"{name}-{number}", partitions=4)
                log.send(f"{name}-{number}", b"x")
                log.delete_topic(f"{name}-{number}")
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield thread
    thread.join()
    assert errors == []


def test_listings_and_pattern_consumers_go_on_while_another_topic_is_deleted(
    log: hs.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics_consumer, "_CHECK_EVERY_S", 0.0)
    log.create_topic("shop/orders")
    with (
        log.consumer(["shop/*"], group="billing", timeout_ms=0) as consumer,
        coming_and_going(log, "shop/carts", 2 if log.first_partition == 0 else 60) as other,
    ):
        while other.is_alive():
            assert "orders" in [topic.name for topic in log.topics()]
            assert "orders" in log.stream("shop").topics
            assert "shop" in [stream.name for stream in log.streams()]
            list(consumer)
            consumer.poll()
            consumer.commit()
        log.send("shop/orders", b"done")
        assert b"done" in [message.payload for message in consumer.poll(timeout_ms=20_000)]
