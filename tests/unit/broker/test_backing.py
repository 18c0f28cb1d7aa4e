"""Operations beside the deletion, purge or recreation of what they use: documented errors, and nothing of it is left."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headstream.broker.broker import Broker
from headstream.core.codec.binary import encode_sent
from headstream.core.filters.poll_request import PollRequest
from headstream.core.model.deliveries import DeliveryChange, DeliveryStep, SettleRequest
from headstream.core.model.identifiers import TopicName
from headstream.core.model.leases import LeaseChange, LeaseRequest, LeaseStep
from headstream.core.model.message import Message
from headstream.core.model.pauses import PauseRule
from headstream.core.model.polling import OffsetOwner, PollingStrategy
from headstream.core.model.topology import Limits, NewTopic
from headstream.errors import AlreadyExistsError, GroupInUseError, NotFoundError, OffsetOutOfRangeError, TopicNotFoundError
from headstream.log.catalog.catalog import topics_of
from headstream.log.log import Log
from headstream.log.opening import open_directory, open_memory
from headstream.log.partition.offsets import OffsetStore
from headstream.log.system.files import OsFiles

NAME = TopicName("shop", "orders")
GROUP = OffsetOwner.group("workers")
BATCH = encode_sent([Message(payload=b"%d" % number) for number in range(8)])
RULE = PauseRule(failures=1, attempts=1, pause_us=1)
NEXT = PollRequest(PollingStrategy.next(), 3, None, consumer=GROUP, auto_commit=True)


def commit(broker: Broker) -> None:
    polled = broker.messages.poll(NAME, 2, PollRequest(PollingStrategy.last(), 1))
    broker.offsets.commit(NAME, GROUP, {2: polled.next_offset}, generations={2: polled.generation})


def lease(broker: Broker) -> None:
    member, token = broker.groups.join(NAME, "workers", is_shared=True), random.getrandbits(60)
    try:
        grant = broker.leases.lease(NAME, member, LeaseRequest(token, 2, 20_000, partitions=(2,), starts={2: 3}, pause_rule=RULE))
        changes = [LeaseChange(LeaseStep.FAILED, token, each.from_offset, each.from_offset + 1, 1) for each in grant.ranges]
        options: dict[str, Any] = {"partition_generation": grant.generation, "pause_rule": RULE}
        broker.leases.settle_leases(NAME, "workers", 2, changes, **options)
    finally:
        broker.groups.leave(NAME, member)


def settle(broker: Broker) -> None:
    polled = broker.messages.poll(NAME, 2, PollRequest(PollingStrategy.last(), 1))
    failed, end = DeliveryChange(DeliveryStep.FAILED, polled.next_offset - 1, polled.next_offset, 1, 1), polled.next_offset
    request = SettleRequest([failed], end, partition_generation=polled.generation, pause_rule=RULE)
    broker.deliveries.settle_deliveries(NAME, "workers", 2, request)


def recreate(broker: Broker) -> None:
    broker.partitions.delete(NAME, 1)
    broker.partitions.create(NAME, 1)


OPERATIONS: dict[str, Callable[[Broker], object]] = {
    "append": lambda broker: broker.messages.append(NAME, 2, BATCH),
    "poll": lambda broker: broker.messages.poll(NAME, 2, NEXT),
    "commit": commit,
    "lease": lease,
    "settle": settle,
    "mark": lambda broker: broker.messages.set_state(NAME, 2, [1], 30),
    "seek": lambda broker: broker.groups.seek(NAME, "workers", {2: 2}),
    "delete group": lambda broker: broker.groups.delete(NAME, "workers"),
    "views": lambda broker: [broker.delivery_views.group(NAME, each.name) for each in broker.groups.list(NAME)],
    "topics": lambda broker: broker.topics.list(),
}
CHANGES: dict[str, tuple[Callable[[Broker], object], type[Exception]]] = {
    "delete": (lambda broker: broker.topics.delete(NAME), TopicNotFoundError),
    "delete stream": (lambda broker: broker.streams.delete("shop"), TopicNotFoundError),
    "purge": (lambda broker: broker.topics.purge(NAME), OffsetOutOfRangeError),
    "recreate": (recreate, OffsetOutOfRangeError),
}


def check_nothing_is_left(log: Log) -> None:
    """Compare the directories with the catalog, and committed offsets with the ends of their partitions."""
    topics = {each.identity: each for each in topics_of(log.snapshot())}
    streams, names = f"{log.root}/streams", log.files.list_names
    found = {f"{stream}/{topic}" for stream in names(streams) or () for topic in names(f"{streams}/{stream}") or ()}
    assert found == set(topics)
    for identity, topic in topics.items():
        assert sorted(names(f"{streams}/{identity}") or ()) == ["1", "2", "offsets"]
        for partition in (1, 2):
            with log.reading(topic, partition) as follower:
                follower.refresh()
                assert sum(len(chunk) > 0 for chunk in follower.read(follower.first_offset)) >= 0
                assert log.offsets(topic).greatest(partition) <= follower.end_offset


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("hooked", [(OsFiles, "open_write"), (OffsetStore, "commit"), (Log, "partition"), (Log, "offsets")], ids=lambda each: each[1])
def test_an_operation_reports_a_change_that_comes_between_its_steps(
    operation: str, change: str, hooked: tuple[type, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(log := open_directory(str(tmp_path / "log")))
    broker.topics.create(NewTopic(NAME, 2, Limits.WIDE))
    for _ in range(3):
        broker.messages.append(NAME, 2, BATCH)
    broker.offsets.commit(NAME, GROUP, {2: 1})
    call, apply, left = getattr(*hooked), CHANGES[change], [change]

    def change_first(*given: Any) -> Any:
        if left and (hooked[0] is not OsFiles or given[1].endswith((".deliveries", ".new"))):
            left.clear()
            apply[0](broker)
        return call(*given)

    monkeypatch.setattr(*hooked, change_first)
    with suppress(apply[1]):
        OPERATIONS[operation](broker)
    monkeypatch.undo()
    check_nothing_is_left(log)
    broker.close()
