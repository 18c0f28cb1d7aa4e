"""Leases of groups with shared partitions; these commands require the right to poll, and for dead letters the right to send."""

from __future__ import annotations

from typing import Any, Final

from headstream.broker.accounts.sessions import Session
from headstream.broker.commands.deliveries import find_dead_letter, find_group_of
from headstream.broker.commands.dispatch import CommandRow, Dispatcher
from headstream.broker.commands.offsets import check_partition
from headstream.core.model.leases import LeaseChange, LeaseRequest
from headstream.core.wire.extensions.deliveries import pause_rule_of
from headstream.core.wire.extensions.leases import (
    LeasedMessages,
    LeasedOffsets,
    LeaseMessages,
    RefusedChange,
    RefusedChanges,
    SettleLeases,
)
from headstream.core.wire.records import Command


def lease_messages(server: Dispatcher, session: Session, command: LeaseMessages) -> LeasedMessages:
    """Lease messages of a group."""
    target, _ = find_group_of(server, session, command)
    member = server.members.find(session, command.member_id)
    for partition in (*command.partitions, *command.starts):
        check_partition(target, partition)
    request = LeaseRequest(
        command.token,
        command.count,
        command.lease_us,
        command.worker,
        command.attempts or None,
        command.order,
        find_dead_letter(server, session, command.dead_letter),
        tuple(command.partitions),
        command.starts,
        tuple(command.deferred),
        pause_rule_of(command),
    )
    grant = server.broker.leases.lease(target.topic.name, member, request, user_id=session.user_id)
    ranges = tuple(LeasedOffsets(*each) for each in grant.ranges)
    return LeasedMessages(grant.partition, grant.generation, grant.wait_us, grant.ends, ranges, grant.is_paused)


def settle_leases(server: Dispatcher, session: Session, command: SettleLeases) -> RefusedChanges:
    """Record delivery steps of a group's leased messages, and commit the group's offset."""
    target, name = find_group_of(server, session, command)
    check_partition(target, command.partition)
    changes = [
        LeaseChange(each.step, each.token, each.from_offset, each.until_offset, each.delay_us, each.reason, each.error)
        for each in command.changes
    ]
    settled = server.broker.leases.settle_leases(
        target.topic.name,
        name,
        command.partition,
        changes,
        dead_letter=find_dead_letter(server, session, command.dead_letter),
        partition_generation=command.partition_generation,
        pause_rule=pause_rule_of(command),
        user_id=session.user_id,
    )
    return RefusedChanges(tuple(RefusedChange(*each) for each in settled.refused), settled.paused_us)


ROWS: Final[dict[type[Command[Any]], CommandRow]] = {
    LeaseMessages: CommandRow(lease_messages, is_slow=True),
    SettleLeases: CommandRow(settle_leases, is_slow=True),
}
