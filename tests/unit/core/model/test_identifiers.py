"""Names of streams and topics, ids of messages, places to poll from."""

from __future__ import annotations

import uuid

import pytest

from headstream.core.model.identifiers import TopicName, check_name, format_message_id, parse_message_id
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
    with pytest.raises(InvalidInputError, match="a group name must have 1 to 255 bytes, not 256"):
        check_name("ü" * 128, "group")
    with pytest.raises(InvalidInputError, match="a stream name must not contain a dot or a slash"):
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
