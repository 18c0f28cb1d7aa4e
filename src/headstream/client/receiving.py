"""What a poll brought as messages, each one's payload checked against its checksum."""

from __future__ import annotations

from dataclasses import replace
from typing import TypedDict, Unpack

from headstream.client.transport import Transport
from headstream.codec.batch.payloads import find_wrong_payload
from headstream.codec.binary import decode_polled
from headstream.errors import ChecksumError
from headstream.model.identifiers import TopicName
from headstream.model.message import ReceivedMessage
from headstream.model.polling import Consumer, Polled, PollingStrategy

__all__ = ["PollOptions", "poll_checked"]


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
) -> tuple[Polled, list[ReceivedMessage]]:
    """Poll, each payload checked; where one is wrong, poll once more from it on.

    Args:
        transport: What is behind the client.
        topic: Where to poll.
        partition: From 1.
        strategy: Where to begin.
        count: The most messages.
        polled: What such a poll has brought already, or None.
        options: As the transport's poll() takes them.

    Returns:
        All messages, or those before one that is wrong again: the next poll begins with that one, and raises.

    Raises:
        ChecksumError: the payload of the first message is wrong again: it is so where it is stored.
        DecodeError: the bytes are not messages.
    """
    if polled is None:
        polled = transport.messages.poll(topic, partition, strategy, count, **options)
    whole, messages = _take_whole(polled, topic)
    if whole is polled:
        return polled, messages
    start = PollingStrategy.offset(whole.next_offset)
    again = transport.messages.poll(topic, partition, start, count - len(messages), **options)
    rest, others = _take_whole(again, topic)
    if others or rest is again:
        return replace(rest, count=len(messages) + len(others)), messages + others
    if not messages:
        raise _wrong(topic, partition, whole.next_offset)
    return whole, messages


def _take_whole(polled: Polled, topic: TopicName) -> tuple[Polled, list[ReceivedMessage]]:
    """Return the messages up to the first whose payload is wrong, and the poll as if it had ended there; or as it is.

    Raises:
        DecodeError: the bytes are not messages.
    """
    name, partition = str(topic), polled.partition
    messages: list[ReceivedMessage] = []
    for chunk in polled.chunks:
        wrong = find_wrong_payload(chunk)
        if wrong < 0:
            messages += decode_polled(chunk, topic=name, partition=partition)
            continue
        messages += decode_polled(chunk[:wrong], topic=name, partition=partition)
        offset = int.from_bytes(chunk[wrong : wrong + 8], "little")
        return replace(polled, next_offset=offset, count=len(messages)), messages
    return polled, messages


def _wrong(topic: TopicName, partition: int, offset: int) -> ChecksumError:
    return ChecksumError(
        f"the payload of the message at offset {offset} is not the one its checksum was made of",
        where=f"{topic}, partition {partition}",
        advice=f"seek({partition}, {offset + 1}) goes on behind it; `headstream verify` looks for damage on disk",
        partition=partition,
        from_offset=offset,
        until_offset=offset + 1,
    )
