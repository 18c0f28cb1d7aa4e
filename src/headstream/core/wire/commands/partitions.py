"""Commands for partitions and segments of a topic."""

from __future__ import annotations

from dataclasses import dataclass

from headstream.core.wire.codes import Code
from headstream.core.wire.commands.checks import check_count
from headstream.core.wire.records import TopicCommand
from headstream.core.wire.shapes import U32, PartitionId
from headstream.core.wire.statuses import Status


@dataclass(frozen=True, slots=True)
class CreatePartitions(TopicCommand[None]):
    """Add partitions to the end of a topic."""

    code = Code.CREATE_PARTITIONS
    partitions_count: U32

    def validate(self) -> None:
        check_count(self.partitions_count, 1, 1000, Status.TOO_MANY_PARTITIONS, "the partition count")


@dataclass(frozen=True, slots=True)
class DeletePartitions(TopicCommand[None]):
    """Delete the highest-numbered partitions of a topic."""

    code = Code.DELETE_PARTITIONS
    partitions_count: U32

    def validate(self) -> None:
        check_count(self.partitions_count, 1, 1000, Status.TOO_MANY_PARTITIONS, "the partition count")


@dataclass(frozen=True, slots=True)
class DeleteSegments(TopicCommand[None]):
    """Delete the oldest closed segments of a partition."""

    code = Code.DELETE_SEGMENTS
    partition: PartitionId
    segments_count: U32

    def validate(self) -> None:
        check_count(self.segments_count, 1, 100_000, Status.INVALID_SEGMENTS_COUNT, "the segment count")
