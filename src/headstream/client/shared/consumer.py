"""SharedConsumer: a worker of a group whose members lease messages: any worker gets any message, one worker at a time.

The log grants leases, and ends them (broker/leases.py); leasing.py requests them, and settles each message. A worker
leases few messages ahead: as many as it processes in a second.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Final

from headstream.client.ahead import FETCH_COUNT
from headstream.client.arguments import StartInput
from headstream.client.checks import Milliseconds, check_whole, milliseconds
from headstream.client.closing import closing
from headstream.client.filtering import FilterCounts
from headstream.client.interception.consumer import InterceptedConsumer, Transform
from headstream.client.positions import find_offset, position_of
from headstream.client.retrying.attempts import RetryPolicy, text_of
from headstream.client.settling import DelayInput
from headstream.client.shared.leasing import Leasing
from headstream.client.transport import Transport
from headstream.errors import HeadstreamError, InvalidInputError, InvalidOptionError, LeaseLostError, SerializerError
from headstream.interceptors.chain import Chain
from headstream.model.deliveries import DeadLetterReason
from headstream.model.leases import LeaseStep, check_lease_us
from headstream.model.message import Message, ReceivedMessage, set_attempt
from headstream.model.polling import PollingKind
from headstream.model.quantities import parse_duration_us
from headstream.model.topology import Topic

__all__ = ["SharedConsumer"]

_log: Final = logging.getLogger("headstream.client")


class SharedConsumer(InterceptedConsumer):
    """A consumer with `mode="shared"`.

    Args:
        transport: The client's transport; it has leases.
        topic: The topic's current metadata.
        chain: The client's interceptors, or None.
        transform: Called with each message when it is delivered.
        policy: What it does with failing messages.
        lease_us: How long it has a message, microseconds.
        start: Where the group begins in a partition without a committed offset.
        partitions: Which to lease from; None is all.
        options: As for Consumer.
    """

    def __init__(
        self,
        transport: Transport,
        topic: Topic,
        chain: Chain | None,
        transform: Transform,
        policy: RetryPolicy,
        lease_us: int,
        *,
        start: StartInput = "first",
        partitions: Iterable[int] | None = None,
        **options: Any,
    ) -> None:
        given = {**options, "committer": None, "start": start, "partitions": partitions}
        super().__init__(transport, topic, chain, transform, **given)
        self._policy = policy
        self._current: tuple[int, int] | None = None
        self._transformed: dict[tuple[int, int], ReceivedMessage] = {}
        """Messages that were put back: they are transformed once."""
        numbers = sorted(self._fetching.positions)
        is_first = self._strategy.kind is PollingKind.FIRST
        starts = (
            {} if is_first else {number: find_offset(self._transport, self._name, number, self._strategy) for number in numbers}
        )
        lease_us = check_lease_us(lease_us)
        chosen = None if partitions is None else numbers
        self._leasing = Leasing(self._transport, self._name, policy, lease_us, chosen, starts, self._options)

    def _find(self, partition: int) -> int:
        return 0  # the log knows where the group is

    @property
    def positions(self) -> dict[int, int]:
        """Empty: workers have no positions; the group's are log.group(topic, group).partitions."""
        return {}

    @property
    def filter_counts(self) -> FilterCounts:
        """The number of messages that the filter has examined, and of those that it could not be applied to."""
        return FilterCounts(self._leasing.scanned_count, self._leasing.failed_count)

    @property
    def is_ready(self) -> bool:
        """Whether the next message is already buffered."""
        return bool(self._leasing.holding.buffer)

    @property
    def may_wait(self) -> bool:
        """Whether take() can block although a message is buffered: it tells the log first."""
        return True

    def seek(self, partition: int, offset: StartInput) -> None:
        """Raise InvalidOptionError: a worker has no position of its own."""
        raise InvalidOptionError(
            "a consumer with mode='shared' has no position",
            where=str(self._name),
            advice="Close the group's consumers, and use log.seek_group() or `headstream group seek`",
        )

    # -- delivery -----------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Begin a loop; the message at which an earlier one ended has to be settled before.

        Raises:
            InvalidInputError: it is not settled: whether it failed is unknown.
        """
        if self._current is not None:
            raise InvalidInputError(
                f"the loop before ended at message {self._current[1]} of partition {self._current[0]}, and whether it failed "
                "is unknown",
                where=str(self._name),
                advice="Call ack(message) or retry(message) before the next loop; leaving the `with` block, run() and "
                "`with consumer.attempting(message):` know it by themselves",
            )
        return self

    def finish(self) -> None:
        """Record that the message that iteration delivered last is done; requesting the next one does this too."""
        self._check_open()
        current, self._current = self._current, None
        if current is not None:
            self._warn(self._leasing.say([current], LeaseStep.DONE))

    @staticmethod
    def _warn(lost: LeaseLostError | None) -> None:
        if lost is not None:
            _log.warning("%s", lost)

    def _raise(self, place: tuple[int, int], lost: LeaseLostError | None) -> None:
        """End a call for one message, after the log was told."""
        if self._current == place:
            self._current = None
        if lost is not None:
            raise lost

    def take(self) -> ReceivedMessage | None:
        """Record that the previous message is done, and return the next one if it is buffered, else None."""
        self.finish()
        message = self._hand_out()
        if message is not None:
            self._current = message.partition, message.offset
        return message

    def fetch(self, timeout_ms: float | None = 0) -> bool:
        """Lease and fetch messages without delivering any, and return whether some are buffered; see Consumer.fetch()."""
        self._check_open()
        return self.is_ready or self._fetch_within(timeout_ms)

    def _fetch(self) -> bool:
        return self._leasing.fetch()

    def _wait(self, timeout_ms: float) -> None:
        wait_s = self._leasing.wait_s
        if wait_s is not None:
            timeout_ms = min(timeout_ms, wait_s * 1000)
        timeout_ms = min(timeout_ms, self._leasing.look_in_s * 1000)
        if self._leasing.is_paused:  # new messages change nothing
            time.sleep(max(timeout_ms, 0) / 1000)
        elif timeout_ms > 0:
            self._transport.messages.wait(self._name, self._leasing.ends, timeout_ms)

    def _hand_out(self) -> ReceivedMessage | None:
        """Return the next buffered message, transformed, or None."""
        while (stored := self._leasing.next_message()) is not None:
            place = stored.partition, stored.offset
            try:
                message = self._transformed.pop(place) if self._transformed.get(place) is stored else self._transform(stored)
            except Exception as error:
                is_decoding = isinstance(error, SerializerError)
                reason = DeadLetterReason.DECODE_ERROR if is_decoding else DeadLetterReason.MAX_ATTEMPTS
                with self._leasing.keeping(stored):
                    self._warn(self._fail(place, text_of(error), reason, None))
                continue
            if message is None:  # an interceptor has set it aside
                self._warn(self._leasing.say([place], LeaseStep.DONE))
                continue
            held = self._leasing.holding.held[place]
            held.in_hand = True
            set_attempt(message, held.failures + 1)
            return message
        return None

    def poll(self, count: int = 100, *, timeout_ms: Milliseconds = 0) -> list[ReceivedMessage]:
        """Return up to `count` messages, to settle one by one, or by commit(); see Consumer.poll()."""
        self._check_open()
        if check_whole("count", count) < 1:
            raise InvalidInputError(f"a poll requests at least one message, not {count}", where=str(self._name))
        until_s = time.monotonic() + milliseconds("timeout_ms", timeout_ms) / 1000
        wanted = min(count, FETCH_COUNT)
        while self._leasing.fetch(wanted) or self.fetch(max(0.0, until_s - time.monotonic()) * 1000):
            messages = self._hand_out_many(count)
            if messages:
                return messages
        return []

    def _hand_out_many(self, count: int) -> list[ReceivedMessage]:
        """Return up to `count` leased messages; an error is raised when those before it have been returned."""
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
        """Undo the delivery of messages; see Settling.put_back(). Their leases go on."""
        for message in reversed(messages):
            place = message.partition, message.offset
            if self._leasing.put_back(message):
                self._transformed[place] = message
            if self._current == place:
                self._current = None

    def commit(self, message: Message | None = None) -> None:
        """Record that everything delivered is done, or one message.

        Args:
            message: A message that this consumer delivered; None is all of them.

        Raises:
            LeaseLostError: the lease of a message had ended; all others are done.
        """
        self._check_open()
        places = self._leasing.holding.in_hand() if message is None else [self._place_of(message)]
        lost = self._leasing.say(places, LeaseStep.DONE)
        if self._current in places:
            self._current = None
        if lost is not None:
            raise lost

    # -- single messages ------------------------------------------------------------------------------------------------

    def _place_of(self, message: Message) -> tuple[int, int]:
        self._check_open()
        place = position_of(message, self._name)
        held = self._leasing.holding.held.get(place)
        if held is None or not held.in_hand:
            raise InvalidInputError(
                f"message {place[1]} of partition {place[0]} is not in progress",
                where=str(self._name),
                advice="Settle each message once: by ack(), retry(), reject() or defer(), or by requesting the next one",
            )
        return place

    def ack(self, message: Message) -> None:
        """Record that a message is done; see Settling.ack()."""
        self.commit(message)

    def retry(self, message: Message, *, delay: DelayInput | None = None, reason: str | BaseException = "") -> None:
        """Record that a message failed; see Settling.retry()."""
        delay_us = None if delay is None else parse_duration_us(delay, plain_unit="us")
        place = self._place_of(message)
        self._raise(place, self._fail(place, text_of(reason), DeadLetterReason.MAX_ATTEMPTS, delay_us))

    def reject(self, message: Message, *, reason: str | BaseException = "") -> None:
        """Give up a message; see Settling.reject()."""
        place = self._place_of(message)
        if self._policy.dead_letter is None:
            raise InvalidOptionError(
                "the consumer has no dead-letter topic", where=str(self._name), advice="Create it with dead_letter="
            )
        self._raise(place, self._leasing.say_failed(place, text_of(reason), DeadLetterReason.REJECTED, None))

    def extend(self, message: Message, lease: DelayInput) -> None:
        """Have the lease of a message end later; see Settling.extend()."""
        place, lease_us = self._place_of(message), check_lease_us(parse_duration_us(lease, plain_unit="us"))
        lost = self._leasing.extend(place, lease_us)
        if lost is not None:
            self._raise(place, lost)

    def defer(self, message: Message) -> None:
        """Set a message aside; see Settling.defer()."""
        place = self._place_of(message)
        self._raise(place, self._leasing.say([place], LeaseStep.DEFERRED))

    def fetch_deferred(self, partition: int, offset: int) -> ReceivedMessage:
        """Return a message that was set aside; see Settling.fetch_deferred()."""
        self._check_open()
        is_there = self._leasing.fetch_deferred(check_whole("partition", partition), check_whole("an offset", offset))
        message = self._hand_out() if is_there else None
        if message is None or (message.partition, message.offset) != (partition, offset):
            raise InvalidInputError(
                f"message {offset} of partition {partition} cannot be delivered",
                where=str(self._name),
                advice="It is gone, not available or cannot be decoded, or another process reads for the group",
            )
        return message

    def _fail(self, place: tuple[int, int], error: str, reason: DeadLetterReason, delay_us: int | None) -> LeaseLostError | None:
        retry, failures = self._policy.retry, self._leasing.holding.held[place].failures + 1
        if retry.is_last(failures):
            return self._leasing.say_failed(place, error, reason, None)
        if delay_us is None:
            delay_us = retry.delay_after(failures, random.random())
        return self._leasing.say_failed(place, error, "", delay_us)

    @contextmanager
    def attempting(self, message: Message) -> Iterator[None]:
        """Record an Exception of the context by retry(); see Settling.attempting()."""
        place: tuple[int, int] | None = None
        try:
            yield
        except Exception as error:
            with suppress(InvalidInputError):  # settled in the context
                place = self._place_of(message)
            if place is None:
                raise
            self._warn(self._fail(place, text_of(error), DeadLetterReason.MAX_ATTEMPTS, None))
            if self._current == place:
                self._current = None
        else:
            with suppress(InvalidInputError):  # settled in the context
                place = self._place_of(message)
            if place is not None and place != self._current:
                self._warn(self._leasing.say([place], LeaseStep.DONE))

    # -- the end --------------------------------------------------------------------------------------------------------

    def record_failure(self, error: BaseException) -> None:
        """Record that the loop's body raised an error; see Settling.record_failure()."""
        current = self._current
        if self._is_closed or current is None or not isinstance(error, Exception):
            return
        try:
            self._warn(self._fail(current, text_of(error), DeadLetterReason.MAX_ATTEMPTS, None))
            self._current = None
        except HeadstreamError as also:
            error.add_note(f"The failure of message {current[1]} of partition {current[0]} could not be recorded: {also}")

    def close(self, *, commit: bool = True) -> None:
        """Close the consumer; see Consumer.close(). What is not settled is released: this counts as no failure."""
        if self._is_closed:
            return
        with closing():
            try:
                if commit:
                    self.finish()
                with suppress(HeadstreamError):  # its leases end by time then
                    self._leasing.release_all()
            finally:
                self._leasing.leave()
                super().close(commit=False)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        with closing():
            if error is not None:
                self.record_failure(error)
            self.close(commit=error is None)
