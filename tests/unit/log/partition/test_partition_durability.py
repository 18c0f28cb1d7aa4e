"""PartitionWriter and the disk: when what was appended is synced, what a failed sync and a full disk do."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headstream.core.codec.binary import decode_polled
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Fsync, Limits, NewTopic
from headstream.errors import CorruptSendError, DiskFullError, PartitionClosedError
from headstream.log.administration import create_topic
from headstream.log.log import Log
from headstream.log.partition.partition import PartitionWriter
from headstream.log.segments.files import storage_error
from headstream.log.segments.follower import PartitionFollower
from headstream.log.segments.layout import INDEX_SUFFIX, LOG_SUFFIX, SYNC_FAILED_NAME, segment_path
from headstream.log.system.files import MemoryFiles, OsFile, OsFiles, WriteFile
from tests.support.crashes import fail_with
from tests.support.log.logs import SEED, FaultyFiles, batch, payloads, read_all
from tests.support.waiting import run_together


class CountedFile:
    """A file that notes its syncs, and fails one when it is told to."""

    def __init__(self, file: WriteFile, path: str, files: CountedFiles) -> None:
        self._path = path
        self._files = files
        self.read_into = file.read_into
        self.size_bytes = file.size_bytes
        self.truncate = file.truncate
        self.trim = file.trim
        self.write_at = file.write_at
        self.close = file.close
        self.direct = file.direct
        self.is_removed = file.is_removed

    def sync(self) -> None:
        self._files.note(self._path.rpartition(".")[2])
        if self._files.fails:
            raise storage_error(OSError(errno.EIO, "fault"), "sync a file", self._path)


class CountedFiles(MemoryFiles):
    """Files in memory that say what was synced, in what order."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[str] = []
        self.fails = False
        self.make_directory("p")

    def note(self, what: str) -> None:
        self.synced.append(what)

    def open_write(self, path: str) -> CountedFile:  # type: ignore[override]
        return CountedFile(super().open_write(path), path, self)

    def sync_directory(self, path: str) -> None:
        self.note("directory")


def open_one(
    files: CountedFiles | MemoryFiles | OsFiles,
    fsync: Fsync,
    *,
    directory: str = "p",
    segment_bytes: int = 1 << 20,
    on_dirty: Callable[[Callable[[], int]], None] | None = None,
) -> PartitionWriter:
    return PartitionWriter(directory, files, wide=False, segment_bytes=segment_bytes, fsync=fsync, on_dirty=on_dirty)


def test_always_syncs_data_and_then_index_before_it_returns() -> None:
    files = CountedFiles()
    partition = open_one(files, Fsync.ALWAYS)
    partition.append(batch(b"a"), 0, SEED)
    files.synced.clear()
    partition.append(batch(b"b"), 0, SEED)
    assert files.synced == ["log", "index"]
    partition.close()
    assert files.synced == ["log", "index"]


@pytest.mark.parametrize(("fsync", "at_close"), [(Fsync.INTERVAL, ["log", "index"]), (Fsync.NEVER, [])])
def test_the_other_policies_sync_nothing_at_an_append(fsync: Fsync, at_close: list[str]) -> None:
    files = CountedFiles()
    partition = open_one(files, fsync)
    partition.append(batch(b"a"), 0, SEED)
    files.synced.clear()
    partition.append(batch(b"b"), 0, SEED)
    assert files.synced == []
    partition.close()
    assert files.synced == at_close


@pytest.mark.parametrize("fsync", list(Fsync))
def test_a_segment_is_synced_before_the_next_begins_and_new_names_before_they_are_used(fsync: Fsync) -> None:
    files = CountedFiles()
    partition = open_one(files, fsync, segment_bytes=1)
    partition.append(batch(b"a"), 0, SEED)
    assert files.synced[:3] == ["directory", "index", "directory"]
    files.synced.clear()
    partition.append(batch(b"b"), 0, SEED)
    old = [] if fsync is Fsync.ALWAYS else ["log", "index"]
    new = ["log", "index"] if fsync is Fsync.ALWAYS else []
    assert files.synced == [*old, "directory", "index", "directory", *new]


def test_what_another_process_left_is_synced_with_its_names() -> None:
    files = CountedFiles()
    open_one(files, Fsync.NEVER).append(batch(b"a"), 0, SEED)  # and is killed
    files.synced.clear()
    open_one(files, Fsync.ALWAYS).append(batch(b"b"), 0, SEED)
    assert files.synced == ["index", "directory", "log", "index"]


def test_interval_announces_itself_once_until_it_is_synced() -> None:
    files = CountedFiles()
    announced: list[Callable[[], int]] = []
    partition = open_one(files, Fsync.INTERVAL, on_dirty=announced.append)
    for _ in range(3):
        partition.append(batch(b"a"), 0, SEED)
    assert announced == [partition.sync]
    assert partition.sync() == 4  # what was there before counts as one
    partition.append(batch(b"b"), 0, SEED)
    assert len(announced) == 2


@pytest.mark.parametrize("fsync", [Fsync.ALWAYS, Fsync.INTERVAL])
def test_a_failed_sync_closes_the_partition_until_it_is_opened_again(fsync: Fsync) -> None:
    files = CountedFiles()
    partition = open_one(files, fsync)
    partition.append(batch(b"before"), 0, SEED)
    files.fails = True
    if fsync is Fsync.ALWAYS:
        with pytest.raises(PartitionClosedError, match=r"cannot sync a file: Input/output error.* \(p\)\. Check the"):
            partition.append(batch(b"unknown"), 0, SEED)
    else:
        partition.append(batch(b"unknown"), 0, SEED)
        with pytest.raises(PartitionClosedError):
            partition.sync()
    files.fails = False
    for _ in range(2):
        with pytest.raises(PartitionClosedError, match="accepts no messages"):
            partition.append(batch(b"refused"), 0, SEED)
    files.synced.clear()
    partition.close()
    assert files.synced == []
    assert payloads(read_all(files, "p")) == [b"before", b"unknown"]
    assert files.exists(f"p/{SYNC_FAILED_NAME}")
    again = open_one(files, fsync)
    assert files.synced[:3] == ["log", "index", "directory"]
    assert not files.exists(f"p/{SYNC_FAILED_NAME}")
    assert again.append(batch(b"after"), 0, SEED) == 2


def test_every_sender_that_waits_gets_the_error_of_a_failed_sync() -> None:
    files = CountedFiles()
    partition = open_one(files, Fsync.ALWAYS)
    partition.append(batch(b"a"), 0, SEED)
    files.fails = True
    errors: list[BaseException] = []

    def append() -> None:
        try:
            partition.append(batch(b"x"), 0, SEED)
        except PartitionClosedError as error:
            errors.append(error)

    run_together(*[append] * 16)
    assert len(errors) == 16


def test_64_senders_share_their_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, synced = OsFiles(), []
    sync = OsFile.sync

    def count(file: OsFile) -> None:
        synced.append(file)
        time.sleep(0.005)  # as long as a disk needs: directories in memory sync at once, before others append
        sync(file)

    partition = open_one(files, Fsync.ALWAYS, directory=str(tmp_path))
    partition.append(batch(b"first"), 0, SEED)
    monkeypatch.setattr(OsFile, "sync", count)
    start = threading.Barrier(64)

    def send() -> None:
        start.wait()
        for _ in range(40):
            partition.append(batch(b"x" * 100), 0, SEED)

    run_together(*[send] * 64)
    assert partition.end_offset == 1 + 64 * 40
    assert len(synced) * 20 <= 64 * 40
    partition.close()
    assert len(read_all(files, str(tmp_path))) == 1 + 64 * 40


# -- a full disk ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failing", [".log", ".index"])
@pytest.mark.parametrize("fsync", list(Fsync))
@pytest.mark.parametrize("segment_bytes", [1, 1 << 20])
def test_a_full_disk_refuses_appends_serves_reads_and_works_again(failing: str, fsync: Fsync, segment_bytes: int) -> None:
    files = FaultyFiles()
    files.make_directory("p")
    partition = open_one(files, fsync, segment_bytes=segment_bytes)
    partition.append(batch(b"before"), 0, SEED)
    files.failing = failing
    for _ in range(3):
        with pytest.raises(DiskFullError, match=r"No space left on device \(p/0.*Free space"):
            partition.append(batch(b"refused", b"refused"), 0, SEED)
        assert payloads(read_all(files, "p")) == [b"before"]
    files.failing = None
    assert partition.append(batch(b"after"), 0, SEED) == 1
    assert payloads(read_all(files, "p")) == [b"before", b"after"]


# -- what a power cut leaves -------------------------------------------------------------------------------------


def overwrite(files: MemoryFiles, path: str, position: int, data: bytes) -> None:
    files.open_write(path).write_at(data, position)


def three_sends() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory("p")
    partition = open_one(files, Fsync.INTERVAL)
    for payload in (b"one", b"two", b"three"):
        partition.append(batch(payload), 7, SEED)
    return files


@pytest.mark.parametrize("suffix", [LOG_SUFFIX, INDEX_SUFFIX])
def test_what_follows_the_last_whole_send_is_set_aside(suffix: str, caplog: pytest.LogCaptureFixture) -> None:
    files = three_sends()
    path = segment_path("p", 0, suffix)
    hole, size = (48, 98) if suffix == LOG_SUFFIX else (64, 64)
    overwrite(files, path, hole, bytes(size))
    assert open_one(files, Fsync.INTERVAL).append(batch(b"next"), 7, SEED) == 1
    assert payloads(read_all(files, "p")) == [b"one", b"next"]
    aside = files.open_read(f"{path}.rest-{hole}")
    assert aside is not None
    assert aside.size_bytes() == size
    assert f"{path}.rest-{hole}: {size} bytes from byte {hole} are not complete sends" in caplog.text


@pytest.mark.parametrize("suffix", [LOG_SUFFIX, INDEX_SUFFIX])
def test_a_whole_send_behind_a_damaged_one_is_kept_and_readers_are_told_of_the_damaged_one(
    suffix: str, caplog: pytest.LogCaptureFixture
) -> None:
    files = three_sends()
    path = segment_path("p", 0, suffix)
    hole, size = (48, 48) if suffix == LOG_SUFFIX else (64, 32)
    overwrite(files, path, hole, bytes(size))
    assert open_one(files, Fsync.INTERVAL).append(batch(b"next"), 7, SEED) == 3
    assert "is damaged: reading it raises an error" in caplog.text
    with PartitionFollower("p", files) as follower:
        with pytest.raises(CorruptSendError) as caught:
            list(follower.read(1))
        assert (caught.value.from_offset, caught.value.until_offset) == (1, 2)
        left = [message for chunk in follower.read(2) for message in decode_polled(chunk)]
    assert payloads(left) == [b"three", b"next"]
    assert set(files.list_names("p") or []) == {f"{0:020d}.log", f"{0:020d}.index"}


def test_what_a_partition_wrote_itself_is_not_read_again_after_a_failed_append() -> None:
    files = FaultyFiles()
    files.make_directory("p")
    partition = open_one(files, Fsync.INTERVAL)
    partition.append(batch(b"one"), 7, SEED)
    overwrite(files, segment_path("p", 0, LOG_SUFFIX), 40, b"\xff")  # the disk's fault, not the failed append's
    files.failing = ".index"
    with pytest.raises(DiskFullError):
        partition.append(batch(b"two"), 7, SEED)
    files.failing = None
    assert partition.append(batch(b"two"), 7, SEED) == 1


# -- the log ----------------------------------------------------------------------------------------------------


def make_log(root: Path) -> Log:
    log = Log(str(root), OsFiles(), is_memory=False, segment_bytes=1 << 20)
    log.start_writing("identity", 1)
    for policy in Fsync:
        create_topic(log, NewTopic(TopicName("shop", policy.value), 1, Limits.IGGY, policy), 2)
    return log


def test_a_log_closes_everything_and_then_says_that_a_sync_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = make_log(tmp_path / "log")
    topics = log.snapshot()["shop"].topics
    for policy in Fsync:
        log.append(topics[policy.value], 1, batch(b"x"), 0, SEED)

    monkeypatch.setattr(OsFile, "sync", fail_with(storage_error(OSError(errno.EIO, "fault"), "sync a file", "f")))
    with pytest.raises(PartitionClosedError):
        log.close()
    log.close()
    monkeypatch.undo()
    again = Log(str(tmp_path / "log"), OsFiles(), is_memory=False, segment_bytes=1 << 20)
    again.start_writing("other", 1)
    assert {name: topic.fsync.value for name, topic in again.snapshot()["shop"].topics.items()} == {
        p.value: p.value for p in Fsync
    }
    assert again.append(again.snapshot()["shop"].topics["interval"], 1, batch(b"y"), 0, SEED).offset == 1
    again.close()
