"""Waits of threads for a Kafka cluster."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future

import pytest

from headstream.client import worker
from headstream.client.transports.kafka.address import parse_kafka_address
from headstream.client.transports.kafka.cluster import Cluster
from headstream.core.model.urls import split_url
from headstream.errors import ServerUnreachableError


def test_an_interrupt_ends_the_cancelled_call_and_no_later_call_of_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_CANCEL_TIMEOUT_S", 0.001)
    cluster = Cluster(parse_kafka_address(split_url("kafka://localhost:1"), {}, {}))
    ended: list[str] = []

    def wait(until_interrupted: bool) -> None:
        time.sleep(0.05)
        if until_interrupted:
            with pytest.raises(ServerUnreachableError):
                cluster.check_interrupt()
        ended.append("interrupted" if until_interrupted else "unnoticed")

    async def main() -> None:
        calls = worker.Worker("call", cluster.interrupt)
        for until_interrupted in (True, False):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(calls.run(wait, until_interrupted), 0.01)
            await calls.run(cluster.check_interrupt)
        calls.close()

    asyncio.run(main())
    assert ended == ["interrupted", "unnoticed"]


class _LateFuture(Future[int]):
    """A future that ends between the end of a wait and the question whether it has ended."""

    def done(self) -> bool:
        if not super().done():
            self.set_result(7)
        return super().done()


def test_a_response_that_arrives_as_a_wait_ends_is_returned() -> None:
    cluster, future = Cluster(parse_kafka_address(split_url("kafka://localhost:1"), {}, {})), _LateFuture()
    threading.Timer(0.5, future.done).start()
    assert cluster.result(future) == 7
