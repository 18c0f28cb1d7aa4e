"""Receipts, send_and_wait, send_many, log.send and stats, over every transport; and errors that name their messages."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

import headstream as hs
from headstream.broker.messages.messages import Messages
from headstream.testing.local_server import LocalServer
from tests.behaviour.conftest import at, open_place
from tests.behaviour.kafka_differences import skip_differing
from tests.support.waiting import run_together


@pytest.fixture(params=["memory", "file", "tcp", "http", "kafka"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    skip_differing(request)
    if request.param == "kafka":
        with open_place("kafka", tmp_path) as place:
            yield place.url
        return
    if request.param in ("memory", "file"):
        yield "memory://receipts" if request.param == "memory" else tmp_path.as_uri()
        return
    with LocalServer() as server:
        yield server.url if request.param == "tcp" else server.http_url


@pytest.fixture
def log(url: str) -> Iterator[hs.Client]:
    with hs.connect(url) as log:
        log.create_topic("shop/orders", partitions=2)
        yield log


def test_a_receipt_says_where_its_message_is(log: hs.Client) -> None:
    with log.producer("shop/orders", linger_ms=60_000) as producer:
        receipts = [producer.send(b"%d" % number, partition=at(1) + number % 2) for number in range(6)]
        assert not any(receipt.is_done or receipt.offset or receipt.timestamp for receipt in receipts)
        assert receipts[2].result(30) == (at(1), 1, receipts[2].timestamp)  # without waiting for the linger
        producer.flush()
    for number, receipt in enumerate(receipts):
        (message,) = log.poll("shop/orders", receipt.partition, start=receipt.offset, count=1)
        assert (message.payload, message.timestamp) == (b"%d" % number, receipt.timestamp)
        assert receipt.error is None
        assert receipt.is_done


def test_send_and_wait_and_log_send_return_where_the_message_is(log: hs.Client) -> None:
    with log.producer("shop/orders", linger_ms=60_000) as producer:
        assert producer.send_and_wait(b"a", partition=at(2)).offset == 0
    delivered = log.send("shop/orders", b"b", key=b"k", headers={"n": 1}, partition=at(2))
    assert (delivered.partition, delivered.offset) == (at(2), 1)
    (message,) = log.poll("shop/orders", at(2), start=1)
    assert (message.payload, message.key, message.timestamp) == (b"b", b"k", delivered.timestamp)
    assert message.headers.to_dict() == {"n": 1}


def test_log_send_sees_that_a_topic_is_gone_and_made_anew(log: hs.Client) -> None:
    log.send("shop/orders", b"a", partition=at(1))
    log.delete_topic("shop/orders")
    with pytest.raises(hs.TopicNotFoundError):
        log.send("shop/orders", b"b")
    log.create_topic("shop/orders")
    assert log.send("shop/orders", b"c").offset == 0


def test_log_send_by_many_threads_stores_every_message(log: hs.Client) -> None:
    def send() -> None:
        for _ in range(20):
            log.send("shop/orders", b"x")

    run_together(*[send] * 4)
    assert log.topic("shop/orders").messages_count == 80


def test_send_many_takes_payloads_and_messages(log: hs.Client) -> None:
    with log.producer("shop/orders") as producer:
        receipts = producer.send_many(
            [b"a", hs.Message(payload=b"b", key=b"k", headers=hs.Headers({"n": 1}), id=7, partition=at(2))]
        )
        assert receipts[1].result().partition == at(2)
    (message,) = [message for message in log.poll("shop/orders", at(2)) if message.key == b"k"]
    assert (message.payload, message.id, message.headers.to_dict()) == (b"b", 7, {"n": 1})


def test_callbacks_are_called_once_and_what_they_raise_is_logged(log: hs.Client, caplog: pytest.LogCaptureFixture) -> None:
    called: list[hs.Receipt] = []
    with log.producer("shop/orders", linger_ms=60_000) as producer:
        receipt = producer.send(b"a")
        receipt.add_done_callback(lambda _: 1 / 0)
        receipt.add_done_callback(called.append)
        assert not called
        producer.flush()
        producer.send_and_wait(b"b")  # by then the callbacks of the first are over
        receipt.add_done_callback(called.append)
    assert called == [receipt, receipt]
    assert "a callback of a receipt failed" in caplog.text


def test_stats_say_what_became_of_messages(log: hs.Client) -> None:
    with log.producer("shop/orders", linger_ms=60_000) as producer:
        for _ in range(5):
            producer.send(b"x", partition=at(1))
        waiting = producer.stats()
        assert (waiting.sent_count, waiting.pending_count, waiting.stored_count) == (5, 5, 0)
        assert waiting.pending_bytes == 5 * 25
        producer.flush()
        done = producer.stats()
        assert (done.sent_count, done.pending_count, done.stored_count, done.batches_count) == (5, 0, 5, 1)
        assert (done.failed_count, done.in_doubt_count, done.repeated_count, done.pending_bytes) == (0, 0, 0, 0)


def test_an_error_has_the_messages_and_the_producer_goes_on(log: hs.Client) -> None:
    with log.producer("shop/orders", linger_ms=60_000) as producer:
        log.delete_topic("shop/orders")
        lost = producer.send(b"lost", key=b"k", headers={"n": 1}, partition=at(1))
        with pytest.raises(hs.TopicNotFoundError) as caught:
            producer.flush()
        (message,) = caught.value.messages
        assert (message.payload, message.key, message.headers.to_dict()) == (b"lost", b"k", {"n": 1})
        assert (message.topic, message.partition) == ("shop/orders", at(1))
        assert not caught.value.in_doubt
        assert lost.error is caught.value
        log.create_topic("shop/orders", partitions=2)
        producer.send(b"later", partition=at(1))
    assert [message.payload for message in log.poll("shop/orders", at(1))] == [b"later"]


def test_an_error_that_its_receipts_have_raised_is_not_raised_again(log: hs.Client) -> None:
    with log.producer("shop/orders", linger_ms=60_000) as producer:
        log.delete_topic("shop/orders")
        receipts = [producer.send(b"x", partition=at(1)) for _ in range(2)]
        for receipt in receipts:
            with pytest.raises(hs.TopicNotFoundError):
                receipt.result()
        producer.flush()
        assert producer.stats().failed_count == 2


def test_a_wait_for_a_receipt_ends_in_time_and_the_message_is_stored_later(monkeypatch: pytest.MonkeyPatch) -> None:
    is_open, append = threading.Event(), Messages.append

    def hold(*arguments: Any, **options: Any) -> Any:
        is_open.wait(30)
        return append(*arguments, **options)

    monkeypatch.setattr(Messages, "append", hold)
    with hs.connect("memory://") as log:
        log.create_topic("shop/orders")
        with log.producer("shop/orders") as producer:
            receipt = producer.send(b"x")
            with pytest.raises(hs.WaitTimeoutError, match=r"not stored within 0\.01 s"):
                receipt.result(0.01)
            is_open.set()
            assert receipt.result(30).offset == 0


def run(url: str, body: Callable[[hs.AsyncClient], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        async with hs.connect_async(url) as log:
            await log.create_topic("shop/orders", if_not_exists=True)
            await body(log)

    asyncio.run(main())


def test_receipts_of_an_asynchronous_producer_are_awaited_for_their_offsets(url: str) -> None:
    async def body(log: hs.AsyncClient) -> None:
        async with log.producer("shop/orders", linger_ms=60_000) as producer:
            first, *others = [await producer.send(b"%d" % number, partition=at(1)) for number in range(20)]
            assert (await first).offset == 0
            assert [receipt.offset for receipt in others] == list(range(1, 20))
            assert [(await receipt).offset for receipt in others] == list(range(1, 20))
            assert (await producer.send_and_wait(b"x", partition=at(1))).offset == 20
            assert (
                await (
                    await producer.send_many(
                        [hs.Message(payload=b"y", partition=at(1)), hs.Message(payload=b"z", partition=at(1))]
                    )
                )[1]
            ).offset == 22
            assert (await producer.stats()).stored_count == 23
        assert (await log.send("shop/orders", b"x", partition=at(1))).offset is not None

    run(url, body)
