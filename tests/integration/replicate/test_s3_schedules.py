"""A checkpoint in an object store while processes are killed, rest or fail at a bad moment; a real S3 server, no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headstream.errors import ReplicateError, StorageError
from headstream.replicate.checkpoint.checkpoint_store import LocalCheckpointStore, ObjectCheckpointStore
from headstream.replicate.checkpoint.driver_lock import DriverLock
from headstream.replicate.checkpoint.reading import CheckpointReader
from headstream.replicate.checkpoint.store_objects import CheckpointObjects
from headstream.replicate.parked.remote_requests import ask_remotely
from headstream.replicate.storage.places import StorePlace
from headstream.replicate.storage.store_files import StoreFiles
from tests.support.crashes import CrashError, crash_after, fail_with
from tests.support.replicate.pipeline_work import SECOND_US, Work
from tests.support.replicate.s3_server import S3Server, find_keys


@pytest.fixture
def place(running: S3Server, tmp_path: Path) -> Iterator[StorePlace]:
    yield running.place(tmp_path.name, retry_us=0)
    running.recover()


def open_checkpoint_store(place: StorePlace, directory: Path) -> ObjectCheckpointStore:
    directory.mkdir()
    checkpoint_store = ObjectCheckpointStore(place, directory)
    checkpoint_store.open()
    return checkpoint_store


def make_work(directory: Path, place: StorePlace, **options: Any) -> Work:
    places = {"tables": place / "tables", "checkpoint": place / "checkpoint", "storage": place.storage}
    return Work(directory, **(places | options))


def save(checkpoint_store: ObjectCheckpointStore, number: int) -> None:
    (checkpoint_store.directory / "counted").write_text(str(number))
    checkpoint_store.save(attempts=1)


def files_below(directory: Path) -> dict[str, bytes]:
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_reader_that_has_rested_while_commits_were_deleted_reads_the_newest_state(
    place: StorePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headstream.replicate.checkpoint.checkpoint_store._SNAPSHOT_EVERY", 3)
    checkpoint_store = open_checkpoint_store(place, tmp_path / "copy")
    (checkpoint_store.directory / "old").write_text("removed later")
    save(checkpoint_store, 0)
    reader = CheckpointReader(place, tmp_path / "read")
    reader.refresh()
    (checkpoint_store.directory / "old").unlink()
    for number in range(1, 12):
        save(checkpoint_store, number)
    reader.refresh()
    assert files_below(tmp_path / "read") == {"counted": b"11"}
    save(checkpoint_store, 12)
    reader.refresh()
    assert files_below(tmp_path / "read") == {"counted": b"12"}


@pytest.mark.parametrize("after", ["snapshots", "commits", "chunks"])
def test_a_run_begins_although_the_one_before_deletes_what_it_reads(
    place: StorePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    monkeypatch.setattr("headstream.replicate.checkpoint.checkpoint_store._SNAPSHOT_EVERY", 3)
    monkeypatch.setattr("headstream.replicate.checkpoint.records.CHUNK_BYTES", 2)
    first = open_checkpoint_store(place, tmp_path / "first")
    for number in range(100, 105):
        save(first, number)
    method = {"snapshots": "_names", "commits": "_names", "chunks": "_chunk"}[after]
    original = getattr(CheckpointObjects, method)
    slow: list[Any] = []

    def read_late(self: CheckpointObjects, *arguments: Any) -> Any:
        found = None if after == "chunks" else original(self, *arguments)
        if not slow and (after == "chunks" or arguments[0] == after):
            slow.append(arguments)
            for number in range(105, 120):
                save(first, number)
        return original(self, *arguments) if after == "chunks" else found

    monkeypatch.setattr(CheckpointObjects, method, read_late)
    second = open_checkpoint_store(place, tmp_path / "second")
    assert slow
    assert len([key for key in find_keys(place) if key.startswith("drivers/")]) == 2, "a late take-over is withdrawn"
    assert (second.directory / "counted").read_text() == "119"
    save(second, 120)
    with pytest.raises(ReplicateError, match="another process has taken over the checkpoint"):
        save(first, 121)


@pytest.mark.parametrize("is_moved", [True, False])
def test_messages_that_follow_a_torn_end_of_the_log_are_stored_whole(place: StorePlace, tmp_path: Path, is_moved: bool) -> None:
    if is_moved:
        work = Work(tmp_path, tables=place / "tables", storage=place.storage)
    else:
        work = make_work(tmp_path, place)
    work.send(b"junk")
    torn = [path for path in work.config.state_directory.rglob("log/streams/**/*.log") if path.stat().st_size]
    assert torn
    for path in torn:
        path.write_bytes(path.read_bytes() + path.read_bytes()[:-7])  # a process was killed, or a disk is full
    work.checkpoint_store.save()
    work.close()
    work.options["checkpoint"] = place / "checkpoint"
    work.options |= {"checkpoint_from": tmp_path / "checkpoint"} if is_moved else {}
    work.open()
    work.options.pop("checkpoint_from", None)
    work.send(b"more junk")
    work.send(b"and more")
    work.checkpoint_store.save()
    work.restart()
    assert work.dead_count() == 3
    assert [row.num_rows for row in work.processor.parking.log.read("replicate/dead-letter", 0, 3)] == [3]
    work.close()


def test_a_move_that_ended_before_the_store_had_the_checkpoint_is_repeated(
    place: StorePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Work(tmp_path, tables=place / "tables", storage=place.storage)
    old.send(b"junk")
    old.close()
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointObjects, "create_commit", fail_with(CrashError()))
        with pytest.raises(CrashError):
            make_work(tmp_path / "new", place, checkpoint_from=tmp_path / "checkpoint")
    with pytest.raises(ReplicateError, match="this checkpoint has been moved to s3://"):
        old.open()
    work = make_work(tmp_path / "new", place, checkpoint_from=tmp_path / "checkpoint")
    assert work.dead_count() == 1
    assert "moved.json" not in files_below(work.config.state_directory)
    work.close()


def test_a_move_that_ended_after_the_store_had_the_checkpoint_leaves_no_second_one(
    place: StorePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Work(tmp_path, tables=place / "tables", storage=place.storage)
    old.close()
    with monkeypatch.context() as patch:
        patch.setattr(CheckpointObjects, "create_commit", crash_after(CheckpointObjects.create_commit))
        with pytest.raises(CrashError):
            make_work(tmp_path / "new", place, checkpoint_from=tmp_path / "checkpoint")
    with pytest.raises(ReplicateError, match="this checkpoint has been moved to s3://"):
        old.open()
    make_work(tmp_path / "new", place).close()


def test_a_checkpoint_is_not_moved_while_a_run_has_it_and_not_used_by_one_made_before(place: StorePlace, tmp_path: Path) -> None:
    old = Work(tmp_path, tables=place / "tables", storage=place.storage)
    old.checkpoint_store.begin()
    with pytest.raises(ReplicateError, match="runs with this checkpoint"):
        make_work(tmp_path / "new", place, checkpoint_from=tmp_path / "checkpoint")
    old.close()
    made_before = LocalCheckpointStore(tmp_path / "checkpoint")
    make_work(tmp_path / "new", place, checkpoint_from=tmp_path / "checkpoint").close()
    with pytest.raises(ReplicateError, match="this checkpoint has been moved to s3://"):
        made_before.begin()
    made_before.close()
    DriverLock(tmp_path / "checkpoint").acquire()


def test_a_commit_that_the_store_rejects_without_having_one_is_tried_again(
    place: StorePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint_store = open_checkpoint_store(place, tmp_path / "copy")
    with monkeypatch.context() as patch:
        patch.setattr(StoreFiles, "create", lambda *_: False)  # S3: 409, another request for the object is not finished
        with pytest.raises(StorageError, match="although no other commit exists"):
            save(checkpoint_store, 1)
    save(checkpoint_store, 2)
    CheckpointReader(place, tmp_path / "read").refresh()
    assert (tmp_path / "read" / "counted").read_text() == "2"


def test_a_snapshot_whose_answer_was_lost_keeps_its_chunks_when_the_next_attempt_is_killed(
    running: S3Server, place: StorePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headstream.replicate.checkpoint.checkpoint_store._SNAPSHOT_EVERY", 2)
    monkeypatch.setattr("headstream.replicate.checkpoint.records.CHUNK_BYTES", 50)
    checkpoint_store = open_checkpoint_store(place, tmp_path / "copy")
    spark = checkpoint_store.directory / "spark" / "offsets"
    spark.mkdir(parents=True)
    for number in range(9):
        (spark / str(number)).write_text(f"offset {number} " * 9)
    running.break_down(lost=1, of="/snapshots/")
    with pytest.raises(StorageError, match="503"):
        save(checkpoint_store, 1)
    running.recover()
    everything = checkpoint_store._files.everything

    def purge_and_list() -> Any:
        (spark / "0").unlink(missing_ok=True)  # Spark does, at any time
        return everything()

    monkeypatch.setattr(checkpoint_store._files, "everything", purge_and_list)
    with monkeypatch.context() as patch, suppress(CrashError):  # it would leave the first record with the second's chunks
        patch.setattr(CheckpointObjects, "write_snapshot", fail_with(CrashError()))
        save(checkpoint_store, 1)
    CheckpointReader(place, tmp_path / "read").refresh()
    assert (tmp_path / "read" / "counted").read_text() == "1"


def test_a_snapshot_is_tried_again_when_spark_deletes_a_file_that_it_reads(
    place: StorePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headstream.replicate.checkpoint.checkpoint_store._SNAPSHOT_EVERY", 2)
    checkpoint_store = open_checkpoint_store(place, tmp_path / "copy")
    (checkpoint_store.directory / "spark" / "commits").mkdir(parents=True)
    purged = checkpoint_store.directory / "spark" / "commits" / "0"
    purged.write_text("v1")
    files = checkpoint_store._files
    everything = files.everything

    def list_and_purge() -> Any:
        found = everything()
        purged.unlink(missing_ok=True)
        return found

    monkeypatch.setattr(files, "everything", list_and_purge)
    (checkpoint_store.directory / "counted").write_text("1")
    monkeypatch.setattr("headstream.replicate.checkpoint.checkpoint_store._WAIT_S", 0)
    checkpoint_store.save(attempts=2)
    save(checkpoint_store, 2)
    CheckpointReader(place, tmp_path / "read").refresh()
    assert files_below(tmp_path / "read") == {"counted": b"2"}


def test_requests_wait_while_the_store_is_down(
    running: S3Server, place: StorePlace, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = make_work(tmp_path, place)
    arguments = {"table": ["shop", "none"], "at_us": work.now_us, "ended": False}
    ask_remotely(place / "checkpoint", "reload", arguments, work.now_us)
    running.break_down(refused=1)
    work.processor.sweep()
    assert "cannot be read; retrying later" in caplog.text
    running.recover()
    work.now_us += 10 * SECOND_US
    with monkeypatch.context() as patch:
        patch.setattr(StoreFiles, "remove", fail_with(StorageError("503")))
        work.processor.sweep()
    assert "cannot be deleted; retrying later" in caplog.text
    work.now_us += 10 * SECOND_US
    work.processor.sweep()
    ((count,),) = work.ledger.rows("SELECT COUNT(*) FROM requests WHERE done_us IS NOT NULL")
    assert count == 1
    assert not [key for key in find_keys(place / "checkpoint") if key.startswith("requests/")]
    work.close()
