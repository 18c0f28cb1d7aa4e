"""Filters: polls that return only the messages that match a condition.

filtered   partition u32 | end_offset u64 | next_offset u64 | generation u64 | scanned_count u64 | failed_count u64
           | count u32 | stored messages
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated

from headstream.core.model.polling import PollingKind
from headstream.core.wire.codes import Code
from headstream.core.wire.commands.offsets import ConsumerRef
from headstream.core.wire.extensions.shapes import ANY_CONSUMER, States, Stored, TrailingU64
from headstream.core.wire.records import Record, TopicCommand, one
from headstream.core.wire.refusals import refusal
from headstream.core.wire.shapes import U32, U64, Default, Flag, Json, OptionalShape, PartitionId, Text32, TextCode
from headstream.core.wire.statuses import Status


class FailurePolicy(enum.IntEnum):
    """Policy for a message that a filter cannot be applied to."""

    SKIP = 0
    DELIVER = 1
    RAISE = 2


@dataclass(frozen=True, slots=True)
class FilteredMessages(Record):
    """The reply to a filter: the messages that match, and how far the partition was examined.

    Args:
        partition: The partition that was read.
        end_offset: One past its newest offset.
        next_offset: The offset to continue from; the partition is examined up to there, even if no message matches.
        generation: Distinguishes the partition from one of the same name before a purge or a deletion.
        scanned_count: The number of messages that were examined, or skipped with their segment.
        failed_count: Number of messages to which the filter could not be applied.
    """

    partition: Annotated[U32, Json("partition_id")]
    end_offset: U64
    next_offset: U64
    generation: U64
    scanned_count: U64
    failed_count: U64
    count: U32
    messages: Stored


@dataclass(frozen=True, slots=True)
class FilterMessages(TopicCommand[FilteredMessages]):
    """Return messages of a partition that match a filter, without waiting; one request examines a bounded part of it.

    Args:
        kind: The kind of the start position: not `last`.
        value: The offset or time of the start position.
        size_bytes: The maximum bytes of messages; 0 leaves it to the server. At least one message is always returned.
        states: The states to examine; empty for the available messages.
        consumer: The consumer or group, needed for `next` and for auto_commit.
        until_offset: One past the last offset to examine; 0 for the partition's end. Older servers examine up to the end.
    """

    code = Code.FILTER_MESSAGES
    reply = one(FilteredMessages)
    has_messages = True
    partition: PartitionId
    where: Text32
    kind: Annotated[PollingKind, TextCode(PollingKind, short=True), Default(PollingKind.OFFSET)] = PollingKind.OFFSET
    value: Annotated[U64, Default(0)] = 0
    count: Annotated[U32, Default(10)] = 10
    size_bytes: Annotated[U32, Default(0)] = 0
    states: States = ()
    on_filter_error: Annotated[FailurePolicy, TextCode(FailurePolicy, short=True), Default(FailurePolicy.SKIP)] = (
        FailurePolicy.SKIP
    )
    consumer: Annotated[ConsumerRef | None, OptionalShape(ANY_CONSUMER)] = None
    auto_commit: Annotated[Flag, Default(False)] = False
    until_offset: TrailingU64 = 0

    def validate(self) -> None:
        if not self.count:
            raise refusal(Status.INVALID_MESSAGES_COUNT, "a filter asks for 1 message or more")
        if self.consumer is None and (self.auto_commit or self.kind == PollingKind.NEXT):
            raise refusal(Status.INVALID_FORMAT, "next and auto_commit need a consumer")


@dataclass(frozen=True, slots=True)
class CountedSegments(Record):
    """Sizes of a topic and of the part that a filter skips, with the members of model.polling.SegmentCounts."""

    segments_count: U64
    skipped_count: U64
    size_bytes: U64
    skipped_bytes: U64


@dataclass(frozen=True, slots=True)
class CountSegments(TopicCommand[CountedSegments]):
    """Return the number of a topic's segments that a filter skips, by their times and the summaries of their headers."""

    code = Code.COUNT_SEGMENTS
    reply = one(CountedSegments)
    where: Text32
