"""Our own commands about messages: fetching by states, appending to a partition, waiting, states.

Whoever waits holds no thread: begin_wait() says when to look, and the answer is then what the command's handler finds at
that moment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from headstream.broker.commands.dispatch import Dispatcher, Handler
from headstream.broker.commands.offsets import check_partition
from headstream.broker.commands.places import Place, consumer_of
from headstream.broker.sessions import Session
from headstream.broker.waits import Wait
from headstream.errors import NotFoundError
from headstream.model.identifiers import TopicName
from headstream.model.polling import Polled, PollingStrategy
from headstream.model.topology import MAX_BATCH_BYTES
from headstream.wire.extensions.messages import (
    PAGE_STATES,
    AppendMessages,
    FetchedMessages,
    FetchMessages,
    FirstOffset,
    ListStates,
    MeasuredRange,
    MeasureRange,
    SetState,
    StateChange,
    WaitMessages,
    Woken,
)
from headstream.wire.records import Command
from headstream.wire.shapes import Identifier

__all__ = ["HANDLERS", "begin_wait", "fetched"]

_AVAILABLE: Final = frozenset({1})
_ALL: Final = frozenset(range(1, 256))


def _readable(server: Dispatcher, session: Session, stream: Identifier, topic: Identifier) -> Place:
    place = server.places.topic(stream, topic)
    server.rights(session).poll(place.stream.id, place.topic.id)
    return place


def _writable(server: Dispatcher, session: Session, command: AppendMessages) -> TopicName:
    place = server.places.topic(command.stream, command.topic)
    server.rights(session).send(place.stream.id, place.topic.id)
    check_partition(place, command.partition)
    return place.topic.name


def fetched(server: Dispatcher, session: Session, command: FetchMessages) -> Polled:
    """Return messages of a partition in the states asked for, as stored bytes, without waiting for any."""
    place = _readable(server, session, command.stream, command.topic)
    named = command.consumer
    states = frozenset(command.states) or _AVAILABLE
    return server.broker.messages.poll(
        place.topic.name,
        check_partition(place, command.partition),
        PollingStrategy(command.kind, command.value),
        command.count,
        states=None if states >= _ALL else states,
        size_bytes=min(command.size_bytes or MAX_BATCH_BYTES, server.poll_bytes),
        consumer=None if named is None else consumer_of(place.topic, named, must_exist=False),
        auto_commit=command.auto_commit,
    )


def fetch_messages(server: Dispatcher, session: Session, command: FetchMessages) -> FetchedMessages:
    """Return messages of a partition in the states asked for."""
    found = fetched(server, session, command)
    stored = b"".join(found.chunks)
    return FetchedMessages(found.partition, found.end_offset, found.next_offset, found.generation, found.count, stored)


def wait_messages(server: Dispatcher, session: Session, command: WaitMessages) -> Woken:
    """Return whether there is something for who waits, as of now."""
    wait = begin_wait(server, session, command, lambda: None)
    try:
        return Woken(wait.is_ready)
    finally:
        wait.cancel()


def begin_wait(server: Dispatcher, session: Session, command: WaitMessages | FetchMessages, on_ready: Callable[[], None]) -> Wait:
    """Begin to wait for what a command waits for; ask is_ready at once, and again whenever it calls.

    Args:
        server: What answers.
        session: Whose command it is.
        command: One that has been validated. When its time is over, or something is ready, it is answered like any other.
        on_ready: Called by any thread, which waits for it, when there may be something.

    Raises:
        HeadstreamError: why it cannot be waited for.
    """
    server.admit(session, command.entry())
    try:
        place = _readable(server, session, command.stream, command.topic)
    except NotFoundError as error:
        raise server.disclosed(session, command, error) from None
    messages, name = server.broker.messages, place.topic.name
    if isinstance(command, WaitMessages):
        for partition in command.positions:
            check_partition(place, partition)
        member = None if command.group is None else server.members.find(session, command.member)
        return messages.begin_wait(name, command.positions, on_ready, member=member, generation=command.generation)
    look = replace(command, auto_commit=False, count=1)
    directory = server.broker.backing.log.partition_directory(place.topic, check_partition(place, command.partition))
    return Wait(server.broker.backing.log.waiting, [directory], lambda: fetched(server, session, look).count > 0, on_ready)


def append_messages(server: Dispatcher, session: Session, command: AppendMessages) -> FirstOffset:
    """Append messages to a partition."""
    name = _writable(server, session, command)
    return FirstOffset(server.broker.messages.send(name, command.partition, command.messages))


def set_state(server: Dispatcher, session: Session, command: SetState) -> None:
    """Change the state of messages, as the logged-in user."""
    place = server.places.topic(command.stream, command.topic)
    server.rights(session).set_state(place.stream.id, place.topic.id)
    partition = check_partition(place, command.partition)
    by = server.users.get(session.user_id).record.name
    server.broker.messages.set_state(place.topic.name, partition, command.offsets, command.state, reason=command.reason, by=by)


def list_states(server: Dispatcher, session: Session, command: ListStates) -> tuple[StateChange, ...]:
    """Return a page of the messages of a partition that are not available."""
    place = _readable(server, session, command.stream, command.topic)
    partition, count = check_partition(place, command.partition), min(command.count or PAGE_STATES, PAGE_STATES)
    changes = server.broker.messages.states(place.topic.name, partition, command.from_offset, count)
    return tuple(StateChange(each.offset, each.state, each.reason, each.by, each.changed_us) for each in changes)


def measure_range(server: Dispatcher, session: Session, command: MeasureRange) -> MeasuredRange:
    """Return how much a range of offsets holds."""
    place = _readable(server, session, command.stream, command.topic)
    partition = check_partition(place, command.partition)
    return MeasuredRange(
        *server.broker.messages.measure(
            place.topic.name, partition, command.from_offset, command.until_offset, command.size_bytes
        )
    )


HANDLERS: Final[dict[type[Command[Any]], Handler]] = {
    FetchMessages: fetch_messages,
    WaitMessages: wait_messages,
    AppendMessages: append_messages,
    SetState: set_state,
    ListStates: list_states,
    MeasureRange: measure_range,
}
