"""Sending, polling and flushing, as existing clients ask for it.

    send    topic found -> permitted -> partition chosen -> appended
    poll    topic found -> permitted -> partition found -> where to begin -> stored bytes as they are

Existing clients see topics with the limits `iggy` alone: what a wide one may hold (empty payloads, null headers) has no
meaning to them, so both are refused there by name (5).
"""

from __future__ import annotations

from typing import Any, Final

from headstream.broker.commands.dispatch import Dispatcher, Handler
from headstream.broker.commands.offsets import check_any_partition, check_partition, find_read_place
from headstream.broker.commands.places import Place
from headstream.broker.sessions import Session
from headstream.codec.batch.stamp import stamp
from headstream.errors import HeadstreamError, LimitError
from headstream.log.catalog import TopicRecord
from headstream.model.partitioning import Partitioning, PartitioningKind
from headstream.model.polling import Polled, partition_of
from headstream.model.topology import MAX_BATCH_BYTES, Limits
from headstream.wire.commands.messages import FlushMessages, PolledMessages, PollMessages, SendMessages
from headstream.wire.records import Command
from headstream.wire.refusals import refusal
from headstream.wire.statuses import Status

__all__ = ["HANDLERS", "JSON_BYTES", "check_readable", "polled", "send_messages"]

_AT_DECODING: Final = {Status.INVALID_HEADER_KEY, Status.INVALID_HEADER_VALUE, Status.EMPTY_MESSAGE_PAYLOAD}
"""What existing clients are told as 3 over TCP, where it is found while a frame is decoded; HTTP tells it by its name."""

_NO_SEED: Final = bytes(16)
JSON_BYTES: Final = 8 << 20
"""About the most that one poll over HTTP brings: spelled in JSON it takes several times as much memory."""


def send_messages(server: Dispatcher, session: Session, command: SendMessages) -> None:
    """Append messages to the partition that is chosen for them."""
    try:
        try:
            place = server.places.topic(command.stream, command.topic)
            server.rights(session).send(place.stream.id, place.topic.id)
            check_readable(session, place.topic)
            partition = _choose(server, place, command.partitioning)
        except HeadstreamError:
            stamp(command.messages, 0, 0, _NO_SEED, session.is_extended)  # what messages cannot be is told before all this
            raise
        server.broker.messages.send(place.topic.name, partition, command.messages)
    except LimitError as error:
        if session.transport is not None and error.status in _AT_DECODING:
            error.status = Status.INVALID_COMMAND
        raise


def _choose(server: Dispatcher, place: Place, partitioning: Partitioning) -> int:
    topic = place.topic
    check_any_partition(place)
    if partitioning.kind is PartitioningKind.PARTITION_ID:
        return check_partition(place, int.from_bytes(partitioning.value, "little"))
    if partitioning.kind is PartitioningKind.BALANCED:
        return server.balance.next(topic)
    return partition_of(partitioning.value, topic.partitions)


def polled(server: Dispatcher, session: Session, command: PollMessages) -> Polled:
    """Return messages of a partition, as stored bytes; nothing of partition 0 to a member of a group that has none."""
    if not command.count:
        raise refusal(Status.INVALID_MESSAGES_COUNT, "a poll asks for 1 message or more")
    place = server.places.topic(command.stream, command.topic)
    server.rights(session).poll(place.stream.id, place.topic.id)
    check_readable(session, place.topic)
    consumer, partition = find_read_place(server, session, place, command.consumer, command.partition, is_poll=True)
    if not partition:
        return Polled(0, 0, 0, 0, ())
    found = server.broker.messages.poll(
        place.topic.name,
        partition,
        command.strategy,
        command.count,
        size_bytes=min(server.most_polled_bytes(session), JSON_BYTES if session.transport is None else MAX_BATCH_BYTES),
        consumer=consumer,
        auto_commit=command.auto_commit,
    )
    newest = server.broker.backing.log.written_end(place.topic, partition)  # who reads old messages looks for no new ones
    if newest <= found.end_offset:
        return found
    return Polled(found.partition, newest, found.next_offset, found.count, found.chunks, found.generation)


def poll_messages(server: Dispatcher, session: Session, command: PollMessages) -> PolledMessages:
    """Return messages of a partition, without waiting for any."""
    found = polled(server, session, command)
    return PolledMessages(found.partition, max(found.end_offset - 1, 0), found.count, b"".join(found.chunks))


def flush_messages(server: Dispatcher, session: Session, command: FlushMessages) -> None:
    """Have what a partition has taken on the disk; nothing of it is in this process alone, so only a sync is left to do."""
    place = server.places.topic(command.stream, command.topic)
    server.rights(session).send(place.stream.id, place.topic.id)
    partition = check_partition(place, command.partition)
    if command.fsync:
        server.broker.backing.log.partition(place.topic, partition).sync()


def check_readable(session: Session, topic: TopicRecord) -> None:
    """Refuse a wide topic to a client that cannot read all of what may be in it."""
    if topic.limits is Limits.WIDE and not session.is_extended:
        raise refusal(
            Status.FEATURE_UNAVAILABLE,
            f"topic {str(topic.name)!r} has the limits wide, which this client cannot read",
            advice="Use a Headstream client, or a topic with the limits iggy",
        )


HANDLERS: Final[dict[type[Command[Any]], Handler]] = {
    SendMessages: send_messages,
    PollMessages: poll_messages,
    FlushMessages: flush_messages,
}
