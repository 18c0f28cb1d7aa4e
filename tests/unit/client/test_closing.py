"""closing(): a consumer, and a program that is cancelled, end soon although their server is lost."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

import headstream as hs
from headstream.client import closing
from headstream.client.closing import limited
from headstream.interceptors.interceptor import Interceptor
from headstream.testing.local_server import LocalServer
from tests.support.crashes import fail_with

GUARD_S = 60.0
"""A call that has not ended by then waits for an hour, as the options of these tests say."""
HOUR = "retry_timeout_ms=3600000&timeout_ms=3600000&connect_timeout_ms=3600000"
LOSSES = ("stopped", "silent")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closing, "CLOSE_S", 0.25)


@pytest.fixture(params=["tcp", "http", "quic"])
def server(request: pytest.FixtureRequest) -> Iterator[tuple[LocalServer, str]]:
    """A server with a topic, and the URL of a client that is very patient."""
    with LocalServer(quic=request.param == "quic") as running:
        with hs.connect(running.url) as log:
            log.create_topic("shop/orders")
            log.send("shop/orders", b"a")
        url = {"tcp": running.url, "http": running.http_url, "quic": running.quic_url}[request.param]
        yield running, f"{url}{'&' if '?' in url else '?'}{HOUR}"


@contextmanager
def lost(server: LocalServer, loss: str) -> Iterator[None]:
    """Stop a server; a silent one's TCP ports accept connections, and nothing answers."""
    addresses = server.tcp_address, server.http_address
    server.stop()
    sockets = [socket.create_server(address) for address in addresses] if loss == "silent" else []
    try:
        yield
    finally:
        for each in sockets:
            each.close()


def end_of(call: Callable[[], Any]) -> BaseException | None:
    """Run a call in a thread, and return its error; a call that does not end fails the test."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(GUARD_S)
    assert not thread.is_alive(), "it waits for the lost server"
    return errors[0] if errors else None


def test_limited_cuts_a_timeout_to_what_is_left_of_the_outermost_close(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    assert limited(30) == 30
    with closing.closing():
        assert (limited(30), limited(0.1)) == (0.25, 0.1)
        now_s = 100.125
        with closing.closing():
            assert limited(30) == pytest.approx(0.125)
        now_s = 200.0
        assert limited(30) == 0.1
    assert limited(30) == 30


@pytest.mark.parametrize("loss", LOSSES)
def test_close_ends_although_the_server_is_lost(server: tuple[LocalServer, str], loss: str) -> None:
    running, url = server
    log = hs.connect(url)
    modes: list[dict[str, Any]] = [{}, {"on_error": hs.Retry(attempts=None)}, {"mode": "shared"}]
    consumers: list[hs.Consumer] = [log.consumer("shop/orders", group=f"g{number}", **each) for number, each in enumerate(modes)]
    assert [next(consumer).payload for consumer in consumers] == [b"a"] * 3
    with lost(running, loss):
        for consumer in consumers:
            assert isinstance(end_of(consumer.close), hs.ServerUnreachableError)
        assert end_of(log.close) is None


@pytest.mark.parametrize("loss", LOSSES)
def test_a_cancelled_program_ends_although_the_server_is_lost(server: tuple[LocalServer, str], loss: str) -> None:
    running, url = server

    async def program(waits: threading.Event) -> None:
        async with hs.connect_async(url) as log, log.consumer("shop/orders", group="g") as consumer:
            async for _ in consumer:
                waits.set()

    waits = threading.Event()
    loop = asyncio.new_event_loop()
    task = loop.create_task(program(waits))

    def run() -> None:
        with suppress(asyncio.CancelledError, hs.HeadstreamError):
            loop.run_until_complete(task)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert waits.wait(GUARD_S)
    with lost(running, loss):
        loop.call_soon_threadsafe(task.cancel)
        assert end_of(lambda: thread.join(GUARD_S)) is None
        assert not thread.is_alive(), "the program waits for the lost server"
    loop.close()


def test_functions_of_the_user_that_a_close_calls_are_not_limited_by_it() -> None:
    seen: list[float] = []

    class Watching(Interceptor):
        def on_commit(self, topic: str, offsets: Any) -> None:
            seen.append(limited(30))

    with hs.connect("memory://", interceptors=[Watching()]) as log:
        log.create_topic("shop/orders")
        log.send("shop/orders", b"a")
        consumer = log.consumer("shop/orders", group="g", timeout_ms=0, on_revoked=lambda *_: seen.append(limited(30)))
        next(consumer)
        consumer.close()
    assert seen == [30, 30]


def test_a_client_closes_everything_although_a_consumer_cannot_be_closed() -> None:
    log = hs.connect("memory://")
    log.create_topic("shop/orders")
    consumers = [log.consumer("shop/orders", name="me", on_revoked=fail_with(ValueError("no room"))) for _ in range(2)]
    producer = log.producer("shop/orders", linger_ms=3_600_000)
    receipt = producer.send(b"a")
    with pytest.raises(ValueError, match="no room"):
        log.close()
    assert receipt.result().offset == 0
    for each in consumers:
        with pytest.raises(hs.ClosedError):
            each.poll()
    with pytest.raises(hs.ClosedError):
        log.streams()
    log.close()
