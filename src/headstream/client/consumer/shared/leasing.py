"""Leasing: leases messages of a group from the log, fetches them, and records the outcome of each message."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from headstream.client.consumer.ahead import FETCH_COUNT
from headstream.client.consumer.membership import GroupMembership
from headstream.client.consumer.receiving import poll_checked
from headstream.client.consumer.retrying.attempts import Failure, RetryPolicy, worker_name
from headstream.client.consumer.shared.holding import Holding, LeaseSize
from headstream.client.transports.delivery_transport import LeaseAccess, LeaseCommands
from headstream.client.transports.transport import Transport
from headstream.core.filters.poll_request import PollRequest
from headstream.core.model.deliveries import RetryOrder
from headstream.core.model.groups import DEFAULT_SESSION_TIMEOUT_MS
from headstream.core.model.identifiers import TopicName
from headstream.core.model.leases import SKIPPED, Grant, LeaseChange, LeaseRequest, LeaseStep
from headstream.core.model.message import ReceivedMessage
from headstream.errors import (
    CorruptSendError,
    HeadstreamError,
    LeaseLostError,
    OffsetOutOfRangeError,
    PartitionNotFoundError,
    RebalancedError,
)

_MOST_NAMED: Final = 3
"""Maximum number of messages listed in an error."""

_CHECK_EVERY_S: Final = 5.0
"""Interval at which a worker checks for added partitions, with one small request."""


class Leasing:
    """The leases of one worker.

    Args:
        lease_us: Duration of a lease, microseconds.
        partitions: The partitions to lease from; None: all partitions, including partitions added later.
        starts: Partition -> first offset if the group has no committed offset.

    Attributes:
        ends: Partition -> end of the partition at the last request, if no message could be leased.
        wait_s: Maximum wait if no message could be leased, or None.
        is_paused: Whether the group was paused at the last request.
        scanned_count: Messages that the filter has examined.
        failed_count: Examined messages to which the filter could not be applied.
    """

    def __init__(
        self,
        transport: Transport,
        topic: TopicName,
        policy: RetryPolicy,
        lease_us: int,
        partitions: Iterable[int] | None,
        starts: Mapping[int, int],
        poll: PollRequest,
    ) -> None:
        self._transport = transport
        self._name = topic
        self._policy = policy
        self._lease_us = lease_us
        self._follows_all = partitions is None
        self._next_check_s = 0.0
        self._cycle = [] if partitions is None else sorted(partitions)
        self._starts = starts
        self._poll = poll
        self._worker = worker_name()
        self._size = LeaseSize(lease_us / 1e6, FETCH_COUNT)
        self._damaged: dict[int, CorruptSendError] = {}
        self.holding = Holding()
        self.ends: dict[int, int] = {}
        self.wait_s: float | None = None
        self.is_paused = self._has_to_release = False
        self.scanned_count = self.failed_count = 0
        self._membership = GroupMembership(transport, topic, policy.group, DEFAULT_SESSION_TIMEOUT_MS, is_shared=True)

    @property
    def _leases(self) -> LeaseCommands:
        assert isinstance(self._transport, LeaseAccess)
        return self._transport.leases

    def request(self, count: int, partitions: Iterable[int], deferred: Iterable[int] = ()) -> int:
        """Lease messages; return their number."""
        retry, now_s = self._policy.retry, time.monotonic()
        request = LeaseRequest(
            secrets.randbits(64),
            count,
            self._lease_us,
            self._worker,
            retry.attempts,
            retry.order or RetryOrder.SKIP,
            self._policy.dead_letter,
            tuple(partitions),
            self._starts,
            tuple(deferred),
            retry.pause_rule,
        )
        grant = self._ask(request)
        self.is_paused = grant.is_paused
        if not grant.partition:
            self.ends = dict(grant.ends)
            self.wait_s = None if grant.wait_us is None else grant.wait_us / 1e6
            return 0
        leased = self.holding.add(grant, request.token, now_s + self._lease_us / 1e6)
        self._size.begin(leased, time.monotonic())
        if grant.partition in self._cycle:
            at = self._cycle.index(grant.partition) + 1
            self._cycle = self._cycle[at:] + self._cycle[:at]  # the next request starts with the next partition
        return leased

    @property
    def next_check_in_s(self) -> float:
        """Time until the next check for added partitions, seconds."""
        return max(0.0, self._next_check_s - time.monotonic()) if self._follows_all else math.inf

    def _look_for_partitions(self) -> None:
        """Start leasing from added partitions; stop leasing from deleted partitions."""
        if not self.next_check_in_s:
            there = {each.number for each in self._transport.topics.get(self._name).partitions}
            self._cycle = [number for number in self._cycle if number in there] + sorted(there.difference(self._cycle))
            self._next_check_s = time.monotonic() + _CHECK_EVERY_S

    def _ask(self, request: LeaseRequest) -> Grant:
        try:
            return self._leases.lease(self._name, self._membership.member, request)
        except RebalancedError:  # the server has restarted, or the worker sent no request for too long
            self._membership.join_again()
            return self._leases.lease(self._name, self._membership.member, request)

    def fetch(self, count: int | None = None) -> bool:
        """Lease and fetch until messages are buffered; return whether messages are buffered.

        Args:
            count: Maximum number of messages; None leases the number that the worker processes in a short time.

        Raises:
            CorruptSendError: a partition is damaged and no other partition has more messages.
        """
        while not self.fetch_leased():
            self._size.end(time.monotonic())
            self._look_for_partitions()
            whole = [partition for partition in self._cycle if partition not in self._damaged]
            try:
                if whole and self.request(self._size.count if count is None else count, whole):
                    continue
            except PartitionNotFoundError:  # deleted since the last check
                if not self._follows_all:
                    raise
                self._next_check_s = 0.0
                continue
            for error in self._damaged.values():
                raise error
            return False
        return True

    def fetch_leased(self) -> bool:
        """Fetch leased messages until messages are buffered; return whether messages are buffered."""
        while not self.holding.buffer and self.holding.unfetched:
            self._fetch_unfetched()
        return bool(self.holding.buffer)

    def _fetch_unfetched(self) -> None:
        """Fetch one response for the first unfetched range; messages that the response does not contain are done."""
        wanted = self.holding.unfetched[0]
        request = self._poll.from_offset(wanted.from_offset, wanted.until_offset - wanted.from_offset)
        try:
            polled, messages = poll_checked(self._transport, self._name, wanted.partition, request)
        except CorruptSendError as error:
            self._damaged[wanted.partition] = error
            self.release_all()
            raise
        self.scanned_count += polled.scanned_count
        self.failed_count += polled.failed_count
        is_purged = polled.next_offset <= wanted.from_offset  # the partition was purged
        missing = self.holding.feed(messages, wanted.until_offset if is_purged else polled.next_offset)
        if missing:
            changes = [LeaseChange(LeaseStep.DONE, wanted.held.token, *each, reason=SKIPPED) for each in missing]
            self._report(wanted.partition, wanted.held.generation, changes)

    def fetch_deferred(self, partition: int, offset: int) -> bool:
        """Lease and fetch a deferred message and put it at the front of the buffer; return whether this succeeded."""
        self._release_if_paused()
        holding = self.holding
        unfetched, buffer = holding.set_apart()
        try:
            return bool(self.request(1, [partition], [offset])) and self.fetch_leased()
        finally:
            holding.unfetched.extend(unfetched)
            holding.buffer.extend(buffer)

    # -- recording in the log -----------------------------------------------------------------------------------------

    def _report(self, partition: int, generation: int, changes: list[LeaseChange]) -> LeaseLostError | None:
        where = f"{self._name}, partition {partition}"
        try:
            settled = self._leases.settle_leases(
                self._name,
                self._policy.group,
                partition,
                changes,
                dead_letter=self._policy.dead_letter,
                partition_generation=generation,
                pause_rule=self._policy.retry.pause_rule,
            )
        except (OffsetOutOfRangeError, PartitionNotFoundError) as error:
            self.holding.drop(partition, generation)
            gone = "purged" if isinstance(error, OffsetOutOfRangeError) else "deleted"
            return LeaseLostError(f"the partition with the leased messages was {gone}", where=where)
        refused = settled.refused
        self._has_to_release = self._has_to_release or settled.paused_us > 0
        if not refused:
            return None
        told = "; ".join(f"message {each.from_offset}: {each.what}" for each in refused[:_MOST_NAMED])
        return LeaseLostError(
            told if len(refused) <= _MOST_NAMED else f"{told}; further messages are not listed",
            where=where,
            advice="Nothing was recorded. Set a longer lease=, or call extend(message, '1m') before the lease ends",
        )

    def report(self, places: Iterable[tuple[int, int]], step: LeaseStep) -> LeaseLostError | None:
        """Record one step of messages in the log and drop the messages; return the error for refused steps, or None."""
        lost: LeaseLostError | None = None
        places = list(places)
        for partition, generation, changes in list(self.holding.changes(step, places)):
            lost = self._report(partition, generation, changes) or lost
        for place in places:
            self.holding.held.pop(place, None)
        return lost

    def report_failure(self, place: tuple[int, int], failure: Failure) -> LeaseLostError | None:
        """Record in the log that a message failed, temporarily or permanently, and drop the message; see report()."""
        step = LeaseStep.POISONED if failure.reason else LeaseStep.FAILED
        held = self.holding.held[place]
        change = LeaseChange(step, held.token, place[1], place[1] + 1, failure.delay_us, failure.reason, failure.error)
        lost = self._report(place[0], held.generation, [change])
        self.holding.held.pop(place, None)
        return lost

    def extend(self, place: tuple[int, int], lease_us: int) -> LeaseLostError | None:
        """Extend the lease of a message; see report(). The message is dropped only if the extension is refused."""
        held, end_s = self.holding.held[place], time.monotonic() + lease_us / 1e6
        change = LeaseChange(LeaseStep.EXTENDED, held.token, place[1], place[1] + 1, lease_us)
        lost = self._report(place[0], held.generation, [change])
        if lost is None:
            held.end_s = end_s
        else:
            self.holding.held.pop(place, None)
        return lost

    def release_all(self) -> None:
        """Release all messages, so that other workers can lease them immediately."""
        for partition, generation, changes in list(self.holding.take_all()):
            self._report(partition, generation, changes)

    def _release_if_paused(self) -> None:
        if self._has_to_release:
            self._has_to_release = False
            for partition, generation, changes in list(self.holding.take_undelivered()):
                self._report(partition, generation, changes)
            self._has_to_release = False

    def leave(self) -> None:
        """Leave the group; a second call does nothing."""
        self._membership.leave()

    def put_back(self, message: ReceivedMessage) -> bool:
        """Put a delivered message back at the front of the buffer; return whether its lease is still held."""
        held = self.holding.held.get((message.partition, message.offset))
        if held is None:
            return False
        held.in_hand = False
        self.holding.buffer.appendleft(message)
        return True

    @contextmanager
    def keeping(self, message: ReceivedMessage) -> Iterator[None]:
        """Return a context that puts the message back if its outcome cannot be recorded in the log."""
        try:
            yield
        except HeadstreamError:
            self.put_back(message)
            raise

    def next_message(self) -> ReceivedMessage | None:
        """Return the next buffered message whose lease has at least half of its time left; release messages with less time."""
        self._release_if_paused()
        late: list[tuple[int, int]] = []
        message: ReceivedMessage | None = None
        while message is None and self.holding.buffer:
            message = self.holding.buffer.popleft()
            place = message.partition, message.offset
            if self.holding.held[place].end_s - time.monotonic() < self._lease_us / 2e6:
                late.append(place)
                message = None
        if late:
            self.report(late, LeaseStep.RELEASED)
        return message
