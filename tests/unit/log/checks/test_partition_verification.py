"""Unit tests of headstream.log.checks.partition_verification."""

from __future__ import annotations

from pathlib import Path

import pytest

from headstream.errors import OffsetOutOfRangeError
from headstream.log.checks.partition_verification import verify_partition
from headstream.log.checks.repair import repair_partition
from headstream.log.segments.files import BufferPool
from headstream.log.segments.follower import PartitionFollower
from headstream.log.segments.layout import DROPPED_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, segment_path
from headstream.log.system.findings import FindingKind
from tests.support.log.logs import SEED, batch, open_partition
from tests.support.messages.batches import stored
from tests.unit.log.checks.test_verification import FILES, damage, directory, verify

__all__ = ["directory"]  # fixtures


def test_a_sound_partition_has_no_findings(directory: str) -> None:
    checked: list[int] = []
    assert list(verify_partition(directory, FILES, BufferPool(), checked.append)) == []
    assert sum(checked) == sum(path.stat().st_size for path in Path(directory).glob("*.log"))


def test_a_segment_that_retention_is_removing_is_no_damage(directory: str) -> None:
    Path(segment_path(directory, 0, LOG_SUFFIX)).rename(segment_path(directory, 0, DROPPED_SUFFIX))
    assert verify(directory) == []
    with PartitionFollower(directory) as follower, pytest.raises(OffsetOutOfRangeError, match="were removed by retention"):
        list(follower.read(0))


def test_a_missing_segment_is_a_gap(directory: str) -> None:
    partition = open_partition(FILES, directory, segment_bytes=4096, wide=True)
    partition.append(batch(b"x" * 5000), 200, SEED)
    partition.close()
    for suffix in (LOG_SUFFIX, INDEX_SUFFIX):
        Path(segment_path(directory, 3, suffix)).unlink()
    (finding,) = damage(directory)
    assert (finding.kind, finding.from_offset, finding.until_offset) == (FindingKind.GAP, 3, 7)


def test_what_a_killed_writer_leaves_is_a_note_and_is_cut(directory: str) -> None:
    data, index = (Path(segment_path(directory, 3, suffix)) for suffix in (LOG_SUFFIX, INDEX_SUFFIX))
    whole = data.read_bytes(), index.read_bytes()
    data.write_bytes(whole[0] + stored(b"torn", offset=7, timestamp_us=900)[:-1])
    index.write_bytes(whole[1] + b"\1" * 7)
    found = verify(directory)
    assert [(finding.kind, finding.is_damage) for finding in found] == [(FindingKind.TAIL, False)] * 2
    assert repair_partition(directory, FILES)
    assert (data.read_bytes(), index.read_bytes()) == whole
    assert verify(directory) == []
