"""Messages: polls that wait and ask for states, appends that tell their offset, and why a message is not available.

fetched   partition u32 | end_offset u64 | next_offset u64 | generation u64 | count u32 | stored messages
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from headstream.codec import json
from headstream.codec.binary import decode_polled, encode_polled
from headstream.codec.buffer import BytesLike
from headstream.codec.json_text import decode_json
from headstream.model.message import MAX_AUTHOR_BYTES, MAX_REASON_BYTES, MAX_STATE_OFFSETS
from headstream.model.polling import PollingKind
from headstream.wire.codes import Code
from headstream.wire.commands.checks import check_bytes, check_count
from headstream.wire.commands.offsets import ConsumerRef
from headstream.wire.extensions.shapes import ANY_CONSUMER, STATE, ByNumber, LastNumber, Numbers, Sent, States, WideFlag
from headstream.wire.records import Command, Record, many, one
from headstream.wire.refusals import refusal
from headstream.wire.shapes import (
    TEXT8,
    U32,
    U64,
    Default,
    Flag,
    Has,
    Json,
    PartitionId,
    Rest,
    StreamId,
    Text32,
    TextCode,
    TopicId,
    wrong,
)
from headstream.wire.statuses import Status

__all__ = [
    "PAGE_STATES",
    "AppendMessages",
    "FetchMessages",
    "FetchedMessages",
    "FirstOffset",
    "ListStates",
    "MeasureRange",
    "MeasuredRange",
    "SetState",
    "StateChange",
    "WaitMessages",
    "Woken",
]


PAGE_STATES: Final = 1000
"""The greatest page of states: with the longest reasons 1.3 MB."""


@dataclass(frozen=True, slots=True)
class FetchedMessages(Record):
    """What a fetch brings: as a poll, and where to go on.

    Args:
        partition: The partition that was read.
        end_offset: One past its newest offset.
        next_offset: Where to fetch on: past what is here, and past what was stepped over.
        generation: Tells the partition from what had its name before a purge or a deletion.
        count: How many messages are here.
        messages: Stored messages, back to back.
    """

    partition: Annotated[U32, Json("partition_id")]
    end_offset: U64
    next_offset: U64
    generation: U64
    count: U32
    messages: Rest

    def spell(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        polled = decode_json(json.encode_polled(decode_polled(self.messages), self.partition, 0))
        return {
            "partition_id": self.partition,
            "end_offset": self.end_offset,
            "next_offset": self.next_offset,
            "generation": self.generation,
            "count": self.count,
            "messages": polled["messages"],
        }

    @classmethod
    def read(cls, spelled: Any, where: str) -> FetchedMessages:
        """Return what a JSON object spells."""
        if not isinstance(spelled, dict) or not isinstance(spelled.get("messages"), list):
            raise wrong(spelled, "an object with messages", where)
        found = [json.decode_message(item, where=f"{where}.messages[{n}]") for n, item in enumerate(spelled["messages"])]
        partition = _read_number(spelled, "partition_id", where)
        end_offset, next_offset = _read_number(spelled, "end_offset", where), _read_number(spelled, "next_offset", where)
        return cls(
            partition, end_offset, next_offset, _read_number(spelled, "generation", where), len(found), encode_polled(found)
        )


@dataclass(frozen=True, slots=True)
class FetchMessages(Command[FetchedMessages]):
    """Return messages of a partition in the states asked for, and wait for some.

    Args:
        stream: The stream.
        topic: The topic.
        partition: The partition's number.
        kind: Where to begin.
        value: The offset or time to begin at.
        count: The most messages.
        size_bytes: The most bytes of messages; 0 leaves it to the server. One message is always brought.
        states: Those to bring; none brings what is available.
        timeout_ms: How long to wait where there is nothing; 0 does not wait.
        consumer: For whom, where `next` is asked for or the offset is to be committed.
        auto_commit: Whether what is brought is committed.
    """

    code = Code.FETCH_MESSAGES
    reply = one(FetchedMessages)
    has_messages = True
    stream: StreamId
    topic: TopicId
    partition: PartitionId
    kind: Annotated[PollingKind, TextCode(PollingKind, short=True), Default(PollingKind.OFFSET)]
    value: Annotated[U64, Default(0)]
    count: Annotated[U32, Default(10)]
    size_bytes: Annotated[U32, Default(0)] = 0
    states: States = ()
    timeout_ms: Annotated[U32, Default(0)] = 0
    consumer: Annotated[ConsumerRef | None, Has(ANY_CONSUMER)] = None
    auto_commit: Annotated[Flag, Default(False)] = False

    def validate(self) -> None:
        """Check the count, and that there is somebody to commit for."""
        if not self.count:
            raise refusal(Status.INVALID_MESSAGES_COUNT, "a fetch asks for 1 message or more")
        if self.consumer is None and (self.auto_commit or self.kind == PollingKind.NEXT):
            raise refusal(Status.INVALID_FORMAT, "next and auto_commit need a consumer")


@dataclass(frozen=True, slots=True)
class Woken(Record):
    """Whether there is something; or the time is up."""

    is_woken: WideFlag


@dataclass(frozen=True, slots=True)
class WaitMessages(Command[Woken]):
    """Wait until a partition has a message at or after an offset, or a member's group has changed.

    Args:
        stream: The stream.
        topic: The topic.
        positions: An offset by partition.
        timeout_ms: How long.
        group: The group of the member that waits, or None.
        member: Its id.
        generation: The group's generation that it knows.
    """

    code = Code.WAIT_MESSAGES
    reply = one(Woken)
    stream: StreamId
    topic: TopicId
    positions: ByNumber
    timeout_ms: U32
    group: Annotated[str | None, Has(TEXT8)] = None
    member: Annotated[U64, Default(0)] = 0
    generation: Annotated[U64, Default(0)] = 0


@dataclass(frozen=True, slots=True)
class FirstOffset(Record):
    """The offset of the first message that was appended."""

    offset: U64


@dataclass(frozen=True, slots=True)
class AppendMessages(Command[FirstOffset]):
    """Append messages to one partition; `messages` are sent ones, back to back."""

    code = Code.APPEND_MESSAGES
    reply = one(FirstOffset)
    has_messages = True
    stream: StreamId
    topic: TopicId
    partition: PartitionId
    messages: Sent

    def encode_pieces(self) -> tuple[BytesLike, ...]:
        """Return the payload of its request, the messages as they are."""
        return replace(self, messages=b"").encode(), self.messages

    def validate(self) -> None:
        """Check that there is a message."""
        if not len(self.messages):
            raise refusal(Status.INVALID_MESSAGES_COUNT, "an append without messages")


@dataclass(frozen=True, slots=True)
class SetState(Command[None]):
    """Change the state of messages, and say why; the author is the logged-in user, whoever `by` names."""

    code = Code.SET_STATE
    stream: StreamId
    topic: TopicId
    partition: PartitionId
    offsets: Numbers
    state: Annotated[int, STATE]
    reason: Annotated[Text32, Default("")] = ""
    by: Annotated[Text32, Default("")] = ""

    def validate(self) -> None:
        """Check how long reason and author are, and how many messages there are."""
        check_bytes(self.reason, 0, MAX_REASON_BYTES, Status.INVALID_FORMAT, "the reason of a change of states")
        check_bytes(self.by, 0, MAX_AUTHOR_BYTES, Status.INVALID_FORMAT, "the author of a change of states")
        check_count(len(self.offsets), 0, MAX_STATE_OFFSETS, Status.INVALID_FORMAT, "the count of offsets of a change of states")


@dataclass(frozen=True, slots=True)
class StateChange(Record):
    """Why a message has the state it has."""

    offset: U64
    state: Annotated[int, STATE]
    reason: Text32
    by: Text32
    changed_us: U64


@dataclass(frozen=True, slots=True)
class ListStates(Command[tuple[StateChange, ...]]):
    """Return the messages of a partition that are not available, as many as a page has; what follows is asked for next.

    Args:
        stream: The stream.
        topic: The topic.
        partition: The partition's number.
        from_offset: The first offset that is looked at.
        count: The most messages; 0, or more than the greatest page, is the greatest page.
    """

    code = Code.LIST_STATES
    reply = many(StateChange)
    stream: StreamId
    topic: TopicId
    partition: PartitionId
    from_offset: Annotated[int, LastNumber(8), Default(0)] = 0
    count: Annotated[int, LastNumber(4), Default(0)] = 0


def _read_number(spelled: dict[str, Any], name: str, where: str) -> int:
    value = spelled.get(name)
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise wrong(value, "an unsigned number", f"{where}.{name}")
    return value


@dataclass(frozen=True, slots=True)
class MeasuredRange(Record):
    """How much a range of offsets holds, as the indexes know it without a look at the messages.

    Args:
        size_bytes: About how many stored bytes the range has.
        reached_offset: Where the last send ends that is within the bytes asked for; the first one's end where none is.
    """

    size_bytes: U64
    reached_offset: U64


@dataclass(frozen=True, slots=True)
class MeasureRange(Command[MeasuredRange]):
    """Return how much a range of offsets holds, and how far so many bytes of it reach.

    Args:
        stream: The stream.
        topic: The topic.
        partition: The partition's number.
        from_offset: The first one.
        until_offset: One past the last one.
        size_bytes: How many bytes are to be found the end of.
    """

    code = Code.MEASURE_RANGE
    reply = one(MeasuredRange)
    stream: StreamId
    topic: TopicId
    partition: PartitionId
    from_offset: U64
    until_offset: U64
    size_bytes: Annotated[U64, Default(0)] = 0
