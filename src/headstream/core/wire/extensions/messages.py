"""Commands for messages: polls that wait and select states, appends that return offsets, and message states with reasons.

fetched   partition u32 | end_offset u64 | next_offset u64 | generation u64 | count u32 | stored messages
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from headstream.core.codec.buffer import BytesLike
from headstream.core.model.message import MAX_AUTHOR_BYTES, MAX_REASON_BYTES, MAX_STATE_OFFSETS
from headstream.core.model.polling import PollingKind
from headstream.core.wire.codes import Code
from headstream.core.wire.commands.checks import check_bytes, check_count
from headstream.core.wire.commands.offsets import ConsumerRef
from headstream.core.wire.extensions.shapes import (
    ANY_CONSUMER,
    STATE,
    ByNumber,
    Numbers,
    Sent,
    States,
    Stored,
    TrailingNumber,
    WideFlag,
)
from headstream.core.wire.records import Record, TopicCommand, many, one
from headstream.core.wire.refusals import refusal
from headstream.core.wire.shapes import TEXT8, U32, U64, Default, Flag, Json, OptionalShape, PartitionId, Text32, TextCode
from headstream.core.wire.statuses import Status

PAGE_STATES: Final = 1000
"""Maximum number of states per page: 1.3 MB with the longest reasons."""


@dataclass(frozen=True, slots=True)
class FetchedMessages(Record):
    """The reply to FetchMessages: the reply to a poll, and the offset of the next fetch.

    Args:
        partition: Number of the partition that was read.
        end_offset: One past the newest offset of the partition.
        next_offset: The offset of the next fetch, after the returned and the skipped messages.
        generation: Distinguishes the partition from partitions of the same name before a purge or deletion.
    """

    partition: Annotated[U32, Json("partition_id")]
    end_offset: U64
    next_offset: U64
    generation: U64
    count: U32
    messages: Stored


@dataclass(frozen=True, slots=True)
class FetchMessages(TopicCommand[FetchedMessages]):
    """Return messages of a partition in the given states; wait if there are no such messages.

    Args:
        kind: The kind of the start position.
        value: The offset or time of the start position.
        size_bytes: Maximum size of the messages; 0 uses the server's limit. At least one message is returned if there is any.
        states: The states of the messages to return; empty for available messages only.
        timeout_ms: How long to wait if there are no messages, milliseconds; 0 does not wait.
        consumer: The consumer or group; required for `next` and for auto_commit.
    """

    code = Code.FETCH_MESSAGES
    reply = one(FetchedMessages)
    has_messages = True
    partition: PartitionId
    kind: Annotated[PollingKind, TextCode(PollingKind, short=True), Default(PollingKind.OFFSET)]
    value: Annotated[U64, Default(0)]
    count: Annotated[U32, Default(10)]
    size_bytes: Annotated[U32, Default(0)] = 0
    states: States = ()
    timeout_ms: Annotated[U32, Default(0)] = 0
    consumer: Annotated[ConsumerRef | None, OptionalShape(ANY_CONSUMER)] = None
    auto_commit: Annotated[Flag, Default(False)] = False

    def validate(self) -> None:
        if not self.count:
            raise refusal(Status.INVALID_MESSAGES_COUNT, "a fetch must request at least 1 message")
        if self.consumer is None and (self.auto_commit or self.kind == PollingKind.NEXT):
            raise refusal(Status.INVALID_FORMAT, "next and auto_commit require a consumer")


@dataclass(frozen=True, slots=True)
class WaitResult(Record):
    """Whether the wait ended because of a message or a group change; otherwise the wait timed out."""

    is_woken: WideFlag


@dataclass(frozen=True, slots=True)
class WaitMessages(TopicCommand[WaitResult]):
    """Wait until a partition has a message at or after an offset, or until the member's group changes."""

    code = Code.WAIT_MESSAGES
    reply = one(WaitResult)
    positions: ByNumber
    timeout_ms: U32
    group: Annotated[str | None, OptionalShape(TEXT8)] = None
    member: Annotated[U64, Default(0)] = 0
    generation: Annotated[U64, Default(0)] = 0


@dataclass(frozen=True, slots=True)
class FirstOffset(Record):
    """The offset of the first appended message."""

    offset: U64


@dataclass(frozen=True, slots=True)
class AppendMessages(TopicCommand[FirstOffset]):
    """Append messages to one partition; `messages` are contiguous sent messages."""

    code = Code.APPEND_MESSAGES
    reply = one(FirstOffset)
    has_messages = True
    partition: PartitionId
    messages: Sent

    def encode_pieces(self) -> tuple[BytesLike, ...]:
        return self.encode_around_last()

    def validate(self) -> None:
        if not len(self.messages):
            raise refusal(Status.INVALID_MESSAGES_COUNT, "an append must contain at least one message")


@dataclass(frozen=True, slots=True)
class SetState(TopicCommand[None]):
    """Change the state of messages, with a reason. The author is always the logged-in user; `by` is ignored."""

    code = Code.SET_STATE
    partition: PartitionId
    offsets: Numbers
    state: Annotated[int, STATE]
    reason: Annotated[Text32, Default("")] = ""
    by: Annotated[Text32, Default("")] = ""

    def validate(self) -> None:
        check_bytes(self.reason, 0, MAX_REASON_BYTES, Status.INVALID_FORMAT, "the reason for a state change")
        check_bytes(self.by, 0, MAX_AUTHOR_BYTES, Status.INVALID_FORMAT, "the author of a state change")
        check_count(len(self.offsets), 0, MAX_STATE_OFFSETS, Status.INVALID_FORMAT, "the number of offsets in a state change")


@dataclass(frozen=True, slots=True)
class StateChange(Record):
    """The state of a message and the reason for its last change."""

    offset: U64
    state: Annotated[int, STATE]
    reason: Text32
    by: Text32
    changed_us: U64


@dataclass(frozen=True, slots=True)
class ListStates(TopicCommand[tuple[StateChange, ...]]):
    """Return messages of a partition that are not available, one page per command.

    Args:
        count: Maximum number of messages; 0 and numbers above the maximum page size return a page of maximum size.
    """

    code = Code.LIST_STATES
    reply = many(StateChange)
    partition: PartitionId
    from_offset: Annotated[int, TrailingNumber(8), Default(0)] = 0
    count: Annotated[int, TrailingNumber(4), Default(0)] = 0


@dataclass(frozen=True, slots=True)
class RemovedMessages(Record):
    """The number of removed messages, and the number of segment groups for which the command must be sent again."""

    removed_count: U64
    removed_bytes: U64
    rewritten_count: U32
    left_count: U32


@dataclass(frozen=True, slots=True)
class RemoveMarked(TopicCommand[RemovedMessages]):
    """Immediately remove from the disk the messages of a partition that were marked for deletion with a given reason.

    One command rewrites at most one segment, together with neighbouring segments that fit into it.
    """

    code = Code.REMOVE_MARKED
    reply = one(RemovedMessages)
    partition: PartitionId
    reason: Text32

    def validate(self) -> None:
        check_bytes(self.reason, 1, MAX_REASON_BYTES, Status.INVALID_FORMAT, "the reason for the marks")


@dataclass(frozen=True, slots=True)
class MeasuredRange(Record):
    """The size of an offset range, read from the indexes without reading messages.

    Args:
        size_bytes: Approximate stored size of the range.
        reached_offset: End offset of the last send within the given number of bytes, or of the first send if it is larger.
    """

    size_bytes: U64
    reached_offset: U64


@dataclass(frozen=True, slots=True)
class MeasureRange(TopicCommand[MeasuredRange]):
    """Return the size of an offset range, and the offset that a number of bytes reaches."""

    code = Code.MEASURE_RANGE
    reply = one(MeasuredRange)
    partition: PartitionId
    from_offset: U64
    until_offset: U64
    size_bytes: Annotated[U64, Default(0)] = 0
