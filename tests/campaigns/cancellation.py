"""Histories of an asyncio consumer whose calls are cancelled at random times while messages arrive, checked against a model.

The model: while a consumer lives, each message is delivered exactly once and in the order of its partition. What is
committed was delivered before. A consumer that is opened again gets everything that was not settled, and nothing that was.

    python -m tests.campaigns cancellations --seeds 1-100
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

import headstream as hs
from headstream.errors import HeadstreamError

__all__ = ["MODES", "CancellationHistory", "run_history"]

_T = TypeVar("_T")
Place = tuple[str, int, int]
"""Topic, partition and offset of a message."""

_GROUP: Final = "cancelling"
_INTERRUPT_S: Final = 1.5
"""A cancelled call that takes longer may be interrupted: the client waits for two seconds."""
_PROGRESS_S: Final = 60.0
"""A message that is not delivered within this time is lost."""

MODES: Final = ("group", "name", "decoded", "retrying", "shared", "topics", "pattern", "retrying-topics", "shared-pattern")
"""What kinds of consumers there are; those of the first three words settle by a commit, the others each message."""


@dataclass
class _Model:
    """What a history knows.

    Args:
        stored: Every message, by its place, once its producer knows it.
        ever: What any consumer has delivered.
        session: What the open consumer has delivered, in order.
        done: What is settled for certain.
        maybe: What may be settled: the call that settles it was cancelled, or the consumer was closed.
        cancelled_count: Calls that were cancelled.
        is_interrupted: Whether a call was slow enough to be interrupted since the consumer was opened: it can have lost its
            membership then, and gets again what was not settled.
    """

    stored: set[Place] = field(default_factory=set)
    ever: set[Place] = field(default_factory=set)
    session: list[Place] = field(default_factory=list)
    done: set[Place] = field(default_factory=set)
    maybe: set[Place] = field(default_factory=set)
    cancelled_count: int = 0
    is_interrupted: bool = False

    def begin(self) -> None:
        """Begin the session of another consumer."""
        self.maybe.update(self.session)
        self.session.clear()
        self.is_interrupted = False

    def deliver(self, messages: list[hs.ReceivedMessage]) -> None:
        for message in messages:
            place = str(message.topic), message.partition, message.offset
            assert place not in self.done, f"{place} is settled and delivered again"
            if not self.is_interrupted:
                assert place not in self.session, f"{place} is delivered twice by one consumer"
                before = max((each[2] for each in self.session if each[:2] == place[:2]), default=-1)
                assert before < place[2], f"{place} is delivered after offset {before}"
            self.session.append(place)
            self.ever.add(place)
            self.maybe.discard(place)

    def check_committed(self, topic: str, offsets: dict[int, int]) -> None:
        for partition, committed in offsets.items():
            lost = sorted(each for each in self.stored - self.ever if each[:2] == (topic, partition) and each[2] < committed)
            assert not lost, f"offset {committed} is committed, and nobody received {lost}"


class _History:
    def __init__(self, log: hs.AsyncClient, mode: str, seed: int, count: int, is_slow: bool) -> None:
        self.log = log
        self.mode = mode
        self.count = count
        self.rng = random.Random(f"{mode} {seed}")
        self.model = _Model()
        self.decoded: Counter[bytes] = Counter()
        names = ("a", "b", "c") if "topics" in mode or "pattern" in mode else ("a",)
        self.topics = [f"cancel-{mode}-{seed}/{name}" for name in names]
        self.current: Place | None = None
        self.unsettled: dict[Place, hs.ReceivedMessage] = {}
        self.is_slow = is_slow
        self.is_settling_each = mode not in ("group", "name", "decoded", "topics", "pattern")

    # -- the consumer -------------------------------------------------------------------------------------------------

    def _consumer(self) -> Any:
        named: Any = self.topics[0] if len(self.topics) == 1 else list(self.topics)
        if "pattern" in self.mode:
            named = [self.topics[0].replace("/a", "/*")]
        options: dict[str, Any] = {"name": _GROUP} if self.mode == "name" else {"group": _GROUP}
        if self.mode == "decoded":
            options["decode"] = self._decode
        if "retrying" in self.mode:
            options["on_error"] = hs.Retry(attempts=None)
        if "shared" in self.mode:
            options["mode"] = "shared"
        return self.log.consumer(named, **options)

    def _decode(self, payload: bytes) -> bytes:
        self.decoded[payload] += 1
        return payload

    async def _send(self) -> None:
        """Send messages, sometimes many at once and sometimes one by one with pauses."""
        left, rng = self.count, self.rng
        producers = [self.log.producer(topic, linger_ms=0) for topic in self.topics]
        try:
            while left:
                burst = min(left, rng.choice((1, 1, 2, 5, 30)))
                left -= burst
                producer, topic = rng.choice(list(zip(producers, self.topics, strict=True)))
                receipts = [await producer.send(b"%d" % (left + each)) for each in range(burst)]
                for receipt in receipts:
                    stored = await receipt
                    assert stored.offset is not None
                    self.model.stored.add((topic, stored.partition, stored.offset))
                await asyncio.sleep(rng.choice((0, 0, 0.001, 0.003, 0.01)))
                if rng.random() < 0.2:
                    await self._cancelled(producer.flush())
        finally:
            for producer in producers:
                await producer.close()

    async def _cancelled(self, call: Awaitable[_T]) -> _T | None:
        """Await a call and cancel it at a random time: after some turns of the event loop, or a short time."""
        rng = self.rng
        task = asyncio.ensure_future(call)
        if rng.random() < 0.5:
            for _ in range(rng.randrange(6)):
                await asyncio.sleep(0)
        else:
            await asyncio.wait({task}, timeout=rng.random() ** 3 * 0.03)
        was_cancelled = task.cancel()
        if was_cancelled and rng.random() < 0.3:  # the program goes on at once
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            self.model.cancelled_count += 1
            return None
        try:
            return await task
        except asyncio.CancelledError:
            self.model.cancelled_count += was_cancelled
            return None

    # -- steps ----------------------------------------------------------------------------------------------------------

    async def _iterate(self, consumer: Any, cancels: bool) -> None:
        """Take the next message of the loop, which settles the one before."""
        if self.current is not None:
            self.model.maybe.add(self.current)
            self.unsettled.pop(self.current, None)
        previous, self.current = self.current, None
        message = await (self._cancelled(anext(consumer)) if cancels else asyncio.wait_for(anext(consumer), 0.02))
        if message is None:
            return
        self._deliver([message])
        self.current = str(message.topic), message.partition, message.offset
        if previous is not None and self.is_settling_each:
            self.model.done.add(previous)

    async def _poll(self, consumer: Any, cancels: bool) -> None:
        """Poll, and with a consumer that settles each message do so, with the commit of everything."""
        call = consumer.poll(self.rng.choice((1, 3, 100)), timeout_ms=self.rng.choice((0, 1, 20)))
        messages = await self._cancelled(call) if cancels else await call
        self._deliver(messages or [])

    def _deliver(self, messages: list[hs.ReceivedMessage]) -> None:
        self.model.deliver(messages)
        self.unsettled |= {(str(message.topic), message.partition, message.offset): message for message in messages}

    async def _settle(self, consumer: Any, cancels: bool) -> None:
        """Acknowledge one message, or extend its lease, with a consumer that settles each."""
        places = self.unsettled.keys() - {self.current}
        if not places or not self.is_settling_each:
            return
        place = self.rng.choice(sorted(places))
        if "shared" in self.mode and self.rng.random() < 0.3:
            call = consumer.extend(self.unsettled[place], 60_000)
        else:
            call = consumer.ack(self.unsettled.pop(place))
            (self.model.maybe if cancels else self.model.done).add(place)
        await (self._cancelled(call) if cancels else call)

    async def _commit(self, consumer: Any, cancels: bool) -> None:
        """Settle everything delivered so far."""
        if cancels:
            self.model.maybe.update(self.model.session)
            await self._cancelled(consumer.commit())
        else:
            await consumer.commit()
            self.model.done.update(self.model.session)
            self.current = None
        self.unsettled.clear()

    async def _read(self) -> bool:
        """Read with one consumer for some steps, or until everything is delivered; return whether it is."""
        rng, model = self.rng, self.model
        steps: list[Callable[[Any, bool], Awaitable[None]]] = [self._iterate, self._poll, self._poll, self._settle, self._commit]
        model.begin()
        self.decoded.clear()
        self.current = None
        self.unsettled.clear()
        consumer = self._consumer()
        if self.is_slow or rng.random() < 0.5:  # otherwise the first call joins the group, and may be cancelled
            await consumer.__aenter__()
        left = rng.choice((20, 60, 10_000))
        loop = asyncio.get_running_loop()
        seen, since_s = len(model.ever), loop.time()
        try:
            while left and not self._is_over():
                left -= 1
                began_s = loop.time()
                await self._try(rng.choice(steps)(consumer, rng.random() < 0.8))
                model.is_interrupted = model.is_interrupted or loop.time() - began_s > _INTERRUPT_S
                if rng.random() < 0.1:
                    await self._check(consumer)
                if len(model.ever) > seen:
                    seen, since_s = len(model.ever), loop.time()
                missing = sorted(model.stored - model.ever)
                assert loop.time() - since_s < _PROGRESS_S, f"nobody received {missing}"
        finally:
            commits = rng.random() < 0.5
            if rng.random() < 0.5:
                await self._cancelled(consumer.close(commit=commits))
            await consumer.close(commit=commits)
        twice = [payload for payload, count in self.decoded.items() if count > 1]
        assert model.is_interrupted or not twice, f"decoded more than once: {twice}"
        await self._check(None)
        return self._is_over()

    async def _try(self, step: Awaitable[None]) -> None:
        try:
            await step
        except (TimeoutError, StopAsyncIteration):
            self.model.cancelled_count += 1

    def _is_over(self) -> bool:
        return len(self.model.stored) == self.count and self.model.stored == self.model.ever

    async def _check(self, consumer: Any) -> None:
        owner = {"name": _GROUP} if self.mode == "name" else {"group": _GROUP}
        for topic in self.topics:
            try:
                offsets = await self.log.offsets(topic, **owner)
            except HeadstreamError:  # the group does not exist yet
                continue
            self.model.check_committed(topic, offsets)

    async def run(self) -> int:
        for topic in self.topics:
            await self.log.create_topic(topic, 2)
        sending = asyncio.create_task(self._send())
        try:
            while not await self._read():
                pass
            await self._finish()
        finally:
            await sending
        return self.model.cancelled_count

    async def _finish(self) -> None:
        """Settle what is left, and find that a later consumer gets nothing."""
        model = self.model
        model.begin()
        left = model.stored - model.done - model.maybe
        consumer = self._consumer()
        try:
            deadline_s = asyncio.get_running_loop().time() + _PROGRESS_S
            while not left <= set(model.session):
                model.deliver(await consumer.poll(timeout_ms=100))
                assert asyncio.get_running_loop().time() < deadline_s, f"not settled and not delivered again: {left}"
            await consumer.commit()
        finally:
            await consumer.close()
        await self._check(None)


async def run_history(url: str, mode: str, seed: int, count: int = 150) -> int:
    """Run a history and return the number of cancelled calls.

    Args:
        url: The log.
        mode: One of MODES.
        seed: What happens.
        count: Messages that are sent.

    Raises:
        AssertionError: the model was violated.
    """
    async with hs.connect_async(url) as log:
        return await _History(log, mode, seed, count, url.startswith("kafka")).run()


class CancellationHistory:
    """A history of each mode, in a log of its own.

    Args:
        seed: Determines the histories, but for the times that calls take.
        steps: Messages that are sent per mode.
    """

    def __init__(self, seed: int, steps: int = 150) -> None:
        self._seed = seed
        self._steps = steps
        self.counts: Counter[str] = Counter()

    def run(self) -> None:
        """Run it.

        Raises:
            AssertionError: the model was violated.
        """
        with tempfile.TemporaryDirectory() as directory:
            for mode in MODES:
                url = (Path(directory) / mode).as_uri()
                self.counts["cancelled calls"] += asyncio.run(run_history(url, mode, self._seed, self._steps))
