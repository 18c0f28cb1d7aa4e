"""The consumer groups that members in this process read for: one set a log, whoever has the log open."""

from __future__ import annotations

import hashlib
import itertools
import secrets
import threading
import weakref
from collections import deque
from typing import Final

from headstream.broker.membership import Membership
from headstream.log.catalog import TopicRecord
from headstream.log.group_lock import GroupLock
from headstream.log.log import Log

__all__ = ["GroupRegistry", "LiveGroup", "registry_of"]

_FIRST_MEMBER_BITS: Final = 48
"""Ids begin anywhere: a member whose server was started anew must not be taken for one that has joined since."""


class LiveGroup:
    """One group: its members, and the lock that makes this process the one that reads for it.

    Args:
        path: The lock's file; None for a log that no other process sees.
    """

    def __init__(self, path: str | None) -> None:
        self.lock = threading.Lock()
        self.membership = Membership()
        self.is_held = False  # whether others read for it, who are not members here
        self.abandoned: deque[int] = deque()  # a finalizer may run anywhere, and so takes no lock
        self._process_lock = None if path is None else GroupLock(path)

    def try_acquire(self) -> bool:
        """Return whether this process is the one that reads for the group, having tried to become it."""
        return self._process_lock is None or self._process_lock.try_acquire()

    def other_process(self) -> int | None:
        """Return the id of another process that reads for the group (0: it is not known), or None."""
        return None if self._process_lock is None else self._process_lock.holder()

    def bury(self, now_s: float) -> bool:
        """Let members go that were dropped without being closed, with the lock held, and return whether there were any."""
        is_changed = False
        while self.abandoned:
            self.membership.leave(self.abandoned.popleft(), now_s)
            is_changed = True
        return is_changed

    def release_if_empty(self) -> None:
        """Let other processes read for the group once nobody here does, with the lock held."""
        if self._process_lock is not None and self.membership.is_empty and not self.is_held:
            self._process_lock.release()


class GroupRegistry:
    """The groups of one log.

    Args:
        log: The log.
    """

    def __init__(self, log: Log) -> None:
        self._directory = None if log.is_memory else log.groups_directory
        self._groups: dict[tuple[int, int, str], LiveGroup] = {}
        self._numbers = itertools.count(secrets.randbits(_FIRST_MEMBER_BITS))

    def next_member(self) -> int:
        """Return an id that no member of any group of the log has had, in this process or in one before it."""
        return next(self._numbers)

    def group(self, topic: TopicRecord, name: str) -> LiveGroup:
        """Return a group; it outlives a purge of its topic."""
        key = topic.stream_number, topic.id, name
        group = self._groups.get(key)
        if group is None:
            digest = hashlib.sha256(name.encode()).hexdigest()[:32]
            path = None if self._directory is None else f"{self._directory}/{topic.stream_number}-{topic.id}-{digest}.lock"
            group = self._groups.setdefault(key, LiveGroup(path))
        return group

    def names(self, topic: TopicRecord) -> list[str]:
        """Return the names of a topic's groups that have members here."""
        known = list(self._groups.items())
        return [key[2] for key, group in known if key[:2] == (topic.stream_number, topic.id) and not group.membership.is_empty]


_REGISTRIES: Final[weakref.WeakKeyDictionary[Log, GroupRegistry]] = weakref.WeakKeyDictionary()


def registry_of(log: Log) -> GroupRegistry:
    """Return the groups of a log, the same for all who have it open."""
    return _REGISTRIES.setdefault(log, GroupRegistry(log))
