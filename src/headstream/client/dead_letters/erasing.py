"""Erasure: removes the messages of a topic that match a filter, and their copies in dead-letter topics, from the disk.

    1. find      the matching messages in every state, up to the ends that the partitions have when find() starts
    2. mark      the messages are marked for deletion, with a fixed reason: readers now skip them
    3. remove    the segments that contain these messages are rewritten without them

The next erasure completes an interrupted erasure: it finds unmarked messages again, and removes all marked messages, even if they
do not match the new filter. The reason does not contain the filter, which can name a person.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from headstream.client.client import Client
from headstream.core.codec.binary import decode_polled
from headstream.core.filters.filter import Filter, parse_filter
from headstream.core.filters.poll_request import PollRequest
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import MAX_STATE_OFFSETS
from headstream.core.model.polling import PollingStrategy
from headstream.core.model.removals import Removal
from headstream.core.model.reserved import ORIGIN_PREFIX
from headstream.core.model.topology import Topic, check_legal_hold
from headstream.errors import NotFoundError, OffsetOutOfRangeError

ERASURE_REASON: Final = "headstream erase"
"""The reason with which an erasure marks messages."""

_PAGE: Final = 10_000
_ATTEMPTS: Final = 5
"""Maximum number of searches of a partition; a search is repeated if retention or compaction removes messages meanwhile."""

Progress = Callable[[str, int, int], None]
"""Called with the step, the completed work, and the total work."""


@dataclass(slots=True)
class ErasedPartition:
    """The result of an erasure in a partition.

    Args:
        topic: `stream/topic`.
        until_offset: One past the last examined offset.
        found_bytes: The stored bytes of the found messages.
        failed_count: Messages to which the filter could not be applied; these messages are kept.
        offsets: The offsets of the found messages.
    """

    topic: str
    number: int
    until_offset: int = 0
    found_bytes: int = 0
    failed_count: int = 0
    offsets: array[int] = field(default_factory=lambda: array("Q"))
    removal: Removal = field(default_factory=Removal)


class Erasure:
    """One erasure.

    Args:
        topic: `stream/topic`.
        dead_letters: Topics in which the copies of the matching messages are also erased.
        on_error: Action for a message to which the filter cannot be applied: `skip`, `deliver` or `raise`.
    """

    def __init__(
        self,
        log: Client,
        topic: str,
        where: str,
        dead_letters: Sequence[str] = (),
        *,
        on_error: str = "skip",
        on_progress: Progress = lambda step, done, total: None,
    ) -> None:
        self._log = log
        self._topic = topic
        self._filter = parse_filter(where, on_error)
        self._dead_letters = dead_letters
        self._on_progress = on_progress
        self._filters: dict[str, Filter] = {}
        self.partitions: list[ErasedPartition] = []

    def find(self) -> list[ErasedPartition]:
        """Find the matching messages of all topics; return the messages by partition.

        Raises:
            TopicNotFoundError: a topic does not exist.
            LegalHoldError: a topic is under legal hold.
            CorruptSendError: damaged messages cannot be matched; repair or restore them first.
            HeaderError: the filter cannot be applied to a message and `on_error` is `raise`.
        """
        topic = self._log.topic(self._topic)
        letters = parse_filter(f"({self._filter.text}) AND {_origin_is(topic)}", self._filter.on_error.value)
        wanted = [(topic, self._filter), *((self._log.topic(name), letters) for name in self._dead_letters)]
        for each, _ in wanted:
            check_legal_hold(each.full_name, each.legal_hold)
        total = sum(partition.end_offset - partition.first_offset for each, _ in wanted for partition in each.partitions)
        done, self.partitions = 0, []
        for each, where in wanted:
            for partition in each.partitions:
                found = ErasedPartition(each.full_name, partition.number, partition.end_offset)
                self._filters[each.full_name] = where
                for offset in self._search(found, where):
                    self._on_progress("searching", done + offset - partition.first_offset, total)
                done += partition.end_offset - partition.first_offset
                self.partitions.append(found)
        return self.partitions

    def _search(self, found: ErasedPartition, where: Filter) -> Iterator[int]:
        """Find the matching messages of a partition, and yield the progress of the search."""
        name, offset = TopicName.parse(found.topic), 0
        found.offsets, found.found_bytes, found.failed_count = array("Q"), 0, 0
        while offset < found.until_offset:
            page = self._log.transport.messages.poll(
                name, found.number, PollRequest(PollingStrategy.offset(offset), _PAGE, states=None, where=where)
            )
            for chunk in page.chunks:
                for message in decode_polled(chunk, topic=found.topic, partition=found.number):
                    if message.offset < found.until_offset:
                        found.offsets.append(message.offset)
                found.found_bytes += len(chunk)
            found.failed_count += page.failed_count
            if page.next_offset <= offset:
                return
            offset = page.next_offset
            yield min(offset, found.until_offset)

    def run(self) -> list[ErasedPartition]:
        """Erase the messages that find() has found and messages left by an interrupted erasure; return the result by partition.

        Raises:
            LegalHoldError: a topic was put under legal hold after find().
            CorruptLogError: a segment is damaged; its messages are marked, but kept until a repair. Other messages are erased.
            PermissionDeniedError: the user has no permission to manage a topic.
        """
        total, done = sum(len(each.offsets) for each in self.partitions), 0
        for each in self.partitions:
            for marked in self._mark(each):
                self._on_progress("marking", done + marked, total)
            done += len(each.offsets)
        for number, each in enumerate(self.partitions):
            self._on_progress("removing", number, len(self.partitions))
            each.removal = self._log.remove_marked(each.topic, each.number, reason=ERASURE_REASON)
        self._on_progress("removing", len(self.partitions), len(self.partitions))
        return self.partitions

    def _mark(self, found: ErasedPartition) -> Iterator[int]:
        """Mark the found messages of a partition for deletion, and yield the number of marked messages."""
        for attempts_left in range(_ATTEMPTS - 1, -1, -1):
            try:
                for begin in range(0, len(found.offsets), MAX_STATE_OFFSETS):
                    some = found.offsets[begin : begin + MAX_STATE_OFFSETS]
                    self._log.set_state(found.topic, found.number, some, "marked_for_deletion", reason=ERASURE_REASON)
                    yield begin + len(some)
                return
            except OffsetOutOfRangeError:  # a message was removed meanwhile: no message of the request is marked
                if not attempts_left:
                    raise
            for _ in self._search(found, self._filters[found.topic]):
                yield 0


def _origin_is(topic: Topic) -> str:
    quoted = topic.full_name.replace("'", "''")
    return f"{ORIGIN_PREFIX}topic = '{quoted}'"


def find_dead_letter_topics(log: Client, topic: str) -> list[str]:
    """Return the topics that have dead letters of `topic` (`stream/topic`) among the first messages of a partition."""
    found = log.topic(topic)
    where, names = parse_filter(_origin_is(found)), []
    for each in log.topics():
        polls = (
            log.transport.messages.poll(
                TopicName(each.stream, each.name),
                partition.number,
                PollRequest(PollingStrategy.first(), 1, states=None, where=where),
            )
            for partition in each.partitions
            if partition.messages_count
        )
        with suppress(NotFoundError):  # deleted since it was listed
            if any(page.count for page in polls):
                names.append(each.full_name)
    return names
