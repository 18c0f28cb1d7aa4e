"""PartitionFollower: every range, across sends and segments, while the writer goes on."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.core.codec.binary import decode_polled
from headstream.errors import OffsetOutOfRangeError, PartitionNotFoundError
from headstream.log.partition.segment_removal import drop_segment
from headstream.log.segments.follower import PartitionFollower
from headstream.log.segments.layout import INDEX_SUFFIX, LOG_SUFFIX, segment_path
from headstream.log.system.files import Files
from tests.support.log.logs import SEED, batch, make_files, open_partition, payloads, read_all

Place = tuple[Files, str]


@pytest.mark.parametrize("kind", ["os", "memory"])
@settings(max_examples=60, deadline=None)
@given(
    sends=st.lists(st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=12), min_size=1, max_size=12),
    data=st.data(),
)
def test_read_gives_exactly_the_range_asked_for(kind: str, sends: list[list[bytes]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as root:
        files, directory = make_files(kind, Path(root))
        partition = open_partition(files, directory, segment_bytes=data.draw(st.sampled_from([1, 500, 4000, 1 << 20])))
        for number, send in enumerate(sends):
            partition.append(batch(*send), number, SEED)
        partition.close()
        written = [payload for send in sends for payload in send]
        with PartitionFollower(directory, files) as follower:
            assert (follower.first_offset, follower.end_offset) == (0, len(written))
            for _ in range(5):
                start = data.draw(st.integers(0, len(written)))
                until = data.draw(st.integers(start, len(written)))
                size = data.draw(st.sampled_from([1, 50, 400, 2000, 1 << 20]))
                chunks = list(follower.read(start, until, size))
                messages = [message for chunk in chunks for message in decode_polled(chunk)]
                assert [message.offset for message in messages] == list(range(start, until))
                assert payloads(messages) == written[start:until]
                assert all(len(chunk) <= size * 5 // 4 or len(decode_polled(chunk)) == 1 for chunk in chunks)


def test_follower_of_an_empty_partition_has_nothing(place: Place) -> None:
    files, directory = place
    with PartitionFollower(directory, files) as follower:
        assert (follower.first_offset, follower.end_offset, follower.size_bytes()) == (0, 0, 0)
        assert list(follower.read(0)) == []
        assert follower.offset_of(5) == 0


def test_refresh_follows_appends_and_rolls(place: Place) -> None:
    files, directory = place
    partition = open_partition(files, directory, segment_bytes=200)
    with PartitionFollower(directory, files) as follower:
        seen: list[bytes | None] = []
        for number in range(30):
            partition.append(batch(b"%d" % number * 20, b"x"), number, SEED)
            assert follower.end_offset == 2 * number
            follower.refresh()
            assert follower.end_offset == 2 * number + 2
            for chunk in follower.read(2 * number):
                seen += payloads(decode_polled(chunk))
        assert seen == payloads(read_all(files, directory))
        assert follower.size_bytes() == sum(len(chunk) for chunk in follower.read(0))


def test_refresh_knows_the_end_of_a_segment_that_was_rolled_between_two_looks(place: Place) -> None:
    files, directory = place
    partition = open_partition(files, directory, segment_bytes=300)
    partition.append(batch(b"a" * 50), 0, SEED)
    with PartitionFollower(directory, files) as follower:
        list(follower.read(0))  # the first segment's index is open, and knows one send
        for number in range(8):
            partition.append(batch(b"%d" % number * 50), 0, SEED)
        follower.refresh()
        assert [bytes(p or b"")[:1] for c in follower.read(0) for p in payloads(decode_polled(c))] == [
            b"a", *(b"%d" % number for number in range(8))
        ]  # fmt: skip


def test_read_looks_again_when_it_is_asked_for_more_than_it_knows(place: Place) -> None:
    files, directory = place
    partition = open_partition(files, directory)
    with PartitionFollower(directory, files) as follower:
        partition.append(batch(b"new"), 0, SEED)
        assert len(list(follower.read(0, 1))) == 1


@pytest.mark.parametrize("until_offset", [4, 1000])
def test_read_refuses_what_was_never_written(place: Place, until_offset: int) -> None:
    files, directory = place
    open_partition(files, directory).append(batch(b"1", b"2", b"3"), 0, SEED)
    with PartitionFollower(directory, files) as follower, pytest.raises(OffsetOutOfRangeError, match="0 to 3 exist"):
        follower.read(0, until_offset)


def test_questions_are_answered_by_what_is_there_when_a_segment_goes_meanwhile(place: Place) -> None:
    files, directory = place
    partition = open_partition(files, directory, segment_bytes=1)
    for number in range(5):
        partition.append(batch(b"message %d" % number), number, SEED)
    partition.close()
    with PartitionFollower(directory, files) as known:
        sizes = [known.size_between(number, number + 1) for number in range(5)]
    questions: list[tuple[Callable[[PartitionFollower], object], object]] = [
        (lambda follower: follower.messages_count(), 2),
        (lambda follower: follower.size_bytes(), sum(sizes[3:])),
        (lambda follower: follower.size_between(0, 5), sum(sizes[3:])),
        (lambda follower: follower.find_last(4), 3),
        (lambda follower: follower.offset_before(10_000), 3),
        (lambda follower: follower.offset_of(0), 3),
        (lambda follower: follower.offset_after(0, 1), 4),
    ]
    followers = [PartitionFollower(directory, files) for _ in questions]
    for base in range(3):
        drop_segment(directory, base, 0, files)
    for follower, (ask, answer) in zip(followers, questions, strict=True):
        assert ask(follower) == answer
        follower.close()


def test_read_refuses_what_has_been_dropped(place: Place) -> None:
    files, directory = place
    partition = open_partition(files, directory, segment_bytes=1)
    for number in range(3):
        partition.append(batch(b"%d" % number), 0, SEED)
    with PartitionFollower(directory, files) as follower:
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX):
            files.remove(segment_path(directory, 0, suffix))
        with pytest.raises(OffsetOutOfRangeError, match="offset 0 was removed during the read"):
            list(follower.read(0))
        follower.refresh()
        assert follower.first_offset == 1
        with pytest.raises(OffsetOutOfRangeError, match="1 to 3 exist"):
            follower.read(0)
        assert len(list(follower.read(1))) == 2


def test_chunks_stay_as_they_are_for_as_long_as_they_are_held(place: Place) -> None:
    files, directory = place
    partition = open_partition(files, directory)
    for number in range(20):
        partition.append(batch(b"%02d" % number), 0, SEED)
    with PartitionFollower(directory, files) as follower:
        chunks = list(follower.read(0, size_bytes=1))
        assert [payloads(decode_polled(chunk)) for chunk in chunks] == [[b"%02d" % number] for number in range(20)]
        assert all(chunk.readonly for chunk in chunks)


def test_offset_of_finds_the_first_message_of_a_time_or_later(place: Place) -> None:
    files, directory = place
    partition = open_partition(files, directory, segment_bytes=150)
    times = [10, 10, 20, 30, 30, 30, 40]
    for time_us in times:
        partition.append(batch(b"a" * 30, b"b"), time_us, SEED)
    with PartitionFollower(directory, files) as follower:
        for asked in range(50):
            expected = next((2 * number for number, time in enumerate(times) if time >= asked), 2 * len(times))
            assert follower.offset_of(asked) == expected


def test_follower_says_so_when_there_is_no_such_partition(place: Place) -> None:
    files, directory = place
    with pytest.raises(PartitionNotFoundError, match="partition does not exist"):
        PartitionFollower(f"{directory}/none", files)


def test_refresh_says_so_when_the_partition_has_been_deleted(place: Place) -> None:
    files, directory = place
    open_partition(files, directory).append(batch(b"1"), 0, SEED)
    follower = PartitionFollower(directory, files)
    files.remove_directory(directory)
    with pytest.raises(PartitionNotFoundError, match="deleted"):
        follower.refresh()


def after_listing(files: Files, monkeypatch: pytest.MonkeyPatch, remove: Callable[[], None]) -> None:
    """Remove files once, between the next listing of a directory and the use of its names."""
    list_names = files.list_names

    def list_and_remove(directory: str) -> list[str] | None:
        names = list_names(directory)
        monkeypatch.undo()
        remove()
        return names

    monkeypatch.setattr(files, "list_names", list_and_remove)


def test_refresh_lists_again_when_a_segment_is_removed_after_its_listing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    files, directory = place
    open_partition(files, directory).append(batch(b"1"), 0, SEED)

    def remove() -> None:
        for suffix in (INDEX_SUFFIX, LOG_SUFFIX):
            files.remove(segment_path(directory, 0, suffix))

    after_listing(files, monkeypatch, remove)
    with PartitionFollower(directory, files) as follower:
        assert (follower.first_offset, follower.end_offset, follower.segment_offsets) == (0, 0, [])


def test_refresh_raises_that_the_partition_is_deleted_when_it_goes_after_its_listing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, directory = place
    open_partition(files, directory).append(batch(b"1"), 0, SEED)
    after_listing(files, monkeypatch, lambda: files.remove_directory(directory))
    with pytest.raises(PartitionNotFoundError, match="deleted"):
        PartitionFollower(directory, files)


def test_follower_holds_few_files_however_many_segments_there_are(tmp_path: Path) -> None:
    files, directory = make_files("os", tmp_path)
    partition = open_partition(files, directory, segment_bytes=1)
    for number in range(50):
        partition.append(batch(b"%d" % number), number, SEED)
    partition.close()
    with PartitionFollower(directory, files) as follower:
        before = len(list(Path("/proc/self/fd").iterdir()))
        assert len(list(follower.read(0))) == 50
        assert follower.offset_of(25) == 25
        assert follower.size_bytes() == sum(len(c) for c in follower.read(0))
        assert len(list(Path("/proc/self/fd").iterdir())) - before <= 4


def test_refresh_sees_the_first_message_though_the_clock_stands_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: 4 * 10**18)
    files, directory = make_files("os", tmp_path)
    os.utime(directory, ns=(1, 1))
    with PartitionFollower(directory, files) as follower:
        assert follower.end_offset == 0
        partition = open_partition(files, directory, segment_bytes=60)
        for number in range(3):
            partition.append(batch(b"%d" % number), 0, SEED)
            os.utime(directory, ns=(1, 1))
            follower.refresh()
            assert follower.end_offset == number + 1
        partition.close()
