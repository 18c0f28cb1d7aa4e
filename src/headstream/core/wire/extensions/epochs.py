"""Commands for atomic appends: the server stages batches until they are committed, all together and exactly once.

Parallel writers stage their batches under separate parts, and pass the receipts to the process that commits the epoch. An epoch
of a writer is committed once: committing it again has no effect, and an earlier epoch is rejected (status 4). A writer belongs to
the user who first staged or committed a batch for it; other users are rejected (status 41).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from headstream.core.wire.codes import Code
from headstream.core.wire.commands.checks import check_bytes
from headstream.core.wire.extensions.shapes import Sent
from headstream.core.wire.records import Command, Record, Records, maybe, one
from headstream.core.wire.refusals import refusal
from headstream.core.wire.shapes import U32, U64, Flag, PartitionId, StreamId, Text8, Text32, TopicId
from headstream.core.wire.statuses import Status


def _check_writer(writer: str) -> None:
    check_bytes(writer, 1, 255, Status.INVALID_FORMAT, "a writer name")


@dataclass(frozen=True, slots=True)
class StagedBatch(Record):
    """The receipt for a staged batch, which is an argument of the commit.

    Args:
        part: Name of the batch's part. The batches of a part are stored in the order of their receipts.
        topic: `stream/topic`.
        crc32c: The CRC-32C of the batch.
    """

    part: Text8
    topic: Text32
    partition: U32
    size_bytes: U64
    count: U32
    crc32c: U32


@dataclass(frozen=True, slots=True)
class StageBatch(Command[StagedBatch]):
    """Stage a batch; the last batch of a part syncs the part.

    Args:
        position: Total size of the earlier batches of the part, so that a repeated batch overwrites the first copy.
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
        _check_writer(self.writer)
        check_bytes(self.part, 1, 100, Status.INVALID_FORMAT, "a part name")
        if not len(self.messages):
            raise refusal(Status.INVALID_MESSAGES_COUNT, "a batch must contain at least one message")


@dataclass(frozen=True, slots=True)
class CommittedEpoch(Record):
    """The last committed epoch of a writer."""

    epoch: U64


@dataclass(frozen=True, slots=True)
class CommitEpoch(Command[CommittedEpoch]):
    """Append all batches of an epoch; no effect if the epoch is already committed."""

    code = Code.COMMIT_EPOCH
    reply = one(CommittedEpoch)
    writer: Text8
    epoch: U64
    batches: Annotated[tuple[StagedBatch, ...], Records(StagedBatch, is_counted=True)]

    def validate(self) -> None:
        _check_writer(self.writer)


@dataclass(frozen=True, slots=True)
class GetEpoch(Command[CommittedEpoch | None]):
    """Return the last committed epoch of a writer, or None."""

    code = Code.GET_EPOCH
    reply = maybe(CommittedEpoch)
    writer: Text8

    def validate(self) -> None:
        _check_writer(self.writer)


@dataclass(frozen=True, slots=True)
class UnstageParts(Command[None]):
    """Remove the parts of uncommitted batches, except parts of an epoch that is committed or being committed."""

    code = Code.UNSTAGE_PARTS
    writer: Text8
    epoch: U64
    batches: Annotated[tuple[StagedBatch, ...], Records(StagedBatch, is_counted=True)]

    def validate(self) -> None:
        _check_writer(self.writer)
