"""Messages: polls that wait and select states, appends that return their offset, and the reasons of states.

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
"""The largest page of states: with the longest reasons 1.3 MB."""


@dataclass(frozen=True, slots=True)
class FetchedMessages(Record):
    """The reply to a fetch: the reply to a poll, and the offset of the next fetch.

    Args:
        partition: The partition that was read.
        end_offset: One past its newest offset.
        next_offset: The offset of the next fetch: past the returned and the skipped messages.
        generation: Distinguishes the partition from one of the same name before a purge or a deletion.
    """

    partition: Annotated[U32, Json("partition_id")]
    end_offset: U64
    next_offset: U64
    generation: U64
    count: U32
    messages: Stored


@dataclass(frozen=True, slots=True)
class FetchMessages(TopicCommand[FetchedMessages]):
    """Return messages of a partition in the given states, waiting if there are none.

    Args:
        kind: The kind of the start position.
        value: The offset or time of the start position.
        size_bytes: The maximum bytes of messages; 0 leaves it to the server. At least one message is always returned.
        states: The states to return; empty for the available messages.
        timeout_ms: How long to wait if there are no messages; 0 does not wait.
        consumer: The consumer or group, needed for `next` and for auto_commit.
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
            raise refusal(Status.INVALID_MESSAGES_COUNT, "a fetch asks for 1 message or more")
        if self.consumer is None and (self.auto_commit or self.kind == PollingKind.NEXT):
            raise refusal(Status.INVALID_FORMAT, "next and auto_commit need a consumer")


@dataclass(frozen=True, slots=True)
class WaitResult(Record):
    """Whether the wait ended because of a message or a change; otherwise it timed out."""

    is_woken: WideFlag


@dataclass(frozen=True, slots=True)
class WaitMessages(TopicCommand[WaitResult]):
    """Wait until a partition has a message at or after an offset, or the member's group has changed."""

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
    """Append messages to one partition; `messages` are sent messages, back to back."""

    code = Code.APPEND_MESSAGES
    reply = one(FirstOffset)
    has_messages = True
    partition: PartitionId
    messages: Sent

    def encode_pieces(self) -> tuple[BytesLike, ...]:
        return self.encode_around_last()

    def validate(self) -> None:
        if not len(self.messages):
            raise refusal(Status.INVALID_MESSAGES_COUNT, "an append without messages")


@dataclass(frozen=True, slots=True)
class SetState(TopicCommand[None]):
    """Change the state of messages, with a reason; the author is always the logged-in user, `by` is ignored."""

    code = Code.SET_STATE
    partition: PartitionId
    offsets: Numbers
    state: Annotated[int, STATE]
    reason: Annotated[Text32, Default("")] = ""
    by: Annotated[Text32, Default("")] = ""

    def validate(self) -> None:
        check_bytes(self.reason, 0, MAX_REASON_BYTES, Status.INVALID_FORMAT, "the reason of a change of states")
        check_bytes(self.by, 0, MAX_AUTHOR_BYTES, Status.INVALID_FORMAT, "the author of a change of states")
        check_count(len(self.offsets), 0, MAX_STATE_OFFSETS, Status.INVALID_FORMAT, "the count of offsets of a change of states")


@dataclass(frozen=True, slots=True)
class StateChange(Record):
    """The state of a message and the reason of its last change."""

    offset: U64
    state: Annotated[int, STATE]
    reason: Text32
    by: Text32
    changed_us: U64


@dataclass(frozen=True, slots=True)
class ListStates(TopicCommand[tuple[StateChange, ...]]):
    """Return the messages of a partition that are not available, one page per command.

    Args:
        count: The maximum number of messages; 0, and numbers above the largest page, mean the largest page.
    """

    code = Code.LIST_STATES
    reply = many(StateChange)
    partition: PartitionId
    from_offset: Annotated[int, TrailingNumber(8), Default(0)] = 0
    count: Annotated[int, TrailingNumber(4), Default(0)] = 0


@dataclass(frozen=True, slots=True)
class RemovedMessages(Record):
    """The removed messages, and the groups of segments that are left: send the command again for them."""

    removed_count: U64
    removed_bytes: U64
    rewritten_count: U32
    left_count: U32


@dataclass(frozen=True, slots=True)
class RemoveMarked(TopicCommand[RemovedMessages]):
    """Remove the messages of a partition that were marked for deletion with a reason from the disk now.

    One command rewrites at most one segment, with the neighbours that fit into it.
    """

    code = Code.REMOVE_MARKED
    reply = one(RemovedMessages)
    partition: PartitionId
    reason: Text32

    def validate(self) -> None:
        check_bytes(self.reason, 1, MAX_REASON_BYTES, Status.INVALID_FORMAT, "the reason of the marks")


@dataclass(frozen=True, slots=True)
class MeasuredRange(Record):
    """The size of a range of offsets, read from the indexes without reading messages.

    Args:
        size_bytes: Approximate number of stored bytes of the range.
        reached_offset: The end of the last send within the given bytes, or of the first send if none fits.
    """

    size_bytes: U64
    reached_offset: U64


@dataclass(frozen=True, slots=True)
class MeasureRange(TopicCommand[MeasuredRange]):
    """Return the size of a range of offsets, and the offset that a number of bytes reaches."""

    code = Code.MEASURE_RANGE
    reply = one(MeasuredRange)
    partition: PartitionId
    from_offset: U64
    until_offset: U64
    size_bytes: Annotated[U64, Default(0)] = 0
