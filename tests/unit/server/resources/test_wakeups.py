"""Wakeups: waits that an append of the event loop ends are answered in its round."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from headstream.core.codec.binary import encode_sent
from headstream.core.model.message import Message
from headstream.core.wire.commands.streams import CreateStream
from headstream.core.wire.commands.topics import NEVER, SERVER_DEFAULT, Compression, CreateTopic
from headstream.core.wire.extensions.messages import AppendMessages, WaitMessages, WaitResult
from headstream.core.wire.frames import encode_request
from headstream.server.resources.wakeups import Wakeups
from tests.support.server.served import serving
from tests.support.waiting import wait_until

pytestmark = pytest.mark.usefixtures("read_by")


class NoNextRound:
    """An event loop whose next round never comes for those that ask for it."""

    def call_soon(self, function: Callable[[], None]) -> None:
        """Drop the function."""

    def call_soon_threadsafe(self, function: Callable[[], None]) -> None:
        raise AssertionError("it is the loop's thread")


def test_wait_is_answered_in_the_round_of_the_append_that_ends_it(make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with (
        serving(make_loop=make_loop) as running,
        running.peer(is_extended=True) as sender,
        running.peer(is_extended=True) as waiter,
    ):
        sender.ask(CreateStream(0, "shop"))
        sender.ask(CreateTopic("shop", 0, 1, Compression.NONE, NEVER, SERVER_DEFAULT, 0, "orders"))
        tcp = running.server._tcp
        assert tcp is not None
        waiting, wakeups = running.server.dispatcher.broker.backing.log.waiting, tcp.wakeups
        for offset in range(3):
            wait = WaitMessages("shop", "orders", {1: offset}, 60_000)
            waiter.send(encode_request(wait.code, wait.encode()))
            wait_until(lambda: bool(waiting.registered))
            wakeups._loop, loop = NoNextRound(), wakeups._loop  # type: ignore[assignment]
            sent = encode_sent([Message(payload=b"x")])
            assert sender.ask(AppendMessages("shop", "orders", 1, sent)).offset == offset
            status, body = waiter.receive()
            assert (status, WaitMessages.decode_reply(memoryview(body))) == (0, WaitResult(True))
            wakeups._loop = loop


def test_wakeups_check_in_the_loop_what_another_thread_has_rung() -> None:
    async def check() -> None:
        loop, looked = asyncio.get_running_loop(), asyncio.Event()
        wakeups = Wakeups(loop)
        thread = threading.Thread(target=lambda: wakeups.notify(looked.set))
        thread.start()
        await asyncio.wait_for(looked.wait(), 60)
        thread.join()
        assert not wakeups.due

    asyncio.run(check())


def test_wakeups_check_in_the_next_round_what_nobody_has_run() -> None:
    async def check() -> None:
        wakeups, looked = Wakeups(asyncio.get_running_loop()), list[int]()
        for number in range(3):
            wakeups.notify(lambda number=number: looked.append(number))  # type: ignore[misc]
        assert looked == []
        await asyncio.sleep(0)
        assert looked == [0, 1, 2]

    asyncio.run(check())


def test_wakeups_go_on_when_a_check_fails_or_rings_again() -> None:
    async def check() -> None:
        failures, looked = list[dict[str, Any]](), list[str]()
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: failures.append(context))
        wakeups = Wakeups(asyncio.get_running_loop())

        def ring_again() -> None:
            wakeups.notify(lambda: looked.append("again"))
            wakeups.run()  # within another one: it goes on there
            looked.append("first")

        wakeups.notify(lambda: looked.append(str(1 // 0)))
        wakeups.notify(ring_again)
        wakeups.run()
        assert looked == ["first", "again"]
        assert [type(failure["exception"]) for failure in failures] == [ZeroDivisionError]

    asyncio.run(check())
