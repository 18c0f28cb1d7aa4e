"""Iggy's commands for partitions and segments. The log limits the number of partitions per topic."""

from __future__ import annotations

from typing import Any, Final

from headstream.broker.accounts.sessions import Session
from headstream.broker.commands.dispatch import CommandRow, Dispatcher
from headstream.broker.commands.offsets import check_partition
from headstream.broker.commands.topic_lookup import FoundTopic
from headstream.core.model.topology import MAX_PARTITIONS
from headstream.core.wire.commands.partitions import CreatePartitions, DeletePartitions, DeleteSegments
from headstream.core.wire.records import Command
from headstream.core.wire.refusals import refusal
from headstream.core.wire.statuses import Status
from headstream.log.administration import add_partitions
from headstream.log.administration import delete_partitions as remove_partitions
from headstream.log.upkeep.retention import Retention


def _managed(server: Dispatcher, session: Session, command: CreatePartitions | DeletePartitions | DeleteSegments) -> FoundTopic:
    target = server.lookup.topic(command.stream, command.topic)
    server.rights(session).manage_topic(target.stream.id, target.topic.id)
    return target


def create_partitions(server: Dispatcher, session: Session, command: CreatePartitions) -> None:
    """Add partitions after the last partition; groups are rebalanced."""
    backing = server.broker.backing
    with (log := backing.writable_log()).administration:
        topic = _managed(server, session, command).topic
        if topic.partitions + command.partitions_count > MAX_PARTITIONS:
            raise refusal(
                Status.TOO_MANY_PARTITIONS,
                f"topic {str(topic.name)!r} has {topic.partitions} partitions; the limit is {MAX_PARTITIONS}",
            )
        add_partitions(log, topic, command.partitions_count, backing.clock_us())


def delete_partitions(server: Dispatcher, session: Session, command: DeletePartitions) -> None:
    """Delete the highest numbered partitions, at most all of them; groups are rebalanced."""
    with (log := server.broker.backing.writable_log()).administration:
        topic = _managed(server, session, command).topic
        count = min(command.partitions_count, topic.partitions)
        if count:
            remove_partitions(log, topic, count, least=0)


def delete_segments(server: Dispatcher, session: Session, command: DeleteSegments) -> None:
    """Delete the oldest closed segments of a partition; the active segment is kept."""
    backing = server.broker.backing
    target = _managed(server, session, command)
    number = check_partition(target, command.partition)
    Retention(backing.writable_log(), backing.clock_us).drop_oldest(target.topic, number, command.segments_count)


ROWS: Final[dict[type[Command[Any]], CommandRow]] = {
    CreatePartitions: CommandRow(create_partitions, is_slow=True),
    DeletePartitions: CommandRow(delete_partitions, is_slow=True),
    DeleteSegments: CommandRow(delete_segments, is_slow=True),
}
