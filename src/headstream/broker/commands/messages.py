"""Messages: Iggy's commands (send, poll, flush) and Headstream's commands (fetch, append, wait, states).

    send    topic found -> permitted -> partition chosen -> appended
    poll    topic found -> permitted -> partition found -> start offset -> stored bytes, unchanged

Iggy clients can only use topics with the limits `iggy`, because they cannot read all messages of `wide` topics (empty payloads,
null headers). Sends and polls of `wide` topics by these clients are refused (5).

A wait blocks no thread: begin_wait() registers a callback, and the command's handler then replies with the current messages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from headstream.broker.accounts.sessions import Session
from headstream.broker.commands.dispatch import CommandRow, Dispatcher
from headstream.broker.commands.offsets import check_any_partition, check_partition, find_consumer_partition, is_of_another
from headstream.broker.commands.topic_lookup import FoundTopic, consumer_of
from headstream.broker.messages.waits import Wait
from headstream.core.codec.batch.stored.stamp import check_sent
from headstream.core.filters.filter import Filter, parse_filter
from headstream.core.filters.poll_request import PollRequest
from headstream.core.model.identifiers import TopicName
from headstream.core.model.partitioning import PartitioningKind, partition_of
from headstream.core.model.polling import Polled, PollingStrategy
from headstream.core.model.topology import MAX_BATCH_BYTES, Limits
from headstream.core.wire.commands.messages import AppendedBatch, FlushMessages, PolledMessages, PollMessages, SendMessages
from headstream.core.wire.extensions.filters import CountedSegments, CountSegments, FilteredMessages, FilterMessages
from headstream.core.wire.extensions.messages import (
    PAGE_STATES,
    AppendMessages,
    FetchedMessages,
    FetchMessages,
    FirstOffset,
    ListStates,
    MeasuredRange,
    MeasureRange,
    RemovedMessages,
    RemoveMarked,
    SetState,
    StateChange,
    WaitMessages,
    WaitResult,
)
from headstream.core.wire.records import Command
from headstream.core.wire.refusals import refusal
from headstream.core.wire.statuses import Status
from headstream.errors import HeadstreamError, NotFoundError
from headstream.log.catalog.records import TopicRecord

JSON_BYTES: Final = 8 << 20
"""Approximate maximum size of one poll over HTTP, bytes; the JSON takes several times this memory."""


def send_messages(server: Dispatcher, session: Session, command: SendMessages) -> AppendedBatch:
    """Append messages to the partition that the command determines."""
    try:
        target = server.lookup.topic(command.stream, command.topic)
        server.rights(session).send(target.stream.id, target.topic.id)
        check_readable(session, target.topic)
        partition = _choose(server, target, command)
    except HeadstreamError:
        check_sent(command.messages, session.is_extended)  # malformed messages are rejected first
        raise
    offset = server.broker.messages.send(target.topic.name, partition, command.messages)
    return AppendedBatch(target.stream.id, target.topic.id, partition, offset)


def _choose(server: Dispatcher, target: FoundTopic, command: SendMessages) -> int:
    topic, partitioning = target.topic, command.partitioning
    check_any_partition(target)
    if partitioning.kind is PartitioningKind.PARTITION_ID:
        return check_partition(target, int.from_bytes(partitioning.value, "little"))
    if partitioning.kind is PartitioningKind.BALANCED:
        return server.balance.next(topic)
    return partition_of(partitioning.value, topic.partitions, is_from_zero=command.is_from_zero)


def polled(server: Dispatcher, session: Session, command: PollMessages) -> Polled:
    """Return stored messages of a partition; for a group member without partitions, an empty result for partition 0."""
    if not command.count:
        raise refusal(Status.INVALID_MESSAGES_COUNT, "a poll must request at least one message")
    target = server.lookup.topic(command.stream, command.topic)
    server.rights(session).poll(target.stream.id, target.topic.id)
    check_readable(session, target.topic)
    consumer, partition = find_consumer_partition(server, session, target, command.consumer, command.partition, is_poll=True)
    if not partition or (command.must_own and is_of_another(server, session, target, command.consumer, partition)):
        return Polled(0, 0, 0, 0, ())
    request = PollRequest(
        command.strategy,
        command.count,
        size_bytes=min(server.most_polled_bytes(session), JSON_BYTES if session.transport is None else MAX_BATCH_BYTES),
        consumer=consumer,
        auto_commit=command.auto_commit,
    )
    found = server.broker.messages.poll(target.topic.name, partition, request, user_id=session.user_id)
    # A poll of old messages does not read the newest offset.
    newest = server.broker.backing.log.written_end(target.topic, partition)
    if newest <= found.end_offset:
        return found
    return Polled(found.partition, newest, found.next_offset, found.count, found.chunks, found.generation)


def poll_messages(server: Dispatcher, session: Session, command: PollMessages) -> PolledMessages:
    """Return messages of a partition without waiting."""
    found = polled(server, session, command)
    return PolledMessages(found.partition, max(found.end_offset - 1, 0), found.count, b"".join(found.chunks))


def flush_messages(server: Dispatcher, session: Session, command: FlushMessages) -> None:
    """Sync a partition to disk; appended messages are already in the operating system's cache."""
    target = server.lookup.topic(command.stream, command.topic)
    server.rights(session).send(target.stream.id, target.topic.id)
    partition = check_partition(target, command.partition)
    if command.fsync:
        server.broker.backing.log.partition(target.topic, partition).sync()


def check_readable(session: Session, topic: TopicRecord) -> None:
    """Raise an error if the topic has the limits `wide` and the client cannot read all messages of such a topic."""
    if topic.limits is Limits.WIDE and not session.is_extended:
        raise refusal(
            Status.FEATURE_UNAVAILABLE,
            f"the topic {str(topic.name)!r} has wide limits, so this client cannot read its messages",
            advice="Use a Headstream client, or a topic with iggy limits",
        )


_AVAILABLE: Final = frozenset({1})
_ALL: Final = frozenset(range(1, 256))


def _writable(server: Dispatcher, session: Session, command: AppendMessages) -> TopicName:
    target = server.lookup.topic(command.stream, command.topic)
    server.rights(session).send(target.stream.id, target.topic.id)
    check_partition(target, command.partition)
    return target.topic.name


def searches_states(command: PollMessages | FetchMessages) -> bool:
    """Return whether a command requests only unavailable states, so that the state rows must be searched."""
    states = frozenset(getattr(command, "states", ()))
    return bool(states - _AVAILABLE) and not states >= _ALL


def fetched(server: Dispatcher, session: Session, command: FetchMessages | FilterMessages, where: Filter | None = None) -> Polled:
    """Return a partition's stored messages that are in the requested states and match a filter, without waiting."""
    target = server.readable_topic(session, command.stream, command.topic)
    named = command.consumer
    states = frozenset(command.states) or _AVAILABLE
    partition = check_partition(target, command.partition)
    request = PollRequest(
        PollingStrategy(command.kind, command.value),
        command.count,
        None if states >= _ALL else states,
        min(command.size_bytes or MAX_BATCH_BYTES, server.most_polled_bytes(session)),
        None if named is None else consumer_of(target.topic, named, must_exist=False),
        command.auto_commit,
        where,
        command.until_offset if isinstance(command, FilterMessages) else 0,
    )
    return server.broker.messages.poll(target.topic.name, partition, request, user_id=session.user_id)


def filtered(server: Dispatcher, session: Session, command: FilterMessages) -> Polled:
    """Return a partition's stored messages that match the command's filter, without waiting."""
    return fetched(server, session, command, parse_filter(command.where, command.on_filter_error.name.lower()))


def filter_messages(server: Dispatcher, session: Session, command: FilterMessages) -> FilteredMessages:
    """Return messages of a partition that match a filter."""
    found = filtered(server, session, command)
    return FilteredMessages.of(found, messages=b"".join(found.chunks))


def fetch_messages(server: Dispatcher, session: Session, command: FetchMessages) -> FetchedMessages:
    """Return messages of a partition in the requested states."""
    found = fetched(server, session, command)
    return FetchedMessages.of(found, messages=b"".join(found.chunks))


def wait_messages(server: Dispatcher, session: Session, command: WaitMessages) -> WaitResult:
    """Return whether messages for a waiting client are available."""
    wait = begin_wait(server, session, command, lambda: None)
    try:
        return WaitResult(wait.is_ready)
    finally:
        wait.cancel()


def begin_wait(
    server: Dispatcher, session: Session, command: WaitMessages | FetchMessages | PollMessages, on_ready: Callable[[], None]
) -> Wait:
    """Start a command's wait; the caller must check is_ready immediately, and again at every callback.

    Args:
        command: A validated command. After a timeout, or when messages are available, the command is handled like other commands.
        on_ready: Called when messages may be available, on any thread, which is blocked during the call.

    Raises:
        HeadstreamError: the command cannot wait.
    """
    server.admit(session, command.entry())
    try:
        target = server.readable_topic(session, command.stream, command.topic)
    except NotFoundError as error:
        raise server.disclosed(session, command, error) from None
    messages, name = server.broker.messages, target.topic.name
    if isinstance(command, WaitMessages):
        for partition in command.positions:
            check_partition(target, partition)
        member = None if command.group is None else server.members.find(session, command.member)
        return messages.begin_wait(name, command.positions, on_ready, member=member, generation=command.generation)
    directory = server.broker.backing.log.partition_directory(target.topic, check_partition(target, command.partition or 1))
    waiting = server.broker.backing.log.waiting
    if isinstance(command, PollMessages):
        first = replace(command, auto_commit=False, count=1)
        return Wait(waiting, [directory], lambda: polled(server, session, first).count > 0, on_ready)
    fetch = replace(command, auto_commit=False, count=1)
    return Wait(waiting, [directory], lambda: fetched(server, session, fetch).count > 0, on_ready)


def append_messages(server: Dispatcher, session: Session, command: AppendMessages) -> FirstOffset:
    """Append messages to a partition."""
    name = _writable(server, session, command)
    return FirstOffset(server.broker.messages.send(name, command.partition, command.messages))


def set_state(server: Dispatcher, session: Session, command: SetState) -> None:
    """Change the state of messages; the logged-in user is recorded as the author."""
    target = server.lookup.topic(command.stream, command.topic)
    server.rights(session).set_state(target.stream.id, target.topic.id)
    partition = check_partition(target, command.partition)
    by = server.users.get(session.user_id).record.name
    server.broker.messages.set_state(
        *(target.topic.name, partition, command.offsets, command.state), reason=command.reason, by=by, user_id=session.user_id
    )


def remove_marked(server: Dispatcher, session: Session, command: RemoveMarked) -> RemovedMessages:
    """Remove marked messages of a partition from the disk, in one group of segments."""
    target = server.lookup.topic(command.stream, command.topic)
    server.rights(session).manage_topic(target.stream.id, target.topic.id)
    partition = check_partition(target, command.partition)
    removed = server.broker.messages.remove_marked(target.topic.name, partition, command.reason)
    return RemovedMessages(removed.removed_count, removed.removed_bytes, removed.rewritten_count, removed.left_count)


def list_states(server: Dispatcher, session: Session, command: ListStates) -> tuple[StateChange, ...]:
    """Return a page of a partition's messages whose state is not `available`."""
    target = server.readable_topic(session, command.stream, command.topic)
    partition, count = check_partition(target, command.partition), min(command.count or PAGE_STATES, PAGE_STATES)
    changes = server.broker.messages.states(target.topic.name, partition, command.from_offset, count)
    return tuple(StateChange.of(each) for each in changes)


def measure_range(server: Dispatcher, session: Session, command: MeasureRange) -> MeasuredRange:
    """Return the size of an offset range, and the offset that a number of bytes reaches."""
    target = server.readable_topic(session, command.stream, command.topic)
    partition = check_partition(target, command.partition)
    return MeasuredRange(
        *server.broker.messages.measure(
            target.topic.name, partition, command.from_offset, command.until_offset, command.size_bytes
        )
    )


def count_segments(server: Dispatcher, session: Session, command: CountSegments) -> CountedSegments:
    """Return how much of a topic a filter reads."""
    target = server.readable_topic(session, command.stream, command.topic)
    found = server.broker.messages.count_segments(target.topic.name, parse_filter(command.where))
    return CountedSegments.of(found)


ROWS: Final[dict[type[Command[Any]], CommandRow]] = {
    SendMessages: CommandRow(send_messages, is_append=True),
    PollMessages: CommandRow(poll_messages, is_read=True),
    FlushMessages: CommandRow(flush_messages, is_slow=True),
    FetchMessages: CommandRow(fetch_messages, is_read=True, waits=True),
    WaitMessages: CommandRow(wait_messages, is_quick=True, waits=True),
    AppendMessages: CommandRow(append_messages, is_append=True),
    SetState: CommandRow(set_state, is_slow=True),
    RemoveMarked: CommandRow(remove_marked, is_slow=True),
    ListStates: CommandRow(list_states, is_slow=True),
    FilterMessages: CommandRow(filter_messages, is_read=True, is_slow=True),
    MeasureRange: CommandRow(measure_range, is_slow=True),
    CountSegments: CommandRow(count_segments, is_slow=True, threads="scans"),
}
