"""RetryingReading: counts the failures of each message, retries it, and dead-letters it after the last attempt.

The log stores unfinished messages (broker/deliveries/deliveries.py). This Reading records each step before the next step:

    the first message of a partition, or another attempt, is delivered    BEGUN: a killed process counts as a failure
    the body raised an error, or retry()                                  FAILED with its delay; after the last attempt POISONED
    the body is done, and nothing fails                                   a plain commit, as without on_error
    the body is done, and an earlier message fails                        records the end of the taken messages; no commit
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from headstream.client.consumer.ahead import FETCH_COUNT
from headstream.client.consumer.partitions import PartitionReading, Partitions
from headstream.client.consumer.positions import not_read, position_of
from headstream.client.consumer.reading import ReadingOptions
from headstream.client.consumer.receiving import poll_checked
from headstream.client.consumer.retrying.attempts import Failure, PauseGate, RetryPolicy, worker_name
from headstream.client.consumer.retrying.fetching import RetryingFetching
from headstream.client.consumer.retrying.track import Known
from headstream.client.consumer.settling import Place, Settler, not_in_progress
from headstream.client.transports.delivery_transport import DeliveryAccess
from headstream.client.transports.transport import Transport
from headstream.core.model.deliveries import DeadLetterReason, Delivery, DeliveryChange, DeliveryStep, RetryOrder, SettleRequest
from headstream.core.model.message import Message, ReceivedMessage
from headstream.core.model.offset_ranges import OffsetRanges
from headstream.core.model.topology import Topic
from headstream.errors import HeadstreamError, RebalancedError, ServerUnreachableError

_ABANDONED: Final = "the consumer ended or timed out while it processed the message"
_HANDED_OUT: Final = FETCH_COUNT


class RetryingReading(PartitionReading, Settler):
    """Reads messages for a consumer with `on_error` and a group; requires a transport that supports deliveries."""

    def __init__(self, transport: Transport, topic: Topic, options: ReadingOptions, policy: RetryPolicy) -> None:
        assert isinstance(transport, DeliveryAccess)
        self._transport: Transport = transport
        self._deliveries = transport.deliveries
        self.policy = policy
        self._gate = PauseGate()
        self._worker = worker_name()
        order = policy.retry.order or RetryOrder.PARTITION
        self._fetching = RetryingFetching(order, options.transform, self._load, lambda: self._paused_s > 0)
        super().__init__(Partitions(transport, topic, self._fetching, options))
        self.partitions.begin()

    @property
    def _paused_s(self) -> float:
        return self._gate.left_s(time.monotonic())

    # -- unfinished messages of the group -----------------------------------------------------------------------

    def _load(self, partition: int) -> Known:
        """Return the group's unfinished messages in a partition; attempts that began and did not end are counted as failures."""
        found = self._deliveries.unfinished(self.partitions.topic, self.policy.group, partition)
        known = Known(found.begun_until, OffsetRanges(found.pending))
        if self.policy.retry.pause_rule is not None:
            self._gate.update_from_server(found.paused_us, 0, time.monotonic())
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
            self._settle(partition, steps, found.begun_until, None)
        return known

    def _resume(self, each: Delivery) -> DeliveryChange:
        if each.reason:  # copying the message to the dead-letter topic was interrupted
            return _change(each.offset, self.policy.give_up(each.failures, each.last_error, each.reason))
        return _change(each.offset, self.policy.failure(each.failures + 1, _ABANDONED, DeadLetterReason.MAX_ATTEMPTS, None))

    # -- recording in the log -------------------------------------------------------------------------------------

    def _settle(self, partition: int, steps: list[DeliveryChange], begun_until: int, generation: int | None) -> None:
        share, succeeded = self.partitions.share, self._fetching.succeeded_count
        request = SettleRequest(
            steps,
            begun_until,
            member=None if share is None else share.member,
            generation=0 if share is None else share.generation,
            partition_generation=generation,
            dead_letter=self.policy.dead_letter,
            worker=self._worker,
            succeeded=succeeded,
            pause_rule=self.policy.retry.pause_rule,
        )
        settled = self._deliveries.settle_deliveries(self.partitions.topic, self.policy.group, partition, request)
        self._fetching.succeeded_count -= succeeded
        self._gate.update_from_server(settled.paused_us, succeeded, time.monotonic())

    def _report(self, partition: int, *steps: DeliveryChange) -> None:
        """Record all pending steps of a partition, and the given steps, in the log."""
        track = self._fetching.tracks[partition]
        begun_until, changes = track.changes(steps)
        self._settle(partition, changes, begun_until, self._fetching.generations.get(partition))
        track.settled(begun_until)

    def _store(self, *, is_by_hand: bool = False) -> None:
        tracks, plain = self._fetching.tracks, dict[int, int]()
        done: dict[int, int] = {}
        try:
            for partition in self._fetching.open_partitions():
                offset = tracks[partition].plain_commit()
                if offset is None or self._gate.is_on_trial:
                    self._report(partition)
                    done[partition] = tracks[partition].base
                else:
                    plain[partition] = offset
            if plain:
                self._commit_plainly(plain, is_by_hand=is_by_hand)
        except RebalancedError:
            self.partitions.follow()
            if is_by_hand:
                raise
            return
        if plain or done:
            self.partitions.report_commit(plain | done)

    def _commit_plainly(self, offsets: dict[int, int], *, is_by_hand: bool) -> None:
        is_resting = not self._fetching.has_in_hand and (is_by_hand or self._fetching.is_empty)
        has_changed = self.partitions.commit(offsets, is_resting=is_resting)
        for partition, offset in offsets.items():
            self._fetching.tracks[partition].committed(offset)
        if has_changed:
            with suppress(ServerUnreachableError):  # the next poll reports again
                self.partitions.follow()

    # -- delivery ---------------------------------------------------------------------------------------------------

    def take(self) -> ReceivedMessage | None:
        """Record that the previous message is done; return the next message if it is buffered, else None."""
        self._fetching.apply_seeks()
        self.finish()
        self.partitions.follow_if_due()
        while True:
            message = self._fetching.deliver()
            if message is None and self._fetching.broken is not None:
                self._fail_broken()
                continue
            if message is not None:
                try:
                    self._begin_attempt(message)
                except BaseException:  # the message is not delivered: the next call must not mark it as done
                    self._fetching.undeliver([message])
                    raise
            return message

    def _begin_attempt(self, message: ReceivedMessage) -> None:
        """Record the start of an attempt in the log if the start could not be inferred after a crash."""
        partition, offset = message.partition, message.offset
        track = self._fetching.tracks[partition]
        opened = track.open[offset]
        if track.is_first or opened.failures:
            self._report(partition, DeliveryChange(DeliveryStep.BEGUN, offset, offset + 1))
            track.mark_reported(offset)
            track.is_first, opened.is_begun = False, True

    def _fail_broken(self) -> None:
        """Record the failure of a message that could not be transformed."""
        broken = self._fetching.broken
        assert broken is not None
        try:
            self.fail_transform((broken.partition, broken.stored.offset), broken.error)
        except BaseException:
            self._fetching.put_back_broken()
            raise
        self._fetching.broken = None

    def finish(self) -> None:
        self._fetching.finish()
        self._store()

    def fetch(self, wanted: int | None) -> bool:
        """Fetch the messages whose delay is over, or poll the partitions; return whether messages are buffered."""
        self._fetching.apply_seeks()
        with self.partitions.noting_damage():
            self.partitions.follow()
            if not self._paused_s:
                self._fetch_again()
                if not self._fetching.is_empty or self.partitions.poll():
                    return True
        self._store()  # skipped messages
        return False

    def _fetch_again(self) -> None:
        """Fetch the messages whose delay is over."""
        topic, request = self.partitions.topic, self.partitions.request
        while (due := self._fetching.due(time.monotonic())) is not None:
            partition, offset = due
            polled, found = poll_checked(self._transport, topic, partition, request.from_offset(offset, 1))
            self._fetching.check_generation(polled)
            is_there = bool(found) and found[0].offset == offset
            self._fetching.put_again(partition, offset, found[0] if is_there else None)

    def wait(self, timeout_ms: float) -> None:
        """Wait for messages, a change of the group, or the end of a delay or pause."""
        if paused_s := self._paused_s:
            self.partitions.rest()
            time.sleep(min(paused_s, timeout_ms / 1000))
            return
        due_s = self._fetching.next_due_s
        if due_s is not None:
            timeout_ms = min(timeout_ms, max(0.0, due_s - time.monotonic()) * 1000)
        self.partitions.wait(timeout_ms, dict(self._fetching.next_polls()))

    def hand_out(self, count: int) -> list[ReceivedMessage]:
        """Return up to `count` messages; the caller settles them singly or by commit()."""
        messages = self._fetching.hand_out(1 if self._gate.is_on_trial else min(count, _HANDED_OUT))
        if self._fetching.broken is not None:
            try:
                self._fail_broken()
            except HeadstreamError:  # the next poll first handles this message and raises the error again
                if not messages:
                    raise
        return messages

    def put_back(self, messages: Sequence[ReceivedMessage]) -> None:
        """Undo the delivery of messages, and the attempts that began with it."""
        self._fetching.undeliver(messages)
        for message in messages:
            track = self._fetching.tracks.get(message.partition)
            opened = None if track is None else track.open.get(message.offset)
            if track is None or opened is None or not opened.is_begun:
                continue
            with suppress(HeadstreamError):  # if the consumer ends now, the log counts the attempt as failed
                self._report(message.partition, DeliveryChange(DeliveryStep.RELEASED, message.offset, message.offset + 1))
                opened.is_begun = False
            track.is_first = True

    def commit(self, message: Message | None) -> None:
        """Record that all delivered messages, or a partition's delivered messages up to one message, are done."""
        self.partitions.mark_done(message)
        self._store(is_by_hand=True)

    # -- single messages ----------------------------------------------------------------------------------------------

    @property
    def current(self) -> Place | None:
        return self._fetching.current

    def place_of(self, message: Message) -> Place:
        """Return the place of a message that is in progress."""
        partition, offset = place = position_of(message, self.partitions.topic)
        track = self._fetching.tracks.get(partition)
        if track is None:
            raise not_read(partition, self.partitions.topic)
        opened = track.open.get(offset)
        if opened is None or not opened.in_hand:
            raise not_in_progress(place, self.partitions.topic)
        return place

    def failures_of(self, place: Place) -> int:
        return self._fetching.tracks[place[0]].open[place[1]].failures

    def settle_done(self, place: Place) -> None:
        """Record that a message is done."""
        self._fetching.finish_one(*place)
        self._store(is_by_hand=True)

    def settle_failed(self, place: Place, failure: Failure) -> None:
        partition, offset = place
        self._report(partition, _change(offset, failure))
        if failure.reason:
            self._fetching.finish_one(partition, offset, is_reported=True)
        else:
            self._fetching.fail(partition, offset, failure.failures, time.monotonic() + failure.delay_us / 1e6)

    def end(self, *, commit: bool) -> None:
        """Release unfinished attempts without counting a failure."""
        for partition, track in self._fetching.tracks.items():
            begun = [offset for offset, each in track.open.items() if each.is_begun and not (commit and each.in_hand)]
            with suppress(HeadstreamError):
                for offset in begun:
                    self._report(partition, DeliveryChange(DeliveryStep.RELEASED, offset, offset + 1))
        if commit:
            self.finish()
        self.partitions.end()


def _change(offset: int, failure: Failure) -> DeliveryChange:
    step = DeliveryStep.POISONED if failure.reason else DeliveryStep.FAILED
    return DeliveryChange(step, offset, offset + 1, failure.failures, failure.delay_us, failure.reason, failure.error)
