"""What a poll brought as messages, each one's payload checked against its checksum."""

from __future__ import annotations

from dataclasses import replace
from typing import TypedDict, Unpack

from headstream.client.transport import Transport
from headstream.codec.batch.payloads import find_wrong_payload
from headstream.codec.binary import decode_polled
from headstream.errors import ChecksumError
from headstream.model.identifiers import TopicName
from headstream.model.message import Message
from headstream.model.polling import Consumer, Polled, PollingStrategy

__all__ = ["PollOptions", "poll_checked", "receive"]


class PollOptions(TypedDict, total=False):
    """What a transport's poll() takes by name."""

    states: frozenset[int] | None
    size_bytes: int
    consumer: Consumer | None
    auto_commit: bool


def poll_checked(
    transport: Transport,
    topic: TopicName,
    partition: int,
    strategy: PollingStrategy,
    count: int,
    *,
    polled: Polled | None = None,
    **options: Unpack[PollOptions],
) -> tuple[Polled, list[Message]]:
    """Poll, and return the messages as receive() does; where the first is wrong, poll once more before it is an error.

    Args:
        transport: What is behind the client.
        topic: Where to poll.
        partition: From 1.
        strategy: Where to begin.
        count: The most messages.
        polled: What such a poll has brought already, or None.
        options: As the transport's poll() takes them.

    Raises:
        ChecksumError: the payload of the first message is wrong again: it is so where it is stored.
    """
    if polled is None:
        polled = transport.messages.poll(topic, partition, strategy, count, **options)
    try:
        return receive(polled, topic)
    except ChecksumError as error:
        start = PollingStrategy.offset(error.from_offset)
        return receive(transport.messages.poll(topic, partition, start, count, **options), topic)


def receive(polled: Polled, topic: TopicName) -> tuple[Polled, list[Message]]:
    """Return the messages that a poll brought, and the poll as if it had ended with the last of them.

    Args:
        polled: The poll's result.
        topic: Where they are from.

    Returns:
        All messages up to the first whose payload is wrong: the next poll begins with that one, and raises.

    Raises:
        ChecksumError: the payload of the first message is not the one that its checksum was made of.
        DecodeError: the bytes are not messages.
    """
    name, partition = str(topic), polled.partition
    messages: list[Message] = []
    for chunk in polled.chunks:
        wrong = find_wrong_payload(chunk)
        if wrong < 0:
            messages += decode_polled(chunk, topic=name, partition=partition)
            continue
        messages += decode_polled(chunk[:wrong], topic=name, partition=partition)
        offset = int.from_bytes(chunk[wrong : wrong + 8], "little")
        if not messages:
            raise ChecksumError(
                f"the payload of the message at offset {offset} is not the one its checksum was made of",
                where=f"{name}, partition {partition}",
                advice=f"seek({partition}, {offset + 1}) goes on behind it; `headstream verify` looks for damage on disk",
                partition=partition,
                from_offset=offset,
                until_offset=offset + 1,
            )
        return replace(polled, next_offset=offset, count=len(messages)), messages
    return polled, messages
