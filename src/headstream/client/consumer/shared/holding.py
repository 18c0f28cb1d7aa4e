"""Holding: the leased messages of a worker in all stages. Sans-IO; times are monotonic seconds.

grant -> unfetched ranges -> buffer of messages -> delivered -> settled
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from headstream.core.model.leases import Grant, LeaseChange, LeaseStep
from headstream.core.model.message import ReceivedMessage
from headstream.core.model.offset_ranges import ranges_of

_LONGEST_S: Final = 1.0
"""Maximum processing time of the messages of one grant, seconds, because other workers wait for these messages."""

_PARTS: Final = 8
"""Divisor of the lease duration: the maximum processing time of a grant, so that the last message has time left."""


@dataclass(slots=True)
class HeldMessage:
    """A leased message.

    Args:
        end_s: Latest time at which the lease ends.
        in_hand: Whether the message was delivered to the user.
    """

    token: int
    failures: int
    end_s: float
    generation: int
    in_hand: bool = False


@dataclass(slots=True)
class UnfetchedRange:
    """Leased messages before `until_offset` that are not yet fetched."""

    partition: int
    from_offset: int
    until_offset: int
    held: HeldMessage


class LeaseSize:
    """Computes the number of messages to lease: the number that one worker processes in a short time."""

    def __init__(self, lease_s: float, most: int) -> None:
        self._target_s = min(_LONGEST_S, lease_s / _PARTS)
        self._most = most
        self._begun_s = 0.0
        self._count = 0
        self.count = 1

    def begin(self, count: int, now_s: float) -> None:
        """Add to the number of leased messages."""
        self._count, self._begun_s = count, now_s

    def end(self, now_s: float) -> None:
        """Record that all leased messages were processed."""
        if self._count >= self.count:
            took_s = now_s - self._begun_s
            if took_s < self._target_s / 2:
                self.count = min(2 * self.count, self._most)
            elif took_s > self._target_s:
                self.count = max(1, self.count // 2)
        self._count = 0


class Holding:
    """The leased messages of one worker."""

    def __init__(self) -> None:
        self.unfetched: deque[UnfetchedRange] = deque()
        self.buffer: deque[ReceivedMessage] = deque()
        self.held: dict[tuple[int, int], HeldMessage] = {}

    @property
    def is_empty(self) -> bool:
        """Whether all leased messages were fetched and delivered."""
        return not self.buffer and not self.unfetched

    def add(self, grant: Grant, token: int, end_s: float) -> int:
        """Add a grant; return the grant's message count."""
        for each in grant.ranges:
            held = HeldMessage(token, each.failures, end_s, grant.generation)
            self.unfetched.append(UnfetchedRange(grant.partition, each.from_offset, each.until_offset, held))
        return sum(each.until_offset - each.from_offset for each in grant.ranges)

    def feed(self, messages: Iterable[ReceivedMessage], until_offset: int) -> list[tuple[int, int]]:
        """Add fetched messages of the first unfetched range, in order; return the offset ranges without messages."""
        wanted = self.unfetched[0]
        until = min(until_offset, wanted.until_offset)
        known = wanted.held
        missing, at = list[tuple[int, int]](), wanted.from_offset
        for message in messages:
            if message.offset >= until:
                break
            if at < message.offset:
                missing.append((at, message.offset))
            at = message.offset + 1
            self.buffer.append(message)
            self.held[wanted.partition, message.offset] = HeldMessage(known.token, known.failures, known.end_s, known.generation)
        if at < until:
            missing.append((at, until))
        wanted.from_offset = until
        if until >= wanted.until_offset:
            self.unfetched.popleft()
        return missing

    def set_apart(self) -> tuple[deque[UnfetchedRange], deque[ReceivedMessage]]:
        """Remove and return the undelivered messages."""
        apart = self.unfetched, self.buffer
        self.unfetched, self.buffer = deque(), deque()
        return apart

    def drop(self, partition: int, generation: int) -> None:
        """Drop the messages of a purged partition."""
        lost = [place for place, held in self.held.items() if place[0] == partition and held.generation == generation]
        for place in lost:
            del self.held[place]
        self.buffer = deque(each for each in self.buffer if (each.partition, each.offset) in self.held)
        self.unfetched = deque(
            each for each in self.unfetched if (each.partition, each.held.generation) != (partition, generation)
        )

    def in_hand(self) -> list[tuple[int, int]]:
        """Return partition and offset of the messages that are delivered to the user."""
        return [place for place, held in self.held.items() if held.in_hand]

    def changes(self, step: LeaseStep, places: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int, list[LeaseChange]]]:
        """Yield partition, generation and offset ranges with one step for held messages (given by partition and offset)."""
        found: dict[tuple[int, int, int], list[int]] = {}
        for partition, offset in places:
            held = self.held[partition, offset]
            found.setdefault((partition, held.generation, held.token), []).append(offset)
        grouped: dict[tuple[int, int], list[LeaseChange]] = {}
        for (partition, generation, token), offsets in found.items():
            ranges = [LeaseChange(step, token, *each) for each in ranges_of(sorted(offsets))]
            grouped.setdefault((partition, generation), []).extend(ranges)
        for (partition, generation), changes in grouped.items():
            yield partition, generation, changes

    def take_undelivered(self) -> Iterator[tuple[int, int, list[LeaseChange]]]:
        """Yield the steps that release the undelivered messages, and drop these messages."""
        places = [place for place, held in self.held.items() if not held.in_hand]
        yield from self.changes(LeaseStep.RELEASED, places)
        yield from self._release_unfetched()
        self.buffer.clear()
        for place in places:
            del self.held[place]

    def _release_unfetched(self) -> Iterator[tuple[int, int, list[LeaseChange]]]:
        for each in self.unfetched:
            change = LeaseChange(LeaseStep.RELEASED, each.held.token, each.from_offset, each.until_offset)
            yield each.partition, each.held.generation, [change]
        self.unfetched.clear()

    def take_all(self) -> Iterator[tuple[int, int, list[LeaseChange]]]:
        """Yield the steps that release all messages, and drop all messages."""
        yield from self.changes(LeaseStep.RELEASED, list(self.held))
        yield from self._release_unfetched()
        self.buffer.clear()
        self.held.clear()
