"""Decodes poll results into messages, and verifies each payload's checksum."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from headstream.client.transports.transport import Transport
from headstream.core.codec.batch.to_columns.payloads import find_damaged_payload
from headstream.core.codec.binary import decode_polled
from headstream.core.filters.poll_request import AVAILABLE_ONLY, PollRequest
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import ReceivedMessage
from headstream.core.model.polling import ConsumerKind, Polled, PolledMessages, PollingKind
from headstream.core.model.topology import MAX_BATCH_BYTES
from headstream.errors import ChecksumError, CorruptSendError, HeaderError

_log: Final = logging.getLogger("headstream.client")
_warned: Final[set[tuple[str, str]]] = set()
_MAX_WARNED: Final = 1000
"""Maximum number of warnings about topics and filters per process."""


def poll_checked(
    transport: Transport, topic: TopicName, partition: int, request: PollRequest, *, polled: Polled | None = None
) -> tuple[Polled, list[ReceivedMessage]]:
    """Poll and verify each payload's checksum; after a mismatch, poll again from the mismatching message.

    Returns:
        All messages, or the messages before a repeated mismatch; the next poll starts at the mismatch and raises an error.

    Raises:
        ChecksumError: the first message's payload mismatches again, so the stored message is damaged.
        DecodeError: the bytes are not messages.
    """
    if polled is None:
        polled = transport.messages.poll(topic, partition, request)
    where = request.where
    if polled.failed_count and where is not None:
        _warn_of_failures(topic, where.text, where.on_error.value)
    whole, messages = _take_whole(polled, topic)
    if whole is polled:
        return polled, messages
    again = transport.messages.poll(topic, partition, request.from_offset(whole.next_offset, request.count - len(messages)))
    rest, others = _take_whole(again, topic)
    if others or rest is again:
        return replace(rest, count=len(messages) + len(others)), messages + others
    if not messages:
        raise _wrong(topic, partition, whole.next_offset)
    return whole, messages


def poll_topic(transport: Transport, topic: TopicName, partition: int | None, request: PollRequest) -> list[ReceivedMessage]:
    """Poll one partition or all partitions with poll_existing().

    Args:
        partition: From 1; None polls all partitions until there are enough messages; `last` returns the newest of all messages.
    """
    if partition is not None:
        return poll_existing(transport, topic, partition, request)
    newest, count = request.start.kind is PollingKind.LAST, request.count
    found: list[ReceivedMessage] = []
    for each in transport.topics.get(topic).partitions:
        found += poll_existing(transport, topic, each.number, request if newest else request._replace(count=count - len(found)))
        if len(found) >= count and not newest:
            break
    if newest:
        found = sorted(found, key=lambda message: message.timestamp)[-count:]
        found.sort(key=lambda message: (message.partition, message.offset))
    return found


def poll_existing(transport: Transport, topic: TopicName, partition: int, request: PollRequest) -> list[ReceivedMessage]:
    """Poll with poll_checked(); with a filter, or for states of a group, repeat until there are enough messages or all stored
    messages are examined. An error after the first found message ends the result and is not raised.
    """
    polled, messages = poll_checked(transport, topic, partition, request)
    group = request.consumer
    is_of_group = group is not None and group.kind is ConsumerKind.GROUP and request.states != AVAILABLE_ONLY
    if request.where is None and not is_of_group:
        return messages
    end, size = polled.end_offset, sum(map(len, polled.chunks))
    try:
        reached = -1
        while reached < polled.next_offset < end and len(messages) < request.count and size < MAX_BATCH_BYTES:
            reached = polled.next_offset
            following = request.from_offset(reached, request.count - len(messages))
            polled, others = poll_checked(transport, topic, partition, following)
            messages += others
            size += sum(map(len, polled.chunks))
    except (CorruptSendError, HeaderError):
        if not messages:
            raise
    return messages


def _take_whole(polled: Polled, topic: TopicName) -> tuple[Polled, list[ReceivedMessage]]:
    """Return the messages before the first payload mismatch, and the poll result up to the mismatch; DecodeError if invalid."""
    if isinstance(polled, PolledMessages):
        return polled, list(polled.messages)
    name, partition = str(topic), polled.partition
    messages: list[ReceivedMessage] = []
    for chunk in polled.chunks:
        wrong = find_damaged_payload(chunk)
        if wrong < 0:
            messages += decode_polled(chunk, topic=name, partition=partition)
            continue
        messages += decode_polled(chunk[:wrong], topic=name, partition=partition)
        offset = int.from_bytes(chunk[wrong : wrong + 8], "little")
        return replace(polled, next_offset=offset, count=len(messages)), messages
    return polled, messages


def _warn_of_failures(topic: TopicName, where: str, on_error: str) -> None:
    """Log, once per topic and filter, a warning that the filter cannot be applied to some messages."""
    if (str(topic), where) in _warned or len(_warned) >= _MAX_WARNED:
        return
    _warned.add((str(topic), where))
    done = "delivered" if on_error == "deliver" else "skipped"
    _log.warning("%s: some messages are %s because this filter cannot be applied to them: %s", topic, done, where)


def _wrong(topic: TopicName, partition: int, offset: int) -> ChecksumError:
    return ChecksumError(
        f"the payload of the message at offset {offset} does not match its checksum",
        where=f"{topic}, partition {partition}",
        advice=f"seek({partition}, {offset + 1}) continues after the message; `headstream verify` checks for damage on disk",
        partition=partition,
        from_offset=offset,
        until_offset=offset + 1,
    )
