"""Unit tests of headstream.client.consumer.consumer: the loops are the same for every reading."""

from __future__ import annotations

from typing import Any

import pytest

import headstream as hs
from headstream.interceptors import Interceptor

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "retrying": {"on_error": hs.Retry(attempts=None)},
    "shared": {"mode": "shared"},
}


class Choosing(Interceptor):
    """Puts every message but the last one into a dead-letter topic."""

    on_error, dead_letter = "dead_letter", "shop/aside"

    def on_receive(self, message: Any) -> Any:
        if message.payload != b"last":
            raise ValueError("not wanted")
        return message


@pytest.mark.parametrize("mode", OPTIONS)
def test_poll_goes_on_when_interceptors_set_all_messages_of_a_fetch_aside(mode: str) -> None:
    with hs.connect("memory://", interceptors=[Choosing()]) as log:
        log.create_topic("shop/orders", partitions=2)
        for partition, payload in ((1, b"a"), (1, b"b"), (2, b"last")):
            log.send("shop/orders", payload, partition=partition)
        with log.consumer("shop/orders", group="g", **OPTIONS[mode]) as consumer:
            assert [message.payload for message in consumer.poll(1, timeout_ms=10_000)] == [b"last"]


def test_loop_of_a_worker_goes_on_when_the_partition_of_its_message_was_purged() -> None:
    with hs.connect("memory://") as log:
        log.create_topic("shop/orders")
        for payload in (b"a", b"b", b"c"):
            log.send("shop/orders", payload)
        with log.consumer("shop/orders", group="g", mode="shared", timeout_ms=0) as consumer:
            polled = consumer.poll(2)
            next(consumer)
            log.purge_topic("shop/orders")
            with pytest.raises(hs.HeadstreamError):
                consumer.ack(polled[0])
            log.send("shop/orders", b"new")
            assert [message.payload for message in consumer] == [b"new"]


@pytest.mark.parametrize("partitions", [None, [1, 2]])
def test_a_consumer_without_a_group_reads_and_commits_the_other_partitions_when_one_is_deleted(
    partitions: list[int] | None,
) -> None:
    with hs.connect("memory://") as log:
        log.create_topic("shop/orders", partitions=2)
        for partition in (1, 2):
            log.send("shop/orders", b"old", partition=partition)
        with log.consumer("shop/orders", name="me", partitions=partitions) as consumer:
            assert len(consumer.poll() + consumer.poll()) == 2
            log.delete_partitions("shop/orders")
            for _ in range(2):
                log.send("shop/orders", b"new", partition=1)
            if partitions is None:
                assert [message.offset for message in [*consumer.poll(), *consumer.poll()]] == [1, 2]
                consumer.commit()
                assert log.offsets("shop/orders", name="me") == {1: 3}
            else:  # it was named
                with pytest.raises(hs.PartitionNotFoundError, match="no partition 2"):
                    consumer.poll(), consumer.poll()
