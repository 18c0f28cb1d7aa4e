"""Commands of a transport whose groups remember single messages: what is unfinished, and what is leased; see transport.py."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from headstream.model.deliveries import DeliveryChange, PartitionDeliveries
from headstream.model.groups import Member
from headstream.model.identifiers import TopicName
from headstream.model.leases import Grant, LeaseChange, LeaseRefusal, LeaseRequest

__all__ = ["DeliveryAccess", "DeliveryCommands", "LeaseAccess", "LeaseCommands"]


class DeliveryCommands(Protocol):
    """Commands for the unfinished messages of groups."""

    def unfinished(self, topic: TopicName, group: str, partition: int) -> PartitionDeliveries:
        """Return what a group has not finished in a partition."""

    def settle(
        self,
        topic: TopicName,
        group: str,
        partition: int,
        changes: Iterable[DeliveryChange],
        *,
        frontier: int,
        member: Member | None = ...,
        generation: int = ...,
        partition_generation: int | None = ...,
        dead_letter: TopicName | None = ...,
        is_resting: bool = ...,
    ) -> int:
        """Record steps of messages, commit the group's offset, and return the group's generation."""


class LeaseCommands(Protocol):
    """Commands of workers that share the partitions of a group."""

    def lease(self, topic: TopicName, member: Member, request: LeaseRequest) -> Grant:
        """Lease messages of the first partition that has some."""

    def settle(
        self,
        topic: TopicName,
        group: str,
        partition: int,
        changes: Iterable[LeaseChange],
        *,
        dead_letter: TopicName | None = ...,
        partition_generation: int | None = ...,
    ) -> builtins.list[LeaseRefusal]:
        """Record steps of leased messages, and return those that were refused."""


@runtime_checkable
class DeliveryAccess(Protocol):
    """Further commands of a transport whose groups remember unfinished messages."""

    @property
    def deliveries(self) -> DeliveryCommands:
        """Commands for the unfinished messages of groups."""


@runtime_checkable
class LeaseAccess(Protocol):
    """Further commands of a transport whose groups lease messages to workers."""

    @property
    def leases(self) -> LeaseCommands:
        """Commands of workers that share partitions."""
