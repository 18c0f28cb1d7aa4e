"""Views of the unfinished messages of groups; they need the right to poll."""

from __future__ import annotations

from typing import Any, Final

from headstream.broker.accounts.sessions import Session
from headstream.broker.commands.deliveries import find_group_of
from headstream.broker.commands.dispatch import CommandRow, Dispatcher
from headstream.broker.commands.offsets import check_partition
from headstream.core.wire.extensions.delivery_views import GetDelivery, GetGroupDeliveries, GroupCounts, ToldMessage, spell_counts
from headstream.core.wire.records import Command


def get_group_deliveries(server: Dispatcher, session: Session, command: GetGroupDeliveries) -> GroupCounts:
    """Return the counts of a group's unfinished messages."""
    target, name = find_group_of(server, session, command)
    return spell_counts(server.broker.delivery_views.group(target.topic.name, name))


def get_delivery(server: Dispatcher, session: Session, command: GetDelivery) -> ToldMessage:
    """Return the delivery history of a message in a group."""
    target, name = find_group_of(server, session, command)
    check_partition(target, command.partition)
    found = server.broker.delivery_views.message(target.topic.name, name, command.partition, command.offset)
    topic, partition, offset = found.letter or ("", 0, 0)
    return ToldMessage.of(found, letter_topic=topic, letter_partition=partition, letter_offset=offset)


ROWS: Final[dict[type[Command[Any]], CommandRow]] = {
    GetGroupDeliveries: CommandRow(get_group_deliveries, is_slow=True, threads="scans"),
    GetDelivery: CommandRow(get_delivery, is_slow=True),
}
