"""Commands for a group's unfinished and leased messages; only some transports have these commands. See transport.py."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from headstream.core.model.deliveries import PartitionDeliveries, Settled, SettleRequest
from headstream.core.model.delivery_views import GroupDeliveries, MessageStory
from headstream.core.model.groups import Member
from headstream.core.model.identifiers import TopicName
from headstream.core.model.leases import Grant, LeaseChange, LeaseRequest, SettledLeases
from headstream.core.model.pauses import PauseRule
from headstream.errors import UnsupportedError


class DeliveryCommands(Protocol):
    """Commands for groups' unfinished messages."""

    def unfinished(self, topic: TopicName, group: str, partition: int) -> PartitionDeliveries:
        """Return a group's unfinished messages in a partition."""

    def settle_deliveries(self, topic: TopicName, group: str, partition: int, request: SettleRequest) -> Settled:
        """Record delivery steps of messages and commit the group's offset."""


class DeliveryViewCommands(Protocol):
    """Views of groups' unfinished messages."""

    def group(self, topic: TopicName, group: str) -> GroupDeliveries:
        """Return the counts of a group's unfinished messages."""

    def message(self, topic: TopicName, group: str, partition: int, offset: int) -> MessageStory:
        """Return the delivery history of one message in a group."""


class LeaseCommands(Protocol):
    """Commands for workers that lease messages of a group."""

    def lease(self, topic: TopicName, member: Member, request: LeaseRequest) -> Grant:
        """Lease messages of the first partition that has available messages."""

    def settle_leases(
        self,
        topic: TopicName,
        group: str,
        partition: int,
        changes: Iterable[LeaseChange],
        *,
        dead_letter: TopicName | None = ...,
        partition_generation: int | None = ...,
        pause_rule: PauseRule | None = ...,
    ) -> SettledLeases:
        """Record delivery steps of leased messages."""


@runtime_checkable
class DeliveryAccess(Protocol):
    """Additional commands of a transport that stores groups' unfinished messages."""

    @property
    def deliveries(self) -> DeliveryCommands:
        """Commands for groups' unfinished messages."""

    @property
    def delivery_views(self) -> DeliveryViewCommands:
        """Views of groups' unfinished messages."""


@runtime_checkable
class LeaseAccess(Protocol):
    """Additional commands of a transport that leases messages to workers."""

    @property
    def leases(self) -> LeaseCommands:
        """Commands for workers that share partitions."""


def find_views(transport: object) -> DeliveryViewCommands:
    """Return the transport's DeliveryViewCommands; UnsupportedError if the log is in Kafka."""
    if not isinstance(transport, DeliveryAccess):
        raise UnsupportedError(
            "Kafka stores one offset per group and partition, and no state of individual messages",
            where="kafka://",
            advice="Use log.group() to read the offsets of the group",
        )
    return transport.delivery_views
