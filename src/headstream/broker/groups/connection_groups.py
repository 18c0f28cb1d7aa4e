"""ConnectionGroups: the connections of Iggy clients in each consumer group, and their partitions.

These groups are rebalanced when a connection joins or leaves, or partitions are added or deleted: partition i, from 0, belongs to
member i modulo the number of members, in the order in which the members joined. A member that names no partition polls its
partitions in rotation. Groups with sticky assignment (membership.py) are separate; a group is of one kind at a time (groups.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple


class GroupKey(NamedTuple):
    """Identifies a group: the number of its stream, the creation time of its topic, and the ids that clients use."""

    stream_number: int
    topic_created_us: int
    stream_id: int
    topic_id: int
    group_id: int


@dataclass(slots=True)
class _Group:
    hold: Callable[[], None]
    partitions: int = 0
    generation: int = 1  # increases when members or partitions change
    polls: dict[int, int] = field(default_factory=dict)  # client -> number of its polls, in joining order


class ConnectionGroups:
    """The members of all groups of Iggy clients of a server; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: dict[GroupKey, _Group] = {}
        self._joined: dict[int, list[GroupKey]] = {}

    def join(self, client: int, key: GroupKey, hold: Callable[[], Callable[[], None]]) -> None:
        """Add a client as a member; joining again restarts the rotation of all members.

        Args:
            hold: Called for the first member; returns a function that is called when the last member has left.
        """
        with self._lock:
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = _Group(hold())
            group.generation += client not in group.polls
            group.polls = dict.fromkeys([*group.polls, client], 0)
            keys = self._joined.setdefault(client, [])
            if key not in keys:
                keys.append(key)

    def leave(self, client: int, key: GroupKey) -> None:
        """Remove a member; no effect if the client has not joined."""
        with self._lock:
            self._leave(client, key)

    def end(self, client: int) -> None:
        """Remove a client from all groups."""
        with self._lock:
            for key in list(self._joined.get(client, ())):
                self._leave(client, key)

    def forget(self, stream_number: int, topic_id: int | None = None, group_id: int | None = None) -> None:
        """Remove all members of one group, or of all groups of a topic or a stream."""
        with self._lock:
            for key in [
                key
                for key in self._groups
                if key.stream_number == stream_number and topic_id in (None, key.topic_id) and group_id in (None, key.group_id)
            ]:
                for client in list(self._groups[key].polls):
                    self._leave(client, key)

    def _leave(self, client: int, key: GroupKey) -> None:
        group = self._groups.get(key)
        if group is None or client not in group.polls:
            return
        group.generation += 1
        group.polls = dict.fromkeys([member for member in group.polls if member != client], 0)
        self._joined[client].remove(key)
        if not self._joined[client]:
            del self._joined[client]
        if not group.polls:
            del self._groups[key]
            group.hold()

    def of(self, client: int) -> list[GroupKey]:
        """Return the groups that a client has joined, in the order of streams, topics and groups."""
        with self._lock:
            return sorted(self._joined.get(client, ()), key=lambda key: key[2:])

    def members(self, key: GroupKey, partitions: int) -> dict[int, tuple[int, ...]]:
        """Return the partitions of each member, in joining order; `partitions`: number of the topic's partitions."""
        with self._lock:
            group = self._groups.get(key)
            return {} if group is None else {client: _share(group, client, partitions) for client in group.polls}

    def count(self, key: GroupKey) -> int:
        """Return the number of members of a group."""
        with self._lock:
            group = self._groups.get(key)
            return 0 if group is None else len(group.polls)

    def assignment(self, client: int, key: GroupKey, partitions: int) -> tuple[int, tuple[int, ...]] | None:
        """Return the group's generation and the member's share of `partitions` partitions; None if the client is not a member."""
        with self._lock:
            share = self._share_of(client, key, partitions)
            return None if share is None else (self._groups[key].generation, share)

    def next_partition(self, client: int, key: GroupKey, partitions: int) -> int | None:
        """Return a member's next partition in rotation; 0 if the member has no partitions, None if the client is not a member."""
        with self._lock:
            share = self._share_of(client, key, partitions)
            if not share:
                return None if share is None else 0
            polls = self._groups[key].polls
            count = polls[client]
            polls[client] = count + 1
            return share[count % len(share)]

    def last_partition(self, client: int, key: GroupKey, partitions: int) -> int | None:
        """Return the partition that a member last polled, or its first partition before any poll; else like next_partition()."""
        with self._lock:
            share = self._share_of(client, key, partitions)
            if not share:
                return None if share is None else 0
            return share[max(self._groups[key].polls[client] - 1, 0) % len(share)]

    def _share_of(self, client: int, key: GroupKey, partitions: int) -> tuple[int, ...] | None:
        group = self._groups.get(key)
        if group is None or client not in group.polls:
            return None
        if group.partitions != partitions:
            group.generation += group.partitions != 0
            group.partitions, group.polls = partitions, dict.fromkeys(group.polls, 0)
        return _share(group, client, partitions)


def _share(group: _Group, client: int, partitions: int) -> tuple[int, ...]:
    first = list(group.polls).index(client)
    return tuple(range(first + 1, partitions + 1, len(group.polls)))
