"""A checkpoint in an object store: whatever is lost with a machine, the next one continues; a real S3 server, no Spark."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from click.testing import CliRunner

from headstream.cli.dlq import dlq
from headstream.cli.replicate.command import replicate
from headstream.cli.shared.checkpoints import read_pipelines
from headstream.core.codec.binary import encode_sent
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message
from headstream.core.model.topology import Limits, NewTopic
from headstream.errors import CorruptLogError, ReplicateError, StorageError
from headstream.replicate.checkpoint.checkpoint_store import ObjectCheckpointStore
from headstream.replicate.checkpoint.reading import CheckpointReader
from headstream.replicate.codec import data_message, metadata_message
from headstream.replicate.engines.deltalake import DeltaLakeEngine
from headstream.replicate.run.status import note_status
from headstream.replicate.storage.places import Place, StorePlace
from headstream.replicate.storage.store_files import StoreFiles
from tests.campaigns.test_replicate_delivery import deliver
from tests.support.crashes import CrashError, crash_after, fail_with
from tests.support.replicate.kit_table import METADATA, SHARED, change, ids
from tests.support.replicate.pipeline_work import SECOND_US, Work
from tests.support.replicate.replicate_messages import make_change, make_table
from tests.support.replicate.s3_server import S3Server, find_keys
from tests.support.server.http_servers import serving
from tests.support.waiting import wait_until


@pytest.fixture(params=["directory", "store"])
def place(request: pytest.FixtureRequest, server: S3Server, tmp_path: Path) -> Place:
    """Where a pipeline's tables and checkpoint are."""
    return tmp_path / "there" if request.param == "directory" else server.place(tmp_path.name, retry_us=300_000)


def make_work(directory: Path, place: Place, **options: Any) -> Work:
    own: dict[str, Any] = {"tables": place / "tables", "checkpoint": place / "checkpoint", "change_tables": place / "changes"}
    if isinstance(place, StorePlace):
        own["storage"] = place.storage
    return Work(directory, **(own | options))


def files_of(directory: Path) -> dict[str, bytes]:
    """The files of a checkpoint except databases, whose write-ahead logs are folded in, and locks."""
    found = {path.relative_to(directory).as_posix(): path for path in directory.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if ".sqlite" not in name and not name.endswith(".lock")}


@pytest.mark.nightly
@pytest.mark.parametrize(("seed", "scd_type"), [(1, 1), (2, 2)])
def test_tables_equal_the_source_when_every_crash_loses_the_machines_disk(
    place: Place, tmp_path: Path, seed: int, scd_type: Literal[1, 2]
) -> None:
    deliver(tmp_path, seed, crashes=4, scd_type=scd_type, place=place, checkpoint=place / "checkpoint")


@pytest.mark.parametrize("seed", [61, pytest.param(62, marks=pytest.mark.nightly)])
def test_tables_equal_the_source_when_disks_are_lost_and_the_store_fails_now_and_then(
    server: S3Server, tmp_path: Path, seed: int
) -> None:
    server.break_down(lost=0.03, refused=0.03, seed=seed)
    place = server.place(tmp_path.name, retry_us=300_000)
    deliver(tmp_path, seed, crashes=3, failures=0.05, place=place, checkpoint=place / "checkpoint", repair=server.break_down)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(900, 960))
def test_tables_equal_the_source_for_long_when_every_crash_loses_the_machines_disk(
    server: S3Server, tmp_path: Path, seed: int
) -> None:
    server.break_down(lost=0.02, refused=0.02, seed=seed)
    place = server.place(tmp_path.name, retry_us=300_000)
    scd_type: Literal[1, 2] = 2 if seed % 2 else 1
    deliver(tmp_path, seed, crashes=6, scd_type=scd_type, in_order=seed % 4 == 0, place=place, checkpoint=place / "checkpoint")


def test_the_first_driver_is_fenced_when_a_second_one_takes_the_checkpoint_over(server: S3Server, tmp_path: Path) -> None:
    place = server.place(tmp_path.name)
    first = make_work(tmp_path / "first", place)
    first.send(METADATA, change(1))
    second = make_work(tmp_path / "second", place)
    with pytest.raises(ReplicateError, match="another process has taken over the checkpoint") as refused:
        first.process(first.raw([change(2)]), 1)
    assert second.checkpoint_store.driver in str(refused.value)  # type: ignore[attr-defined]
    assert ids(second) == [1]
    second.process(first.raw([change(3)]), 1)
    with pytest.raises(ReplicateError, match="another process has taken over the checkpoint"):
        first.process(first.raw([change(4)]), 2)
    assert ids(second) == ids(second, changes=True) == [1, 3]
    first.close()
    second.close()


def test_deletions_and_rejected_changes_are_kept_when_the_machine_is_lost_right_after_a_tables_commit(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = make_work(tmp_path, place, tombstones_kept_us=0)
    work.send(METADATA, change(1), change(2))
    work.send(change(2, operation="DELETE", change_sequence=f"{5:035d}"))
    work.now_us += SECOND_US
    work.processor.sweep()
    late = change(2, operation="UPDATE", change_sequence=f"{3:035d}")  # older than the deletion, which is forgotten
    raw = work.raw([change(1, operation="DELETE", change_sequence=f"{9:035d}"), late])
    with monkeypatch.context() as patch:
        patch.setattr(DeltaLakeEngine, "merge", crash_after(DeltaLakeEngine.merge))
        with pytest.raises(CrashError):
            work.process(raw, 2)
    assert ids(work) == []
    work.restart()
    work.process(raw, 2)
    assert work.dead_count() == 1
    work.next_batch = 3
    work.send(change(1, operation="UPDATE", change_sequence=f"{8:035d}"))
    assert ids(work) == []
    work.close()


def test_the_first_driver_changes_no_table_when_it_is_fenced_within_a_unit(server: S3Server, tmp_path: Path) -> None:
    place = server.place(tmp_path.name)
    first = make_work(tmp_path / "first", place)
    first.send(METADATA, change(1))
    raw = first.raw([change(2)])
    others: list[Work] = []
    publish = first.checkpoint_store.publish

    def publish_late(below: Sequence[str]) -> None:
        if not others:
            others.append(make_work(tmp_path / "second", place))
        publish(below)

    first.checkpoint_store.publish = publish_late  # type: ignore[method-assign]
    with pytest.raises(ReplicateError, match="another process has taken over the checkpoint"):
        first.process(raw, 1)
    (second,) = others
    assert ids(second) == ids(second, changes=True) == [1]
    second.process(raw, 1)
    assert ids(second) == ids(second, changes=True) == [1, 2]
    first.close()
    second.close()


def test_a_driver_that_was_away_for_long_is_fenced_although_its_commits_were_deleted(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headstream.replicate.checkpoint.checkpoint_store._SNAPSHOT_EVERY", 2)
    place = server.place(tmp_path.name)
    first = make_work(tmp_path / "first", place)
    first.send(METADATA, change(1))
    second = make_work(tmp_path / "second", place)
    for number in range(2, 9):
        second.process(first.raw([change(number)]), number)
    commits = sorted(key for key in find_keys(place / "checkpoint") if key.startswith("commits/"))
    assert len(commits) < 8, "those before the snapshots are deleted"
    with pytest.raises(ReplicateError, match="another process has taken over the checkpoint"):
        first.process(first.raw([change(9)]), 9)
    second.restart()
    assert second.ledger.mark("batch") == "8"
    first.close()
    second.close()


def test_a_console_shows_the_pipeline_and_decodes_by_its_schemas(place: Place, tmp_path: Path) -> None:
    work = make_work(tmp_path / "work", place)
    later = make_table(schema_id="9" * 32, table="later")
    work.send(METADATA, change(1))
    note_status(work.ledger, "running", work.summary, work.schema_store.directory, work.now_us)
    work.checkpoint_store.save()
    with read_pipelines([place / "checkpoint"], needs_right=True) as pipelines, serving(pipelines=pipelines) as http:
        http.dispatcher.broker.topics.create(NewTopic(TopicName.parse("cdc/data"), 1, Limits.WIDE))
        payloads = (change(7), data_message(later, make_change(8)))
        sent = encode_sent([Message(payload=payload) for payload in payloads])
        http.dispatcher.broker.messages.send(TopicName.parse("cdc/data"), 1, sent)
        (shown,) = http.call("GET", "/open/pipelines").json["pipelines"]
        assert (shown["checkpoint"], shown["error"]) == (str(place / "checkpoint"), None)
        assert [one["table"] for one in shown["report"]["tables"]] == ["shop.kit"]
        path = "/streams/cdc/topics/data/partitions/1/messages/{}/explained"
        assert http.call("GET", path.format(0)).json["data"]["id"] == 7
        assert "unknown schema" in http.call("GET", path.format(1)).json["note"]
        work.send(metadata_message(later))
        work.checkpoint_store.save()
        wait_until(lambda: "data" in http.call("GET", path.format(1)).json)
    work.close()


def test_a_copy_has_the_same_files_after_many_commits_and_snapshots(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headstream.replicate.checkpoint.checkpoint_store._SNAPSHOT_EVERY", 4)
    monkeypatch.setattr("headstream.replicate.checkpoint.records.CHUNK_BYTES", 20_000)
    place = server.place(tmp_path.name)
    work = make_work(tmp_path, place)
    reader = CheckpointReader(place / "checkpoint", tmp_path / "read", ("ledger.sqlite", "zone"))
    for number in range(6):
        deletion = change(number, operation="DELETE", change_sequence=f"{number + 5:035d}")
        parked = b"junk %d" % number + random.Random(number).randbytes(9_000)
        work.send(METADATA, change(number), deletion, parked)
        work.checkpoint_store.save()
        (reader if number < 3 else CheckpointReader(place / "checkpoint", tmp_path / f"{number}")).refresh()
    kept = files_of(work.config.state_directory)
    assert kept == files_of(tmp_path / "5")
    assert any(name.startswith("log/streams/") and name.endswith(".log") for name in kept)
    assert any(name.startswith("tombstones/") and name.endswith(".parquet") for name in kept)
    keys = find_keys(place / "checkpoint")
    assert len([key for key in keys if key.startswith("snapshots/")]) == 2
    before = work.ledger.parked_batches("dead")
    work.restart()
    assert work.ledger.parked_batches("dead") == before
    assert work.dead_count() == 6
    assert ids(work, changes=True) == sorted([*range(6), *range(6)])
    for key in keys:
        if key.startswith("parts/snapshots"):
            StoreFiles(place / "checkpoint" / key).remove()
    with pytest.raises(CorruptLogError, match="a part of the checkpoint is missing"):
        work.restart()


def test_a_checkpoint_of_a_directory_is_moved_with_all_that_waits(server: S3Server, tmp_path: Path) -> None:
    place = server.place(tmp_path.name)
    old = Work(tmp_path, tables=place / "tables", change_tables=place / "changes", storage=place.storage)
    old.send(change(1), b"junk")
    old.close()
    work = make_work(tmp_path / "new", place, checkpoint_from=tmp_path / "checkpoint")
    assert work.ledger.counts() == {"parked": 1, "dead": 1}
    work.next_offset, work.next_batch = old.next_offset, old.next_batch
    work.send(METADATA, change(2))
    assert ids(work) == ids(work, changes=True) == [1, 2]
    with pytest.raises(ReplicateError, match="this checkpoint has been moved to s3://"):
        old.open()
    work.close()
    with pytest.raises(ReplicateError, match="a checkpoint already exists at this location"):
        work.open()
    (tmp_path / "checkpoint" / "moved.json").write_text('{"to": "s3://lake/elsewhere"}')
    with pytest.raises(ReplicateError, match="this checkpoint has been moved to s3://lake/elsewhere"):
        work.open()
    del work.options["checkpoint_from"]
    work.open()
    work.processor.sweep()
    assert work.ledger.counts() == {"dead": 1}
    assert ids(work) == ids(work, changes=True) == [1, 2]
    work.close()


def test_status_parked_and_requests_work_on_the_uri_while_the_pipeline_runs(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    place = server.place(tmp_path.name)

    def run(*arguments: str) -> Any:
        options = ["--checkpoint", str(place / "checkpoint"), "--output", "json"]
        result = CliRunner().invoke(replicate, [*arguments, *options])
        assert result.exit_code == 0, result.output
        return json.loads(result.output)

    work = make_work(tmp_path, place, schema_wait_us=0, on_missing_schema="dead-letter")
    work.send(change(1))
    work.processor.sweep()
    work.send(METADATA, change(2))
    note_status(work.ledger, "running", work.summary, work.schema_store.directory, work.now_us)
    work.checkpoint_store.save()
    status = run("status")
    assert (status["dead"], status["run"]["dead"]) == (1, 1)
    assert [row["messages"] for row in run("parked", "--dead")] == [1]
    assert [row["table"] for row in run("schemas")] == ["shop.kit"]
    shown = CliRunner().invoke(
        dlq, ["list", "replicate/dead-letter", "--checkpoint", str(place / "checkpoint"), "--output", "json"]
    )
    assert [row["origin"] for row in json.loads(shown.stdout)] == ["cdc/data/1/0"]
    asked = run("redrive", "--table", "shop.kit")
    assert asked["messages"] == 1
    run("reload", "shop.kit")
    work.now_us += 10 * SECOND_US
    work.processor.sweep()
    assert ids(work) == [1, 2]
    assert not [key for key in find_keys(place / "checkpoint") if key.startswith("requests/")]
    work.checkpoint_store.save()
    assert run("status")["last_request"]["kind"] == "reload"
    work.close()


def test_commands_say_that_there_is_no_checkpoint(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    result = CliRunner().invoke(replicate, ["status", "--checkpoint", str(server.place(tmp_path.name))])
    assert isinstance(result.exception, StorageError)
    assert "there is no checkpoint" in str(result.exception)


def test_a_request_is_carried_out_once_when_the_run_ends_before_it_was_deleted(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headstream.replicate.parked.remote_requests import ask_remotely

    place = server.place(tmp_path.name)
    work = make_work(tmp_path, place)
    work.send(METADATA, change(1))
    arguments = {"table": list(SHARED), "at_us": work.now_us + 1, "ended": False}
    ask_remotely(place / "checkpoint", "reload", arguments, work.now_us)
    work.now_us += 10 * SECOND_US
    with monkeypatch.context() as patch:
        patch.setattr(StoreFiles, "remove", fail_with(CrashError()))
        with pytest.raises(CrashError):
            work.processor.sweep()
    work.restart()
    work.processor.sweep()
    ((count,),) = work.ledger.rows("SELECT COUNT(*) FROM requests WHERE done_us IS NOT NULL")
    assert count == 1
    assert not [key for key in find_keys(place / "checkpoint") if key.startswith("requests/")]
    work.close()


def test_a_commit_whose_answer_was_lost_is_found_and_the_next_one_follows_it(server: S3Server, tmp_path: Path) -> None:
    place = server.place(tmp_path.name, retry_us=0)
    directory = tmp_path / "copy"
    directory.mkdir()
    checkpoint_store = ObjectCheckpointStore(place, directory)
    checkpoint_store.open()
    (directory / "a").write_text("one")
    server.break_down(lost=1, of="/commits/")
    with pytest.raises(StorageError, match="503"):
        checkpoint_store.save(attempts=1)
    (directory / "a").write_text("two")
    server.recover()
    checkpoint_store.save(attempts=1)
    CheckpointReader(place, tmp_path / "read").refresh()
    assert (tmp_path / "read" / "a").read_text() == "two"
    assert len([key for key in find_keys(place) if key.startswith("commits/")]) == 3


def test_work_waits_for_a_store_that_is_down_and_goes_on(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    place = server.place(tmp_path.name, retry_us=0)
    work = make_work(tmp_path, place)
    work.send(METADATA, change(1))
    server.break_down(refused=1)
    monkeypatch.setattr("headstream.replicate.checkpoint.checkpoint_store.time.sleep", lambda seconds: server.recover())
    work.send(change(2))
    assert "the checkpoint cannot be written (attempt 1 of 10)" in caplog.text
    work.restart()
    assert ids(work) == ids(work, changes=True) == [1, 2]
    work.close()


def test_a_newer_format_is_refused(server: S3Server, tmp_path: Path) -> None:
    from headstream.errors import LogVersionError

    place = server.place(tmp_path.name)
    make_work(tmp_path, place).close()
    commit = StoreFiles(place / "checkpoint" / "commits" / "0000000001")
    found = commit.read()
    assert found is not None
    commit.write(found[0][:4] + b"\x02" + found[0][5:])
    with pytest.raises(LogVersionError, match="the checkpoint has format 2"):
        make_work(tmp_path, place)
