"""App: functions that are called for the messages of topics.

app = hs.App("headstream://shop.example:8090")

@app.consume("shop/orders", group="billing", on_error=hs.Retry(attempts=5), dead_letter="shop/orders.dead",
             produce="shop/invoices")
async def bill(order: Order, attempt: hs.uint8, message: hs.ReceivedMessage) -> Invoice: ...

app.run()
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Final, Self, TypeVar, Unpack

from headstream.client.arguments import ConsumerOptions, Milliseconds
from headstream.client.async_client import AsyncClient
from headstream.client.checks import check_consumer_options, check_whole, milliseconds
from headstream.client.client import Client
from headstream.client.consumer.async_consumer import AsyncTopicsConsumer
from headstream.connect import connect_async
from headstream.errors import ClosedError, InvalidInputError, InvalidOptionError, WaitTimeoutError
from headstream.handlers.member import Handler, Member
from headstream.handlers.signature import Signature
from headstream.serializers import Decode, Encode

_F = TypeVar("_F", bound=Callable[..., Any])
_CHECK_EVERY_S: Final = 0.02
"""Interval at which drain() checks for uncommitted messages, seconds."""


class App:
    """A program that runs handlers for the messages of one log.

    Args:
        log: A URL as for connect(), or a client, which the App does not close. None uses the variable HEADSTREAM_URL.
    """

    def __init__(self, log: str | Client | AsyncClient | None = None) -> None:
        self._given = log
        self._handlers: list[Handler] = []
        self._log: AsyncClient | None = None
        self._members: list[Member] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._open = AsyncExitStack()
        self._is_stopping = self._is_forced = False

    # -- registration -------------------------------------------------------------------------------------------------

    def consume(
        self,
        topic: str | list[str],
        *,
        produce: str | None = None,
        concurrency: int = 1,
        decode: Decode[Any] | None = None,
        encode: Encode[Any] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> Callable[[_F], _F]:
        """Return a decorator that registers a function or coroutine function and returns the function unchanged.

        Args:
            topic: `stream/topic`, or a list of topic names and patterns with `*`, `?` and `[...]`.
            produce: Topic to which the return value is sent, with the received message's key, before that message's offset is
                committed. If the function returns a Message, its key, headers and id are sent unchanged. None is not sent.
            concurrency: Number of group members in this program, which is also the number of partitions processed concurrently.
            decode: The payload decoder; by default chosen by the parameter's annotation.
            encode: The result encoder; by default chosen by the return annotation.
            options: As for Client.consumer(); `group` is required.

        Raises:
            InvalidInputError: a parameter cannot be supplied, or an option is invalid; the message contains a correct example.
        """
        names = set(topic if isinstance(topic, list) else [topic])
        group = check_consumer_options(options).get("group")
        if group is None:
            raise InvalidOptionError(f"a handler of {topic} requires a group", advice='Set group=, as in group="billing"')
        if check_whole("concurrency", concurrency) < 1:
            raise InvalidOptionError(f"concurrency must be at least 1, not {concurrency}")
        for other in self._handlers:
            others = other.topic if isinstance(other.topic, list) else [other.topic]
            if other.options.get("group") == group and names.intersection(others):
                raise InvalidOptionError(
                    f"{other.signature.where} is already a handler of {topic} in the group {group!r}",
                    advice="Set another group: handlers with the same group would share the messages",
                )

        def register(function: _F) -> _F:
            signature = Signature(function, decode)
            encoder = None if produce is None else signature.make_encoder(encode)
            self._handlers.append(Handler(topic, signature, options, concurrency, produce, encoder))
            return function

        return register

    def with_log(self, log: str | Client | AsyncClient) -> App:
        """Return an App that runs the same handlers on another log, for tests.

        Args:
            log: See App().
        """
        other = App(log)
        other._handlers = list(self._handlers)
        return other

    # -- running ------------------------------------------------------------------------------------------------------

    @property
    def log(self) -> AsyncClient:
        """The App's client, available while the App runs.

        Raises:
            ClosedError: the App is not running.
        """
        if self._log is None:
            raise ClosedError("the App is not running", advice="Use app.log in handlers or within `async with app`")
        return self._log

    def run(self) -> None:
        """Run until all handlers have ended: after Ctrl-C, SIGTERM or stop(), or after their `timeout_ms`.

        The first signal ends each handler after its current message. The second signal cancels the handlers; their current
        messages are delivered again.

        Raises:
            HeadstreamError: a log, topic or option cannot be used.
            Exception: a handler without `on_error` failed. Its message is not committed, and all other handlers have ended.
            KeyboardInterrupt: a second signal cancelled the handlers.
        """
        self._is_forced = False
        asyncio.run(self._run())
        if self._is_forced:
            raise KeyboardInterrupt

    async def _run(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):  # asyncio.run() removes the handlers
                asyncio.get_running_loop().add_signal_handler(number, self._interrupt)
        async with self:
            await self.wait()

    def _interrupt(self) -> None:
        if self._is_stopping:
            self._is_forced = True
            for task in self._tasks:
                task.cancel()
        self.stop()

    def stop(self) -> None:
        """Request that each handler end after its current message. wait() and leaving `async with` wait until all have ended."""
        self._is_stopping = True
        for member in self._members:
            member.stop()

    async def wait(self) -> None:
        """Wait until all handlers have ended, or until a handler fails.

        Raises:
            Exception: a handler without `on_error` raised this error.
        """
        if self._tasks:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_EXCEPTION)
        _raise_failure(self._tasks)

    async def drain(self, timeout_ms: Milliseconds = 10_000) -> None:
        """Wait until the groups of all handlers have committed every message of their topics, including dead-lettered messages.

        Args:
            timeout_ms: Maximum wait, milliseconds or a timedelta.

        Raises:
            WaitTimeoutError: a group still has uncommitted messages.
            Exception: a handler without `on_error` raised this error.
        """
        loop, checks = asyncio.get_running_loop(), 0
        until_s = loop.time() + milliseconds("timeout_ms", timeout_ms) / 1000
        while checks < len(self._handlers):  # one handler can send messages to a topic that was checked before
            left = await self._find_left()
            _raise_failure(self._tasks)
            checks = 0 if left else checks + 1
            if left and loop.time() >= until_s:
                raise WaitTimeoutError(f"the messages in {left} were not committed in time", advice="Set a longer timeout_ms")
            if left:
                await asyncio.sleep(_CHECK_EVERY_S)

    async def _find_left(self) -> str:
        """Return the name of a partition with messages that a handler's group has not committed; "" if there is none."""
        for member in self._members:
            consumer, group = member.consumer, member.handler.options.get("group")
            topics = consumer.topics if isinstance(consumer, AsyncTopicsConsumer) else [str(member.handler.topic)]
            for topic in topics:
                committed = await self.log.offsets(topic, group)
                for partition in (await self.log.topic(topic)).partitions:
                    if max(committed.get(partition.number, 0), partition.first_offset) < partition.end_offset:
                        return f"partition {partition.number} of {topic} in the group {group}"
        return ""

    async def __aenter__(self) -> Self:
        if not self._handlers:
            raise InvalidInputError("the App has no handlers", advice="Register a handler with @app.consume(topic, group=…)")
        if self._log is not None:
            raise InvalidInputError("the App is already running", advice="Use app.with_log(…) for a concurrent run")
        given = self._given
        if isinstance(given, (Client, AsyncClient)):
            self._log = given if isinstance(given, AsyncClient) else AsyncClient(given)
        else:
            self._log = connect_async(given)
            self._open.push_async_callback(self._log.close)
        try:
            await self._log.open()
            await self._begin(self._log)
        except BaseException:
            await self._end()
            raise
        return self

    async def _begin(self, log: AsyncClient) -> None:
        for handler in self._handlers:
            producer = None
            if handler.produce is not None:
                producer = await self._open.enter_async_context(log.producer(handler.produce))
            for _ in range(handler.concurrency):
                member = Member(handler, log, producer)
                self._members.append(member)
                self._open.push_async_callback(member.consumer.close, commit=False)  # also if a cancellation ends begin()
                await member.consumer.__aenter__()
        self._tasks = [member.begin() for member in self._members]  # after all joins: a busy member releases no partitions
        if self._is_stopping:  # a signal arrived while the consumers were opened
            self.stop()

    async def _end(self) -> None:
        try:
            self.stop()
            if self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            for task in self._tasks:  # tasks that still run after a cancellation: the messages of these tasks are delivered again
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)
            tasks, self._tasks, self._members, self._log = self._tasks, [], [], None
            self._is_stopping = False
            await self._open.aclose()
        _raise_failure(tasks)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self._end()
        except Exception:
            if error is None:
                raise


def _raise_failure(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        if task.done() and not task.cancelled():
            task.result()
