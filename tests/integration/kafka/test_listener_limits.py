"""The server's listener for Kafka's clients at the limits of a user, by librdkafka."""

from __future__ import annotations

from dataclasses import replace

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Limits, NewTopic
from tests.support.server.kafka_listeners import kafka_listener
from tests.support.server.served import CHEAP


def test_a_commit_is_refused_as_a_policy_when_its_user_has_stored_offsets_for_as_many_groups_as_it_may() -> None:
    with kafka_listener(settings=replace(CHEAP, most_consumers=1)) as listener:
        listener.broker.topics.create(NewTopic(TopicName("shop", "orders"), 1, Limits.WIDE))
        producer = Producer(listener.confluent())
        producer.produce("shop.orders", b"a", partition=0)
        assert not producer.flush(30)
        first, second = (Consumer(listener.confluent(group_id=name)) for name in ("first", "second"))
        offsets = [TopicPartition("shop.orders", 0, 1)]
        first.commit(offsets=offsets, asynchronous=False)
        with pytest.raises(KafkaException) as refused:
            second.commit(offsets=offsets, asynchronous=False)
        assert refused.value.args[0].code() == KafkaError.POLICY_VIOLATION
        first.commit(offsets=offsets, asynchronous=False)
        first.close()
        second.close()
