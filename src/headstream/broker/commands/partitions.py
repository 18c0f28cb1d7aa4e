"""Partitions and segments, as existing clients manage them. A topic has as many partitions in all as the log allows."""

from __future__ import annotations

from typing import Any, Final

from headstream.broker.commands.dispatch import Dispatcher, Handler
from headstream.broker.commands.offsets import check_partition
from headstream.broker.commands.places import Place
from headstream.broker.sessions import Session
from headstream.log.administration import add_partitions
from headstream.log.administration import delete_partitions as remove_partitions
from headstream.log.retention import Retention
from headstream.model.topology import MAX_PARTITIONS
from headstream.wire.commands.partitions import CreatePartitions, DeletePartitions, DeleteSegments
from headstream.wire.records import Command
from headstream.wire.refusals import refusal
from headstream.wire.statuses import Status

__all__ = ["HANDLERS"]


def _managed(server: Dispatcher, session: Session, command: CreatePartitions | DeletePartitions | DeleteSegments) -> Place:
    place = server.places.topic(command.stream, command.topic)
    server.rights(session).manage_topic(place.stream.id, place.topic.id)
    return place


def create_partitions(server: Dispatcher, session: Session, command: CreatePartitions) -> None:
    """Add partitions behind the last one; groups are divided anew."""
    backing = server.broker.backing
    log = backing.writable_log()
    with log.administration:
        topic = _managed(server, session, command).topic
        if topic.partitions + command.partitions_count > MAX_PARTITIONS:
            raise refusal(
                Status.TOO_MANY_PARTITIONS,
                f"topic {str(topic.name)!r} has {topic.partitions} partitions, and {MAX_PARTITIONS} at most",
            )
        add_partitions(log, topic, command.partitions_count, backing.clock_us())


def delete_partitions(server: Dispatcher, session: Session, command: DeletePartitions) -> None:
    """Delete the highest numbered partitions, all where more are named than there are; groups are divided anew."""
    log = server.broker.backing.writable_log()
    with log.administration:
        topic = _managed(server, session, command).topic
        count = min(command.partitions_count, topic.partitions)
        if count:
            remove_partitions(log, topic, count, least=0)


def delete_segments(server: Dispatcher, session: Session, command: DeleteSegments) -> None:
    """Delete the oldest closed segments of a partition; the one that is written to stays."""
    backing = server.broker.backing
    place = _managed(server, session, command)
    number = check_partition(place, command.partition)
    Retention(backing.writable_log(), backing.clock_us).drop_oldest(place.topic, number, command.segments_count)


HANDLERS: Final[dict[type[Command[Any]], Handler]] = {
    CreatePartitions: create_partitions,
    DeletePartitions: delete_partitions,
    DeleteSegments: delete_segments,
}
