"""ConnectionGroups: which connections read for which group of an existing client's kind, and which partitions each has.

Such a group is divided anew whenever a connection joins or leaves, or partitions come or go: partition i, from 0, is for
member i modulo their count, in the order they joined. A member that names no partition reads its own in turn. Groups whose
members keep what they have (membership.py) are other ones; of one name there is one kind at a time (groups.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["ConnectionGroups", "GroupPlace"]


class GroupPlace(NamedTuple):
    """A group: the number of its stream, when its topic was made, and the ids that clients know."""

    stream_number: int
    topic_created_us: int
    stream_id: int
    topic_id: int
    group_id: int


@dataclass(slots=True)
class _Group:
    hold: Callable[[], None]
    partitions: int = 0
    turns: dict[int, int] = field(default_factory=dict)  # client -> how often it has had a turn, in the order they joined


class ConnectionGroups:
    """The members of all such groups of a server; any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._groups: dict[GroupPlace, _Group] = {}
        self._joined: dict[int, list[GroupPlace]] = {}

    def join(self, client: int, place: GroupPlace, hold: Callable[[], Callable[[], None]]) -> None:
        """Make a client a member; joining again has everybody begin anew.

        Args:
            client: The number of its connection.
            place: The group.
            hold: Called for the first member; what it returns is called when the last one is gone.
        """
        with self._lock:
            group = self._groups.get(place)
            if group is None:
                group = self._groups[place] = _Group(hold())
            group.turns = dict.fromkeys([*group.turns, client], 0)
            places = self._joined.setdefault(client, [])
            if place not in places:
                places.append(place)

    def leave(self, client: int, place: GroupPlace) -> None:
        """Let a member go; one that has not joined is fine."""
        with self._lock:
            self._leave(client, place)

    def end(self, client: int) -> None:
        """Let a client go from all groups."""
        with self._lock:
            for place in list(self._joined.get(client, ())):
                self._leave(client, place)

    def forget(self, stream_number: int, topic_id: int | None = None, group_id: int | None = None) -> None:
        """Let all members go of the groups of a stream, of a topic, or of one group."""
        with self._lock:
            for place in [
                place
                for place in self._groups
                if place.stream_number == stream_number
                and topic_id in (None, place.topic_id)
                and group_id in (None, place.group_id)
            ]:
                for client in list(self._groups[place].turns):
                    self._leave(client, place)

    def _leave(self, client: int, place: GroupPlace) -> None:
        group = self._groups.get(place)
        if group is None or client not in group.turns:
            return
        group.turns = dict.fromkeys([member for member in group.turns if member != client], 0)
        self._joined[client].remove(place)
        if not self._joined[client]:
            del self._joined[client]
        if not group.turns:
            del self._groups[place]
            group.hold()

    def of(self, client: int) -> list[GroupPlace]:
        """Return the groups that a client has joined, in the order of streams, topics and groups."""
        with self._lock:
            return sorted(self._joined.get(client, ()), key=lambda place: place[2:])

    def members(self, place: GroupPlace, partitions: int) -> dict[int, tuple[int, ...]]:
        """Return the partitions of each member, in the order they joined.

        Args:
            place: The group.
            partitions: How many partitions its topic has.
        """
        with self._lock:
            group = self._groups.get(place)
            return {} if group is None else {client: _share(group, client, partitions) for client in group.turns}

    def count(self, place: GroupPlace) -> int:
        """Return how many members a group has."""
        with self._lock:
            group = self._groups.get(place)
            return 0 if group is None else len(group.turns)

    def take_turn(self, client: int, place: GroupPlace, partitions: int) -> int | None:
        """Return the partition whose turn it is, 0 for a member that has none, None for who is no member.

        Args:
            client: The member.
            place: The group.
            partitions: How many partitions its topic has.
        """
        with self._lock:
            share = self._share_of(client, place, partitions)
            if not share:
                return None if share is None else 0
            turns = self._groups[place].turns
            turn = turns[client]
            turns[client] = turn + 1
            return share[turn % len(share)]

    def last_turn(self, client: int, place: GroupPlace, partitions: int) -> int | None:
        """Return the partition whose turn it was last, or is first; else as take_turn()."""
        with self._lock:
            share = self._share_of(client, place, partitions)
            if not share:
                return None if share is None else 0
            return share[max(self._groups[place].turns[client] - 1, 0) % len(share)]

    def _share_of(self, client: int, place: GroupPlace, partitions: int) -> tuple[int, ...] | None:
        group = self._groups.get(place)
        if group is None or client not in group.turns:
            return None
        if group.partitions != partitions:
            group.partitions, group.turns = partitions, dict.fromkeys(group.turns, 0)
        return _share(group, client, partitions)


def _share(group: _Group, client: int, partitions: int) -> tuple[int, ...]:
    first = list(group.turns).index(client)
    return tuple(range(first + 1, partitions + 1, len(group.turns)))
