"""Reads dead letters in pages, counts them by reason, and discards them; redriving.py sends dead letters back.

A page is a bounded part of one partition, so that callers can show progress, stop between pages, and continue later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from headstream.client.client import Client
from headstream.client.consumer.filtering import make_filter
from headstream.client.consumer.receiving import poll_checked
from headstream.core.filters.poll_request import PollRequest
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import MessageState, ReceivedMessage
from headstream.core.model.polling import PollingStrategy
from headstream.core.model.reserved import (
    ATTEMPTS_HEADER,
    FIRST_FAILED_HEADER,
    LAST_FAILED_HEADER,
    ORIGIN_PREFIX,
    REASON_CODE_HEADER,
    REASON_HEADER,
)

_PAGE: Final = 100
_PAGE_BYTES: Final = 4 << 20
_AVAILABLE: Final = frozenset({MessageState.AVAILABLE.value})
_MOST_REASONS: Final = 500
"""Maximum reasons that are counted separately: errors can contain numbers and ids, so that every reason differs."""


class DeadLetterPage(NamedTuple):
    """Dead letters of a bounded part of a partition.

    Args:
        next_offset: Start of the next page.
        scanned_count: Number of messages that were read.
    """

    letters: list[ReceivedMessage]
    next_offset: int
    is_last: bool
    scanned_count: int


@dataclass(slots=True)
class ReasonCount:
    """Dead letters of one origin, group and reason.

    Args:
        topic: The original topic; None for messages that are not dead letters.
        group: The group in which the messages failed permanently, if any.
        reason_code: One of DeadLetterReason, if any.
        reason: The last error; None if there is no error or the reasons are not counted separately.
        is_rest: Whether this object counts all dead letters whose reasons are not counted separately.
        first_failed_us: Time of the first failure, microseconds since 1970 UTC; None if unknown.
        last_failed_us: Time of the last dead letter, microseconds since 1970 UTC; None if unknown.
    """

    topic: str | None
    group: str | None
    reason_code: str | None
    reason: str | None
    is_rest: bool = False
    count: int = 0
    most_attempts: int | None = None
    first_failed_us: int | None = None
    last_failed_us: int | None = None

    def add(self, letter: ReceivedMessage) -> None:
        """Count a dead letter."""
        self.count += 1
        attempts = _value_of(letter, ATTEMPTS_HEADER)
        if isinstance(attempts, int):
            self.most_attempts = max(attempts, self.most_attempts or 0)
        first_us, last_us = _value_of(letter, FIRST_FAILED_HEADER), _value_of(letter, LAST_FAILED_HEADER)
        if isinstance(first_us, int):
            self.first_failed_us = first_us if self.first_failed_us is None else min(first_us, self.first_failed_us)
        if isinstance(last_us, int):
            self.last_failed_us = max(last_us, self.last_failed_us or 0)


class ReasonCounts:
    """Counts dead letters by origin, group and reason."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], ReasonCount] = {}

    def add(self, letter: ReceivedMessage) -> None:
        """Count a dead letter."""
        topic, group = _text_of(letter, f"{ORIGIN_PREFIX}topic"), _text_of(letter, f"{ORIGIN_PREFIX}group")
        code, reason = _text_of(letter, REASON_CODE_HEADER), _text_of(letter, REASON_HEADER)
        is_rest = (topic, group, code, reason, False) not in self._found and len(self._found) >= _MOST_REASONS
        kept = None if is_rest else reason
        found = self._found.setdefault((topic, group, code, kept, is_rest), ReasonCount(topic, group, code, kept, is_rest))
        found.add(letter)

    def to_documents(self) -> list[dict[str, Any]]:
        """Return the counts as JSON objects, highest count first."""
        return [asdict(one) for one in sorted(self._found.values(), key=lambda one: -one.count)]


def iterate_dead_letters(
    log: Client, topic: str, where: str | None = None, on_filter_error: str = "skip"
) -> Iterator[ReceivedMessage]:
    """Yield the available messages of a dead-letter topic that match a filter; for `on_filter_error` see Client.consumer()."""
    with log.consumer(topic, where=where, on_filter_error=on_filter_error, timeout_ms=0) as consumer:
        while messages := consumer.poll(_PAGE):
            yield from messages


def read_dead_letters(
    log: Client,
    topic: str,
    partition: int,
    from_offset: int = 0,
    until_offset: int | None = None,
    *,
    where: str | None = None,
    count: int = _PAGE,
) -> DeadLetterPage:
    """Return one page of dead letters, from at most 4 MiB of messages; `until_offset` None: the end of the partition."""
    chosen = make_filter(where, "skip", _AVAILABLE)
    name, start = TopicName.parse(topic), PollingStrategy.offset(from_offset)
    polled, letters = poll_checked(
        log.transport, name, partition, PollRequest(start, count, size_bytes=_PAGE_BYTES, where=chosen)
    )
    until = polled.end_offset if until_offset is None else min(until_offset, polled.end_offset)
    is_last = polled.next_offset <= from_offset or polled.next_offset >= until
    wanted = [letter for letter in letters if letter.offset < until]
    scanned_count = len(letters) if chosen is None else polled.scanned_count
    return DeadLetterPage(wanted, until if is_last else polled.next_offset, is_last, scanned_count)


def discard_dead_letters(log: Client, topic: str, offsets: Mapping[int, Sequence[int]]) -> None:
    """Mark dead letters for deletion: consumers skip them and retention removes them. PermissionDeniedError: see set_state()."""
    for partition, found in offsets.items():
        log.set_state(topic, partition, found, "marked_for_deletion", reason="discarded")


def place_of_origin(letter: ReceivedMessage) -> tuple[str, int] | None:
    """Return a dead letter's original topic and partition; None for other messages."""
    headers = letter.headers
    topic, partition = headers.get(f"{ORIGIN_PREFIX}topic"), headers.get(f"{ORIGIN_PREFIX}partition")
    if topic is None or partition is None:
        return None
    return str(topic), int(partition)


def _value_of(letter: ReceivedMessage, name: str) -> Any:
    found = letter.headers.get(name)
    return None if found is None else found.value


def _text_of(letter: ReceivedMessage, name: str) -> str | None:
    found = _value_of(letter, name)
    return None if found is None else str(found)
