"""Group deliveries: unfinished messages, steps, views. Required rights: to poll and, for dead letters, to send."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from headstream.broker.accounts.sessions import Session
from headstream.broker.commands.dispatch import CommandRow, Dispatcher
from headstream.broker.commands.offsets import check_partition
from headstream.broker.commands.topic_lookup import FoundTopic, find_group
from headstream.core.model.deliveries import DeliveryChange, SettleRequest
from headstream.core.model.identifiers import TopicName
from headstream.core.wire.extensions.deliveries import (
    GetDeliveries,
    OffsetRange,
    OpenDeliveries,
    OpenDelivery,
    SettledDeliveries,
    SettleDeliveries,
    pause_rule_of,
)
from headstream.core.wire.extensions.delivery_views import (
    GetDelivery,
    GetGroupDeliveries,
    GroupCounts,
    ToldMessage,
    encode_counts,
)
from headstream.core.wire.extensions.leases import LeaseMessages, SettleLeases
from headstream.core.wire.records import Command

_OfGroup: TypeAlias = GetDeliveries | SettleDeliveries | GetGroupDeliveries | GetDelivery | LeaseMessages | SettleLeases


def find_group_of(server: Dispatcher, session: Session, command: _OfGroup) -> tuple[FoundTopic, str]:
    """Check the rights for a command; return its topic and group name."""
    target = server.lookup.topic(command.stream, command.topic)
    server.rights(session).poll(target.stream.id, target.topic.id)
    name = command.group if isinstance(command.group, str) else find_group(target.topic, command.group).name
    return target, name


def find_dead_letter(server: Dispatcher, session: Session, text: str) -> TopicName | None:
    """Check the right to send to a command's dead-letter topic; return the topic, or None if there is none."""
    if not text:
        return None
    name = TopicName.parse(text)
    letters = server.lookup.topic(name.stream, name.topic)
    server.rights(session).send(letters.stream.id, letters.topic.id)
    return name


def get_deliveries(server: Dispatcher, session: Session, command: GetDeliveries) -> OpenDeliveries:
    """Return a group's unfinished messages in a partition."""
    target, name = find_group_of(server, session, command)
    check_partition(target, command.partition)
    found = server.broker.deliveries.unfinished(target.topic.name, name, command.partition)
    failing = tuple(OpenDelivery.of(each) for each in found.failing)
    pending = tuple(OffsetRange(*each) for each in found.pending)
    counts = found.now_us, found.poisoned_count
    return OpenDeliveries(found.base, found.begun_until, *counts, pending, failing, found.paused_us)


def settle_deliveries(server: Dispatcher, session: Session, command: SettleDeliveries) -> SettledDeliveries:
    """Record delivery steps of a group's messages, and commit the group's offset."""
    target, name = find_group_of(server, session, command)
    check_partition(target, command.partition)
    member = None if command.member_id is None else server.members.find(session, command.member_id)
    changes = [
        DeliveryChange(each.step, each.from_offset, each.until_offset, each.failures, each.delay_us, each.reason, each.error)
        for each in command.changes
    ]
    request = SettleRequest(
        changes,
        command.frontier,
        member,
        command.generation,
        command.partition_generation,
        find_dead_letter(server, session, command.dead_letter),
        command.is_resting,
        command.worker,
        command.succeeded,
        pause_rule_of(command),
    )
    settled = server.broker.deliveries.settle_deliveries(
        target.topic.name, name, command.partition, request, user_id=session.user_id
    )
    return SettledDeliveries(*settled)


def get_group_deliveries(server: Dispatcher, session: Session, command: GetGroupDeliveries) -> GroupCounts:
    """Return the counts of a group's unfinished messages."""
    target, name = find_group_of(server, session, command)
    return encode_counts(server.broker.delivery_views.group(target.topic.name, name))


def get_delivery(server: Dispatcher, session: Session, command: GetDelivery) -> ToldMessage:
    """Return the delivery history of a message in a group."""
    target, name = find_group_of(server, session, command)
    check_partition(target, command.partition)
    found = server.broker.delivery_views.message(target.topic.name, name, command.partition, command.offset)
    topic, partition, offset = found.letter or ("", 0, 0)
    return ToldMessage.of(found, letter_topic=topic, letter_partition=partition, letter_offset=offset)


ROWS: Final[dict[type[Command[Any]], CommandRow]] = {
    GetDeliveries: CommandRow(get_deliveries, is_slow=True),
    SettleDeliveries: CommandRow(settle_deliveries, is_slow=True),
    GetGroupDeliveries: CommandRow(get_group_deliveries, is_slow=True, threads="scans"),
    GetDelivery: CommandRow(get_delivery, is_slow=True),
}
