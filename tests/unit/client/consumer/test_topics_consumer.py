"""TopicsConsumer: patterns go on while topics come and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import headstream as hs
from headstream.client.consumer import topics_consumer
from headstream.log.log import Log


@pytest.mark.parametrize("name", ["shop/carts", "bank/carts"], ids=["matching", "unrelated"])
def test_a_running_pattern_consumer_and_listings_go_on_when_a_topic_is_deleted_between_its_listing_and_its_reading(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics_consumer, "_CHECK_EVERY_S", 0.0)
    reading = Log.reading
    deleted: list[str] = []

    def delete_before(self: Log, record: Any, number: int) -> Any:
        if record.name.topic == "carts" and name in armed:
            armed.clear()
            log.delete_topic(name)
            deleted.append(name)
        return reading(self, record, number)

    armed: set[str] = set()
    monkeypatch.setattr(Log, "reading", delete_before)
    with hs.connect("memory://") as log:
        log.create_topic("shop/orders")
        with log.consumer(["shop/*"], group="billing", timeout_ms=0) as consumer:
            steps: list[Callable[[], object]] = [consumer.poll, lambda: list(consumer), log.topics, log.streams]
            for number, step in enumerate(steps):
                log.create_topic(name)
                log.send("shop/orders", b"%d" % number)
                armed.add(name)
                step()
                consumer.commit()
                armed.clear()
                if name not in deleted[number:]:
                    log.delete_topic(name)
                    deleted.append("")
            assert deleted[:3] == [name] * 3
            assert log.offsets("shop/orders", "billing") == {1: 2}
            assert [message.payload for message in consumer.poll()] == [b"2", b"3"]
