"""Operations beside the deletion, purge or recreation of what they use: documented errors, and nothing of it is left."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headstream import errors
from headstream.broker.broker import Broker
from headstream.broker.groups.group_registry import registry_of
from headstream.core.codec.binary import encode_sent
from headstream.core.filters.poll_request import PollRequest
from headstream.core.model.deliveries import DeliveryChange, DeliveryStep, SettleRequest
from headstream.core.model.identifiers import TopicName
from headstream.core.model.leases import LeaseChange, LeaseRequest, LeaseStep
from headstream.core.model.message import Message
from headstream.core.model.pauses import PauseRule
from headstream.core.model.polling import OffsetOwner, PollingStrategy
from headstream.core.model.topology import Limits, NewTopic
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
REFUSED = errors.AlreadyExistsError, errors.GroupInUseError, errors.InvalidOptionError


def commit(broker: Broker) -> None:
    polled = broker.messages.poll(NAME, 2, PollRequest(PollingStrategy.last(), 1))
    broker.offsets.commit(NAME, GROUP, {2: polled.next_offset}, generations={2: polled.generation})


def lease(broker: Broker) -> None:
    member, token = broker.groups.join(NAME, "shared", is_shared=True), random.getrandbits(60)
    try:
        grant = broker.leases.lease(NAME, member, LeaseRequest(token, 2, 20_000, partitions=(2,), starts={2: 3}, pause_rule=RULE))
        changes = [LeaseChange(LeaseStep.FAILED, token, each.from_offset, each.from_offset + 1, 1) for each in grant.ranges]
        options: dict[str, Any] = {"partition_generation": grant.generation, "pause_rule": RULE}
        broker.leases.settle_leases(NAME, "shared", 2, changes, **options)
    finally:
        broker.groups.leave(NAME, member)


def settle(broker: Broker) -> None:
    polled = broker.messages.poll(NAME, 2, PollRequest(PollingStrategy.last(), 1))
    failed, end = DeliveryChange(DeliveryStep.FAILED, polled.next_offset - 1, polled.next_offset, 1, 1), polled.next_offset
    request = SettleRequest([failed], end, partition_generation=polled.generation, pause_rule=RULE)
    if polled.count:
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
CHANGES: dict[str, tuple[Callable[[Broker], object], tuple[type[Exception], ...]]] = {
    "delete": (lambda broker: broker.topics.delete(NAME), (errors.TopicNotFoundError,)),
    "delete stream": (lambda broker: broker.streams.delete("shop"), (errors.TopicNotFoundError,)),
    "purge": (lambda broker: broker.topics.purge(NAME), (errors.OffsetOutOfRangeError, errors.PartitionNotFoundError)),
    "recreate": (recreate, (errors.OffsetOutOfRangeError, errors.PartitionNotFoundError)),
}

STEPS: list[tuple[str, type, str]] = [
    *(("append", Log, "partition"), ("mark", Log, "partition"), ("topics", Log, "reading"), ("poll", Log, "reading")),
    *((operation, OsFiles, "open_write") for operation in ("lease", "settle")),
    *((operation, OffsetStore, "commit") for operation in ("poll", "commit", "lease", "settle", "seek")),
    *((operation, Log, "offsets") for operation in ("poll", "commit", "lease", "settle", "seek", "delete group", "views")),
]


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
                assert all(map(len, follower.read(follower.first_offset)))
                assert log.offsets(topic).greatest(partition) <= follower.end_offset


def open_broker(log: Log) -> Broker:
    broker = Broker(log)
    broker.topics.create(NewTopic(NAME, 2, Limits.WIDE))
    for _ in range(3):
        broker.messages.append(NAME, 2, BATCH)
    broker.offsets.commit(NAME, GROUP, {2: 1})
    return broker


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(("operation", "hooked", "function"), STEPS, ids=lambda each: getattr(each, "__name__", each))
def test_an_operation_reports_a_change_of_its_topic_when_the_change_comes_between_its_steps(
    operation: str, hooked: type, function: str, change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = open_broker(open_directory(str(tmp_path / "log")))
    call, (apply, raised), left = getattr(hooked, function), CHANGES[change], [change]

    def change_first(*given: Any) -> Any:
        if left and (hooked is not OsFiles or given[1].endswith((".deliveries", ".new"))):
            left.clear()
            apply(broker)
        return call(*given)

    monkeypatch.setattr(hooked, function, change_first)
    with suppress(*raised, errors.GroupNotFoundError):
        OPERATIONS[operation](broker)
    monkeypatch.undo()
    assert not left
    check_nothing_is_left(broker.backing.log)
    broker.close()


def run_beside_changes(log: Log, seed: int, rounds: int) -> None:
    """Run each operation in a thread beside two threads of changes; after each round, check what is left."""
    broker, chance, create = open_broker(log), random.Random(seed), NewTopic(NAME, 2, Limits.WIDE)
    changes: list[Callable[[], object]] = [lambda: broker.topics.create(create)]
    changes += [partial(apply, broker) for apply, _ in CHANGES.values()]
    loops: list[list[Callable[[], object]]] = [[partial(operation, broker)] for operation in OPERATIONS.values()]
    loops += [changes] * 2

    def repeat(calls: list[Callable[[], object]], until_s: float) -> None:
        while time.monotonic() < until_s:
            with suppress(errors.NotFoundError, errors.OffsetOutOfRangeError, *REFUSED):
                chance.choice(calls)()
            time.sleep(chance.random() / 50 * (calls is changes))

    for _ in range(rounds):
        broker.topics.create(create, if_not_exists=True)
        with ThreadPoolExecutor(len(loops)) as threads:
            for done in [threads.submit(repeat, calls, time.monotonic() + 0.5) for calls in loops]:
                done.result()
        check_nothing_is_left(log)
    broker.close()


@pytest.mark.parametrize("opens", [lambda path: open_directory(path), lambda path: open_memory()], ids=["disk", "memory"])
@pytest.mark.parametrize(("seed", "rounds"), [(0, 1), *(pytest.param(seed, 20, marks=pytest.mark.soak) for seed in (1, 2))])
def test_operations_raise_only_documented_errors_beside_changes_of_their_topic(
    opens: Callable[[str], Log], seed: int, rounds: int, tmp_path: Path
) -> None:
    run_beside_changes(opens(str(tmp_path / "log")), seed, rounds)


def test_an_old_writer_of_a_partition_writes_nothing_when_the_partition_was_recreated() -> None:
    broker = open_broker(log := open_memory())
    old = broker.backing.topic(NAME)
    writer = log.partition(old, 2)
    recreate(broker)
    for step in (lambda: writer.append(BATCH, 1, bytes(16)), lambda: log.partition(old, 2), lambda: log.partition(old, 3)):
        with pytest.raises(errors.PartitionNotFoundError):
            step()
    assert broker.messages.append(NAME, 2, BATCH).offset == 0
    with pytest.raises(errors.PartitionNotFoundError):
        log.partition(old, 2)
    broker.close()


def test_a_group_without_members_is_locked_while_its_deliveries_are_recorded() -> None:
    broker = open_broker(log := open_memory())
    record = broker.backing.topic(NAME)
    with broker.groups.locked(record, "workers"):
        assert registry_of(log).group(record, "workers").lock.locked()
    broker.close()
