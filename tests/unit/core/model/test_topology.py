"""Unit tests of headstream.core.model.topology."""

from __future__ import annotations

from headstream.core.model.topology import Limits, Partition, Topic


def test_topics_count_what_their_partitions_have() -> None:
    topic = Topic("shop", "orders", 1, 0, Limits.IGGY, (Partition(1, 5, 9, 100), Partition(2, 0, 1, 7)))
    assert (topic.full_name, topic.messages_count, topic.size_bytes) == ("shop/orders", 5, 107)
