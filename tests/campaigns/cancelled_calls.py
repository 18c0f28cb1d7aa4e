"""Histories of cancelled calls that administer a log, send and run handlers, checked against what is there afterwards.

A cancelled call has been made or not, and nothing between; the next call gets its own result. A send() that was cancelled
sends nothing, and every message is stored once at most and in order. After a cancelled end nothing goes on.
"""

from __future__ import annotations

import asyncio
import functools
import random
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import headstream as hs
from tests.campaigns.cancelling import CANCELLED, Canceller, is_impatient

__all__ = ["run_calls"]

_GROUP: Final = "cancelling"
_PASSWORD: Final = "a password"
_MESSAGES: Final = 6
_SENDS: Final = 60
_KINDS: Final = ("send", "send", "send", "send_and_wait", "send_many", "flush", "stats", "receipt")
_CHANGING: Final = ("ping", "snapshot", "stats", "clients", "client", "me", "group_deliveries", "message_story")
"""Calls whose results have times or counts that change."""


@contextmanager
def _tolerating_interrupts() -> Iterator[None]:
    """Suppress refusals while calls are interrupted, but not those of calls that the log does not support."""
    try:
        yield
    except hs.HeadstreamError as error:
        if isinstance(error, hs.UnsupportedError) or not is_impatient():
            raise


class _Calls:
    """The calls of an AsyncClient and its server on topics of their own."""

    def __init__(self, url: str, log: hs.AsyncClient, call: Canceller, stream: str) -> None:
        self.url = url
        self.log = log
        self.call = call
        self.stream = stream
        self.topic = f"{stream}/a"

    async def _change(
        self, call: Callable[[], Awaitable[Any]], seen: Callable[[], Awaitable[Any]], after: Any, *name: Any
    ) -> None:
        """Cancel a call that changes something, and make it unless it was made.

        Args:
            seen: Returns what it changes.
            after: What that is when the call was made.
            name: The object and the name of its method.
        """
        before = await seen()
        assert before != after
        try:
            result = await self.call(*name, call=call)
            now = await seen()
            assert now == after if result is not CANCELLED else now in (before, after), f"{name[1]}: {before}, then {now}"
            if now != after:
                with _tolerating_interrupts():  # the server can have executed the call in the meantime
                    await call()
                assert await seen() == after, name[1]
        except hs.UnsupportedError:
            assert self.log.first_partition == 0, name[1]

    async def _read(self, owner: Any, name: str, *arguments: Any, **options: Any) -> Any:
        """Cancel a call that changes nothing, and return the result of the next one, which is the same."""
        try:
            result = await self.call(owner, name, *arguments, **options)
            again = await getattr(owner, name)(*arguments, **options)
        except hs.UnsupportedError:
            assert self.log.first_partition == 0 or name == "cluster_stats"
            return None
        if name not in _CHANGING:
            assert result is CANCELLED or result == again, name
        return again

    async def administer(self) -> None:
        """Create, change, read and delete a stream with a topic."""
        log, stream, topic = self.log, self.stream, self.topic

        async def stream_names() -> bool:
            return stream in [each.name for each in await log.streams()]

        async def topic_there() -> bool:
            return topic in [each.full_name for each in await log.topics()]

        async def partitions() -> int:
            return len((await log.topic(topic)).partitions)

        async def count() -> int:
            return (await log.topic(topic)).messages_count

        if log.first_partition:
            await self._change(lambda: log.create_stream(stream), stream_names, True, log, "create_stream")
        await self._change(lambda: log.create_topic(topic, 1), topic_there, True, log, "create_topic")
        await self._change(lambda: log.create_partitions(topic, 1), partitions, 2, log, "create_partitions")
        first = log.first_partition
        for number in range(_MESSAGES):
            send = functools.partial(log.send, topic, b"%d" % number, partition=first)
            await self._change(send, count, number + 1, log, "send")
        await self._settings()
        await self._states()
        await self._groups()
        found = await self._read(log, "topic", topic)
        assert (found.full_name, found.messages_count) == (topic, _MESSAGES)
        assert found in await self._read(log, "topics")
        assert found in await log.topics(stream)
        assert (await self._read(log, "stream", stream)).name == stream
        assert stream in [each.name for each in await self._read(log, "streams")]
        assert (await self._read(log, "explain_filter", "n > 3", topic)) is not None
        await self._read(log, "cluster_stats")
        assert await self.call(log, "identity", call=lambda: log.identity) in (CANCELLED, await log.identity)
        await self._polls()
        await self._change(lambda: log.purge_topic(topic), count, 0, log, "purge_topic")
        await self._change(lambda: log.delete_partitions(topic, 1), partitions, 1, log, "delete_partitions")
        await self._change(lambda: log.delete_topic(topic), topic_there, False, log, "delete_topic")
        await self._names()
        if log.first_partition:
            await self._change(lambda: log.delete_stream(stream), stream_names, False, log, "delete_stream")

    async def _settings(self) -> None:
        log, topic = self.log, self.topic

        async def retention() -> Any:
            return (await log.topic(topic)).retention_bytes

        await self._change(lambda: log.update_topic(topic, retention_bytes=1 << 30), retention, 1 << 30, log, "update_topic")

    async def _names(self) -> None:
        """Rename a stream and a topic in it."""
        log = self.log
        if not log.first_partition:
            return
        old, new = f"{self.stream}-old", f"{self.stream}-new"
        await log.create_topic(f"{old}/a")

        async def names() -> list[str]:
            return sorted(each.full_name for each in await log.topics() if each.stream in (old, new))

        await self._change(lambda: log.rename_stream(old, new), names, [f"{new}/a"], log, "rename_stream")
        await self._change(lambda: log.rename_topic(f"{new}/a", "b"), names, [f"{new}/b"], log, "rename_topic")
        await log.delete_stream(new)

    async def _states(self) -> None:
        log, topic, first = self.log, self.topic, self.log.first_partition

        async def states() -> list[tuple[int, int]]:
            return [(each.offset, each.state) for each in await log.states(topic, first)]

        if not first:
            return
        mark = functools.partial(log.set_state, topic, first, 1, "marked_for_deletion", reason="erase 1")
        await self._change(mark, states, [(1, hs.MessageState.MARKED_FOR_DELETION)], log, "set_state")
        await self._read(log, "states", topic, first)
        await self._change(lambda: log.remove_marked(topic, first, reason="erase 1"), states, [], log, "remove_marked")
        await log.send(topic, b"%d" % _MESSAGES, partition=first)

    async def _groups(self) -> None:
        log, topic, first = self.log, self.topic, self.log.first_partition
        async with log.consumer(topic, group=_GROUP) as consumer:
            [message, *_] = await consumer.poll(1, timeout_ms=30_000)
            await consumer.commit()

        async def committed() -> Any:
            try:
                return (await log.offsets(topic, _GROUP)).get(first)
            except hs.NotFoundError:
                return None

        assert await self._read(log, "offsets", topic, _GROUP) == {first: message.offset + 1}
        assert [each.name for each in await self._read(log, "groups", topic)] == [_GROUP]
        assert (await self._read(log, "group", topic, _GROUP)).name == _GROUP
        await self._read(log, "group_deliveries", topic, _GROUP)
        await self._read(log, "message_story", topic, _GROUP, first, message.offset)
        await self._change(lambda: log.seek_group(topic, _GROUP, 3, partitions=[first]), committed, 3, log, "seek_group")
        await self._change(lambda: log.delete_group(topic, _GROUP), committed, None, log, "delete_group")

    async def _polls(self) -> None:
        """Read everything by polls that commit, most of them cancelled: each message comes once and in order."""
        log, topic, first = self.log, self.topic, self.log.first_partition
        options = {"consumer": "me", "auto_commit": True, "count": 2, "start": "next"}
        wanted = [message.offset for message in await log.poll(topic, first, count=100)]
        got: list[int] = []
        for turn in range(100):
            polled = await self.call.perhaps(turn % 3 < 2, log, "poll", topic, first, **options)
            got += [] if polled is CANCELLED else [message.offset for message in polled]
            if len(got) == len(wanted):
                break
        assert got == wanted

    async def administer_server(self, name: str) -> None:
        """Create, change and delete a user and a token, and read what the server knows."""
        server: Any = self.log.server
        rights, new = hs.Permissions(hs.GlobalPermissions(read_servers=True)), "another password"

        async def is_there() -> bool:
            return name in [each.username for each in await server.users()]

        async def permissions() -> Any:
            return (await server.user(name)).permissions

        async def status() -> Any:
            return (await server.user(name)).status.name

        async def tokens() -> bool:
            return name in [each.name for each in await server.tokens()]

        async def opens() -> bool:
            try:
                async with hs.connect_async(re.sub("//[^@]*@", f"//{name}:{new}@", self.url)) as other:
                    await other.server.ping()
            except hs.AuthenticationError:
                return False
            return True

        await self._change(lambda: server.create_user(name, _PASSWORD), is_there, True, server, "create_user")
        await self._change(lambda: server.change_permissions(name, rights), permissions, rights, server, "change_permissions")
        await self._change(lambda: server.change_password(name, _PASSWORD, new), opens, True, server, "change_password")
        await self._change(lambda: server.update_user(name, is_active=False), status, "INACTIVE", server, "update_user")
        assert (await self._read(server, "user", name)).username == name
        assert name in [each.username for each in await self._read(server, "users")]
        await self._change(lambda: server.create_token(name), tokens, True, server, "create_token")
        assert name in [each.name for each in await self._read(server, "tokens")]
        await self._change(lambda: server.delete_token(name), tokens, False, server, "delete_token")
        await self._change(lambda: server.delete_user(name), is_there, False, server, "delete_user")
        assert await self._read(server, "ping") >= 0
        assert (await self._read(server, "stats")).process_id > 0
        assert (await self._read(server, "snapshot"))[:2] == b"PK"
        await self._read(server, "clients")
        if self.log.server.place.startswith("http"):
            return
        with _tolerating_interrupts():  # the client has another connection then
            await self._read(server, "client", (await self._read(server, "me")).client_id)
        me = await server.me()
        assert me.client_id in [each.client_id for each in await server.clients()]
        assert (await server.client(me.client_id)).client_id == me.client_id

    # -- messages and connections -----------------------------------------------------------------------------------------

    async def send(self, *, encodes: bool) -> None:
        """Send by a producer whose calls are cancelled, and compare what is stored with what its calls said."""
        topic = f"{self.stream}/{'encoded' if encodes else 'plain'}"
        await self.log.create_topic(topic, 1)
        options: dict[str, Any] = {"buffer_bytes": 2_000, "batch_count": 3, "linger_ms": 1}
        producer: Any = self.log.producer(topic, **(options | ({"encode": bytes} if encodes else {})))
        sent: list[bytes] = []
        certain: set[bytes] = set()
        never: set[bytes] = set()
        await self.call(producer, "__aenter__")
        receipts: list[hs.Receipt] = []
        kinds: list[str] = []
        while len(certain) < _SENDS:
            names = [b"%d" % (len(sent) + each) + b" " * 200 for each in range(3)]
            kinds = kinds or self.call.rng.sample(_KINDS, len(_KINDS))
            kind = kinds.pop()
            if kind == "send":
                sent += names[:1]
                receipt = await self.call.perhaps(self.call.rng.random() < 0.7, producer, "send", names[0])
                (never if receipt is CANCELLED else certain).add(names[0])
                receipts += [] if receipt is CANCELLED else [receipt]
            elif kind == "send_and_wait":
                sent += names[:1]
                certain.update(names[:1] if await self.call(producer, "send_and_wait", names[0]) is not CANCELLED else [])
            elif kind == "send_many":
                sent += names
                certain.update(names if await self.call(producer, "send_many", names) is not CANCELLED else [])
            elif kind == "receipt" and receipts:
                receipt = receipts.pop()
                await self.call(receipt, "__await__", call=functools.partial(asyncio.wait_for, receipt, None))
                assert (await receipt).offset is not None
            elif kind != "receipt":
                await self.call(producer, kind)
        await self._end(producer)
        stored = [message.payload for message in await self.log.poll(topic, count=10_000)]
        assert stored == [payload for payload in sent if payload in set(stored)], "not once each, in order"
        assert certain <= set(stored), f"lost: {certain - set(stored)}"
        assert not never & set(stored), f"cancelled and sent: {never & set(stored)}"

    async def _end(self, opened: Any) -> None:
        """Close a producer or client by cancelled calls and another one."""
        await self.call(opened, "__aexit__", None, None, None)
        await self.call(opened, "close")
        await opened.close()

    async def connect(self) -> None:
        """Open and close another client: what it had open is closed with it."""
        topic = f"{self.stream}/plain"
        other = hs.connect_async(self.url)
        await self.call(other, "open")
        await self.call(other, "__aenter__")
        assert (await other.topic(topic)).full_name == topic
        consumer = other.consumer(topic, group=_GROUP)
        await self.call(consumer, "poll", goes_on=False)
        await self._end(other)
        for call in (other.topics, consumer.poll):
            try:
                await call()
            except hs.ClosedError:
                continue
            raise AssertionError("a closed client answers")
        assert is_impatient() or not any(group.members for group in await self.log.groups(topic))

    async def run_app(self) -> None:
        """Begin and end handlers by cancelled calls: nothing goes on afterwards, and no message is lost."""
        topic, first = f"{self.stream}/handled", self.log.first_partition
        await self.log.create_topic(topic, 2)
        for number in range(_MESSAGES * 2):
            await self.log.send(topic, b"%d" % number, partition=first + number % 2)
        app = hs.App(self.log)
        got: set[bytes | None] = set()
        active = 0

        @app.consume(topic, group=_GROUP, concurrency=2, session_timeout_ms=1_000 if is_impatient() else 30_000)
        async def handle(message: hs.ReceivedMessage) -> None:
            nonlocal active
            active += 1
            try:
                await asyncio.sleep(0.002)
                got.add(message.payload)
            finally:
                active -= 1

        for turn in range(4):
            if await self.call(app, "__aenter__", goes_on=False) is not CANCELLED or turn == 3:
                if app._log is None:
                    await app.__aenter__()
                await self.call(app, "wait")
                await self.call(app, "drain")
                if await self.call(app, "__aexit__", None, None, None, goes_on=False) is CANCELLED:
                    await app.__aexit__(None, None, None)
            assert not active, "a handler goes on"
            for group in await self.log.groups(topic):
                assert is_impatient() or not group.members, "a handler's consumer is open"
        async with app:
            await app.drain(60_000)
        assert got == {b"%d" % number for number in range(_MESSAGES * 2)}


async def run_calls(url: str, seed: int) -> Counter[str]:
    """Run a history and return the cancelled calls with their numbers, as `AsyncClient.topic`.

    Args:
        url: The log.
        seed: What happens.

    Raises:
        AssertionError: a call was half made, or its result is that of another one.
    """
    async with hs.connect_async(url) as log:
        calls = _Calls(url, log, Canceller(random.Random(f"calls {seed}")), f"calls-{seed}")
        await calls.administer()
        await calls.send(encodes=False)
        await calls.send(encodes=True)
        await calls.connect()
        await calls.run_app()
        if "@" in url:
            await calls.administer_server(f"user-{seed}")
        return calls.call.counts
