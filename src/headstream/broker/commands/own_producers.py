"""Our own commands about numbered batches: ids for producers, and appends that can be repeated."""

from __future__ import annotations

from typing import Any, Final

from headstream.broker.commands.dispatch import Dispatcher, Handler
from headstream.broker.commands.offsets import check_partition
from headstream.broker.sessions import Session
from headstream.errors import PermissionDeniedError
from headstream.model.producers import BatchNumber, owner_of
from headstream.wire.extensions.producers import AppendedBatch, AppendNumbered, InitProducer, NewProducer, ReleaseProducer
from headstream.wire.records import Command

__all__ = ["HANDLERS"]


def _check_owner(session: Session, producer_id: int) -> None:
    if not owner_of(producer_id, session.user_id):
        raise PermissionDeniedError(
            f"producer {producer_id} belongs to another user", advice="Ask for an id as the user who sends with it"
        )


def init_producer(server: Dispatcher, session: Session, command: InitProducer) -> NewProducer:
    """Return an id that no producer has had."""
    server.rights(session).send_somewhere()
    return NewProducer(*server.broker.messages.new_producer(session.user_id))


def append_numbered(server: Dispatcher, session: Session, command: AppendNumbered) -> AppendedBatch:
    """Append messages to a partition, unless they are there."""
    place = server.places.topic(command.stream, command.topic)
    server.rights(session).send(place.stream.id, place.topic.id)
    check_partition(place, command.partition)
    _check_owner(session, command.producer_id)
    number = BatchNumber(command.producer_id, command.epoch, command.sequence)
    appended = server.broker.messages.append(place.topic.name, command.partition, command.messages, number)
    return AppendedBatch(appended.offset, appended.timestamp_us or 0, appended.count, appended.is_repeat)


def release_producer(server: Dispatcher, session: Session, command: ReleaseProducer) -> None:
    """Forget a producer in the partitions of a topic."""
    place = server.places.topic(command.stream, command.topic)
    server.rights(session).send(place.stream.id, place.topic.id)
    _check_owner(session, command.producer_id)
    server.broker.messages.forget_producer(place.topic.name, command.producer_id)


HANDLERS: Final[dict[type[Command[Any]], Handler]] = {
    InitProducer: init_producer,
    AppendNumbered: append_numbered,
    ReleaseProducer: release_producer,
}
