"""A forked child acts for itself: with connections of its own where the log is elsewhere, and never in its parent's name."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import headstream as hs
from tests.behaviour.conftest import Place, at
from tests.support.async_clients import Gate
from tests.support.forked import in_child

TOPIC = "shop/orders"
REFUSED = "ClosedError: the consumer was created before this process was forked"


def is_embedded(place: Place) -> bool:
    return place.url.startswith(("memory:", "file:"))


def leave(consumer: Any) -> object:
    """Use a consumer in a child in every way that could act in the parent's name."""
    with consumer:
        pass
    with pytest.raises(hs.ClosedError), consumer:
        consumer.commit()
    with pytest.raises(KeyError), consumer:
        raise KeyError("the body failed")
    consumer.close()
    return consumer.poll()


@pytest.mark.parametrize(
    "options",
    [{}, {"mode": "shared"}, {"on_error": hs.Retry(attempts=None)}, {"decode": bytes.decode}],
    ids=["ordered", "shared", "retrying", "decoding"],
)
def test_a_forked_child_that_leaves_a_consumer_leaves_its_message_and_membership_to_the_parent(
    log: hs.Client, place: Place, send: Callable[..., None], options: dict[str, Any]
) -> None:
    if place.url.startswith("kafka:") and ("mode" in options or "on_error" in options):
        pytest.skip("Kafka's groups remember no single messages")
    send(b"one", b"two")
    with log.consumer(TOPIC, group="billing", timeout_ms=20_000, **options) as consumer:
        assert next(consumer).payload == b"one"
        assert in_child(lambda: leave(consumer)).startswith(REFUSED)
        assert log.offsets(TOPIC, "billing").get(at(1), 0) == 0
        assert len(log.group(TOPIC, "billing").members) == 1
        with place.connect().consumer(TOPIC, group="billing", timeout_ms=0, **options) as other:
            assert [message.payload for message in other.poll()] in ([], [b"two"])
        if not options:
            assert next(consumer).payload == b"two"
    assert log.offsets(TOPIC, "billing").get(at(1), 0) >= 1


def test_a_forked_child_that_leaves_a_pattern_consumer_commits_nothing(log: hs.Client, send: Callable[..., None]) -> None:
    send(b"one", b"two")
    with log.consumer(["shop/*"], group="billing", timeout_ms=20_000) as consumer:
        assert next(consumer).payload == b"one"
        assert in_child(lambda: leave(consumer)).startswith(REFUSED)
        assert log.offsets(TOPIC, "billing") == {}
        assert next(consumer).payload == b"two"


def test_a_forked_child_that_collects_a_consumer_leaves_its_membership_to_the_parent(
    log: hs.Client, send: Callable[..., None]
) -> None:
    send(b"one", b"two")
    kept = [log.consumer(TOPIC, group="billing", timeout_ms=20_000)]
    assert next(kept[0]).payload == b"one"
    assert in_child(kept.clear) == "None"
    assert len(log.group(TOPIC, "billing").members) == 1
    kept[0].commit()
    kept[0].close()


def test_a_forked_child_that_leaves_a_producer_sends_nothing_of_the_parent(log: hs.Client) -> None:
    def use(producer: hs.Producer) -> object:
        with producer:
            pass
        return producer.send(b"the child's")

    with log.producer(TOPIC, linger_ms=60_000) as producer:
        receipt = producer.send(b"the parent's")
        assert in_child(lambda: use(producer)).startswith("ClosedError: the producer was created before")
        assert in_child(lambda: receipt.result()).startswith("ClosedError: the producer was created before")
        assert in_child(lambda: producer.flush_within(0)).startswith("ClosedError: the producer was created before")
    assert in_child(lambda: receipt.result().offset) == "0"
    assert [message.payload for message in log.poll(TOPIC)] == [b"the parent's"]


def use_all(log: hs.Client) -> object:
    """Send and read through a client; the log has the messages of the parent."""
    log.send(TOPIC, b"the child's")
    with log.consumer(TOPIC, group="child", timeout_ms=20_000) as consumer:
        found = [message.payload for message in consumer.poll(1, timeout_ms=20_000)]
        consumer.commit()
    names = sorted(topic.name for topic in log.topics())
    log.close()
    return found, names


def test_a_forked_child_has_connections_of_its_own_or_is_refused(log: hs.Client, place: Place) -> None:
    log.send(TOPIC, b"the parent's")
    log.poll(TOPIC)
    told = in_child(lambda: use_all(log))
    assert told == (
        "ClosedError: the log was created before this process was forked. Create another log in this process"
        if is_embedded(place)
        else "([b\"the parent's\"], ['carts', 'orders'])"
    )
    log.send(TOPIC, b"and again")
    assert log.topic(TOPIC).messages_count == (2 if is_embedded(place) else 3)


def test_a_process_of_multiprocessing_has_connections_of_its_own_or_is_refused(log: hs.Client, place: Place) -> None:
    log.send(TOPIC, b"the parent's")
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()

    def work() -> None:
        try:
            answers.put(str(use_all(log)))
        except hs.ClosedError as error:
            answers.put(str(error))

    process = context.Process(target=work)
    process.start()
    told = answers.get()
    process.join(60)
    assert process.exitcode == 0
    assert ("before this process was forked" in told) is is_embedded(place)


def test_an_asyncio_client_in_a_forked_child_has_a_thread_of_its_own_and_no_message_of_a_cancelled_poll(
    log: hs.Client, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = hs.connect_async(place.url, **place.options)

    def poll() -> Coroutine[Any, Any, list[hs.ReceivedMessage]]:
        return client.poll(TOPIC, at(1), consumer="me", auto_commit=True)

    async def use(client: hs.AsyncClient) -> tuple[Any, Any]:
        await client.send(TOPIC, b"the parent's")
        await Gate(monkeypatch, hs.Client, "poll").cancel(poll())
        consumer, producer = client.consumer(TOPIC, group="billing"), client.producer(TOPIC, linger_ms=60_000)
        await anext(consumer)
        await producer.send(b"later")
        return consumer, producer

    async def leave(consumer: Any, producer: Any) -> object:
        async with consumer, producer:
            pass
        await consumer.close()
        await producer.close()
        found = [topic.name for topic in await client.topics()]
        found += [str(message.payload) for message in await poll()]
        await client.close()
        return sorted(found)

    consumer, producer = asyncio.run(use(client))
    told = in_child(lambda: asyncio.run(leave(consumer, producer)))
    assert told.startswith("ClosedError: the log was created before") if is_embedded(place) else told == "['carts', 'orders']"
    assert log.offsets(TOPIC, "billing") == {}

    async def end() -> None:
        assert [message.payload for message in await poll()] == [b"the parent's"]
        await producer.close()
        await consumer.close()
        await client.close()

    asyncio.run(end())
    assert log.offsets(TOPIC, "billing") == {at(1): 1}
    assert [message.payload for message in log.poll(TOPIC)] == [b"the parent's", b"later"]


@contextmanager
def busy_threads(log: hs.Client) -> Iterator[None]:
    """Have threads of the parent hold locks of the client at any moment."""
    is_over = threading.Event()
    producer = log.producer(TOPIC, linger_ms=0)

    def send() -> None:
        while not is_over.is_set():
            producer.send(b"x").result()

    def look() -> None:
        while not is_over.is_set():
            log.topics()
            log.send("shop/carts", b"y")

    threads = [threading.Thread(target=work) for work in (send, send, look, look)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
        producer.close()


def use_and_close(log: hs.Client) -> str:
    """Use the parent's client for a listing and a message, and close it; return that all of it was done."""
    log.topics()
    log.send(TOPIC, b"child")
    log.close()
    return "done"


def test_a_forked_child_does_not_wait_for_locks_of_the_parents_threads(log: hs.Client, place: Place) -> None:
    embedded = is_embedded(place)
    with busy_threads(log):
        for _ in range(2):
            told = in_child(lambda: use_and_close(log))
            assert told == (
                "ClosedError: the log was created before this process was forked. Create another log in this process"
                if embedded
                else "done"
            )
