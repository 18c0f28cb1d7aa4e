"""Histories of an asyncio consumer whose calls are cancelled at random times while messages arrive, checked against a model.

The model: while a consumer lives, each message is delivered exactly once and in the order of its partition, unless it failed
or was sought. What is committed was delivered before. What failed is delivered again, what was set aside can be fetched, what
was rejected is in the dead letter once. A consumer that is opened again gets everything that was not settled, and nothing that
was. A history ends when every message was delivered and every call of its kind of consumer was cancelled.

    python -m tests.campaigns cancellations --seeds 1-100
"""

from __future__ import annotations

import asyncio
import itertools
import random
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import headstream as hs
from tests.campaigns.cancelled_calls import run_calls
from tests.campaigns.cancelling import CANCELLED, Canceller, is_impatient

__all__ = ["MODES", "CancellationHistory", "run_history"]

Place = tuple[str, int, int]
"""Topic, partition and offset of a message."""

_GROUP: Final = "cancelling"
_INTERRUPT_S: Final = 1.5
"""A cancelled call that takes longer may be interrupted: the client waits for two seconds."""
_PROGRESS_S: Final = 60.0
"""A message that is not delivered within this time is lost."""
_MORE: Final = 5
"""Messages that are sent at a time while a call of the consumer was not cancelled yet."""

MODES: Final = ("group", "name", "decoded", "retrying", "shared", "topics", "pattern", "retrying-topics", "shared-pattern")
"""What kinds of consumers there are; those of retrying and shared settle each message, the others settle by a commit."""


@dataclass
class _Model:
    """What a history knows.

    Args:
        stored: Every message, by its place, once its producer knows it.
        ever: What any consumer has delivered.
        session: What the open consumer has delivered and may deliver no more.
        done: What is settled for certain.
        maybe: What may be settled: the call that settles it was cancelled, or the consumer was closed.
        again: What may be delivered again, in any order: it failed, was set aside, or was sought.
        owed: What has failed for certain and must be delivered again.
        deferred: What is set aside for certain.
        rejected: How often the rejection of a message was called.
        letters: What is in the dead letter for certain.
        newest: Topic and partition -> offset that only later ones follow, unless they are delivered again.
        sought: Topic and partition -> offset that must be delivered next.
        is_shared: Whether workers share the messages, in any order.
        is_interrupted: Whether a call was slow enough to be interrupted since the consumer was opened: it can have lost its
            membership then, and gets again what was not settled.
    """

    is_shared: bool
    stored: set[Place] = field(default_factory=set)
    ever: set[Place] = field(default_factory=set)
    session: set[Place] = field(default_factory=set)
    done: set[Place] = field(default_factory=set)
    maybe: set[Place] = field(default_factory=set)
    again: set[Place] = field(default_factory=set)
    owed: set[Place] = field(default_factory=set)
    deferred: set[Place] = field(default_factory=set)
    rejected: Counter[Place] = field(default_factory=Counter)
    letters: set[Place] = field(default_factory=set)
    newest: dict[tuple[str, int], int] = field(default_factory=dict)
    sought: dict[tuple[str, int], int] = field(default_factory=dict)
    is_interrupted: bool = False

    def begin(self) -> None:
        """Begin the session of another consumer."""
        self.maybe |= self.session
        self.session.clear()
        self.newest.clear()
        self.sought.clear()
        self.is_interrupted = False

    def deliver(self, messages: Iterable[hs.ReceivedMessage]) -> None:
        for place in map(place_of, messages):
            assert place not in self.done, f"{place} is settled and delivered again"
            if not self.is_interrupted:
                self._check_order(place)
            self.again.discard(place)
            self.owed.discard(place)
            self.maybe.discard(place)
            self.session.add(place)
            self.ever.add(place)

    def _check_order(self, place: Place) -> None:
        at = place[:2]
        wanted = self.sought.pop(at, place[2])
        assert wanted == place[2], f"{place} is delivered after a seek to {wanted}"
        if place not in self.again:
            assert place not in self.session, f"{place} is delivered twice by one consumer"
            assert self.is_shared or self.newest.get(at, -1) < place[2], f"{place} is delivered after offset {self.newest[at]}"
        self.newest[at] = max(self.newest.get(at, -1), place[2])

    def settle(self, *places: Place, was_cancelled: bool = False) -> None:
        """Record that messages are done, or may be."""
        (self.maybe if was_cancelled or self.is_interrupted else self.done).update(places)

    def end_attempt(self, place: Place) -> None:
        """Record that a message may be delivered again."""
        self.session.discard(place)
        self.again.add(place)

    def fail(self, place: Place, *, was_cancelled: bool) -> None:
        """Record that a message has failed, or may have."""
        self.end_attempt(place)
        (self.maybe if was_cancelled or self.is_interrupted else self.owed).add(place)

    def seek(self, at: tuple[str, int], offset: int, *, was_cancelled: bool) -> None:
        """Record that a partition is read again from an offset, or may be."""
        later = {place for place in self.ever if place[:2] == at and place[2] >= offset}
        self.session -= later
        self.again |= later
        self.maybe |= later
        self.done -= later
        self.letters -= later
        self.newest[at] = min(self.newest.get(at, -1), offset - 1)
        self.sought.pop(at, None)
        if not was_cancelled and (*at, offset) in self.stored:
            self.sought[at] = offset

    def check_committed(self, topic: str, offsets: dict[int, int]) -> None:
        for partition, committed in offsets.items():
            lost = sorted(each for each in self.stored - self.ever if each[:2] == (topic, partition) and each[2] < committed)
            assert not lost, f"offset {committed} is committed, and nobody received {lost}"

    def check_letters(self, found: Counter[Place]) -> None:
        lost = self.letters - found.keys()
        assert not lost, f"rejected, and not in the dead letter: {lost}"
        more = found - self.rejected
        assert not more, f"in the dead letter, and not rejected as often: {more}"


def place_of(message: hs.ReceivedMessage) -> Place:
    return str(message.topic), message.partition, message.offset


class _History:
    def __init__(self, log: hs.AsyncClient, mode: str, seed: int, count: int, is_slow: bool) -> None:
        self.log = log
        self.mode = mode
        self.count = count
        self.rng = random.Random(f"{mode} {seed}")
        self.call = Canceller(self.rng)
        self.model = _Model("shared" in mode)
        self.decoded: Counter[bytes] = Counter()
        self.is_of_topics = "topics" in mode or "pattern" in mode
        self.topics = [f"cancel-{mode}-{seed}/{name}" for name in (("a", "b", "c") if self.is_of_topics else ("a",))]
        self.letters = f"cancel-{mode}-{seed}-dead/letters"
        self.current: Place | None = None
        self.looped: hs.ReceivedMessage | None = None
        """What a loop has delivered last, and perhaps not settled."""
        self.unsettled: dict[Place, hs.ReceivedMessage] = {}
        self.is_slow = is_slow
        self.is_sent = False
        self.is_settling_each = "retrying" in mode or "shared" in mode
        self.steps: dict[str, Callable[[Any, bool], Awaitable[None]]] = {
            "__anext__": self._iterate,
            "poll": self._poll,
            "commit": self._commit,
        }
        if self.is_settling_each:
            self.steps |= {"ack": self._ack, "retry": self._retry, "reject": self._reject}
            self.steps |= {"attempting": self._attempt, "run": self._run_handler}
        if "shared" in mode:
            self.steps |= {"extend": self._extend, "defer": self._defer, "fetch_deferred": self._fetch_deferred}
        elif mode != "decoded":  # a sought message is decoded again
            self.steps["seek"] = self._seek

    # -- the consumer -------------------------------------------------------------------------------------------------

    def _consumer(self) -> Any:
        named: Any = self.topics if self.is_of_topics else self.topics[0]
        if "pattern" in self.mode:
            named = [self.topics[0].replace("/a", "/*")]
        options: dict[str, Any] = {"name": _GROUP} if self.mode == "name" else {"group": _GROUP}
        if self.mode == "decoded":
            options["decode"] = self._decode
        if self.is_settling_each:
            options["on_error"] = hs.Retry(attempts=None, delay="1ms", max_delay="5ms")
            options["dead_letter"] = self.letters
        if "shared" in self.mode:
            options["mode"] = "shared"
        if is_impatient():  # what an interrupted call has joined or leased is free again soon
            options |= {"lease": "1s"} if "shared" in self.mode else {"session_timeout_ms": 1_000}
        return self.log.consumer(named, **options)

    def _decode(self, payload: bytes) -> bytes:
        self.decoded[payload] += 1
        return payload

    async def _send(self) -> None:
        """Send messages, sometimes many at once and sometimes one by one with pauses."""
        left, rng, numbers = self.count, self.rng, itertools.count()
        producers = [self.log.producer(topic, linger_ms=0) for topic in self.topics]
        try:
            while left:
                burst = min(left, rng.choice((1, 1, 2, 5, 30)))
                left -= burst
                producer, topic = rng.choice(list(zip(producers, self.topics, strict=True)))
                receipts = [await producer.send(b"%d" % next(numbers)) for _ in range(burst)]
                for receipt in receipts:
                    stored = await receipt
                    assert stored.offset is not None
                    self.model.stored.add((topic, stored.partition, stored.offset))
                await asyncio.sleep(rng.choice((0, 0, 0.001, 0.003, 0.01)))
                if not left and self._missing():
                    left = _MORE
        finally:
            for producer in producers:
                await producer.close()
        self.is_sent = True

    def _missing(self) -> set[str]:
        """Return the calls that were not cancelled yet; after interrupted calls nothing is certain, so some have no message."""
        if is_impatient():
            return set()
        return self.steps.keys() - {name.partition(".")[2] for name in self.call.counts}

    # -- steps ----------------------------------------------------------------------------------------------------------

    def _deliver(self, messages: Iterable[hs.ReceivedMessage]) -> None:
        for message in messages:
            self.model.deliver([message])
            self.unsettled[place_of(message)] = message

    async def _iterate(self, consumer: Any, cancels: bool) -> None:
        """Take the next message of the loop, which settles the one before."""
        previous, self.current = self.current, None
        if previous is not None:
            self.model.maybe.add(previous)
            self.unsettled.pop(previous, None)
        message = await (self.call(consumer, "__anext__") if cancels else asyncio.wait_for(anext(consumer), 0.02))
        if message is CANCELLED:
            return
        self._deliver([message])
        self.current, self.looped = place_of(message), message
        if previous is not None and self.is_settling_each:
            self.model.settle(previous)

    async def _poll(self, consumer: Any, cancels: bool) -> None:
        options = {"count": self.rng.choice((1, 3, 100)), "timeout_ms": self.rng.choice((0, 1, 20))}
        messages = await self.call.perhaps(cancels, consumer, "poll", **options)
        self._deliver([] if messages is CANCELLED else messages)

    def _choose(self) -> tuple[Place, hs.ReceivedMessage] | None:
        """Return a message that a poll has delivered and that is not settled."""
        places = sorted(self.unsettled.keys() - {self.current})
        if not places:
            return None
        place = self.rng.choice(places)
        return place, self.unsettled[place]

    async def _ack(self, consumer: Any, cancels: bool) -> None:
        if (chosen := self._choose()) is not None:
            place, message = chosen
            del self.unsettled[place]
            self.model.maybe.add(place)
            done = await self.call.perhaps(cancels, consumer, "ack", message)
            self.model.settle(place, was_cancelled=done is CANCELLED)

    async def _extend(self, consumer: Any, cancels: bool) -> None:
        if (chosen := self._choose()) is not None:
            await self.call.perhaps(cancels, consumer, "extend", chosen[1], 60_000_000)

    async def _retry(self, consumer: Any, cancels: bool) -> None:
        if (chosen := self._choose()) is not None:
            place, message = chosen
            del self.unsettled[place]
            failed = await self.call.perhaps(cancels, consumer, "retry", message, delay="1ms", reason="no room")
            self.model.fail(place, was_cancelled=failed is CANCELLED)

    async def _reject(self, consumer: Any, cancels: bool) -> None:
        if (chosen := self._choose()) is not None:
            place, message = chosen
            del self.unsettled[place]
            self.model.rejected[place] += 1
            self.model.maybe.add(place)
            rejected = await self.call.perhaps(cancels, consumer, "reject", message, reason="no such product")
            self.model.settle(place, was_cancelled=rejected is CANCELLED)
            if rejected is not CANCELLED and not self.model.is_interrupted:
                self.model.letters.add(place)

    async def _attempt(self, consumer: Any, cancels: bool) -> None:
        """Work on a message in the context that records the outcome."""
        if (chosen := self._choose()) is None:
            return
        place, message = chosen
        del self.unsettled[place]
        self.model.maybe.add(place)
        fails, pause_s = self.rng.random() < 0.5, self.rng.choice((0, 0.001, 0.01))

        async def work() -> None:
            async with consumer.attempting(message):
                await asyncio.sleep(pause_s)
                if fails:
                    raise ValueError("no such product")

        ended = await self.call.perhaps(cancels, consumer, "attempting", call=work)
        if fails:
            self.model.fail(place, was_cancelled=ended is CANCELLED)
        else:
            self.model.settle(place, was_cancelled=ended is CANCELLED)

    async def _run_handler(self, consumer: Any, cancels: bool) -> None:
        """Call a handler with messages, until the call is cancelled: the message that it has then is delivered again."""
        model = self.model
        if self.looped is not None:  # a loop begins when the message of the one before is settled
            self.unsettled.pop(place_of(self.looped), None)
            model.maybe.add(place_of(self.looped))
            with suppress(hs.InvalidInputError):
                await consumer.ack(self.looped)
            self.current = self.looped = None
        has: Place | None = None
        is_working = has_failed = False

        def end(*, was_cancelled: bool) -> None:
            if has is not None and has_failed:
                model.fail(has, was_cancelled=was_cancelled)
            elif has is not None:
                model.settle(has, was_cancelled=was_cancelled and self.call.went_on)

        async def handle(message: hs.ReceivedMessage) -> None:
            nonlocal has, is_working, has_failed
            end(was_cancelled=False)
            model.deliver([message])
            has, is_working, has_failed = place_of(message), True, self.rng.random() < 0.2
            await asyncio.sleep(self.rng.choice((0, 0, 0.001, 0.01)))
            is_working = False
            if has_failed:
                raise ValueError("no such product")

        await self.call(consumer, "run", handle)
        if is_working and has is not None:
            model.fail(has, was_cancelled=self.call.went_on)  # a commit that comes before the end of the call includes it
        else:
            end(was_cancelled=True)

    async def _defer(self, consumer: Any, cancels: bool) -> None:
        if (chosen := self._choose()) is not None:
            place, message = chosen
            del self.unsettled[place]
            deferred = await self.call.perhaps(cancels, consumer, "defer", message)
            self.model.end_attempt(place)
            (self.model.maybe if deferred is CANCELLED or self.model.is_interrupted else self.model.deferred).add(place)

    async def _fetch_deferred(self, consumer: Any, cancels: bool) -> None:
        """Fetch a message that was set aside: it stays set aside if the call is cancelled."""
        if not self.model.deferred:
            return
        place = self.rng.choice(sorted(self.model.deferred))
        message = await self.call.perhaps(cancels, consumer, "fetch_deferred", *self._named(place[0]), *place[1:])
        if message is not CANCELLED:
            assert place_of(message) == place
            self.model.deferred.discard(place)
            self.model.again.add(place)
            self._deliver([message])

    def _named(self, topic: str) -> list[str]:
        return [topic] if self.is_of_topics else []

    async def _seek(self, consumer: Any, cancels: bool) -> None:
        """Go back to a message that was delivered, or to an earlier one if that is not settled."""
        delivered = sorted(self.model.session - self.model.again)
        if not delivered:
            return
        topic, partition, offset = self.rng.choice(delivered)
        at = topic, partition
        open_places = self.unsettled.keys() | self.model.owed | self.model.maybe
        offset = min([offset, *(place[2] for place in open_places if place[:2] == at)])
        sought = await self.call.perhaps(cancels, consumer, "seek", *self._named(topic), partition, offset)
        self.model.seek(at, offset, was_cancelled=sought is CANCELLED)
        self.unsettled = {place: message for place, message in self.unsettled.items() if place[:2] != at}
        if self.current is not None and self.current[:2] == at:
            self.current = None

    async def _commit(self, consumer: Any, cancels: bool) -> None:
        """Settle everything delivered so far, or one message with those before it in its partition."""
        chosen = self._choose() if self.rng.random() < 0.3 else None
        if chosen is None:
            places = set(self.model.session)
        elif "shared" in self.mode:
            places = {chosen[0]}
        else:
            topic, partition, offset = chosen[0]
            places = {each for each in self.model.session if each[:2] == (topic, partition) and each[2] <= offset}
        self.model.maybe |= places
        for place in self.unsettled.keys() & places:
            del self.unsettled[place]
        if self.current in places:
            self.current = None
        committed = await self.call.perhaps(cancels, consumer, "commit", *([] if chosen is None else [chosen[1]]))
        if committed is not CANCELLED:
            self.model.settle(*places)
        elif chosen is None:
            self.unsettled.clear()

    # -- sessions -------------------------------------------------------------------------------------------------------

    async def _read(self) -> bool:
        """Read with one consumer for some steps, or until everything is delivered; return whether it is."""
        rng, model = self.rng, self.model
        steps = [*self.steps.values(), self._iterate, self._poll, self._poll]
        model.begin()
        self.decoded.clear()
        self.current = self.looped = None
        self.unsettled.clear()
        consumer = self._consumer()
        if self.is_slow or (rng.random() < 0.3 and not self._never(consumer, "__aenter__")):
            await consumer.__aenter__()
        elif rng.random() < 0.5 or self._never(consumer, "__aenter__"):  # otherwise the first call joins the group
            await self.call(consumer, "__aenter__")
        left = rng.choice((20, 60, 10_000))
        loop = asyncio.get_running_loop()
        seen, since_s = len(model.ever), loop.time()
        try:
            while left and not self._is_over():
                left -= 1
                began_s = loop.time()
                await self._try(rng.choice(steps)(consumer, rng.random() < 0.8))
                model.is_interrupted |= is_impatient() or loop.time() - began_s > _INTERRUPT_S
                if rng.random() < 0.1:
                    await self._check(consumer)
                if len(model.ever) > seen:
                    seen, since_s = len(model.ever), loop.time()
                missing = sorted(model.stored - model.ever) or sorted(model.owed)
                assert loop.time() - since_s < _PROGRESS_S, f"nobody received {missing}, or not cancelled: {self._missing()}"
        finally:
            await self._close(consumer)
        twice = [payload for payload, count in self.decoded.items() if count > 1]
        assert model.is_interrupted or not twice, f"decoded more than once: {twice}"
        await self._check(None)
        return self._is_over()

    async def _close(self, consumer: Any) -> None:
        """Close a consumer, sometimes by cancelled calls first."""
        commits = self.rng.random() < 0.5
        if self.rng.random() < 0.5 or self._never(consumer, "close"):
            await self.call(consumer, "close", commit=commits)
            await self.call(consumer, "__aexit__", None, None, None)
        await consumer.close(commit=commits)

    def _never(self, consumer: Any, name: str) -> bool:
        return f"{type(consumer).__name__}.{name}" not in self.call.counts

    async def _try(self, step: Awaitable[None]) -> None:
        try:
            await step
        except (TimeoutError, StopAsyncIteration):
            pass
        except (hs.HeadstreamError, ValueError):  # a handler's error is raised if its message is no longer the consumer's
            if not self.model.is_interrupted:
                raise
            self.current = None
            self.unsettled.clear()

    def _is_over(self) -> bool:
        return self.is_sent and self.model.stored == self.model.ever and not self.model.owed

    async def _check(self, consumer: Any) -> None:
        owner = {"name": _GROUP} if self.mode == "name" else {"group": _GROUP}
        for topic in self.topics:
            try:
                offsets = await self.log.offsets(topic, **owner)
            except hs.HeadstreamError:  # the group does not exist yet
                continue
            self.model.check_committed(topic, offsets)

    async def run(self) -> Counter[str]:
        for topic in self.topics:
            await self.log.create_topic(topic, 2)
        sending = asyncio.create_task(self._send())
        try:
            while not await self._read():
                pass
            await self._finish()
        except BaseException:
            sending.cancel()
            raise
        finally:
            await asyncio.wait({sending})
        await sending
        return self.call.counts

    async def _finish(self) -> None:
        """Settle what is left, and find that a later consumer gets nothing."""
        model = self.model
        model.begin()
        left = model.stored - model.done - model.maybe - model.deferred
        consumer = self._consumer()
        try:
            deadline_s = asyncio.get_running_loop().time() + _PROGRESS_S
            while not left <= model.session:
                model.deliver(await consumer.poll(timeout_ms=100))
                assert asyncio.get_running_loop().time() < deadline_s, f"not settled and not delivered again: {left}"
            while model.deferred:
                await self._fetch_deferred(consumer, cancels=False)
            await consumer.commit()
        finally:
            await consumer.close()
        await self._check(None)
        if self.is_settling_each:
            letters = await self.log.poll(self.letters, count=10_000)
            origin = ("hs.origin.topic", "hs.origin.partition", "hs.origin.offset")
            places = [tuple(letter.headers[name] for name in origin) for letter in letters]
            model.check_letters(Counter((str(topic), int(str(part)), int(str(offset))) for topic, part, offset in places))


async def run_history(url: str, mode: str, seed: int, count: int = 150) -> Counter[str]:
    """Run a history and return the cancelled calls with their numbers, as `AsyncConsumer.poll`.

    Args:
        url: The log.
        mode: One of MODES.
        seed: What happens.
        count: Messages that are sent, or more until every call was cancelled.

    Raises:
        AssertionError: the model was violated.
    """
    async with hs.connect_async(url) as log:
        return await _History(log, mode, seed, count, url.startswith("kafka")).run()


class CancellationHistory:
    """A history of each mode and one of the other calls, each in a log of its own.

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
                self.counts += asyncio.run(run_history(url, mode, self._seed, self._steps))
            self.counts += asyncio.run(run_calls((Path(directory) / "calls").as_uri(), self._seed))
