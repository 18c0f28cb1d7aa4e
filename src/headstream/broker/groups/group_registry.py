"""The consumer groups with members in this process: one registry per log, shared by all clients in this process."""

from __future__ import annotations

import hashlib
import itertools
import secrets
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from headstream.broker.groups.membership import GroupMembers
from headstream.log.catalog.records import TopicRecord
from headstream.log.directory.group_lock import GroupLock
from headstream.log.log import Log
from headstream.log.partition.pause_state import PauseState

_FIRST_MEMBER_BITS: Final = 48
"""Ids start at a random number, so that a member from before a server restart does not have the id of a newer member."""


class LiveGroup:
    """One group: the members, and the lock that makes this process the only reader (`path` None: a log in memory)."""

    def __init__(self, path: str | None) -> None:
        self.lock = threading.Lock()
        self.membership = GroupMembers()
        self.is_held = False  # whether connections of Iggy clients read for the group
        self.topic_number = 0  # the topic of `pause` and `reached`
        self.is_shared = False  # whether its members lease messages
        self.pause: PauseState | None = None  # the group's pause as known to this process, while it has members
        self.reached: dict[int, int] = {}  # partition -> the last offset that a member committed
        self.abandoned: deque[int] = deque()  # filled by finalizers, which can run at any point and therefore take no lock
        self._process_lock = None if path is None else GroupLock(path)

    def use_mode(self, *, is_shared: bool) -> bool:
        """Try to set the mode of all members: leasing messages or owning partitions; return whether this succeeded."""
        if self.is_shared != is_shared and self.membership.is_empty:
            self.is_shared, self.membership = is_shared, GroupMembers(self.membership.generation)
        return self.is_shared == is_shared

    def try_acquire(self) -> bool:
        """Try to make this process the group's reader; return whether this process is now the reader."""
        return self._process_lock is None or self._process_lock.try_acquire()

    def other_process(self) -> int | None:
        """Return the id of another process that reads for the group (0 if unknown); None if there is none."""
        return None if self._process_lock is None else self._process_lock.holder()

    def reached_offsets(self, numbers: Iterable[int], committed: Callable[[int], int | None]) -> dict[int, int]:
        """Return the last committed offsets of partitions, each read once with `committed`; the caller holds the lock."""
        for number in numbers:
            if number not in self.reached:
                self.reached[number] = committed(number) or 0
        return {number: self.reached[number] for number in numbers}

    def remove_abandoned(self, now_s: float) -> bool:
        """Remove abandoned members; return whether a member was removed. The caller holds the lock."""
        is_changed = False
        while self.abandoned:
            self.membership.leave(self.abandoned.popleft(), now_s)
            is_changed = True
        return is_changed

    def release_if_empty(self) -> None:
        """Release the group to other processes if it has no members in this process; the caller holds the lock."""
        if self.membership.is_empty:
            self.pause = None
            self.reached.clear()
            if self._process_lock is not None and not self.is_held:
                self._process_lock.release()


class GroupRegistry:
    """The groups of one log."""

    def __init__(self, log: Log) -> None:
        self._directory = None if log.is_memory else log.groups_directory
        self._groups: weakref.WeakValueDictionary[tuple[int, int, str], LiveGroup] = weakref.WeakValueDictionary()
        self._lock = threading.Lock()
        self._numbers = itertools.count(secrets.randbits(_FIRST_MEMBER_BITS))

    def next_member(self) -> int:
        """Return a new member id; the probability that an earlier process used this id is negligible."""
        return next(self._numbers)

    def group(self, topic: TopicRecord, name: str) -> LiveGroup:
        """Return a group: the same object while the group has members or is in use, even after a purge of its topic."""
        key = topic.stream_number, topic.id, name
        with self._lock:
            group = self._groups.get(key)
            if group is None:
                digest = hashlib.sha256(name.encode()).hexdigest()[:32]
                path = None if self._directory is None else f"{self._directory}/{topic.stream_number}-{topic.id}-{digest}.lock"
                group = self._groups[key] = LiveGroup(path)
            if group.topic_number < topic.number:  # purged or recreated: numbers grow
                group.topic_number, group.pause, group.reached = topic.number, None, {}
            return group

    def names(self, topic: TopicRecord) -> list[str]:
        """Return the names of a topic's groups that have members in this process."""
        known = list(self._groups.items())
        return [key[2] for key, group in known if key[:2] == (topic.stream_number, topic.id) and not group.membership.is_empty]


_REGISTRIES: Final[weakref.WeakKeyDictionary[Log, GroupRegistry]] = weakref.WeakKeyDictionary()


def registry_of(log: Log) -> GroupRegistry:
    """Return the registry of a log, shared by all users of the log in this process."""
    return _REGISTRIES.setdefault(log, GroupRegistry(log))
