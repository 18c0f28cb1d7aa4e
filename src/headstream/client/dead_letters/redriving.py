"""Redriving: sends dead letters back to their original topics, each exactly once, even if a process is killed.

    1. the dead letter becomes unavailable; the reason names the destination partition and its end offset
    2. the message is appended to the destination: same payload, key, id and headers; hs.redrive and hs.redrives are replaced
    3. the dead letter is marked for deletion

A redrive begins with the dead letters that an earlier redrive left between steps 1 and 3. A message that is found in the
destination after the recorded end offset is not sent again. If the destination topic no longer exists or refuses the message, the
dead letter becomes available again. Concurrent redrives of one topic share its partitions like members of a group.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from headstream.client.client import Client
from headstream.client.consumer.membership import GroupMembership
from headstream.client.dead_letters.reading import place_of_origin, read_dead_letters
from headstream.client.producer.forwarding import ForwardingProducer
from headstream.core.model.constructors import int32
from headstream.core.model.groups import DEFAULT_SESSION_TIMEOUT_MS
from headstream.core.model.headers import Headers
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import MessageState, ReceivedMessage, StateChange
from headstream.core.model.reserved import (
    ATTEMPTS_HEADER,
    FIRST_ERROR_HEADER,
    FIRST_FAILED_HEADER,
    LAST_FAILED_HEADER,
    ORIGIN_PREFIX,
    REASON_CODE_HEADER,
    REASON_HEADER,
    REDRIVE_HEADER,
    REDRIVES_HEADER,
)
from headstream.core.model.topology import Topic
from headstream.errors import GroupInUseError, InvalidInputError, NotFoundError, PermissionDeniedError, TopicNotFoundError

_GROUP: Final = "hs.dlq"
_INTENT: Final = f"{REDRIVE_HEADER} "
_REFUSALS: Final = (InvalidInputError, NotFoundError, PermissionDeniedError)
"""Errors after which the message is certainly not in its topic."""
_PAGE: Final = 100
_PAGE_S: Final = 1.0
"""Approximate maximum duration of a page, seconds, after which the caller can show the progress."""
_DEAD_LETTER_HEADERS: Final = frozenset(
    (
        *(ATTEMPTS_HEADER, FIRST_ERROR_HEADER, FIRST_FAILED_HEADER, LAST_FAILED_HEADER),
        *(REASON_CODE_HEADER, REASON_HEADER, REDRIVE_HEADER, REDRIVES_HEADER),
    )
)
"""Headers that dead letters have in addition to the headers of the original message."""


@dataclass(slots=True)
class RedriveCounts:
    """The counts of a redrive.

    Args:
        matched: Dead letters that match the filter.
        redriven: Dead letters that were sent back.
        resumed: Dead letters whose interrupted redrive was completed.
        foreign: Matching messages that were not sent, because they are not dead letters or their topic no longer exists.
    """

    matched: int = 0
    redriven: int = 0
    resumed: int = 0
    foreign: int = 0


class Redrive:
    """One redrive of a dead-letter topic.

    Args:
        log: A client without interceptors, so that messages are sent as stored.
        per_second: Maximum dead letters per second; None for no limit.
        on_filter_error: Action for a message to which the filter cannot be applied; see Client.consumer().
    """

    def __init__(
        self, log: Client, topic: str, where: str | None = None, per_second: float | None = None, on_filter_error: str = "skip"
    ) -> None:
        self._log = log
        self._topic = topic
        self._where = where
        self._on_filter_error = on_filter_error
        self._pause_s = 0.0 if per_second is None else 1 / per_second
        self._producers: dict[str, tuple[ForwardingProducer, Topic]] = {}
        self.counts = RedriveCounts()

    def run(self) -> RedriveCounts:
        """Send the matching dead letters back; return the counts.

        Raises:
            GroupInUseError: another redrive processes all partitions.
            PermissionDeniedError: the user has no permission to send to an original topic or to set the states of dead letters.
        """
        share = self._join()
        try:
            partitions = sorted(share.report().partitions)
            if not partitions:
                raise self._busy("all partitions of the topic")
            for partition in partitions:
                self._run(share, partition)
        finally:
            share.leave()
        return self.counts

    def run_page(
        self,
        partition: int,
        from_offset: int = 0,
        until_offset: int | None = None,
        *,
        count: int = _PAGE,
        seconds: float = _PAGE_S,
        resumes: bool = True,
    ) -> tuple[int, bool]:
        """Send back the dead letters of a bounded part of a partition; return the next offset, and whether the end is reached.

        Args:
            until_offset: End of the last page; None: the end of the partition.
            seconds: Time after which no further dead letter is sent, seconds.
            resumes: Whether to complete an interrupted redrive first; this step reads all states of the partition.
        """
        until_s = time.monotonic() + seconds
        share = self._join()
        try:
            if partition not in share.report().partitions:
                raise self._busy(f"partition {partition}")
            if resumes:
                self._resume(partition)
            page = read_dead_letters(self._log, self._topic, partition, from_offset, until_offset, where=self._where, count=count)
            for number, letter in enumerate(page.letters):
                if number and time.monotonic() > until_s:
                    return letter.offset, False
                self.counts.matched += 1
                self._send_back(letter)
            return page.next_offset, page.is_last
        finally:
            share.leave()

    def _join(self) -> GroupMembership:
        found = self._log.topic(self._topic)
        return GroupMembership(self._log.transport, TopicName(found.stream, found.name), _GROUP, DEFAULT_SESSION_TIMEOUT_MS)

    def _busy(self, what: str) -> GroupInUseError:
        return GroupInUseError(f"another redrive is processing {what}", where=self._topic, advice="Wait until it has ended")

    def _run(self, share: GroupMembership, partition: int) -> None:
        """Redrive one partition until the group assigns the partition to another redrive."""
        if partition not in share.report().partitions:
            return
        self._resume(partition)
        chosen: dict[str, Any] = {"where": self._where, "on_filter_error": self._on_filter_error}
        with self._log.consumer(self._topic, partitions=[partition], **chosen, timeout_ms=0) as consumer:
            while messages := consumer.poll(_PAGE):
                for letter in messages:
                    if share.is_due and partition not in share.report().partitions:
                        return
                    self.counts.matched += 1
                    self._send_back(letter)

    def _resume(self, partition: int) -> None:
        """Complete an interrupted redrive; if a message can no longer be sent, its dead letter becomes available again."""
        for change in self._log.states(self._topic, partition):
            if not _is_begun(change):
                continue
            letter = next(iter(self._log.poll(self._topic, partition, start=change.offset, count=1, states=None)), None)
            if letter is None or letter.offset != change.offset:  # the dead letter was erased meanwhile
                continue
            target, number, end = change.reason.removeprefix(_INTENT).rsplit(" ", 2)
            if self._is_sent(letter, target, int(number), int(end)):
                self._mark_handled(letter, "redriven")
            elif self._producer_of(target) is None:
                self._restore(letter)
                continue
            else:
                self._send(letter, target, int(number))
            self.counts.resumed += 1

    def _send_back(self, letter: ReceivedMessage) -> None:
        place = place_of_origin(letter)
        if place is None or self._producer_of(place[0]) is None:
            self.counts.foreign += 1
            return
        self._send(letter, *place)
        self.counts.redriven += 1
        if self._pause_s:
            time.sleep(self._pause_s)

    def _send(self, letter: ReceivedMessage, topic: str, number: int) -> None:
        """Redrive one dead letter in three steps. If the original partition no longer exists, use the topic's first partition."""
        partitions = {each.number: each for each in self._log.topic(topic).partitions}
        number = number if number in partitions else min(partitions)
        intent = f"{_INTENT}{topic} {number} {partitions[number].end_offset}"
        self._log.set_state(self._topic, letter.partition, letter.offset, "unavailable", reason=intent)
        try:
            self._append(letter, topic, number)
        except _REFUSALS as error:
            self._restore(letter)
            error.add_note(f"The dead letter was not removed: {self._name_of(letter)}.")
            raise
        self._mark_handled(letter, "redriven")

    def _restore(self, letter: ReceivedMessage) -> None:
        """Make a dead letter available again, unless another operation, such as an erasure, has changed its state."""
        for change in self._log.states(self._topic, letter.partition):
            if change.offset == letter.offset and _is_begun(change):
                self._log.set_state(self._topic, letter.partition, letter.offset, "available")

    def _producer_of(self, topic: str) -> tuple[ForwardingProducer, Topic] | None:
        if topic not in self._producers:
            with suppress(TopicNotFoundError):
                self._producers[topic] = self._log.forwarding_producer(topic, linger_ms=0), self._log.topic(topic)
        return self._producers.get(topic)

    def _append(self, letter: ReceivedMessage, topic: str, partition: int) -> None:
        found = self._producer_of(topic)
        if found is None:
            raise TopicNotFoundError(
                f"the topic {topic!r} no longer exists", where=self._topic, advice="Create the topic, or discard its dead letters"
            )
        producer, target = found
        redrives = letter.headers.get(REDRIVES_HEADER)
        kept = [
            (name, value)
            for name, value in letter.headers.items()
            if name not in _DEAD_LETTER_HEADERS and not name.startswith(ORIGIN_PREFIX)
        ]
        count = 1 if redrives is None else int(redrives) + 1
        headers = Headers([*kept, (REDRIVE_HEADER, self._name_of(letter)), (REDRIVES_HEADER, int32(count))])
        id = 0 if target.deduplication_count is not None else letter.id  # otherwise dropped as a duplicate of the original
        producer.send(letter.payload, key=letter.key, headers=headers, id=id, partition=partition).result()

    def _name_of(self, letter: ReceivedMessage) -> str:
        return f"{self._topic}/{letter.partition}/{letter.offset}"

    def _is_sent(self, letter: ReceivedMessage, topic: str, partition: int, end: int) -> bool:
        """Return whether a topic contains the redriven message of a dead letter at or after an offset."""
        try:
            partitions = {each.number: each for each in self._log.topic(topic).partitions}
        except NotFoundError:
            return False
        if partition not in partitions:
            return False
        begin = end if end <= partitions[partition].end_offset else 0  # the partition was purged or recreated
        name = self._name_of(letter)
        with self._log.consumer(topic, partitions=[partition], start=begin, states=None, timeout_ms=0) as consumer:
            while messages := consumer.poll(_PAGE):
                if any(message.headers.get(REDRIVE_HEADER) == name for message in messages):
                    return True
        return False

    def _mark_handled(self, letter: ReceivedMessage, reason: str) -> None:
        self._log.set_state(self._topic, letter.partition, letter.offset, "marked_for_deletion", reason=reason)


def _is_begun(change: StateChange) -> bool:
    """Return whether a dead letter's state shows that its redrive is between steps 1 and 3."""
    return change.state == MessageState.UNAVAILABLE.value and change.reason.startswith(_INTENT)
