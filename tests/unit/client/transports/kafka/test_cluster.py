"""Waits of threads for a Kafka cluster."""

from __future__ import annotations

import asyncio
import time

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
