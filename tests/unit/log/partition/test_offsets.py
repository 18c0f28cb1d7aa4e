"""OffsetStore: what is committed is kept, by whom and where."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.broker.topics import Topics
from headstream.connect import connect
from headstream.core.model.identifiers import TopicName
from headstream.core.model.polling import OffsetOwner
from headstream.core.model.topology import Topic
from headstream.errors import CorruptLogError
from headstream.log.partition.offsets import OffsetStore
from headstream.log.system.files import Files, MemoryFiles
from tests.support.log.logs import make_files

BILLING = OffsetOwner.group("billing")


def test_committed_is_none_before_the_first_commit(place: tuple[Files, str]) -> None:
    files, directory = place
    store = OffsetStore(directory, files)
    assert store.committed(BILLING, 1) is None
    store.commit(BILLING, 3, 10, 5)
    assert [store.committed(BILLING, number) for number in (1, 2, 3, 4)] == [None, None, 10, None]
    assert OffsetStore(f"{directory}/none", files).consumers() == []


def test_committed_survives_the_process(place: tuple[Files, str]) -> None:
    files, directory = place
    store = OffsetStore(directory, files)
    store.commit(BILLING, 1, 10, 5)
    store.commit(BILLING, 1, 0, 6)
    store.commit(BILLING, 1, 2**64 - 1, 7)
    store.close()
    assert OffsetStore(directory, files).committed(BILLING, 1) == 2**64 - 1


def test_a_group_and_a_consumer_of_one_name_are_two(place: tuple[Files, str]) -> None:
    files, directory = place
    store = OffsetStore(directory, files)
    store.commit(OffsetOwner.group("x"), 1, 1, 0)
    store.commit(OffsetOwner.named("x"), 1, 2, 0)
    assert store.committed(OffsetOwner.group("x"), 1) == 1
    assert store.committed(OffsetOwner.named("x"), 1) == 2


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.builds(OffsetOwner, st.sampled_from([*map(type(BILLING.kind), (1, 2))]), st.sampled_from(["a", "ü/…", "x" * 255])),
            st.sampled_from([1, 2, 1000]),
            st.one_of(st.none(), st.integers(0, 2**64 - 1)),
        )
    )
)
def test_store_agrees_with_a_dict(commits: list[tuple[OffsetOwner, int, int | None]]) -> None:
    files = MemoryFiles()
    files.make_directory("offsets")
    expected: dict[tuple[OffsetOwner, int], int] = {}
    for consumer, partition, offset in commits:
        store = OffsetStore("offsets", files)
        if offset is None:
            store.forget(consumer, partition)
            expected.pop((consumer, partition), None)
        else:
            store.commit(consumer, partition, offset, 1)
            expected[consumer, partition] = offset
    store = OffsetStore("offsets", files)
    for consumer, partition, _ in commits:
        assert store.committed(consumer, partition) == expected.get((consumer, partition))
    known = {consumer for consumer, _ in expected}
    assert store.consumers() == sorted(known, key=lambda consumer: (consumer.kind, consumer.name))


def test_forget_removes_the_file_when_it_is_the_last_offset(place: tuple[Files, str]) -> None:
    files, directory = place
    store = OffsetStore(directory, files)
    store.commit(BILLING, 1, 10, 5)
    store.commit(BILLING, 3, 20, 5)
    store.forget(BILLING, 1)
    assert (store.committed(BILLING, 3), len(files.list_names(directory) or [])) == (20, 1)
    store.forget(BILLING, 3)
    assert (store.consumers(), files.list_names(directory)) == ([], [])
    store.forget(BILLING, 3)


def test_commit_is_kept_when_another_process_has_removed_the_file(place: tuple[Files, str]) -> None:
    files, directory = place
    here, there = OffsetStore(directory, files), OffsetStore(directory, files)
    here.commit(BILLING, 1, 10, 5)
    there.forget(BILLING, 1)
    here.commit(BILLING, 2, 20, 6)
    assert (there.committed(BILLING, 1), there.committed(BILLING, 2)) == (None, 20)


@pytest.mark.parametrize("byte", range(32))
def test_committed_refuses_a_damaged_slot(tmp_path: Path, byte: int) -> None:
    files, directory = make_files("os", tmp_path)
    OffsetStore(directory, files).commit(BILLING, 1, 123456789, 987654321)
    path = next(Path(directory).iterdir())
    data = bytearray(path.read_bytes())
    assert len(data) == 544
    data[512 + byte] ^= 0x10
    path.write_bytes(data)
    with pytest.raises(CorruptLogError, match=r"offset of group 'billing' in partition 1 is damaged .*byte 512"):
        OffsetStore(directory, files).committed(BILLING, 1)


@pytest.mark.parametrize("left", [b"", b"HSOFF", bytes(512)], ids=["empty", "half a head", "zeros"])
def test_a_first_commit_that_did_not_end_is_read_as_none_and_written_whole_by_the_next(tmp_path: Path, left: bytes) -> None:
    files, directory = make_files("os", tmp_path)
    OffsetStore(directory, files).commit(BILLING, 1, 1, 1)
    (path,) = Path(directory).iterdir()
    whole = path.read_bytes()
    path.write_bytes(left)
    store = OffsetStore(directory, files)
    assert (store.consumers(), store.committed(BILLING, 1)) == ([], None)
    assert store.damaged_heads() == [(str(path), True)]
    store.commit(BILLING, 1, 1, 1)
    assert (store.consumers(), store.committed(BILLING, 1)) == ([BILLING], 1)
    assert path.read_bytes() == whole


def test_a_damaged_head_hides_no_offset_and_the_next_commit_writes_it_again(tmp_path: Path) -> None:
    files, directory = make_files("os", tmp_path)
    OffsetStore(directory, files).commit(BILLING, 2, 7, 1)
    (path,) = Path(directory).iterdir()
    path.write_bytes(b"\xff" + path.read_bytes()[1:])
    store = OffsetStore(directory, files)
    assert (store.consumers(), store.damaged_heads()) == ([], [(str(path), False)])
    assert store.committed(BILLING, 2) == 7
    store.commit(BILLING, 1, 3, 1)
    assert (store.consumers(), store.damaged_heads()) == ([BILLING], [])


def test_a_partition_is_forgotten_by_consumers_whose_head_is_damaged_too(tmp_path: Path) -> None:
    files, directory = make_files("os", tmp_path)
    for number in (1, 2):
        OffsetStore(directory, files).commit(BILLING, number, 7, 1)
    (path,) = Path(directory).iterdir()
    path.write_bytes(b"\xff" + path.read_bytes()[1:])
    store = OffsetStore(directory, files)
    store.forget_partition(2)
    assert (store.committed(BILLING, 1), store.committed(BILLING, 2)) == (7, None)


def test_groups_of_a_topic_are_listed_without_an_opening_or_a_look_at_the_topic_per_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[str] = []
    open_read, get_topic = MemoryFiles.open_read, Topics.get

    def count(files: MemoryFiles, path: str) -> object:
        opened.append(path)
        return open_read(files, path)

    def count_topic(topics: Topics, name: TopicName) -> Topic:
        opened.append("topic")
        return get_topic(topics, name)

    with connect("memory:") as log:
        log.create_topic("shop/orders", partitions=16)
        log.producer("shop/orders").send(b"x").result()
        for group in ("billing", "shipping"):
            log.seek_group("shop/orders", group, "first")
        monkeypatch.setattr(MemoryFiles, "open_read", count)
        monkeypatch.setattr(Topics, "get", count_topic)
        found = log.groups("shop/orders")
    assert [len(group.partitions) for group in found] == [16, 16]
    assert opened.count("topic") == 1
    assert max(Counter(opened).values()) == 2, "for the group's name, and for all of its offsets"
