"""SharedReading: a worker of a group whose members lease messages. Each message is leased to one worker at a time.

The log grants and ends leases (broker/deliveries/leases.py); leasing.py requests leases and settles each message. A worker leases
at most the messages that it processes in a second.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from headstream.client.consumer.ahead import FETCH_COUNT, fetch_request
from headstream.client.consumer.fetching import Transforming
from headstream.client.consumer.filtering import FilterCounts
from headstream.client.consumer.positions import check_partitions, check_start, find_offset, position_of
from headstream.client.consumer.reading import Reading, ReadingOptions
from headstream.client.consumer.retrying.attempts import Failure, RetryPolicy
from headstream.client.consumer.settling import LeaseSettler, Place, not_in_progress, warning_of_lost_leases
from headstream.client.consumer.shared.leasing import Leasing
from headstream.client.transports.transport import Transport
from headstream.core.model.identifiers import TopicName
from headstream.core.model.leases import LeaseStep, check_lease_us
from headstream.core.model.message import Message, ReceivedMessage, set_attempt
from headstream.core.model.polling import PollingKind
from headstream.core.model.topology import Topic
from headstream.errors import HeadstreamError, LeaseLostError


class SharedReading(Reading, LeaseSettler):
    """Reads messages for a consumer with `mode="shared"`; requires a transport that supports leases.

    Args:
        options: `start` is the group's start position in a partition without a committed offset.
        lease_us: Duration of a lease, microseconds.
    """

    def __init__(self, transport: Transport, topic: Topic, options: ReadingOptions, policy: RetryPolicy, lease_us: int) -> None:
        self._transport = transport
        self._name = TopicName(topic.stream, topic.name)
        self.policy = policy
        self._current: Place | None = None
        self._transforming = None if options.transform is None else Transforming(options.transform)
        start = check_start(options.start, self._name)
        numbers = check_partitions(topic, options.partitions)
        is_first = start.kind is PollingKind.FIRST
        starts = {} if is_first else {number: find_offset(transport, self._name, number, start) for number in numbers}
        poll = fetch_request(options.states, options.where)
        chosen = None if options.partitions is None else numbers
        self._leasing = Leasing(transport, self._name, policy, check_lease_us(lease_us), chosen, starts, poll)

    @property
    def filter_counts(self) -> FilterCounts:
        return FilterCounts(self._leasing.scanned_count, self._leasing.failed_count)

    @property
    def is_ready(self) -> bool:
        return bool(self._leasing.holding.buffer)

    # -- delivery -----------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        current, self._current = self.current, None
        if current is not None:
            with warning_of_lost_leases():
                self.settle_done(current)

    def take(self) -> ReceivedMessage | None:
        """Record that the previous message is done; return the next message if it is buffered, else None."""
        self.finish()
        message = self._hand_out()
        if message is not None:
            self._current = message.partition, message.offset
        return message

    def fetch(self, wanted: int | None) -> bool:
        """Lease and fetch messages unless messages are buffered; return whether messages are buffered."""
        return self._leasing.fetch(None if wanted is None else min(wanted, FETCH_COUNT))

    def wait(self, timeout_ms: float) -> None:
        """Wait for new messages, the end of a delay or lease, or added partitions."""
        wait_s = self._leasing.wait_s
        if wait_s is not None:
            timeout_ms = min(timeout_ms, wait_s * 1000)
        timeout_ms = min(timeout_ms, self._leasing.next_check_in_s * 1000)
        if self._leasing.is_paused:  # new messages do not end the pause
            time.sleep(max(timeout_ms, 0) / 1000)
        elif timeout_ms > 0:
            self._transport.messages.wait(self._name, self._leasing.ends, timeout_ms)

    def _hand_out(self) -> ReceivedMessage | None:
        """Return the next buffered message, transformed, or None."""
        while (stored := self._leasing.next_message()) is not None:
            place = stored.partition, stored.offset
            try:
                message = stored if self._transforming is None else self._transforming(stored)
            except Exception as error:
                with self._leasing.keeping(stored):
                    self.fail_transform(place, error)
                continue
            if message is None:  # sent to an interceptor's dead-letter topic
                with warning_of_lost_leases():
                    self.settle_done(place)
                continue
            held = self._leasing.holding.held[place]
            held.in_hand = True
            set_attempt(message, held.failures + 1)
            return message
        return None

    def hand_out(self, count: int) -> list[ReceivedMessage]:
        """Return up to `count` leased messages; an error after the first message ends the result and is not raised."""
        messages: list[ReceivedMessage] = []
        try:
            while len(messages) < count:
                message = self._hand_out()
                if message is not None:
                    messages.append(message)
                elif not self._leasing.fetch_leased():
                    break
        except HeadstreamError:
            if not messages:
                raise
        return messages

    def put_back(self, messages: Sequence[ReceivedMessage]) -> None:
        """Undo the delivery of messages; their leases continue."""
        for message in reversed(messages):
            if self._leasing.put_back(message) and self._transforming is not None:
                self._transforming.put_back(message)
            if self._current == (message.partition, message.offset):
                self._current = None

    def commit(self, message: Message | None) -> None:
        """Record that all delivered messages, or one message, are done."""
        self._report(self._leasing.holding.in_hand() if message is None else [self.place_of(message)], LeaseStep.DONE)

    # -- single messages ----------------------------------------------------------------------------------------------

    @property
    def current(self) -> Place | None:
        """The message that the loop body processes; None if there is no such message or the message's partition was purged."""
        return self._current if self._current in self._leasing.holding.held else None

    def place_of(self, message: Message) -> Place:
        """Return the place of a message that is in progress."""
        place = position_of(message, self._name)
        held = self._leasing.holding.held.get(place)
        if held is None or not held.in_hand:
            raise not_in_progress(place, self._name)
        return place

    def failures_of(self, place: Place) -> int:
        return self._leasing.holding.held[place].failures

    def _report(self, places: Sequence[Place], step: LeaseStep) -> None:
        self._end_attempts(places, self._leasing.report(places, step))

    def _end_attempts(self, places: Sequence[Place], lost: LeaseLostError | None) -> None:
        """End the attempts of messages after their steps were recorded."""
        if self._current in places:
            self._current = None
        if lost is not None:
            raise lost

    def settle_done(self, place: Place) -> None:
        """Record that a message is done."""
        self._report([place], LeaseStep.DONE)

    def settle_failed(self, place: Place, failure: Failure) -> None:
        self._end_attempts([place], self._leasing.report_failure(place, failure))

    def extend(self, place: Place, lease_us: int) -> None:
        """Extend the lease of a message."""
        lost = self._leasing.extend(place, lease_us)
        if lost is not None:
            self._end_attempts([place], lost)

    def defer(self, place: Place) -> None:
        """Defer a message."""
        self._report([place], LeaseStep.DEFERRED)

    def fetch_deferred(self, partition: int, offset: int) -> ReceivedMessage | None:
        message = self._hand_out() if self._leasing.fetch_deferred(partition, offset) else None
        if message is not None and (message.partition, message.offset) != (partition, offset):  # the deferred message failed
            self.put_back([message])
            return None
        return message

    # -- the end ------------------------------------------------------------------------------------------------------

    def end(self, *, commit: bool) -> None:
        """Release unsettled messages without counting a failure."""
        if commit:
            self.finish()
        with suppress(HeadstreamError):  # the leases then expire
            self._leasing.release_all()

    def close(self) -> None:
        self._leasing.leave()
