"""Retention keeps what a group has given up until its copy in the dead letter is confirmed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from headstream.broker.broker import Broker
from headstream.core.model.deliveries import DeliveryChange, DeliveryStep, SettleRequest
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import MessageState
from headstream.core.model.topology import Limits, NewTopic, TopicOptions
from headstream.errors import InvalidOptionError
from headstream.log.administration import update_topic
from headstream.log.opening import open_memory
from headstream.log.upkeep.retention import Retention
from tests.support.log.logs import batch

TOPIC, DEAD = TopicName("shop", "orders"), TopicName("shop", "dead")
LATE_US = 1 << 60
HOUR_US = 3600 * 1_000_000


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker(open_memory(None, 4096), clock_us=lambda: 1000)
    broker.topics.create(NewTopic(TOPIC, 2, Limits.IGGY))
    broker.topics.create(NewTopic(DEAD, 1, Limits.IGGY))
    for number in (1, 2):
        for _ in range(10):
            broker.messages.send(TOPIC, number, batch(b"x" * 1000))  # three fit a segment
    yield broker
    broker.close()


def first_offsets(broker: Broker) -> list[int]:
    return [partition.first_offset for partition in broker.topics.get(TOPIC).partitions]


def give_up(broker: Broker, dead_letter: TopicName | None) -> None:
    change = DeliveryChange(DeliveryStep.POISONED, 4, 5, 3, 0, "max_attempts", "no")
    broker.deliveries.settle_deliveries(TOPIC, "billing", 1, SettleRequest([change], 10, dead_letter=dead_letter))


def retention_of(broker: Broker, now_us: list[int], **options: Any) -> Retention:
    log, topic = broker.backing.log, broker.backing.topic(TOPIC)
    update_topic(log, topic, options=replace(topic.options, **options))  # without starting the background
    return Retention(log, lambda: now_us[0])


@pytest.mark.parametrize("limit", ["retention_us", "retention_bytes"])
def test_a_segment_stays_until_the_copy_of_its_poisoned_message_is_confirmed(
    broker: Broker, limit: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(InvalidOptionError, match="no dead-letter topic is set"):
        give_up(broker, None)
    now_us = [LATE_US]
    retention = retention_of(broker, now_us, **{limit: 1})
    with caplog.at_level(logging.WARNING):
        for now_us[0] in (LATE_US, LATE_US + 1, LATE_US + HOUR_US):
            retention.apply()
            assert first_offsets(broker) == [3, 9]
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == 2
    assert "keeps shop/orders, partition 1, from offset 3: in the group billing, message 4 failed permanently" in warnings[0]
    give_up(broker, DEAD)
    assert broker.topics.get(DEAD).messages_count == 1
    retention.apply()
    assert first_offsets(broker) == [9, 9]


def test_kept_segments_of_one_partition_do_not_affect_other_partitions(broker: Broker) -> None:
    with pytest.raises(InvalidOptionError):
        give_up(broker, None)
    retention = retention_of(broker, [LATE_US], retention_bytes=14 * 1045)
    retention.apply()
    assert first_offsets(broker) == [3, 0]


def test_a_group_that_is_sought_past_the_message_keeps_nothing(broker: Broker) -> None:
    with pytest.raises(InvalidOptionError):
        give_up(broker, None)
    broker.groups.seek(TOPIC, "billing", {1: 5})
    retention_of(broker, [LATE_US], retention_us=1).apply()
    assert first_offsets(broker) == [9, 9]


def test_a_message_that_is_marked_for_deletion_is_not_copied(broker: Broker) -> None:
    broker.messages.set_state(TOPIC, 1, [4], MessageState.MARKED_FOR_DELETION)
    give_up(broker, DEAD)
    assert broker.topics.get(DEAD).messages_count == 0


def test_options_default_to_a_week() -> None:
    assert TopicOptions().deletion_grace_us == 7 * 24 * HOUR_US
