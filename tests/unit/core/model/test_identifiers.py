"""Names of streams and topics, ids of messages, places to poll from."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from headstream.core.model.identifiers import TopicName, check_name, format_message_id, parse_message_id
from headstream.core.model.partitioning import partition_of
from headstream.core.model.polling import ConsumerKind, OffsetOwner, PollingKind, PollingStrategy
from headstream.core.model.topology import Limits, Partition, Topic
from headstream.errors import InvalidInputError


def test_topic_names_are_stream_and_topic() -> None:
    name = TopicName.parse("shop/orders")
    assert (name.stream, name.topic, str(name)) == ("shop", "orders", "shop/orders")
    assert TopicName.parse("shop/a/b.c") == TopicName("shop", "a/b.c")
    assert sorted([TopicName("b", "a"), TopicName("a", "z")])[0].stream == "a"


@pytest.mark.parametrize("text", ["orders", "", "/orders", "shop/", "a.b/c", "a/" + "x" * 256, "a/\ud800", "a\0/b"])
def test_other_topic_names_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        TopicName.parse(text)


def test_names_have_1_to_255_bytes() -> None:
    assert check_name("ü" * 127, "group") == "ü" * 127
    with pytest.raises(InvalidInputError, match="a group name has 1 to 255 bytes, this one has 256"):
        check_name("ü" * 128, "group")
    with pytest.raises(InvalidInputError, match="a stream name has no dot and no slash"):
        check_name("a.b", "stream")


def test_message_ids_are_shown_as_the_uuid_whose_bytes_they_are() -> None:
    text = "0192a3b4-c5d6-7e8f-9a0b-1c2d3e4f5061"
    number = int.from_bytes(uuid.UUID(text).bytes, "little")
    assert format_message_id(number) == text
    assert parse_message_id(text) == number
    assert parse_message_id("77") == 77
    assert parse_message_id(str((1 << 128) - 1)) == (1 << 128) - 1
    assert format_message_id(0) == "00000000-0000-0000-0000-000000000000"


@pytest.mark.parametrize("text", ["", "x", str(1 << 128), "-1"])
def test_other_message_ids_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError, match="is not a message id"):
        parse_message_id(text)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [(5, (PollingKind.OFFSET, 5)), ("5", (PollingKind.OFFSET, 5)), (" First ", (PollingKind.FIRST, 0)),
     ("last", (PollingKind.LAST, 0)), ("next", (PollingKind.NEXT, 0))],
)  # fmt: skip
def test_places_to_poll_from_are_numbers_or_names(spec: Any, expected: tuple[PollingKind, int]) -> None:
    strategy = PollingStrategy.parse(spec)
    assert (strategy.kind, strategy.value) == expected


@pytest.mark.parametrize("spec", ["", "middle", "-5", "1.5", -1, 1 << 64])
def test_other_places_to_poll_from_are_refused(spec: Any) -> None:
    with pytest.raises(InvalidInputError):
        PollingStrategy.parse(spec)


def test_consumers_are_groups_or_single_ones() -> None:
    assert OffsetOwner.group("g") == OffsetOwner(ConsumerKind.GROUP, "g") != OffsetOwner.named("g")
    assert str(OffsetOwner.group("g")) == "group 'g'"
    with pytest.raises(InvalidInputError, match="a group name has 1 to 255 bytes"):
        OffsetOwner.group("")


@pytest.mark.parametrize(
    ("key", "partition"),
    [
        ((1).to_bytes(4, "little"), 2),
        ((2).to_bytes(4, "little"), 3),
        ((3).to_bytes(4, "little"), 2),
        (b"key-1", 1),
        (b"my-consumer", 1),
    ],
)
def test_partition_of_a_key_is_that_of_iggy(key: bytes, partition: int) -> None:
    assert partition_of(key, 3) == partition
    assert partition_of(key, 1) == 1


def test_partition_of_is_always_one_that_is_there() -> None:
    for partitions in (1, 2, 7, 1000):
        assert {partition_of(b"%d" % number, partitions) for number in range(20 * partitions)} <= set(range(1, partitions + 1))


def test_topics_count_what_their_partitions_have() -> None:
    topic = Topic("shop", "orders", 1, 0, Limits.IGGY, (Partition(1, 5, 9, 100), Partition(2, 0, 1, 7)))
    assert (topic.full_name, topic.messages_count, topic.size_bytes) == ("shop/orders", 5, 107)
