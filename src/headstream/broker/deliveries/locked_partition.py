"""LockedPartition: one partition of a group during a lease request, and the keys of the partition's messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from headstream.broker.deliveries.journals import OpenJournal
from headstream.broker.messages.messages import Messages
from headstream.core.codec.binary import decode_polled
from headstream.core.filters.poll_request import PollRequest
from headstream.core.model.identifiers import TopicName
from headstream.core.model.offset_ranges import OffsetRanges
from headstream.core.model.pauses import PauseRule
from headstream.core.model.polling import OffsetOwner, PollingStrategy
from headstream.errors import CorruptSendError
from headstream.log.catalog.records import TopicRecord
from headstream.log.partition.lease_table import LeaseKeys, LeaseOutcome, LeaseTable

_KEYS_PAGE: Final = 1000
"""Number of messages in one read of keys."""

_MAX_WAITING: Final = 10_000
"""Maximum number of messages that wait for earlier messages with their key; above it, no more keys are read."""


@dataclass(slots=True)
class LockedPartition:
    """One partition of a group; the caller holds the group's lock.

    Args:
        partition: From 1.
        user_id: The server's user who sends the request.
        dead_letter: The topic for permanently failed messages, or None.
        pause_rule: Rule for pausing the group, or None.
    """

    record: TopicRecord
    owner: OffsetOwner
    partition: int
    open: OpenJournal
    table: LeaseTable
    committed: int
    user_id: int
    dead_letter: TopicName | None
    pause_rule: PauseRule | None

    @property
    def name(self) -> TopicName:
        """The topic's name."""
        return self.record.name


_Store: TypeAlias = Callable[[LockedPartition, LeaseOutcome], None]


def scan_keys(place: LockedPartition, messages: Messages, store: _Store, count: int, end: int) -> None:
    """Read keys of open messages and of new messages before `end` until `count` can be leased; record waiting messages."""
    table, state = place.table, place.table.state
    if table.keys is None:
        table.keys = LeaseKeys()
        begun = OffsetRanges(each for ranges in (state.pending, state.expired, state.leased) for each in ranges)
        for offset in state.failing:
            if offset not in state.deferred:
                begun.add(offset, offset + 1)
        for begin, until in list(begun):
            for offset, key in _read_keys(place, messages, begin, until):
                table.keys.add(offset, key)
    added = 0
    while added < count and state.begun_until < end and table.can_begin and state.pending.count < _MAX_WAITING:
        begin, until = state.begun_until, min(state.begun_until + _KEYS_PAGE, end)
        found = LeaseOutcome()
        for offset, key in _read_keys(place, messages, begin, until):
            state.wait(offset, offset + 1)
            added += table.keys.add(offset, key)
        state.begun_until = until
        found.waits += state.pending.within(begin, until)
        store(place, found)


def _read_keys(place: LockedPartition, messages: Messages, begin: int, until: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield offset and key of the messages in a range; mark removed messages as done."""
    at = begin
    while at < until:
        try:
            polled = messages.poll(place.name, place.partition, PollRequest(PollingStrategy.offset(at), until - at, states=None))
        except CorruptSendError as error:  # the worker receives this error
            for offset in range(max(at, error.from_offset), min(until, error.until_offset)):
                yield offset, None
            at = error.until_offset
            continue
        for chunk in polled.chunks:
            for message in decode_polled(chunk):
                assert message.offset is not None
                if at < message.offset:
                    place.table.finish(at, min(message.offset, until))
                if message.offset < until:
                    yield message.offset, message.key
                at = message.offset + 1
        if polled.next_offset <= at:
            break
        at = polled.next_offset
    place.table.finish(at, until)
