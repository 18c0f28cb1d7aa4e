"""Workers of a topic that gets more partitions, or fewer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import headstream as hs
from headstream.broker.broker import Broker
from headstream.client.consumer.shared import leasing
from headstream.log.upkeep.prefix_removal import remove_before

TOPIC = "shop/jobs"
PATIENCE_MS = 60_000


@pytest.fixture
def url() -> Iterator[str]:
    url = "memory://workers-and-partitions"
    with hs.connect(url) as log:
        log.create_topic(TOPIC, partitions=2)
        yield url


def worker_of(log: hs.Client, **options: Any) -> hs.Consumer:
    given: dict[str, Any] = {"group": "workers", "mode": "shared", "timeout_ms": 0}
    consumer: hs.Consumer = log.consumer(TOPIC, **(given | options))
    return consumer


def send(url: str, *partitions: int) -> None:
    with hs.connect(url) as log:
        for partition in partitions:
            log.send(TOPIC, b"%d" % partition, partition=partition)


def all_of(worker: hs.Consumer) -> list[bytes]:
    return sorted(message.payload or b"" for message in worker)


@pytest.mark.parametrize("start", ["first", "last"])
def test_workers_lease_from_partitions_that_are_added(url: str, start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leasing, "_CHECK_EVERY_S", 0.0)
    with hs.connect(url) as log, worker_of(log, start=start) as worker:
        assert worker.poll(1) == []
        log.create_partitions(TOPIC, 2)
        send(url, 1, 3, 4)
        assert all_of(worker) == [b"1", b"3", b"4"]
    with hs.connect(url) as log:
        assert log.offsets(TOPIC, "workers") == {1: 1, 2: 0, 3: 1, 4: 1}


def test_a_waiting_worker_gets_what_is_sent_to_a_partition_that_is_added(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leasing, "_CHECK_EVERY_S", 0.05)
    found: list[hs.ReceivedMessage] = []
    is_waiting = threading.Event()

    def work() -> None:
        with hs.connect(url) as log, worker_of(log) as worker:
            worker.poll(1)
            is_waiting.set()
            found.extend(worker.poll(1, timeout_ms=PATIENCE_MS))
            worker.commit()

    thread = threading.Thread(target=work)
    thread.start()
    assert is_waiting.wait(PATIENCE_MS / 1000)
    with hs.connect(url) as log:
        log.create_partitions(TOPIC)
        send(url, 3)
        thread.join(PATIENCE_MS / 1000)
    assert [message.payload for message in found] == [b"3"]


def test_workers_go_on_when_partitions_are_deleted(url: str) -> None:
    with hs.connect(url) as log, worker_of(log) as worker:
        assert worker.poll(1) == []
        log.delete_partitions(TOPIC)
        send(url, 1)
        assert all_of(worker) == [b"1"]


def test_a_worker_of_named_partitions_takes_no_others(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leasing, "_CHECK_EVERY_S", 0.0)
    with hs.connect(url) as log, worker_of(log, partitions=[2]) as worker:
        log.create_partitions(TOPIC)
        send(url, 1, 2, 3)
        assert all_of(worker) == [b"2"]
        log.delete_partitions(TOPIC, 2)
        with pytest.raises(hs.PartitionNotFoundError):
            worker.poll(1)


def test_a_message_that_was_deferred_in_an_added_partition_is_fetched_by_another_worker(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with hs.connect(url) as log, worker_of(log) as early:
        assert early.poll(1) == []
        log.create_partitions(TOPIC)
        send(url, 3)
        with worker_of(log) as late:
            late.defer(late.poll(1)[0])
        assert early.fetch_deferred(3, 0).payload == b"3"


def test_a_message_that_is_deleted_while_it_is_leased_is_done(url: str) -> None:
    with hs.connect(url) as log, worker_of(log) as worker:
        send(url, 1, 1)
        [message] = worker.poll(1)
        assert isinstance(log.transport, Broker)
        written = log.transport.backing.writable_log()
        remove_before(written, written.snapshot()["shop"].topics["jobs"], 1, 1)
        assert [each.offset for each in log.poll(TOPIC, 1)] == [1]
        [later] = worker.poll(1)
        with pytest.raises(hs.LeaseLostError, match="the lease was revoked; the message is done"):
            worker.ack(message)
        worker.ack(later)
        assert log.offsets(TOPIC, "workers")[1] == 2


def test_the_messages_of_a_partition_that_was_deleted_while_they_were_leased_leave_the_others_to_the_next_commit(
    url: str,
) -> None:
    send(url, 2, 1)
    with hs.connect(url) as log, worker_of(log) as worker:
        messages = [*worker.poll(1), *worker.poll(1), *worker.poll(1)]
        assert sorted(message.partition for message in messages) == [1, 2]
        log.delete_partitions(TOPIC)
        with pytest.raises(hs.LeaseLostError, match="with the leased messages was deleted"):
            worker.commit()
        worker.commit()
        assert log.offsets(TOPIC, "workers") == {1: 1}
