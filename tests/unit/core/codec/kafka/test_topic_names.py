"""Unit tests of headstream.core.codec.kafka.topic_names."""

from __future__ import annotations

import pytest

from headstream.core.codec.kafka import KafkaTopicNames, from_kafka_topic, to_kafka_topic
from headstream.errors import InvalidInputError


@pytest.mark.parametrize(
    ("ours", "kafkas"),
    [
        ("shop/orders", "shop.orders"),
        ("shop/a.b", "shop.a.b"),
        ("plain", "plain"),
        ("__x", "__x"),
        ("/apps/cdc.v1/stream:shop.orders", "/apps/cdc.v1/stream:shop.orders"),  # HPE Data Fabric
    ],
)
def test_to_kafka_topic_is_undone_by_from_kafka_topic(ours: str, kafkas: str) -> None:
    assert to_kafka_topic(ours) == kafkas
    assert from_kafka_topic(kafkas) == ours


@pytest.mark.parametrize(
    "name", ["shop/ä", "", "..", "a b", "x" * 250, "a/b/c", "/apps/s", "/apps//s:t", "/a,b:t", "/apps:s:t", "/apps/s:ä"]
)
def test_to_kafka_topic_refuses_a_name_that_kafka_does_not_take(name: str) -> None:
    with pytest.raises(InvalidInputError, match=r"not a valid topic name in Kafka|name must have"):
        to_kafka_topic(name)


@pytest.mark.parametrize("name", [".", "..", "", "a b", "x" * 250])
def test_topic_name_refuses_a_name_that_kafka_does_not_take(name: str) -> None:
    with pytest.raises(InvalidInputError, match="not a valid topic name in Kafka"):
        KafkaTopicNames().topic_name(name)
