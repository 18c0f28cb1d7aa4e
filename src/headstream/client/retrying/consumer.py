"""RetryingConsumer: a consumer that counts the failures of each message, tries it again, and gives it up into a dead letter.

The log remembers what is not done (broker/deliveries.py); this consumer tells it before it goes on:

    the first message of a partition, or another attempt, is delivered    BEGUN: a killed process counts as a failure
    the body raised an error, or retry()                                  FAILED with its delay; after the last attempt POISONED
    the body is done, and nothing fails                                   a plain commit, as without on_error
    the body is done, and an earlier message fails                        the frontier; the offset stays at the failing one
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Final

from headstream.client.ahead import FETCH_COUNT
from headstream.client.checks import Milliseconds, check_whole, milliseconds
from headstream.client.closing import closing
from headstream.client.delivery_transport import DeliveryAccess, DeliveryCommands
from headstream.client.interception.consumer import InterceptedConsumer, Transform
from headstream.client.positions import position_of
from headstream.client.receiving import poll_checked
from headstream.client.retrying.attempts import PauseGate, RetryPolicy, poisoned, text_of, worker_name
from headstream.client.retrying.fetching import RetryingFetching
from headstream.client.retrying.track import Known
from headstream.client.settling import DelayInput
from headstream.client.transport import Transport
from headstream.errors import (
    HeadstreamError,
    InvalidInputError,
    InvalidOptionError,
    RebalancedError,
    SerializerError,
    ServerUnreachableError,
)
from headstream.interceptors.chain import Chain
from headstream.model.deliveries import DeadLetterReason, Delivery, DeliveryChange, DeliveryStep, RetryOrder, cut_error
from headstream.model.groups import Member
from headstream.model.message import Message, ReceivedMessage
from headstream.model.offset_ranges import OffsetRanges
from headstream.model.polling import PollingStrategy
from headstream.model.quantities import parse_duration_us
from headstream.model.topology import Topic

__all__ = ["RetryingConsumer"]

_ABANDONED: Final = "the consumer ended, or was silent for too long, while it processed the message"
_HANDED_OUT: Final = FETCH_COUNT


class RetryingConsumer(InterceptedConsumer):
    """A consumer with `on_error`.

    Args:
        transport: The client's transport; it has deliveries.
        topic: The topic's current metadata.
        chain: The client's interceptors, or None.
        transform: Called with each message when it is delivered.
        policy: What it does with failing messages.
        options: As for Consumer.
    """

    def __init__(
        self, transport: Transport, topic: Topic, chain: Chain | None, transform: Transform, policy: RetryPolicy, **options: Any
    ) -> None:
        self._policy = policy
        self._gate = PauseGate()
        self._worker = worker_name()
        self._tracking: RetryingFetching | None = None
        super().__init__(transport, topic, chain, transform, **options)

    def _make_fetching(self, positions: Mapping[int, int]) -> RetryingFetching:
        order = self._policy.retry.order or RetryOrder.PARTITION
        self._tracking = RetryingFetching(positions, order, self._transform, self._load, lambda: self._paused_s > 0)
        return self._tracking

    @property
    def _paused_s(self) -> float:
        return self._gate.left_s(time.monotonic())

    @property
    def _messages(self) -> RetryingFetching:
        assert self._tracking is not None
        return self._tracking

    @property
    def _deliveries(self) -> DeliveryCommands:
        assert isinstance(self._transport, DeliveryAccess)
        return self._transport.deliveries

    # -- what the group had not finished ------------------------------------------------------------------------

    def _load(self, partition: int) -> Known:
        """Return the unfinished messages of the group in a partition; begun attempts that did not end count as failures."""
        found = self._deliveries.unfinished(self._name, self._policy.group, partition)
        known = Known(found.frontier, OffsetRanges(found.pending))
        if self._policy.retry.pause_rule is not None:
            self._gate.hear(found.paused_us, 0, time.monotonic())
        steps: list[DeliveryChange] = []
        now_s = time.monotonic()
        for each in found.failing:
            if each.reason or each.is_begun:
                step = self._resume(each)
                steps.append(step)
                if step.step is DeliveryStep.FAILED:
                    known.failing[each.offset] = step.failures, now_s + step.delay_us / 1e6
            else:
                known.failing[each.offset] = each.failures, now_s + each.left_us(found.now_us) / 1e6
        if steps:
            self._settle(partition, steps, found.frontier, None)
        return known

    def _resume(self, each: Delivery) -> DeliveryChange:
        if each.reason:  # a copy into the dead letter was interrupted
            return poisoned(each.offset, each.failures, each.reason, each.last_error)
        return self._failed(each.offset, each.failures + 1, _ABANDONED, DeadLetterReason.MAX_ATTEMPTS, None)

    def _failed(self, offset: int, failures: int, error: str, reason: DeadLetterReason, delay_us: int | None) -> DeliveryChange:
        """Return the step of a failure."""
        retry = self._policy.retry
        if retry.is_last(failures):
            return poisoned(offset, failures, reason, error)
        if delay_us is None:
            delay_us = retry.delay_after(failures, random.random())
        return DeliveryChange(DeliveryStep.FAILED, offset, offset + 1, failures, delay_us, "", cut_error(error))

    # -- telling the log ------------------------------------------------------------------------------------------

    def _settle(self, partition: int, steps: list[DeliveryChange], frontier: int, generation: int | None) -> bool:
        """Tell the log steps of messages, and return whether the group has changed."""
        share = self._share
        member: Member | None = None if share is None else share.member
        tracking = self._tracking  # None while the first partitions are loaded
        succeeded = 0 if tracking is None else tracking.succeeded_count
        settled = self._deliveries.settle(
            self._name,
            self._policy.group,
            partition,
            steps,
            frontier=frontier,
            member=member,
            generation=0 if share is None else share.generation,
            partition_generation=generation,
            dead_letter=self._policy.dead_letter,
            is_resting=False,
            worker=self._worker,
            succeeded=succeeded,
            pause_rule=self._policy.retry.pause_rule,
        )
        if tracking is not None:
            tracking.succeeded_count -= succeeded
        self._gate.hear(settled.paused_us, succeeded, time.monotonic())
        return share is not None and settled.generation != share.generation

    def _tell(self, partition: int, *steps: DeliveryChange) -> None:
        """Tell the log everything about a partition, and further steps."""
        track = self._messages.tracks[partition]
        frontier, changes = track.changes(steps)
        self._settle(partition, changes, frontier, self._fetching.generations.get(partition))
        track.settled(frontier)

    def _commit_done(self, *, is_by_hand: bool = False) -> None:
        tracks, plain = self._messages.tracks, dict[int, int]()
        done: dict[int, int] = {}
        try:
            for partition in self._messages.open_partitions():
                offset = tracks[partition].plain_commit()
                if offset is None or self._gate.is_on_trial:
                    self._tell(partition)
                    done[partition] = tracks[partition].base
                else:
                    plain[partition] = offset
            if plain:
                self._commit_plainly(plain, is_by_hand=is_by_hand)
        except RebalancedError:
            self._follow()
            if is_by_hand:
                raise
            return
        if plain or done:
            self._on_committed(plain | done)

    def _commit_plainly(self, offsets: dict[int, int], *, is_by_hand: bool) -> None:
        share, has_changed = self._share, False
        if share is None:
            assert self._committer is not None
            self._transport.offsets.commit(self._name, self._committer, offsets, generations=self._fetching.generations)
        else:
            is_resting = not self._messages.has_in_hand and (is_by_hand or self._fetching.is_empty)
            has_changed = share.commit(offsets, self._fetching.generations, is_resting=is_resting)
        for partition, offset in offsets.items():
            self._messages.tracks[partition].committed(offset)
        if has_changed:
            with suppress(ServerUnreachableError):  # the next poll follows again
                self._follow()

    # -- delivery ---------------------------------------------------------------------------------------------------

    @property
    def may_wait(self) -> bool:
        """Whether take() can block although a message is buffered: it can tell the log first."""
        return True

    def __iter__(self) -> Iterator[ReceivedMessage]:
        """Begin a loop; the message at which an earlier one ended has to be settled before.

        Raises:
            InvalidInputError: it is not settled: whether it failed is unknown.
        """
        current = self._messages.current
        if current is not None:
            raise InvalidInputError(
                f"the loop before ended at message {current[1]} of partition {current[0]}, and whether it failed is unknown",
                where=str(self._name),
                advice="Call ack(message) or retry(message) before the next loop; leaving the `with` block, run() and "
                "`with consumer.attempting(message):` know it by themselves",
            )
        return self

    def take(self) -> ReceivedMessage | None:
        """Commit the previous message and return the next one if it is buffered, else None."""
        self._fetching.settle_seeks()
        self.finish()
        if self._share is not None and (self._share.is_resting or self._share.is_due):
            self._follow()
        while True:
            message = self._fetching.deliver()
            if message is None and self._messages.broken is not None:
                self._fail_broken()
                continue
            if message is not None:
                try:
                    self._begin_attempt(message)
                except BaseException:  # it is not delivered: the next call must not take it for done
                    self._fetching.undeliver([message])
                    raise
            return message

    def _begin_attempt(self, message: ReceivedMessage) -> None:
        """Tell the log that an attempt begins, where it could not find out after a crash."""
        partition, offset = message.partition, message.offset
        track = self._messages.tracks[partition]
        opened = track.open[offset]
        if track.is_first or opened.failures:
            self._tell(partition, DeliveryChange(DeliveryStep.BEGUN, offset, offset + 1))
            track.tell(offset)
            track.is_first, opened.is_begun = False, True

    def _fail_broken(self) -> None:
        """Record the failure of a message that could not be decoded."""
        broken = self._messages.broken
        assert broken is not None
        is_decoding = isinstance(broken.error, SerializerError)
        reason = DeadLetterReason.DECODE_ERROR if is_decoding else DeadLetterReason.MAX_ATTEMPTS
        try:
            self._fail(broken.partition, broken.stored.offset, text_of(broken.error), reason, None)
        except BaseException:
            self._messages.put_back_broken()
            raise
        self._messages.broken = None

    def poll(self, count: int = 100, *, timeout_ms: Milliseconds = 0) -> list[ReceivedMessage]:
        """Return up to `count` messages, to settle one by one, or by commit(); see Consumer.poll()."""
        self._check_open()
        if check_whole("count", count) < 1:
            raise InvalidInputError(f"a poll requests at least one message, not {count}", where=str(self._name))
        self._fetching.settle_seeks()
        until_s = time.monotonic() + milliseconds("timeout_ms", timeout_ms) / 1000
        while self.fetch(max(0.0, until_s - time.monotonic()) * 1000):
            messages = self._fetching.hand_out(1 if self._gate.is_on_trial else min(count, _HANDED_OUT))
            if self._messages.broken is not None:
                try:
                    self._fail_broken()
                except HeadstreamError:  # raised again by the next poll, which takes it first
                    if not messages:
                        raise
            if messages:
                return messages
        return []

    def put_back(self, messages: Sequence[ReceivedMessage]) -> None:
        """Undo the delivery of messages, and their attempts that have begun; see Settling.put_back()."""
        super().put_back(messages)
        for message in messages:
            track = self._messages.tracks.get(message.partition)
            opened = None if track is None else track.open.get(message.offset)
            if track is None or opened is None or not opened.is_begun:
                continue
            with suppress(HeadstreamError):  # the log takes the attempt for a failed one if the consumer ends now
                self._tell(message.partition, DeliveryChange(DeliveryStep.RELEASED, message.offset, message.offset + 1))
                opened.is_begun = False
            track.is_first = True

    def _fetch(self) -> bool:
        if self._paused_s:
            return False
        self._fetch_again()
        return not self._fetching.is_empty or super()._fetch()

    def _fetch_again(self) -> None:
        """Fetch the messages whose delay is over."""
        while (due := self._messages.due(time.monotonic())) is not None:
            partition, offset = due
            start = PollingStrategy.offset(offset)
            _, found = poll_checked(self._transport, self._name, partition, start, 1, **self._options)
            is_there = bool(found) and found[0].offset == offset
            self._messages.put_again(partition, offset, found[0] if is_there else None)

    def _wait(self, timeout_ms: float) -> None:
        if paused_s := self._paused_s:
            self._rest()
            time.sleep(min(paused_s, timeout_ms / 1000))
            return
        due_s = self._messages.next_due_s
        if due_s is not None:
            timeout_ms = min(timeout_ms, max(0.0, due_s - time.monotonic()) * 1000)
        positions = dict(self._messages.next_polls())
        messages, share = self._transport.messages, self._share
        if share is None:
            messages.wait(self._name, positions, timeout_ms)
        else:
            self._rest()
            messages.wait(self._name, positions, timeout_ms, member=share.member, generation=share.generation)

    # -- single messages ----------------------------------------------------------------------------------------------

    def _open_position(self, message: Message) -> tuple[int, int]:
        self._check_open()
        partition, offset = position_of(message, self._name)
        track = self._messages.tracks.get(partition)
        opened = None if track is None else track.open.get(offset)
        if track is None:
            raise RebalancedError(
                f"the consumer does not read partition {partition} any more",
                where=str(self._name),
                advice="Another member of the group may have it: it gets the message again",
            )
        if opened is None or not opened.in_hand:
            raise InvalidInputError(
                f"message {offset} of partition {partition} is not in progress",
                where=str(self._name),
                advice="Settle each delivered message once: by ack(), retry() or reject(), or by requesting the next one",
            )
        return partition, offset

    def ack(self, message: Message) -> None:
        """Record that a message is done; see Settling.ack()."""
        self._messages.finish_one(*self._open_position(message))
        self._commit_done(is_by_hand=True)

    def retry(self, message: Message, *, delay: DelayInput | None = None, reason: str | BaseException = "") -> None:
        """Record that a message failed; see Settling.retry()."""
        delay_us = None if delay is None else parse_duration_us(delay, plain_unit="us")
        self._fail(*self._open_position(message), text_of(reason), DeadLetterReason.MAX_ATTEMPTS, delay_us)

    def reject(self, message: Message, *, reason: str | BaseException = "") -> None:
        """Give up a message; see Settling.reject()."""
        partition, offset = self._open_position(message)
        if self._policy.dead_letter is None:
            raise InvalidOptionError(
                "the consumer has no dead-letter topic", where=str(self._name), advice="Create it with dead_letter="
            )
        failures = self._messages.tracks[partition].open[offset].failures + 1
        self._poison(poisoned(offset, failures, DeadLetterReason.REJECTED, text_of(reason)), partition)

    def _fail(self, partition: int, offset: int, error: str, reason: DeadLetterReason, delay_us: int | None) -> None:
        failures = self._messages.tracks[partition].open[offset].failures + 1
        step = self._failed(offset, failures, error, reason, delay_us)
        if step.step is DeliveryStep.POISONED:
            self._poison(step, partition)
        else:
            self._tell(partition, step)
            self._messages.fail(partition, offset, failures, time.monotonic() + step.delay_us / 1e6)

    def _poison(self, step: DeliveryChange, partition: int) -> None:
        self._tell(partition, step)
        self._messages.finish_one(partition, step.from_offset, is_told=True)

    @contextmanager
    def attempting(self, message: Message) -> Iterator[None]:
        """Record an Exception of the context by retry(); see Settling.attempting()."""
        try:
            yield
        except Exception as error:
            try:
                position = self._open_position(message)
            except InvalidInputError:  # settled in the context
                raise error from None
            self._fail(*position, text_of(error), DeadLetterReason.MAX_ATTEMPTS, None)
        else:
            if isinstance(message, ReceivedMessage) and self._messages.current != (message.partition, message.offset):
                with suppress(InvalidInputError):  # settled in the context
                    self.ack(message)

    # -- the end --------------------------------------------------------------------------------------------------------

    def record_failure(self, error: BaseException) -> None:
        """Record that the loop's body raised an error; see Settling.record_failure()."""
        current = self._messages.current
        if self._is_closed or current is None or not isinstance(error, Exception):
            return
        try:
            self._fail(*current, text_of(error), DeadLetterReason.MAX_ATTEMPTS, None)
        except HeadstreamError as also:
            error.add_note(f"The failure of message {current[1]} of partition {current[0]} could not be recorded: {also}")

    def close(self, *, commit: bool = True) -> None:
        """Close the consumer; see Consumer.close(). What is not done is released: this counts as no failure."""
        if self._is_closed:
            return
        with closing():
            for partition, track in self._messages.tracks.items():
                begun = [offset for offset, each in track.open.items() if each.is_begun and not (commit and each.in_hand)]
                with suppress(HeadstreamError):
                    for offset in begun:
                        self._tell(partition, DeliveryChange(DeliveryStep.RELEASED, offset, offset + 1))
            super().close(commit=commit)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        with closing():
            if error is not None:
                self.record_failure(error)
            self.close(commit=error is None)
