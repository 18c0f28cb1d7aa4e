"""Damage where compaction is at work: a pass touches what it has proved whole, and readers and verification see the rest."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headstream.core.codec.binary import decode_polled, encode_sent
from headstream.core.model.message import Message
from headstream.errors import CorruptLogError, CorruptSendError, OffsetOutOfRangeError
from headstream.log.checks.partition_verification import verify_partition
from headstream.log.checks.repair import repair_partition
from headstream.log.partition.closed_segments import finish_pass, list_closed
from headstream.log.partition.partition import PartitionWriter
from headstream.log.partition.recovery import recover
from headstream.log.segments import layout
from headstream.log.segments.files import BufferPool
from headstream.log.segments.follower import PartitionFollower
from headstream.log.system.files import OsFiles
from headstream.log.upkeep.compaction_pass import CompactionPass, Outcome
from tests.support.log.logs import SEED

FILES = OsFiles()


@pytest.fixture
def directory(tmp_path: Path) -> str:
    """A partition of 200 keys in some segments, none of which has been compacted; the newest is empty."""
    directory = str(tmp_path / "partition")
    FILES.make_directory(directory)
    partition = PartitionWriter(directory, FILES, wide=True, segment_bytes=2048)
    for number in range(200):
        partition.append(encode_sent([Message(payload=b"%d" % number, key=b"%d" % number)]), number, SEED)
    partition.roll()
    partition.close()
    assert len(bases_of(directory)) > 5
    return directory


def bases_of(directory: str) -> list[int]:
    return layout.base_offsets([path.name for path in Path(directory).iterdir()])


def path_of(directory: str, number: int, suffix: str = layout.INDEX_SUFFIX) -> Path:
    return Path(layout.segment_path(directory, bases_of(directory)[number], suffix))


def compact(directory: str, segment_bytes: int = 2048) -> Outcome:
    return CompactionPass(directory, FILES, segment_bytes=segment_bytes, null_before_us=0, seed=SEED).run()


def read(directory: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the offsets that a reader gets from the beginning on, and the ranges that it is told of."""
    found: list[int] = []
    told = []
    with PartitionFollower(directory, FILES) as follower:
        offset = follower.first_offset
        while offset < follower.end_offset:
            try:
                for chunk in follower.read(offset):
                    found += [message.offset or 0 for message in decode_polled(bytes(chunk))]
                break
            except CorruptSendError as error:
                told.append((error.from_offset, error.until_offset))
                offset = error.until_offset
    return found, told


def damage(directory: str) -> list[str]:
    return [finding.what for finding in verify_partition(directory, FILES, BufferPool()) if finding.is_damage]


def cut_entries(path: Path, kept: int) -> None:
    path.write_bytes(path.read_bytes()[: layout.INDEX_HEADER_BYTES + kept * layout.INDEX_ENTRY_BYTES])


def delete(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("do", [lambda path: cut_entries(path, 2), delete], ids=["cut", "deleted"])
def test_a_pass_leaves_a_segment_whose_index_was_cut_or_deleted_and_repair_restores_all(
    directory: str, do: Callable[[Path], None]
) -> None:
    damaged = path_of(directory, 1)
    do(damaged)
    with pytest.raises(CorruptLogError, match=r"This segment and all newer segments were not compacted.*--repair"):
        compact(directory)
    found, told = read(directory)
    assert len(found) < 200
    assert len(told) == 1
    assert all(number in found or told[0][0] <= number < told[0][1] for number in range(200))
    assert damage(directory)
    repair_partition(directory, FILES)
    assert read(directory) == (list(range(200)), [])
    assert damage(directory) == []
    assert compact(directory).is_whole
    assert read(directory) == (list(range(200)), [])


@pytest.mark.parametrize("kept", [0, 1], ids=["no entries", "one entry"])
def test_readers_are_told_of_a_compacted_index_that_was_cut(directory: str, kept: int) -> None:
    compact(directory)
    damaged = path_of(directory, 1)
    end = bases_of(directory)[2]
    cut_entries(damaged, kept)
    found, told = read(directory)
    assert len(told) == 1
    assert told[0][1] == end
    assert sorted({*found, *(each for begin, until in told for each in range(begin, until))}) == list(range(200))
    assert damage(directory)
    with pytest.raises(CorruptLogError, match="the index was truncated"):
        compact(directory)
    repair_partition(directory, FILES)
    assert read(directory) == (list(range(200)), [])
    assert damage(directory) == []


@pytest.mark.parametrize("number", [0, 1], ids=["first", "middle"])
@pytest.mark.parametrize("is_compacted", [True, False], ids=["compacted", "plain"])
def test_readers_are_told_of_a_missing_index_and_opening_builds_it_again(directory: str, number: int, is_compacted: bool) -> None:
    if is_compacted:
        compact(directory, 4096)  # merges neighbours: the .log files have generations
    base, end = bases_of(directory)[number : number + 2]
    path_of(directory, number).unlink()
    found, told = read(directory)
    assert (found, told) == ([*range(base), *range(end, 200)], [(base, end)])
    assert damage(directory)
    with PartitionFollower(directory, FILES) as follower:
        assert follower.messages_count() == len(found)
        assert follower.offset_of(end) in (base, end)  # nobody knows the times of what is missing
        assert follower.offset_of(end + 1) == end + 1
    recover(directory, FILES)
    assert read(directory) == (list(range(200)), [])
    assert damage(directory) == []


def test_a_segment_that_an_older_one_covers_is_kept_while_that_is_damaged(directory: str) -> None:
    old = {path.name: path.read_bytes() for path in Path(directory).iterdir()}
    compact(directory, 4096)
    bases = bases_of(directory)
    covered = next(name for name in sorted(old) if name.endswith(layout.INDEX_SUFFIX) and int(name[:20]) not in bases)
    for name in (covered, covered.replace(layout.INDEX_SUFFIX, layout.LOG_SUFFIX)):  # as a kill before the removal leaves it
        (Path(directory) / name).write_bytes(old[name])
    head = path_of(directory, 0)
    whole = head.read_bytes()
    cut_entries(head, 3)
    finish_pass(directory, FILES)
    assert (Path(directory) / covered).exists()
    head.write_bytes(whole)
    finish_pass(directory, FILES)
    assert bases_of(directory) == bases
    assert read(directory) == (list(range(200)), [])


def test_a_damaged_head_among_compacted_segments_does_not_keep_appends_from_going_on(directory: str) -> None:
    compact(directory, 4096)
    path = path_of(directory, 1)
    path.write_bytes(b"\xff" + path.read_bytes()[1:])
    finish_pass(directory, FILES)
    partition = PartitionWriter(directory, FILES, wide=True, segment_bytes=2048)
    assert partition.append(encode_sent([Message(payload=b"x", key=b"1")]), 300, SEED) == 200
    partition.close()
    repair_partition(directory, FILES)
    assert read(directory) == (list(range(201)), [])


def test_two_missing_files_of_a_compacted_segment_in_the_middle_are_told_and_stop_a_pass(directory: str) -> None:
    compact(directory, 4096)
    base, end = bases_of(directory)[1:3]
    for path in Path(directory).glob(f"{base:020d}*"):
        path.unlink()
    assert read(directory) == ([*range(base), *range(end, 200)], [(base, end)])
    (what,) = damage(directory)
    assert f"the next segment must begin at offset {base}" in what
    with pytest.raises(CorruptLogError, match="the following segments are missing"):
        compact(directory, 1 << 20)
    assert bases_of(directory)[:2] == [0, end]


def test_a_missing_newest_segment_is_seen_and_its_offsets_are_not_given_again(directory: str) -> None:
    partition = PartitionWriter(directory, FILES, wide=True, segment_bytes=2048)
    partition.append(encode_sent([Message(payload=b"x", key=b"1")] * 10), 300, SEED)
    partition.close()
    for suffix in (layout.LOG_SUFFIX, layout.INDEX_SUFFIX):
        path_of(directory, -1, suffix).unlink() if suffix == layout.LOG_SUFFIX else Path(
            layout.segment_path(directory, 200, suffix)
        ).unlink()
    (what,) = damage(directory)
    assert "the two files of the newest segment, from offset 200, are missing" in what
    with pytest.raises(
        CorruptLogError, match=r"the files of the newest segment, from offset 200, are missing.*--repair creates a segment"
    ):
        recover(directory, FILES)
    repair_partition(directory, FILES, committed=207)
    assert PartitionWriter(directory, FILES, wide=True, segment_bytes=2048).end_offset == 207
    assert read(directory) == (list(range(200)), [(200, 207)])


def test_compacted_segments_without_messages_are_not_reported_as_a_gap(tmp_path: Path) -> None:
    directory = str(tmp_path / "partition")
    FILES.make_directory(directory)
    partition = PartitionWriter(directory, FILES, wide=True, segment_bytes=4096)
    for number in range(4):
        partition.append(encode_sent([Message(payload=bytes(3000), key=b"same")]), number + 1, SEED)
    partition.roll()
    assert compact(directory, 4096).dropped_count == 3
    assert read(directory) == ([3], [])
    assert list(verify_partition(directory, FILES, BufferPool())) == []
    with PartitionFollower(directory, FILES) as follower:
        assert [follower.offset_of(time_us) for time_us in (0, 4, 5)] == [0, 0, 4]
    assert compact(directory, 4096).dropped_count == 0
    assert len(list_closed(directory, FILES)) <= 2


def test_an_unsealed_index_of_an_older_version_is_compacted_if_it_ends_with_its_log(directory: str) -> None:
    compact(directory)
    for base in bases_of(directory)[:-1]:
        path = Path(layout.segment_path(directory, base, layout.INDEX_SUFFIX))
        index = path.read_bytes()
        header = layout.decode_header(index)
        assert header is not None
        path.write_bytes(
            layout.encode_header(base, header.generation, is_sealed=False)
            + index[layout.INDEX_HEADER_BYTES : -layout.INDEX_ENTRY_BYTES]
        )
        changed = layout.decode_header(path.read_bytes())
        assert changed is not None
        assert changed.version == layout.UNSEALED_VERSION
    assert read(directory) == (list(range(200)), [])
    assert damage(directory) == []
    damaged = path_of(directory, 1)
    whole = damaged.read_bytes()
    cut_entries(damaged, 1)
    assert read(directory)[1]
    with pytest.raises(CorruptLogError, match="the index was truncated"):
        compact(directory, 4096)
    damaged.write_bytes(whole)
    compact(directory, 4096)
    assert read(directory) == (list(range(200)), [])


def test_a_damaged_entry_of_a_compacted_index_hides_no_more_than_its_messages(directory: str) -> None:
    compact(directory, 1 << 20)
    path = path_of(directory, 0)
    index = bytearray(path.read_bytes())
    entries = (len(index) - layout.INDEX_HEADER_BYTES) // layout.INDEX_ENTRY_BYTES - 1
    assert entries == 200
    for number in range(entries):
        changed = bytearray(index)
        changed[layout.INDEX_HEADER_BYTES + number * layout.INDEX_ENTRY_BYTES + 8] ^= 0xFF
        path.write_bytes(changed)
        assert read(directory) == ([*range(number), *range(number + 1, 200)], [(number, number + 1)])


@pytest.mark.parametrize("name", ["09223372036854775808.log", "18446744073709551615.index", "99999999999999999999.log"])
def test_a_stray_file_whose_number_is_no_offset_is_in_nobodys_way(directory: str, name: str) -> None:
    (Path(directory) / name).write_bytes(b"")
    partition = PartitionWriter(directory, FILES, wide=True, segment_bytes=2048)
    assert partition.append(encode_sent([Message(payload=b"x", key=b"1")]), 300, SEED) == 200
    partition.close()
    assert read(directory) == (list(range(201)), [])
    (finding,) = verify_partition(directory, FILES, BufferPool())
    assert (finding.kind, Path(finding.path).name) == ("file_strange", name)
    repair_partition(directory, FILES)
    assert not (Path(directory) / name).exists()


def test_a_stray_segment_that_nothing_leads_to_is_set_aside(directory: str) -> None:
    stray = Path(layout.segment_path(directory, 999, layout.LOG_SUFFIX))
    stray.write_bytes(b"not a message")
    assert recover(directory, FILES).end_offset == 200
    (kept,) = Path(directory).glob(f"{stray.name}.set-aside-*")
    assert kept.read_bytes() == b"not a message"


@pytest.mark.parametrize("is_compacted", [True, False], ids=["compacted", "plain"])
def test_a_missing_first_segment_looks_dropped_and_neither_a_pass_nor_a_repair_loses_more(
    directory: str, is_compacted: bool
) -> None:
    if is_compacted:
        compact(directory, 4096)
    begin = bases_of(directory)[1]
    for path in Path(directory).glob(f"{0:020d}*"):
        path.unlink()
    with PartitionFollower(directory, FILES) as follower:
        assert follower.first_offset == begin
        with pytest.raises(OffsetOutOfRangeError):
            list(follower.read(begin - 1))
    for _ in range(2):
        assert read(directory) == (list(range(begin, 200)), [])
        assert damage(directory) == []
        assert repair_partition(directory, FILES) == []
        assert compact(directory, 1 << 20).is_whole
    recover(directory, FILES)
    assert read(directory) == (list(range(begin, 200)), [])


@pytest.mark.parametrize("heal", [recover, repair_partition])
def test_a_pass_over_a_rebuilt_index_stops_before_a_missing_segment(directory: str, heal: Callable[..., object]) -> None:
    compact(directory, 4096)
    bases = bases_of(directory)
    for path in Path(directory).glob(f"{bases[1]:020d}*"):
        path.unlink()
    path_of(directory, 1).unlink()  # of the segment after it
    heal(directory, FILES)
    expected = ([*range(bases[1]), *range(bases[2], 200)], [(bases[1], bases[2])])
    assert read(directory) == expected
    with pytest.raises(CorruptLogError, match="the following segments are missing"):
        compact(directory, 1 << 20)
    assert read(directory) == expected


def test_a_rebuilt_index_says_which_offsets_no_message_proves_when_the_next_segment_is_missing(directory: str) -> None:
    compact(directory, 4096)
    bases = bases_of(directory)
    for path in Path(directory).glob(f"{bases[2]:020d}*"):
        path.unlink()
    path_of(directory, 1).unlink()
    assert read(directory)[1] == [(bases[1], bases[3])]
    (action,) = repair_partition(directory, FILES)
    assert (
        f"no message has the offsets {bases[2]} to {bases[3] - 1}: they were removed by a compaction, or a segment" in action.what
    )
    kept = [*range(bases[2]), *range(bases[3], 200)]
    assert read(directory) == (kept, []), "nothing else tells the two apart"
    assert compact(directory, 1 << 20).is_whole
    assert read(directory) == (kept, [])


def test_a_rebuilt_index_says_nothing_of_offsets_when_it_ends_where_the_next_segment_begins(directory: str) -> None:
    compact(directory, 4096)
    path_of(directory, 1).unlink()
    (action,) = repair_partition(directory, FILES)
    assert "no message has" not in action.what


@pytest.mark.parametrize("heal", [recover, repair_partition])
def test_a_segment_that_is_lost_after_a_rebuilt_index_is_seen(directory: str, heal: Callable[..., object]) -> None:
    compact(directory, 4096)
    bases = bases_of(directory)
    path_of(directory, 1).unlink()
    heal(directory, FILES)
    assert damage(directory) == []
    for path in Path(directory).glob(f"{bases[2]:020d}*"):
        path.unlink()
    expected = ([*range(bases[2]), *range(bases[3], 200)], [(bases[2], bases[3])])
    assert read(directory) == expected
    assert len(damage(directory)) == 1
    heal(directory, FILES)
    with pytest.raises(CorruptLogError, match="the following segments are missing"):
        compact(directory, 1 << 20)
    assert read(directory) == expected
