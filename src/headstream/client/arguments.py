"""Arguments: what users may write for a topic, for states and for who commits, and what it stands for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

from headstream.client.listening import PartitionsCallback
from headstream.errors import InvalidOptionError
from headstream.model.identifiers import TopicName
from headstream.model.message import parse_state
from headstream.model.polling import Consumer as Committer
from headstream.model.polling import PollingStrategy

__all__ = ["ConsumerOptions", "StartInput", "StatesInput", "TopicOptionsInput", "committer_of", "state_codes", "topic_name"]


class TopicOptionsInput(TypedDict, total=False):
    """The options of a topic, by name: those of TopicOptions."""

    retention_us: int | None
    retention_bytes: int | None
    compaction_delay_us: int | None
    deduplication_count: int | None


class ConsumerOptions(TypedDict, total=False):
    """What Client.consumer() takes."""

    group: str | None
    name: str | None
    partitions: Iterable[int] | None
    start: StartInput
    states: StatesInput
    timeout_ms: float | None
    session_timeout_ms: float
    on_assigned: PartitionsCallback | None
    on_revoked: PartitionsCallback | None


StartInput = PollingStrategy | int | str
"""Where to begin: an offset, `first`, `last`, or a PollingStrategy."""

StatesInput = Iterable[str | int] | None
"""States by name (`available`) or code; None is all of them."""


def topic_name(name: str | TopicName) -> TopicName:
    """Return the name that `stream/topic` stands for.

    Raises:
        InvalidInputError: it is no such name.
    """
    return name if isinstance(name, TopicName) else TopicName.parse(name)


def committer_of(group: str | None, name: str | None) -> Committer | None:
    """Return who commits: a group, a single consumer, or nobody.

    Raises:
        InvalidOptionError: both are given.
    """
    if group is not None and name is not None:
        raise InvalidOptionError("a consumer has a group or a name, not both", advice="Leave one out")
    if group is not None:
        return Committer.group(group)
    return None if name is None else Committer.named(name)


def state_codes(states: StatesInput) -> frozenset[int] | None:
    """Return the codes of states, None for all.

    Raises:
        InvalidInputError: no state has such a name, or none is named.
    """
    if states is None:
        return None
    if isinstance(states, str):
        states = (states,)
    codes = frozenset(parse_state(state) if isinstance(state, str) else int(state) for state in states)
    if not codes:
        raise InvalidOptionError("no state is named", advice='Use states=("available",), or None for all')
    return codes
