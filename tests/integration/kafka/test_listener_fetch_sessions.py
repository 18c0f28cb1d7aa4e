"""Fetch sessions of the listener (KIP-227): what a fetch answers that lists only what has changed."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Limits, NewTopic
from headstream.server.kafka.apis import FETCH
from tests.support.messages.batches import sent as sent_bytes
from tests.support.server.kafka_listeners import KafkaListener, kafka_listener
from tests.support.server.kafka_socket import KafkaSocket

_ORDERS = TopicName("shop", "orders")
_NOT_FOUND, _WRONG_EPOCH = 70, 71


class SessionClient:
    """A consumer that fetches as Java's does: it lists what changed, and reads what comes."""

    def __init__(self, listener: KafkaListener) -> None:
        self.socket = KafkaSocket(listener)
        self.id, self.epoch = 0, 0
        self.offsets: dict[int, int] = {}
        self.read: dict[int, list[bytes]] = {}
        self._changed: set[int] = set()
        self._forgotten: set[int] = set()

    def want(self, *partitions: int) -> None:
        for index in partitions:
            self.offsets.setdefault(index, len(self.read.get(index, ())))
            self._changed.add(index)
            self._forgotten.discard(index)

    def forget(self, index: int) -> None:
        del self.offsets[index]
        self._changed.discard(index)
        self._forgotten.add(index)

    def fetch(self, *, epoch: int | None = None, **limits: int) -> dict[int, dict[str, Any]]:
        """Fetch, and return the answered partitions."""
        asked = [
            {
                "partition": index,
                "current_leader_epoch": -1,
                "fetch_offset": self.offsets[index],
                "log_start_offset": -1,
                "partition_max_bytes": limits.get("partition_max_bytes", 1 << 20),
            }
            for index in sorted(self._changed)
        ]
        answer = self.socket.ask(
            FETCH,
            11,
            **{"replica_id": -1, "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 0} | limits,
            session_id=self.id,
            session_epoch=self.epoch if epoch is None else epoch,
            topics=[{"topic": "shop.orders", "partitions": asked}] if asked else [],
            forgotten_topics_data=[{"topic": "shop.orders", "partitions": sorted(self._forgotten)}] if self._forgotten else [],
            rack_id="",
        )
        if answer["error_code"]:
            return {-1: answer}
        self._changed, self._forgotten = set(), set()
        self.id, self.epoch = answer["session_id"], self.epoch + 1
        parts = {part["partition_index"]: part for topic in answer["responses"] for part in topic["partitions"]}
        assert parts.keys() <= self.offsets.keys()  # and so no partition that was forgotten
        for index, part in parts.items():
            if part["records"]:
                self._take(index, bytes(part["records"]))
        return parts

    def _take(self, index: int, batch: bytes) -> None:
        base, last_delta = struct.unpack_from(">q", batch)[0], struct.unpack_from(">i", batch, 23)[0]
        assert base == self.offsets[index]
        self.read.setdefault(index, []).extend(re.findall(rb"<\d{6}>", batch))
        self.offsets[index] = base + last_delta + 1
        self._changed.add(index)


@pytest.fixture(scope="module")
def running() -> Iterator[KafkaListener]:
    with kafka_listener() as found:
        yield found


@pytest.fixture
def listener(running: KafkaListener) -> Iterator[KafkaListener]:
    running.broker.topics.create(NewTopic(_ORDERS, 6, Limits.WIDE))
    yield running
    running.broker.topics.delete(_ORDERS)


def _send(listener: KafkaListener, index: int, *numbers: int) -> list[bytes]:
    payloads = [b"<%06d>" % number for number in numbers]
    listener.broker.messages.send(_ORDERS, index + 1, b"".join(sent_bytes(payload) for payload in payloads))
    return payloads


@pytest.fixture
def client(listener: KafkaListener) -> Iterator[SessionClient]:
    made = SessionClient(listener)
    with made.socket:
        made.want(*range(6))
        assert set(made.fetch()) == set(range(6))
        yield made


def test_fetch_answers_only_partitions_with_something_new_when_it_is_in_a_session(
    listener: KafkaListener, client: SessionClient
) -> None:
    assert client.fetch() == {}
    sent = _send(listener, 3, 1, 2)
    assert set(client.fetch()) == {3}
    assert client.read == {3: sent}
    assert client.fetch() == {}


def test_fetch_waits_for_messages_of_any_partition_of_its_session(listener: KafkaListener, client: SessionClient) -> None:
    sender = listener.running.loop.call_later
    listener.running.loop.call_soon_threadsafe(sender, 0.05, _send, listener, 5, 7)
    assert set(client.fetch(max_wait_ms=20_000)) == {5}


def test_fetch_is_refused_when_it_continues_what_is_not_there(listener: KafkaListener, client: SessionClient) -> None:
    assert client.fetch(epoch=7)[-1]["error_code"] == _WRONG_EPOCH
    other = SessionClient(listener)
    with other.socket:
        other.id, other.epoch = client.id, client.epoch
        assert other.fetch()[-1]["error_code"] == _NOT_FOUND
    assert client.fetch() == {}
    client.want(*range(6))
    assert set(client.fetch(epoch=-1)) == set(range(6))
    assert client.id == 0


def test_fetch_answers_an_error_in_each_response_when_the_topic_of_its_session_is_deleted(
    listener: KafkaListener, client: SessionClient
) -> None:
    listener.broker.topics.delete(_ORDERS)
    for _ in range(2):
        assert {part["error_code"] for part in client.fetch().values()} == {3}
    listener.broker.topics.create(NewTopic(_ORDERS, 6, Limits.WIDE))
    assert {part["error_code"] for part in client.fetch().values()} == {0}
    sent = _send(listener, 0, 5)
    client.fetch()
    assert client.read == {0: sent}


def test_fetch_answers_an_error_when_the_user_of_its_session_loses_its_rights(listener: KafkaListener) -> None:
    server = listener.running.server.dispatcher
    made = SessionClient(listener)
    with made.socket:
        made.want(0)
        assert made.fetch()[0]["error_code"] == 0
        session = next(each for each in server.sessions.list() if each.user_id)
        server.users.create("nobody", "nobody", is_active=True, permissions=None, now_us=1)
        session.user_id = server.users.get("nobody").id
        assert made.fetch()[0]["error_code"] == 29


@pytest.mark.parametrize("seed", range(8))
def test_session_reads_every_message_once_and_in_order_when_partitions_come_and_go(
    listener: KafkaListener, client: SessionClient, seed: int
) -> None:
    chance = random.Random(seed)
    sent: dict[int, list[bytes]] = {}
    for step in range(120):
        index = chance.randrange(6)
        match chance.choice(["send", "send", "forget", "fetch", "fetch", "small"]):
            case "send":
                numbers = range(100 * step, 100 * step + chance.randrange(1, 20))
                sent.setdefault(index, []).extend(_send(listener, index, *numbers))
            case "forget" if index in client.offsets:
                client.forget(index)
            case "forget":
                client.want(index)
            case "small":
                client.fetch(max_bytes=chance.randrange(1, 400), partition_max_bytes=chance.randrange(1, 300))
            case _:
                client.fetch()
    client.want(*range(6))
    for _ in range(3):
        client.fetch()
    assert client.read == sent
