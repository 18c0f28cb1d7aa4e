"""Headstream's commands for numbered batches: producer ids, and appends that can be repeated."""

from __future__ import annotations

from typing import Any, Final

from headstream.broker.accounts.sessions import Session
from headstream.broker.commands.dispatch import CommandRow, Dispatcher
from headstream.broker.commands.offsets import check_partition
from headstream.core.model.producers import BatchNumber, is_owned_by
from headstream.core.wire.extensions.producers import AppendedBatch, AppendNumbered, InitProducer, NewProducer, ReleaseProducer
from headstream.core.wire.records import Command
from headstream.errors import PermissionDeniedError


def _check_owner(session: Session, producer_id: int) -> None:
    if not is_owned_by(producer_id, session.user_id):
        raise PermissionDeniedError(
            f"producer {producer_id} belongs to another user", advice="Request a producer id as the user who sends"
        )


def init_producer(server: Dispatcher, session: Session, command: InitProducer) -> NewProducer:
    """Return a new producer id."""
    server.rights(session).send_somewhere()
    return NewProducer(*server.broker.messages.new_producer(session.user_id))


def append_numbered(server: Dispatcher, session: Session, command: AppendNumbered) -> AppendedBatch:
    """Append messages to a partition, unless the batch is already stored."""
    target = server.lookup.topic(command.stream, command.topic)
    server.rights(session).send(target.stream.id, target.topic.id)
    check_partition(target, command.partition)
    _check_owner(session, command.producer_id)
    number = BatchNumber(command.producer_id, command.epoch, command.sequence)
    appended = server.broker.messages.append(target.topic.name, command.partition, command.messages, number)
    return AppendedBatch(appended.offset, appended.timestamp_us or 0, appended.count, appended.is_repeat)


def release_producer(server: Dispatcher, session: Session, command: ReleaseProducer) -> None:
    """Remove a producer's state in the partitions of a topic."""
    target = server.lookup.topic(command.stream, command.topic)
    server.rights(session).send(target.stream.id, target.topic.id)
    _check_owner(session, command.producer_id)
    server.broker.messages.forget_producer(target.topic.name, command.producer_id)


ROWS: Final[dict[type[Command[Any]], CommandRow]] = {
    InitProducer: CommandRow(init_producer, is_slow=True),
    AppendNumbered: CommandRow(append_numbered, is_append=True),
    ReleaseProducer: CommandRow(release_producer, is_slow=True),
}
