"""Transitions: counts transitions of messages, per group and in total, and reports stored transitions to an audit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import MessageState
from headstream.core.model.transitions import Transition, TransitionKind
from headstream.log.partition.offset_file_counts import NO_USER


class GroupPlace(NamedTuple):
    """The place of a transition.

    Args:
        topic: Stream and topic.
        group: The group's name; empty if the transition changes a message's state.
        partition: From 1; 0 for the entire group.
        user_id: Id of the server's user who made the request, or NO_USER.
    """

    topic: TopicName
    group: str
    partition: int = 0
    user_id: int = NO_USER


Audit: TypeAlias = Callable[[GroupPlace, Transition], None]
"""Takes a transition; must neither block nor raise."""


class Transitions:
    """The transitions of one log; thread-safe. Each transition is also sent to `audit`, if any."""

    def __init__(self) -> None:
        self.audit: Audit | None = None
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(TransitionKind, 0)
        self._states = dict.fromkeys((state.name.lower() for state in MessageState), 0)

    @property
    def counts(self) -> dict[TransitionKind, int]:
        """Number of messages or groups by kind of transition, since this process started."""
        with self._lock:
            return dict(self._counts)

    @property
    def state_counts(self) -> dict[str, int]:
        """Number of messages set to each state, by state name, since this process started."""
        with self._lock:
            return dict(self._states)

    def record(self, place: GroupPlace, found: Iterable[Transition]) -> None:
        """Count stored transitions, and report them to the audit."""
        with self._lock:
            for each in found:
                self._counts[each.kind] += each.size
                if each.state:
                    self._states[each.state] = self._states.get(each.state, 0) + each.size
                if self.audit is not None:
                    self.audit(place, each)
