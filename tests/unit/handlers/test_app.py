"""App: handlers over an embedded log, from the message to the commit."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from dataclasses import dataclass
from typing import Any

import pytest

import headstream as hs
from tests.support.async_clients import Gate


@dataclass
class Order:
    number: int


@dataclass
class Invoice:
    number: int
    attempt: int


def make_log(partitions: int = 1, count: int = 0) -> hs.Client:
    log = hs.connect("memory://")
    log.create_topic("shop/orders", partitions=partitions)
    for number in range(count):
        log.send("shop/orders", b'{"number": %d}' % number, key=b"%d" % number, headers={"attempt": hs.uint8(1)})
    return log


async def drain(app: hs.App, log: hs.Client) -> None:
    async with app.with_log(log) as running:
        await running.drain()


def test_a_handler_is_called_with_each_message_and_its_result_is_sent_before_the_commit() -> None:
    app = hs.App()

    @app.consume("shop/orders", group="billing", produce="shop/invoices")
    async def bill(order: Order, attempt: hs.uint8, message: hs.ReceivedMessage) -> Invoice | None:
        return Invoice(order.number, int(attempt) + message.attempt) if order.number else None

    @app.consume("shop/invoices", group="archive", produce="shop/copies")
    def keep(message: hs.ReceivedMessage) -> hs.Message:
        return hs.Message(payload=message.payload, key=b"archive", headers=hs.Headers({"kept": True}))

    with make_log(count=3) as log:
        log.create_topic("shop/invoices")
        log.create_topic("shop/copies")
        asyncio.run(drain(app, log))
        found = log.poll("shop/invoices")
        expected = [(b'{"number":%d,"attempt":2}' % number, b"%d" % number) for number in (1, 2)]
        assert [(each.payload, each.key) for each in found] == expected
        assert {(each.key, each.headers["kept"].value) for each in log.poll("shop/copies")} == {(b"archive", True)}
        assert log.group("shop/orders", "billing").lag == 0
    assert asyncio.run(bill(Order(0), hs.uint8(1), None)) is None  # type: ignore[arg-type]  # the decorator returns the function


def test_a_failing_message_is_tried_again_and_becomes_a_dead_letter_while_the_others_go_on(caplog: Any) -> None:
    app, done = hs.App(), list[int]()
    retry = hs.Retry(attempts=2, delay="1ms")

    @app.consume("shop/orders", group="billing", on_error=retry, dead_letter="shop/orders.dead")
    async def bill(order: Order) -> None:
        if order.number == 1:
            raise ValueError("no such product")
        done.append(order.number)

    with make_log(count=3) as log:
        log.send("shop/orders", b"not JSON")
        asyncio.run(drain(app, log))
        letters = log.poll("shop/orders.dead")
        assert [letter.headers["hs.reason_code"] for letter in letters] == ["max_attempts", "decode_error"]
        assert letters[0].headers["hs.reason"] == "ValueError: no such product"
    assert done == [0, 2]
    warnings = [record.getMessage().split(" of ")[0].rpartition(".")[2] for record in caplog.records]
    assert warnings == ["bill failed at attempt 1", "bill failed at attempt 2"]


def test_an_error_without_on_error_ends_the_app_and_its_message_is_delivered_again() -> None:
    app = hs.App()

    @app.consume("shop/orders", group="billing")
    def bill(order: Order) -> None:
        if order.number == 1:
            raise ValueError("no such product")

    with make_log(count=3) as log:
        with pytest.raises(ValueError, match="no such product"):
            app.with_log(log).run()
        assert log.offsets("shop/orders", "billing") == {1: 1}


def test_members_process_partitions_at_the_same_time_and_each_in_order() -> None:
    app, seen = hs.App(), dict[int | None, list[int | None]]()
    met = threading.Barrier(2, timeout=30)  # passed only if two messages are processed at the same time

    @app.consume("shop/orders", group="billing", concurrency=2)
    def bill(message: hs.ReceivedMessage) -> None:
        if message.offset == 0:
            met.wait()
        seen.setdefault(message.partition, []).append(message.offset)

    with make_log(partitions=2) as log:
        for number in range(20):
            log.send("shop/orders", b"x", partition=1 + number % 2)
        asyncio.run(drain(app, log))
    assert seen == {1: list(range(10)), 2: list(range(10))}


def test_no_message_is_handled_before_every_member_has_joined() -> None:
    app, seen, counts = hs.App(), list[int](), list[int]()

    async def look(topic: str, partitions: frozenset[int]) -> None:
        await asyncio.sleep(0.2)
        counts.append(len(seen))

    @app.consume("shop/orders", group="archive", on_assigned=look)
    @app.consume("shop/orders", group="billing", on_assigned=look)
    def keep(order: Order) -> None:
        seen.append(order.number)

    with make_log(count=3) as log:
        asyncio.run(drain(app, log))
    assert (counts, len(seen)) == ([0, 0], 6)


def test_stop_lets_the_message_in_progress_end_and_commits_it() -> None:
    app = hs.App()
    begun, may_end, done = asyncio.Event(), asyncio.Event(), list[int]()

    @app.consume("shop/orders", group="billing")
    async def bill(order: Order) -> None:
        begun.set()
        await may_end.wait()
        done.append(order.number)

    @app.consume("shop/orders", group="idle", start="last")
    async def wait(order: Order) -> None: ...

    async def run(log: hs.Client) -> None:
        async with app.with_log(log) as running:
            await begun.wait()
            running.stop()
            asyncio.get_running_loop().call_later(0.05, may_end.set)

    with make_log(count=3) as log:
        asyncio.run(asyncio.wait_for(run(log), 120))
        assert done == [0]
        assert log.offsets("shop/orders", "billing") == {1: 1}


def test_a_signal_ends_the_app_after_the_message_in_progress_and_a_second_one_cancels_it() -> None:
    app, done = hs.App(), list[int]()

    @app.consume("shop/orders", group="billing")
    async def bill(order: Order) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        if order.number == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.1)
        done.append(order.number)

    with make_log(count=3) as log:
        app.with_log(log).run()
        assert done == [0]
        assert log.offsets("shop/orders", "billing") == {1: 1}
        with pytest.raises(KeyboardInterrupt):
            app.with_log(log).run()
        assert done == [0]
        assert log.offsets("shop/orders", "billing") == {1: 1}


def test_a_cancelled_end_cancels_the_handlers_and_their_messages_are_delivered_again() -> None:
    working, ended = asyncio.Event(), list[int | None]()

    async def run(app: hs.App) -> None:
        await app.__aenter__()
        await working.wait()
        ending = asyncio.create_task(app.__aexit__(None, None, None))
        await asyncio.sleep(0)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        assert ended == [0]

    with make_log(count=1) as log:
        app = hs.App(log)

        @app.consume("shop/orders", group="billing")
        async def bill(message: hs.ReceivedMessage) -> None:
            working.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(message.offset)

        asyncio.run(asyncio.wait_for(run(app), 30))
        assert log.offsets("shop/orders", "billing") == {}
        assert [group.members for group in log.groups("shop/orders")] in ([], [()])


def test_a_cancelled_begin_closes_the_consumer_that_it_had_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    with make_log() as log:
        app = hs.App(log)

        @app.consume("shop/orders", group="billing")
        def bill(message: hs.ReceivedMessage) -> None: ...

        asyncio.run(asyncio.wait_for(Gate(monkeypatch, hs.Client, "consumer").cancel(app.__aenter__()), 30))
        assert [group.members for group in log.groups("shop/orders")] in ([], [()])


def test_a_missing_topic_is_an_error_when_the_app_begins() -> None:
    app = hs.App("memory://")

    @app.consume("shop/orders", group="billing")
    async def bill(order: Order) -> None: ...

    with pytest.raises(hs.TopicNotFoundError):
        app.run()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, "requires a group"),
        ({"group": "g", "concurrency": 0}, "concurrency must be at least 1, not 0"),
        ({"group": "g", "retry": 1}, "no option 'retry'"),
    ],
)
def test_consume_rejects_invalid_options(options: dict[str, Any], error: str) -> None:
    with pytest.raises(hs.InvalidInputError, match=error):
        hs.App().consume("shop/orders", **options)


def test_consume_rejects_a_second_handler_of_a_group() -> None:
    app = hs.App()
    app.consume("shop/orders", group="billing")(lambda: None)
    with pytest.raises(hs.InvalidOptionError, match="Set another group"):
        app.consume(["bank/*", "shop/orders"], group="billing")
