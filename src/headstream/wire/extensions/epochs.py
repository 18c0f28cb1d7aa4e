"""Atomic appends: batches that wait on the server until they are committed, all together and once.

Whoever writes in parallel stages its batches, each under a part of its own, and hands the receipts to one that commits
the epoch by them. An epoch of a writer is committed once: again, it changes nothing any more; an earlier
one is refused (4). A writer belongs to the user who first staged or committed for it (41).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from headstream.wire.codes import Code
from headstream.wire.commands.checks import check_bytes
from headstream.wire.extensions.shapes import Sent
from headstream.wire.records import Command, Record, Records, maybe, one
from headstream.wire.refusals import refusal
from headstream.wire.shapes import U32, U64, Flag, PartitionId, StreamId, Text8, Text32, TopicId
from headstream.wire.statuses import Status

__all__ = ["CommitEpoch", "CommittedEpoch", "GetEpoch", "StageBatch", "StagedBatch", "UnstageParts"]


def _check_writer(writer: str) -> None:
    check_bytes(writer, 1, 255, Status.INVALID_FORMAT, "the name of a writer")


@dataclass(frozen=True, slots=True)
class StagedBatch(Record):
    """The receipt of a batch: what an epoch is committed by.

    Args:
        part: The part it is in; the batches of a part lie in the order of their receipts.
        topic: `stream/topic`.
        partition: The partition's number.
        size_bytes: Its bytes.
        count: Its messages.
        crc32c: The CRC-32C of its bytes.
    """

    part: Text8
    topic: Text32
    partition: U32
    size_bytes: U64
    count: U32
    crc32c: U32


@dataclass(frozen=True, slots=True)
class StageBatch(Command[StagedBatch]):
    """Stage a batch; the last one of a part has it synced.

    Args:
        writer: Who will commit it.
        epoch: With which epoch.
        part: The part it belongs to.
        position: The bytes of the part's earlier batches: a batch that comes again takes its own place.
        stream: The stream.
        topic: The topic.
        partition: The partition's number.
        is_last: Whether nothing more belongs to the part.
        messages: Sent messages.
    """

    code = Code.STAGE_BATCH
    reply = one(StagedBatch)
    has_messages = True
    writer: Text8
    epoch: U64
    part: Text8
    position: U64
    stream: StreamId
    topic: TopicId
    partition: PartitionId
    is_last: Flag
    messages: Sent

    def validate(self) -> None:
        """Check names, and that there is a message."""
        _check_writer(self.writer)
        check_bytes(self.part, 1, 100, Status.INVALID_FORMAT, "the name of a part")
        if not len(self.messages):
            raise refusal(Status.INVALID_MESSAGES_COUNT, "a batch without messages")


@dataclass(frozen=True, slots=True)
class CommittedEpoch(Record):
    """The last epoch of a writer that was committed."""

    epoch: U64


@dataclass(frozen=True, slots=True)
class CommitEpoch(Command[CommittedEpoch]):
    """Append all batches of an epoch, or, where the epoch was committed before, nothing."""

    code = Code.COMMIT_EPOCH
    reply = one(CommittedEpoch)
    writer: Text8
    epoch: U64
    batches: Annotated[tuple[StagedBatch, ...], Records(StagedBatch, is_counted=True)]

    def validate(self) -> None:
        """Check the name."""
        _check_writer(self.writer)


@dataclass(frozen=True, slots=True)
class GetEpoch(Command[CommittedEpoch | None]):
    """Return the last epoch of a writer that was committed."""

    code = Code.GET_EPOCH
    reply = maybe(CommittedEpoch)
    writer: Text8

    def validate(self) -> None:
        """Check the name."""
        _check_writer(self.writer)


@dataclass(frozen=True, slots=True)
class UnstageParts(Command[None]):
    """Remove the parts that batches are in, which are not to be committed; of an epoch that is, or is being, nothing goes."""

    code = Code.UNSTAGE_PARTS
    writer: Text8
    epoch: U64
    batches: Annotated[tuple[StagedBatch, ...], Records(StagedBatch, is_counted=True)]

    def validate(self) -> None:
        """Check the name."""
        _check_writer(self.writer)
