"""Histories of deliveries: producers and a group over breaking connections, to a real server that is killed.

    python -m tests.campaigns deliveries --seeds 1-1000

One seed decides the topic, the producers (TCP or HTTP, threads or asyncio, batches, delivery timeout), where connections
break, and when the server is killed and restarted. At the end the topic is read and checked:

    receipt: stored       stored once, at the offset of the receipt
    receipt: not stored   absent
    outcome unknown       stored once or absent
    each producer's key   in the order of sending
    the group             has received every stored message, each from its offset
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from headstream.client.arguments import ProducerOptions
from headstream.client.producer.receipts import Receipt
from headstream.connect import connect, connect_async
from headstream.core.model.message import Message
from headstream.errors import HeadstreamError, OutcomeUnknownError, RebalancedError
from tests.campaigns.broken_links import BrokenLinks
from tests.campaigns.killed_servers import KilledServer

_TOPIC: Final = "arena/messages"
_GROUP: Final = "readers"
_T = TypeVar("_T")
_LONGEST_DELAY_S: Final = 0.2
_LONG_TIMEOUT_MS: Final = 600_000
_END_S: Final = 300.0
"""Longer than any operation takes: a longer wait means a hang."""


@dataclass
class _Sent:
    """A message accepted by send(), and its receipt."""

    producer: int
    number: int
    key: int
    receipt: Receipt

    @property
    def payload(self) -> bytes:
        return b"%d:%d" % (self.producer, self.number)


@dataclass
class _HistoryPlan:
    """The parameters of one producer."""

    number: int
    is_http: bool
    is_async: bool
    count: int
    keys: int
    batch_count: int
    linger_ms: float
    delivery_timeout_ms: float
    pauses: list[float]
    sent: list[_Sent] = field(default_factory=list)
    raised: list[Exception] = field(default_factory=list)

    def messages(self) -> Iterator[tuple[int, int, float]]:
        for number in range(self.count):
            yield number, number % self.keys, self.pauses[number % len(self.pauses)]


class DeliveryHistory:
    """One history.

    Args:
        seed: Determines the history.
    """

    def __init__(self, seed: int) -> None:
        self._random = chance = random.Random(seed)
        self._partitions = chance.randint(1, 3)
        self._fsync = chance.choice(("interval", "never", "always"))
        self._compacts = chance.random() < 0.15
        self._remembers = 1000 if chance.random() < 0.15 and not self._compacts else None
        self._break_chance = chance.choice((0.0, 0.01, 0.04))
        self._kills = chance.randint(0, 3)
        self._plans = [self._plan(number) for number in range(chance.randint(1, 3))]
        self._seen: list[Message] = []
        self._is_over = threading.Event()
        self.counts: Counter[str] = Counter()

    def _plan(self, number: int) -> _HistoryPlan:
        chance = self._random
        return _HistoryPlan(
            number,
            is_http=chance.random() < 0.25,
            is_async=chance.random() < 0.3,
            count=chance.randint(20, 200),
            keys=chance.randint(1, 5),
            batch_count=chance.choice((1, 3, 10, 1000)),
            linger_ms=chance.choice((0, 0, 1, 5)),
            delivery_timeout_ms=chance.choice((_LONG_TIMEOUT_MS, _LONG_TIMEOUT_MS, _LONG_TIMEOUT_MS, 150)),
            pauses=[chance.choice((0, 0, 0, 0.001, 0.004)) for _ in range(20)],
        )

    def run(self) -> None:
        """Run it in a directory of its own.

        Raises:
            AssertionError: a guarantee was broken.
        """
        with tempfile.TemporaryDirectory(prefix="deliveries-", ignore_cleanup_errors=True) as directory:
            self._run(KilledServer(Path(directory) / "log"))

    def _run(self, server: KilledServer) -> None:
        try:
            self._make_topic(server)
            with (
                BrokenLinks(server.tcp_port, self._random.random().__hash__(), **self._faults()) as tcp,
                BrokenLinks(server.http_port, self._random.random().__hash__(), **self._faults()) as http,
            ):
                threads = [threading.Thread(target=self._send, args=(plan, tcp, http), daemon=True) for plan in self._plans]
                readers = [threading.Thread(target=self._read, args=(tcp,), daemon=True) for _ in range(2)]
                for thread in (*threads, *readers):
                    thread.start()
                self._break(server, tcp, http, threads)
                self._join(threads)
                self._settle(tcp, http)
                stored = self._stored(server)
                self._check_stored(stored)
                self._check_group(stored, readers)
                self.counts["cut connections"] += tcp.breaks + http.breaks
        finally:
            self._is_over.set()
            server.kill()
            self.counts["kills"] += server.kills - 1

    def _faults(self) -> dict[str, float]:
        return {"break_chance": self._break_chance, "longest_delay_s": self._random.choice((0.0, 0.02, _LONGEST_DELAY_S))}

    def _make_topic(self, server: KilledServer) -> None:
        with connect(f"headstream://iggy:iggy@127.0.0.1:{server.tcp_port}") as log:
            log.create_topic(
                _TOPIC,
                self._partitions,
                fsync=self._fsync,
                deduplication_count=self._remembers,
                compaction_delay_us=3_600_000_000 if self._compacts else None,
            )

    def _break(self, server: KilledServer, tcp: BrokenLinks, http: BrokenLinks, threads: list[threading.Thread]) -> None:
        """Kill the server and cut connections while producers send."""
        for _ in range(self._kills):
            self._is_over.wait(self._random.random() * 0.15)
            if self._random.random() < 0.3:
                tcp.cut()
                http.cut()
            if any(thread.is_alive() for thread in threads):
                server.kill()
                self._is_over.wait(self._random.random() * 0.3)
                server.start()

    def _settle(self, *links: BrokenLinks) -> None:
        """Wait until the sends that producers have abandoned, which may still be stored, are no longer in flight."""
        for each in links:
            each.stop_breaking()
            each.cut()
        self._is_over.wait(_LONGEST_DELAY_S + 0.1)

    @staticmethod
    def _join(threads: list[threading.Thread]) -> None:
        until_s = time.monotonic() + _END_S
        for thread in threads:
            thread.join(max(0.0, until_s - time.monotonic()))
            assert not thread.is_alive(), f"{thread.name} hangs"

    # -- producers ----------------------------------------------------------------------------------------------

    def _url(self, plan: _HistoryPlan, tcp: BrokenLinks, http: BrokenLinks) -> str:
        scheme, port = ("http", http.port) if plan.is_http else ("headstream", tcp.port)
        return f"{scheme}://iggy:iggy@127.0.0.1:{port}?timeout_ms=2000"

    def _send(self, plan: _HistoryPlan, tcp: BrokenLinks, http: BrokenLinks) -> None:
        try:
            url = self._url(plan, tcp, http)
            if plan.is_async:
                asyncio.run(self._send_async(plan, url))
            else:
                self._send_in_thread(plan, url)
        except Exception as error:  # checked by the main thread
            plan.raised.append(error)

    def _options(self, plan: _HistoryPlan) -> ProducerOptions:
        return {"batch_count": plan.batch_count, "linger_ms": plan.linger_ms, "delivery_timeout_ms": plan.delivery_timeout_ms}

    def _send_in_thread(self, plan: _HistoryPlan, url: str) -> None:
        log = _until_connected(lambda: connect(url))
        producer = _until_connected(lambda: log.producer(_TOPIC, **self._options(plan)))
        for number, key, pause_s in plan.messages():
            while True:
                try:
                    receipt = producer.send(b"%d:%d" % (plan.number, number), key=b"%d-%d" % (plan.number, key))
                    break
                except HeadstreamError as error:  # of earlier messages; this one was not accepted
                    plan.raised.append(error)
            plan.sent.append(_Sent(plan.number, number, key, receipt))
            if pause_s:
                time.sleep(pause_s)
        try:
            producer.close()
        except HeadstreamError as error:
            plan.raised.append(error)
        self.counts["repeated batches recognized"] += producer.stats().repeated_count
        log.close()

    async def _send_async(self, plan: _HistoryPlan, url: str) -> None:
        log = connect_async(url)
        producer = log.producer(_TOPIC, **self._options(plan))
        until_s = time.monotonic() + _END_S
        while True:
            try:
                await producer.stats()
                break
            except HeadstreamError:
                assert time.monotonic() < until_s, "the server cannot be reached"
                await asyncio.sleep(0.02)
        for number, key, pause_s in plan.messages():
            while True:
                try:
                    receipt = await producer.send(b"%d:%d" % (plan.number, number), key=b"%d-%d" % (plan.number, key))
                    break
                except HeadstreamError as error:
                    plan.raised.append(error)
            plan.sent.append(_Sent(plan.number, number, key, receipt))
            if pause_s:
                await asyncio.sleep(pause_s)
        try:
            await producer.close()
        except HeadstreamError as error:
            plan.raised.append(error)
        await log.close()

    # -- the group ----------------------------------------------------------------------------------------------

    def _read(self, tcp: BrokenLinks) -> None:
        """Read for the group, through every failure, until the history ends."""
        while not self._is_over.is_set():
            try:
                with connect(f"headstream://iggy:iggy@127.0.0.1:{tcp.port}?timeout_ms=2000") as log:
                    consumer = log.consumer(_TOPIC, group=_GROUP, session_timeout_ms=1000)
                    while not self._is_over.is_set():
                        messages = consumer.poll(timeout_ms=50)
                        self._seen += messages
                        if messages:
                            consumer.commit()
            except (HeadstreamError, RebalancedError):
                self._is_over.wait(0.02)

    # -- checks -------------------------------------------------------------------------------------------------

    def _stored(self, server: KilledServer) -> list[Message]:
        with connect(f"headstream://iggy:iggy@127.0.0.1:{server.tcp_port}") as log:
            return [
                message
                for partition in range(1, self._partitions + 1)
                for message in log.poll(_TOPIC, partition, start=0, count=100_000)
            ]

    def _check_stored(self, stored: list[Message]) -> None:
        places = {message.payload: (message.partition, message.offset, message.timestamp) for message in stored}
        times = Counter(message.payload for message in stored)
        repeated = [payload for payload, count in times.items() if count > 1]
        assert not repeated, f"stored more than once: {repeated[:10]}"
        for plan in self._plans:
            unexpected = [error for error in plan.raised if not isinstance(error, HeadstreamError)]
            assert not unexpected, f"producer {plan.number} raised {unexpected[0]!r}"
            assert len(plan.sent) == plan.count or plan.raised, f"producer {plan.number} sent {len(plan.sent)} of {plan.count}"
            in_doubt = {bytes(message.payload or b"") for error in plan.raised for message in getattr(error, "in_doubt", ())}
            for sent in plan.sent:
                self._check_message(sent, places.get(sent.payload), in_doubt)
            if plan.delivery_timeout_ms == _LONG_TIMEOUT_MS:
                failed = [sent.payload for sent in plan.sent if sent.receipt.error is not None]
                assert not failed, f"timed out within {_LONG_TIMEOUT_MS} ms: {failed[:10]}: {plan.raised[:1]}"
            for key in range(plan.keys):
                prefix = b"%d:" % plan.number
                found = [m.payload or b"" for m in stored if m.key == b"%d-%d" % (plan.number, key)]
                numbers = [int(payload.removeprefix(prefix)) for payload in found]
                assert numbers == sorted(numbers), f"producer {plan.number}, key {key}, out of order: {numbers}"
        self.counts["messages stored"] += len(stored)

    def _check_message(self, sent: _Sent, place: tuple[int | None, int | None, int | None] | None, in_doubt: set[bytes]) -> None:
        receipt = sent.receipt
        assert receipt.is_done, f"{sent.payload!r} is neither stored nor timed out"
        if receipt.error is None:
            assert place is not None, f"{sent.payload!r} is lost: {receipt!r}"
            reported = receipt.partition, receipt.offset, receipt.timestamp
            assert place == reported, f"{sent.payload!r} is at {place}, its receipt says {reported}"
        elif isinstance(receipt.error, OutcomeUnknownError):
            assert sent.payload in in_doubt, f"{sent.payload!r} is not listed as unknown outcome"
            self.counts["messages of unknown outcome"] += 1
        else:
            assert sent.payload not in in_doubt, (
                f"{sent.payload!r} is listed as unknown outcome, its receipt says {receipt.error}"
            )
            assert place is None, f"{sent.payload!r} is stored, but its receipt says it is not: {receipt.error}"

    def _check_group(self, stored: list[Message], readers: list[threading.Thread]) -> None:
        """Wait until the group has received everything, and check the offsets."""
        wanted = {message.payload for message in stored}
        until_s = time.monotonic() + _END_S
        while not wanted <= {message.payload for message in list(self._seen)}:
            missing = wanted - {message.payload for message in list(self._seen)}
            assert time.monotonic() < until_s, f"the group never received {sorted(map(str, missing))[:10]}"
            self._is_over.wait(0.01)
        self._is_over.set()
        self._join(readers)
        extra = {message.payload for message in self._seen} - wanted
        assert not extra, f"the group received messages that are not stored: {sorted(map(str, extra))[:10]}"
        places = {message.payload: (message.partition, message.offset) for message in stored}
        for message in self._seen:
            assert places[message.payload] == (message.partition, message.offset), f"{message.payload!r} has another offset"


def _until_connected(make: Callable[[], _T]) -> _T:
    until_s = time.monotonic() + _END_S
    while True:
        try:
            return make()
        except HeadstreamError:
            assert time.monotonic() < until_s, "the server cannot be reached"
            time.sleep(0.02)
