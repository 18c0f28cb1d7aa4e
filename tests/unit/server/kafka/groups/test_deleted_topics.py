"""Requests that go through all topics pass over those that are deleted meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headstream.broker.groups.groups import Groups
from headstream.broker.messages.offsets import BrokerOffsets
from headstream.core.codec.binary import encode_sent
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message
from headstream.core.model.polling import OffsetOwner
from headstream.core.model.topology import Limits, NewTopic
from headstream.log.partition.offsets import OffsetStore
from headstream.server.kafka.apis import APIS
from tests.support.server.kafka_listeners import KafkaListener, kafka_listener
from tests.support.server.kafka_socket import KafkaSocket

KEYS = {api.name: key for key, api in APIS.items()}


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaListener]:
    """A listener with a group that has offsets in two topics; the first one is deleted when a request reaches it."""
    with kafka_listener() as found:
        broker = found.broker
        for name in ("carts", "orders"):
            broker.topics.create(NewTopic(TopicName("shop", name), 1, Limits.WIDE))
            broker.messages.append(TopicName("shop", name), 1, encode_sent([Message(payload=b"a")]))
            broker.offsets.commit(TopicName("shop", name), OffsetOwner.group("billing"), {1: 1})
        for owner, name in ((BrokerOffsets, "committed"), (Groups, "delete"), (OffsetStore, "commit")):
            call = getattr(owner, name)

            def delete_before(self: Any, topic: Any, *given: Any, call: Any = call) -> Any:
                is_due = isinstance(self, OffsetStore) or topic.topic == "carts"
                if is_due and broker.topics.find("shop", "carts") is not None:
                    broker.topics.delete(TopicName("shop", "carts"))
                return call(self, topic, *given)

            monkeypatch.setattr(owner, name, delete_before)
        yield found


def test_all_offsets_of_a_group_are_those_of_the_other_topics_when_one_is_deleted(listener: KafkaListener) -> None:
    with KafkaSocket(listener) as kafka:
        groups = [{"group_id": "billing", "topics": None}]
        (found,) = kafka.ask(KEYS["offset_fetch"], 8, groups=groups, require_stable=False)["groups"]
    assert (found["error_code"], [each["name"] for each in found["topics"]]) == (0, ["shop.orders"])


def test_a_commit_is_told_that_its_topic_is_unknown_when_the_topic_is_deleted_during_the_commit(listener: KafkaListener) -> None:
    partitions = [{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]
    with KafkaSocket(listener) as kafka:
        wanted = {"group_id": "other", "topics": [{"name": "shop.carts", "partitions": partitions}]}
        (topic,) = kafka.ask(KEYS["offset_commit"], 2, member_id="", **wanted)["topics"]
    assert topic["partitions"][0]["error_code"] == 3


def test_a_group_is_deleted_in_the_other_topics_when_one_is_deleted(listener: KafkaListener) -> None:
    with KafkaSocket(listener) as kafka:
        (result,) = kafka.ask(KEYS["delete_groups"], 1, groups_names=["billing"])["results"]
    assert result["error_code"] == 0
    assert listener.broker.groups.list(TopicName("shop", "orders")) == []
