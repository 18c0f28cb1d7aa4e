"""Staged commits: all of it and once, whatever dies in between and whoever has the lock."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Fsync, Limits, NewTopic, TopicOptions
from headstream.errors import DiskFullError, InvalidInputError
from headstream.log.administration import create_topic, delete_topic, purge_topic, update_topic
from headstream.log.staged.staging import Manifest, StagedWriter, epoch_directory
from headstream.log.system.files import OsFile, OsFiles
from tests.support.log.logs import SEED, batch
from tests.support.log.staged import (
    BOTH,
    CARTS,
    MORE,
    ORDERS,
    ROWS,
    Rows,
    begin,
    commit,
    contents,
    is_swept,
    make_log,
    make_staged,
    manifest_of,
    open_log,
    stage,
    take_in,
)
from tests.support.messages.batches import sent


def test_commit_appends_what_was_staged_once_and_leaves_nothing_behind(tmp_path: Path) -> None:
    manifest = make_staged(tmp_path)
    commit(tmp_path, manifest)
    assert contents(tmp_path) == BOTH
    assert is_swept(tmp_path)
    again = manifest_of("query", 7, stage(tmp_path, "query", 7, "other attempt", ROWS))
    commit(tmp_path, again)
    with pytest.raises(InvalidInputError, match="epoch 6 of writer 'query' precedes the committed epoch 7, and is not appended"):
        commit(tmp_path, manifest_of("query", 6, stage(tmp_path, "query", 6, "0", ROWS)))
    assert contents(tmp_path) == BOTH
    assert is_swept(tmp_path)
    commit(tmp_path, manifest_of("query", 8, stage(tmp_path, "query", 8, "0", MORE)))
    commit(tmp_path, manifest_of("another", 7, stage(tmp_path, "another", 7, "0", {(ORDERS, 2): [b"h"]})))
    assert contents(tmp_path) == {
        (ORDERS, 1): [b"a", b"b", b"e", b"e"],
        (ORDERS, 2): [b"c", b"h"],
        (CARTS, 1): [b"d", b"f", b"g", b"f", b"g"],
    }


class DyingFiles(OsFiles):
    """A file system whose user dies at its n-th change."""

    def __init__(self, changes: int) -> None:
        self.left = changes

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise KilledError

    def open_write(self, path: str) -> OsFile:
        self.step()
        return DyingFile(path, os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), self)

    def rename(self, path: str, target: str) -> None:
        self.step()
        super().rename(path, target)

    def remove(self, path: str) -> None:
        self.step()
        super().remove(path)

    def remove_directory(self, path: str) -> None:
        self.step()
        super().remove_directory(path)

    def remove_empty_directory(self, path: str) -> None:
        self.step()
        super().remove_empty_directory(path)

    def sync_directory(self, path: str) -> None:
        self.step()


class DyingFile(OsFile):
    __slots__ = ("_files",)

    def __init__(self, path: str, descriptor: int, files: DyingFiles) -> None:
        super().__init__(path, descriptor)
        self._files = files

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
        if self._files.left == 0:
            super().write_at(bytes(data)[: len(data) // 2], position)
        self._files.step()
        super().write_at(data, position)

    def sync(self) -> None:
        self._files.step()

    def direct(self) -> None:
        return None


class KilledError(BaseException): ...


def run_until_killed(root: Path, changes: int) -> bool:
    """Append what is committed, and return whether the process died on the way."""
    log = open_log(root, DyingFiles(changes))
    try:
        log.start_writing("identity", 1, briefly=True)  # without a thread that would die in its place
        log.commits.append_submitted()
    except KilledError:
        return True
    finally:
        # What the system does for a dead process: its lock is free, its transaction rolled back, its files are closed.
        log.commits.close()
        log._writer_lock.release()
        if log._catalog is not None:
            log._catalog.close()
        for partition in log._partitions.values():
            partition._release_files()
    return False


REPEATED = {(ORDERS, 1): [b"b", b"e", b"a"], (ORDERS, 2): [b"c"], (CARTS, 1): [b"f", b"d", b"g"]}


@pytest.mark.parametrize(
    ("fsync", "options", "more"),
    [
        (Fsync.INTERVAL, TopicOptions(), MORE),
        (Fsync.ALWAYS, TopicOptions(), MORE),
        (Fsync.INTERVAL, TopicOptions(deduplication_count=5), REPEATED),
    ],
    ids=["interval", "always", "deduplication"],
)
def test_commit_is_whole_and_once_when_the_process_dies_at_every_step(
    tmp_path: Path, fsync: Fsync, options: TopicOptions, more: Rows
) -> None:
    deaths = 0
    while True:
        root = tmp_path / str(deaths)
        make_log(root, {ORDERS: 2, CARTS: 1}, fsync=fsync, options=options)
        parts = [stage(root, "q", 1, str(number), rows, with_ids=True) for number, rows in enumerate((ROWS, more))]
        begin(root, manifest_of("q", 1, *parts))
        if not run_until_killed(root, deaths):
            break
        if deaths % 3:
            run_until_killed(root, deaths // 3)  # the one who comes to finish it dies too
        deaths += 1
        take_in(log := open_log(root))
        log.close()
        assert contents(root) == BOTH
        assert is_swept(root)
    assert deaths > 20
    assert contents(root) == BOTH


@pytest.mark.parametrize("name", ["orders", "renamed"])
def test_a_commit_that_failed_is_finished_before_anything_else_is_appended(tmp_path: Path, name: str) -> None:
    manifest = make_staged(tmp_path)

    class FullFiles(OsFiles):
        is_full = False

        def open_write(self, path: str) -> OsFile:
            if self.is_full and "/streams/1/2/1/" in path:
                raise DiskFullError("no room", where=path)
            return super().open_write(path)

    files = FullFiles()
    log = open_log(tmp_path, files)
    log.start_writing("identity", 1)
    log.commits.close()
    begin(tmp_path, manifest)
    files.is_full = True
    with pytest.raises(DiskFullError, match="no room"):
        log.commits.append_submitted()
    topic = log.snapshot()["shop"].topics["orders"]
    with pytest.raises(DiskFullError, match="no room"):
        log.append(topic, 1, batch(b"z"), 5, SEED)
    files.is_full = False
    update_topic(log, topic, name=name)
    assert log.append(topic, 1, batch(b"z"), 5, SEED).offset == 3
    log.close()
    expected = {**BOTH, (ORDERS, 1): [b"a", b"b", b"e", b"z"]}
    assert contents(tmp_path) == {(of.replace("orders", name), number): rows for (of, number), rows in expected.items()}
    assert is_swept(tmp_path)


BIG = 3 << 20


def stage_big(root: Path, writer: str, epoch: int) -> Manifest:
    """Stage, in two parts, five batches for each partition of a topic: more together than is appended one by one."""
    parts = []
    for number in range(2):
        staged = StagedWriter(str(root), OsFiles(), writer, epoch, str(number))
        for index in range(5):
            for partition in (1, 2, 3):
                data = sent(b"%d %d %d " % (partition, number, index) + bytes(BIG // 10))
                staged.add(ORDERS, partition, data, 1)
        part = staged.finish()
        assert part is not None
        parts.append(part)
    return manifest_of(writer, epoch, *parts)


def big_contents(root: Path) -> dict[tuple[str, int], list[bytes]]:
    return {place: [payload.partition(b"\0")[0] for payload in payloads] for place, payloads in contents(root).items()}


BIG_CONTENTS = {
    (ORDERS, partition): [b"%d %d %d " % (partition, number, index) for number in range(2) for index in range(5)]
    for partition in (1, 2, 3)
}


@pytest.mark.parametrize("fsync", [*Fsync])
@pytest.mark.parametrize("count", [None, 1000], ids=["", "deduplicated"])
def test_a_big_commit_is_in_order_in_each_partition(tmp_path: Path, fsync: Fsync, count: int | None) -> None:
    make_log(tmp_path, {ORDERS: 3}, fsync=fsync, limits=Limits.WIDE, options=TopicOptions(deduplication_count=count))
    commit(tmp_path, stage_big(tmp_path, "query", 1))
    assert big_contents(tmp_path) == BIG_CONTENTS
    assert is_swept(tmp_path)


def test_a_big_commit_is_finished_when_one_of_its_partitions_had_no_room(tmp_path: Path) -> None:
    make_log(tmp_path, {ORDERS: 3}, limits=Limits.WIDE)
    manifest = stage_big(tmp_path, "query", 1)
    writing: set[str] = set()

    class FullFile(OsFile):
        def write_at(self, data: bytes | bytearray | memoryview, position: int) -> None:
            writing.add(threading.current_thread().name)
            if is_full and len(data) > BIG // 10 and position > 2 * BIG // 10:
                raise DiskFullError("no room", where="here")
            super().write_at(data, position)

    class FullFiles(OsFiles):
        def open_write(self, path: str) -> OsFile:
            if "/streams/1/1/2/" not in path:
                return super().open_write(path)
            return FullFile(path, os.open(path, os.O_RDWR | os.O_CREAT, 0o644))

    is_full = True
    log = open_log(tmp_path, FullFiles())
    log.start_writing("identity", 1)
    log.commits.close()
    begin(tmp_path, manifest)
    with pytest.raises(DiskFullError, match="no room"):
        log.commits.append_submitted()
    assert writing - {threading.current_thread().name}, "not appended side by side"
    is_full = False
    log.commits.append_submitted()
    log.close()
    assert big_contents(tmp_path) == BIG_CONTENTS
    assert is_swept(tmp_path)


def test_commit_is_refused_by_name_when_its_topic_is_gone_and_can_be_tried_again(tmp_path: Path) -> None:
    manifest = make_staged(tmp_path)
    log = open_log(tmp_path)
    log.start_writing("identity", 1)
    delete_topic(log, log.snapshot()["shop"].topics["carts"])
    log.close()
    for _ in range(2):
        part = stage(tmp_path, "query", 7, "0", ROWS)
        with pytest.raises(InvalidInputError, match="refused: topic 'shop/carts' no longer exists"):
            commit(tmp_path, manifest_of("query", 7, part))
        assert contents(tmp_path) == {}
        assert is_swept(tmp_path)
    log = open_log(tmp_path)
    log.start_writing("identity", 1)
    create_topic(log, NewTopic(TopicName("shop", "carts"), 1, Limits.IGGY), 9)
    log.close()
    parts = stage(tmp_path, "query", 7, "0", ROWS), stage(tmp_path, "query", 7, "1", MORE)
    commit(tmp_path, manifest_of("query", 7, *parts))
    assert contents(tmp_path) == BOTH
    assert manifest.epoch == 7


@pytest.mark.parametrize(
    ("harm", "what"),
    [
        ("limits", "recreated with limits iggy"),
        ("partition", "has no partition 9"),
        ("identity", "belongs to another log"),
        ("missing", "missing or cut short"),
        ("damaged", "is damaged"),
    ],
)
def test_commit_is_refused_when_it_does_not_fit_the_log(tmp_path: Path, harm: str, what: str) -> None:
    make_log(tmp_path, {ORDERS: 2})
    place = (ORDERS, 9 if harm == "partition" else 1)
    part = stage(tmp_path, "q", 1, "0", {place: [b"a"]})
    identity = "other" if harm == "identity" else "identity"
    manifest = Manifest("q", 1, identity, {ORDERS: "wide" if harm == "limits" else "iggy"}, (part,))
    path = Path(epoch_directory(str(tmp_path), "q", 1)) / part.name
    if harm == "missing":
        path.unlink()
    elif harm == "damaged":
        path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(InvalidInputError, match=what):
        commit(tmp_path, manifest)
    assert contents(tmp_path) == {}
    assert is_swept(tmp_path)


def test_what_was_purged_in_between_is_gone_with_its_topic(tmp_path: Path) -> None:
    manifest = make_staged(tmp_path)
    log = open_log(tmp_path)
    log.start_writing("identity", 1)
    log.commits.close()
    purge_topic(log, log.snapshot()["shop"].topics["orders"], 9)
    begin(tmp_path, manifest)
    log.commits.append_submitted()  # by name: what comes after a purge is there
    log.close()
    assert contents(tmp_path) == BOTH
