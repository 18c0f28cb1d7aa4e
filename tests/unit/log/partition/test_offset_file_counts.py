"""Unit tests of headstream.log.partition.offset_file_counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from headstream.core.model.polling import OffsetOwner
from headstream.errors import ConsumersLimitError
from headstream.log.partition.offsets import OffsetStore, OpenOffsets
from headstream.log.system.files import Files
from tests.support.log.logs import make_files


def test_commit_refuses_a_new_consumer_when_its_user_has_made_as_many_as_it_may(place: tuple[Files, str]) -> None:
    files, directory = place
    opened = OpenOffsets()
    opened.counts.most = 2
    store = OffsetStore(directory, files, opened)
    for name in ("a", "b"):
        store.commit(OffsetOwner.named(name), 1, 1, 0, user_id=7)
    with pytest.raises(ConsumersLimitError, match=r"user 7 has .* of 2 consumers.*max_consumers_per_user"):
        store.commit(OffsetOwner.named("c"), 1, 1, 0, user_id=7)
    assert len(files.list_names(directory) or []) == 2
    store.commit(OffsetOwner.named("a"), 2, 1, 0, user_id=7)  # of known consumers, all go on committing
    store.commit(OffsetOwner.named("c"), 1, 1, 0, user_id=8)
    store.commit(OffsetOwner.named("d"), 1, 1, 0)  # a process without a server
    store.forget(OffsetOwner.named("b"), 1)
    store.commit(OffsetOwner.named("e"), 1, 1, 0, user_id=7)


def test_count_files_counts_what_is_there_when_the_log_is_opened_again(place: tuple[Files, str]) -> None:
    files, directory = place
    store = OffsetStore(directory, files)
    for number, user_id in enumerate([7, 7, 8, 0]):
        store.commit(OffsetOwner.named(f"c{number}"), 1, 1, 0, user_id=user_id)
    opened = OpenOffsets()
    opened.counts.most = 2
    again = OffsetStore(directory, files, opened)
    again.count_files()
    with pytest.raises(ConsumersLimitError):
        again.commit(OffsetOwner.named("new"), 1, 1, 0, user_id=7)
    again.commit(OffsetOwner.named("new"), 1, 1, 0, user_id=8)
    again.close()  # its topic is removed: nothing of it counts any more
    OffsetStore(f"{directory}", files, opened).commit(OffsetOwner.named("newer"), 1, 1, 0, user_id=7)


def test_commit_keeps_few_files_open_however_many_consumers_there_are(tmp_path: Path) -> None:
    files, directory = make_files("os", tmp_path)
    store = OffsetStore(directory, files)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(200):
        store.commit(OffsetOwner.group(f"g{number}"), 1, number, 0)
    assert len(list(Path("/proc/self/fd").iterdir())) - before <= 64
    assert [store.committed(OffsetOwner.group(f"g{number}"), 1) for number in range(200)] == list(range(200))
    assert len(store.consumers()) == 200
    store.close()
