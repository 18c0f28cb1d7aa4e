"""Tables in an object store, by deltalake: a real S3 server in a process of its own, a real log and checkpoint, no Spark."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headstream.errors import ReplicateError, StorageError
from headstream.replicate.codec import data_message, metadata_message
from headstream.replicate.settings.table_settings import TableRules, TableSettings
from headstream.replicate.storage.delta_places import open_table
from headstream.replicate.storage.places import StorePlace, bind
from headstream.replicate.storage.store_check import check_stores
from headstream.replicate.storage.store_files import StoreFiles
from headstream.replicate.tables.target_owner import OWNER_FILE, Owner
from headstream.testing import SourceDatabase
from tests.campaigns.test_replicate_delivery import deliver
from tests.support.replicate.iceberg_tables import IDENTIFIER, delta_rows, iceberg_rows, make_mirror, sql_catalog
from tests.support.replicate.kit_table import MAINTAINED, METADATA, SHARED, change, check_maintenance, check_table_name, ids
from tests.support.replicate.pipeline_work import LINES, SECOND_US, Work, plain
from tests.support.replicate.plain_engine import open_plain_engine
from tests.support.replicate.replicate_messages import make_change, make_table
from tests.support.replicate.row_changes import check_commits
from tests.support.replicate.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.support.replicate.vector_tables import ROWS, vector_table


def make_work(server: S3Server, directory: Path, name: str = "one", *, retry_us: int = 200_000, **options: Any) -> Work:
    """A pipeline's work, with a checkpoint of this machine and tables in the store, apart from those of other tests."""
    place = server.place(directory.name)
    own: dict[str, Any] = {
        "tables": place / "tables",
        "change_tables": place / "changes",
        "storage": server.settings(retry_us=retry_us),
    }
    return Work(directory / name, **(own | options))


@pytest.mark.parametrize("scd_type", [pytest.param(1, marks=pytest.mark.nightly), 2])
def test_tables_in_a_store_equal_the_source_when_micro_batches_are_run_again(
    server: S3Server, tmp_path: Path, scd_type: Any
) -> None:
    source = SourceDatabase(36, rows=6, transactions=12)
    messages = [message.value for message in plain(source)]
    work = make_work(server, tmp_path, rules=TableRules(defaults=TableSettings(scd_type=scd_type)))
    for number, begin in enumerate(range(0, len(messages), 15)):
        raw = work.raw(messages[begin : begin + 15])
        work.process(raw, number)
        work.restart()
        work.process(raw, number)
    assert work.digest(source, *LINES)
    assert work.digest(source, "SHOP", "customers")
    offsets = [row["_hs_offset"] for row in work.rows(*LINES, work.config.change_tables)]
    assert len(set(offsets)) == len(offsets) > 0
    work.close()


def test_changes_wait_when_the_store_is_down_and_are_applied_once_when_it_is_back(server: S3Server, tmp_path: Path) -> None:
    place = server.place(tmp_path.name) / "dead"
    work = make_work(server, tmp_path, dead_letter_table=place)
    work.send(METADATA, change(1))
    server.break_down(refused=1)
    work.send(change(2), b"junk")
    work.send(change(3))
    assert work.ledger.waiting().count == 2
    reason = work.processor.health.failing[SHARED].reason
    assert "503" in reason
    assert SECRET_KEY not in reason
    server.break_down(lost=1, of="/dead/_delta_log/")
    work.now_us += 60 * SECOND_US
    work.processor.sweep(last=True)
    assert ids(work) == ids(work, changes=True) == [1, 2, 3]
    assert work.ledger.waiting().count == 0
    assert work.processor.health.failing == {}
    dead = open_table(work.config.dead_letter_table or place)
    assert dead is not None
    assert dead.to_pyarrow_table()["payload"].to_pylist() == [b"junk"]
    work.close()


def test_a_run_ends_with_an_error_when_the_dead_letters_table_cannot_be_written_at_its_end(
    server: S3Server, tmp_path: Path
) -> None:
    work = make_work(server, tmp_path, dead_letter_table=server.place(tmp_path.name) / "dead")
    server.break_down(refused=1)
    work.send(b"junk")
    with pytest.raises(StorageError, match="the dead-letter table cannot be written"):
        work.processor.sweep(last=True)
    work.close()


def test_each_change_is_applied_once_when_answers_of_the_store_are_lost(server: S3Server, tmp_path: Path) -> None:
    source = SourceDatabase(37, rows=6, transactions=12)
    captured = plain(source)
    messages = [message.value for message in captured]
    work = make_work(server, tmp_path)
    server.break_down(lost=0.15, refused=0.05, seed=5)
    for begin in range(0, len(messages), 12):
        work.send(*messages[begin : begin + 12])
        work.now_us += 10 * SECOND_US
    server.recover()
    work.now_us += 600 * SECOND_US
    work.processor.sweep(last=True)
    assert work.ledger.waiting().count == 0
    assert work.digest(source, *LINES)
    assert work.digest(source, "SHOP", "customers")
    offsets = [row["_hs_offset"] for row in work.rows(*LINES, work.config.change_tables)]
    offsets += [row["_hs_offset"] for row in work.rows("SHOP", "customers", work.config.change_tables)]
    assert len(set(offsets)) == len(offsets) == sum(message.role == "data" for message in captured)
    work.close()


@pytest.mark.nightly  # test_s3_checkpoint.py has disks that are lost too
@pytest.mark.parametrize(("seed", "scd_type"), [(51, 1), (52, 2)])
def test_tables_in_a_store_equal_the_source_under_hostile_delivery_crashes_and_a_store_that_fails(
    server: S3Server, tmp_path: Path, seed: int, scd_type: Any
) -> None:
    server.break_down(lost=0.03, refused=0.03, seed=seed)
    place = server.place(tmp_path.name, retry_us=300_000)
    deliver(tmp_path, seed, crashes=3, scd_type=scd_type, failures=0.05, place=place, repair=server.break_down)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(800, 860))
def test_tables_in_a_store_equal_the_source_for_long(server: S3Server, tmp_path: Path, seed: int) -> None:
    server.break_down(lost=0.05, refused=0.05, seed=seed)
    place = server.place(tmp_path.name, retry_us=300_000)
    deliver(tmp_path, seed, crashes=6, scd_type=2 if seed % 2 else 1, failures=0.1, place=place, repair=server.break_down)


def test_a_commit_is_done_when_only_its_answer_was_lost(server: S3Server, tmp_path: Path) -> None:
    work = make_work(server, tmp_path, change_tables=None)
    server.break_down(lost=1, of="/_delta_log/")
    work.send(METADATA, change(1))
    work.send(change(2), change(1, operation="UPDATE", change_sequence=f"{9:035d}"))
    assert work.processor.health.failing == {}
    counts = work.summary.tables[SHARED]
    assert (counts.inserted, counts.updated, counts.deleted) == (2, 1, 0)
    server.recover()
    work.send(change(3))
    assert (ids(work), work.ledger.waiting().count) == ([1, 2, 3], 0)
    work.close()


def test_a_second_pipeline_is_refused_by_name_when_the_table_is_in_a_store(server: S3Server, tmp_path: Path) -> None:
    first, second = make_work(server, tmp_path, "one"), make_work(server, tmp_path, "two")
    first.send(METADATA, change(1))
    second.send(METADATA, change(2))
    reason = second.processor.health.failing[SHARED].reason
    assert "another pipeline writes to the table" in reason
    assert str(first.config.checkpoint) in reason
    second.options["take_over"] = True
    second.restart()
    second.now_us += 60 * SECOND_US
    second.processor.sweep(last=True)
    first.send(change(3))
    assert ids(second) == [1, 2]
    assert first.processor.health.failing.keys() == {SHARED}
    first.close()
    second.close()


def test_of_pipelines_that_claim_a_table_in_a_store_at_once_one_has_it(server: S3Server, tmp_path: Path) -> None:
    table = server.place(tmp_path.name) / "kit"
    StoreFiles(table / "_delta_log" / "00000000000000000000.json").create(b"{}")

    def try_to_claim(number: int, *, take_over: bool = False) -> bool:
        try:
            Owner(f"pipeline {number}", tmp_path / str(number), take_over).claim(table)
        except ReplicateError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(try_to_claim, range(24))) == 1
    assert try_to_claim(99, take_over=True)
    assert sum(map(try_to_claim, range(24))) == 0
    StoreFiles(table / OWNER_FILE).remove()
    StoreFiles(table / OWNER_FILE).create(b"{")
    assert not try_to_claim(1), "a file without an owner is another's"


def test_a_claim_is_the_pipelines_own_when_the_answer_to_it_was_lost(server: S3Server, tmp_path: Path) -> None:
    table = server.place(tmp_path.name, retry_us=SECOND_US) / "kit"
    StoreFiles(table / "_delta_log" / "00000000000000000000.json").create(b"{}")
    server.break_down(lost=0.6, seed=1)
    Owner("mine", tmp_path).claim(table)
    server.recover()
    Owner("mine", tmp_path).claim(table)


def test_a_table_in_or_around_another_is_refused_and_its_changes_wait(server: S3Server, tmp_path: Path) -> None:
    place = server.place(tmp_path.name) / "tables"
    StoreFiles(place / "kit" / "_delta_log" / "00000000000000000000.json").create(b"{}")
    inner = make_table(schema_id="1" * 32, schema="kit", table="part")
    work = make_work(server, tmp_path)
    work.send(metadata_message(inner), data_message(inner, make_change(1)))
    assert "would be in the directory of another table" in work.processor.health.failing["kit", "part"].reason
    assert work.ledger.waiting().count == 1
    work.close()
    with pytest.raises(ReplicateError, match="would be around the directory of another table, s3://"):
        Owner("mine", tmp_path).claim(place)


def test_maintenance_leaves_the_owner_and_the_needed_files_in_a_store(server: S3Server, tmp_path: Path) -> None:
    check_maintenance(make_work(server, tmp_path, **MAINTAINED), tmp_path)


@pytest.mark.parametrize("name", ["a b", "x+y@z~$", "a/b", "..", "München", "%41", "_delta_log", "n" * 300, "q?r#s"])
def test_a_table_of_any_name_is_written_and_found_again_in_a_store(server: S3Server, tmp_path: Path, name: str) -> None:
    check_table_name(make_work(server, tmp_path), name)


def test_a_merge_into_a_known_table_takes_few_requests(server: S3Server, tmp_path: Path) -> None:
    work = make_work(server, tmp_path, change_tables=None)
    work.send(METADATA, change(1))
    work.send(change(2))
    server.requests()
    work.send(change(3))
    requests = server.requests()
    assert len(requests) <= 20, requests
    assert sum(path.endswith(OWNER_FILE) for _, path in requests) <= 2
    work.close()


@pytest.mark.parametrize(
    ("change_of", "what"), [({"endpoint": "http://127.0.0.1:1"}, "Connection refused"), ({"bucket": "nobucket"}, "NoSuchBucket")]
)
def test_check_stores_names_what_was_tried_and_what_to_set(
    server: S3Server, tmp_path: Path, change_of: dict[str, str], what: str
) -> None:
    bucket = change_of.pop("bucket", "lake")
    place = StorePlace(bucket, tmp_path.name, server.settings(**change_of))
    with pytest.raises(StorageError, match=what) as caught:
        check_stores([tmp_path, place])
    text = str(caught.value)
    assert "credentials of [storage]" in text
    assert "AWS_ENDPOINT_URL" in text
    assert place.storage.endpoint is not None
    assert place.storage.endpoint in text
    assert ACCESS_KEY not in text
    assert SECRET_KEY not in text


def test_check_stores_refuses_a_store_that_ignores_conditions(server: S3Server, tmp_path: Path) -> None:
    place = server.place(tmp_path.name)
    check_stores([place])
    assert StoreFiles(place).has_any() is False, "the probe is gone"
    server.break_down(ignores_conditions=True)
    with pytest.raises(StorageError, match="ignores If-None-Match"):
        check_stores([place])


def test_rows_are_deleted_by_vectors_in_commits_that_one_writer_makes(server: S3Server, tmp_path: Path) -> None:
    check_commits(server.place(tmp_path.name))


def test_vacuum_keeps_deletion_vectors_in_a_store(server: S3Server, tmp_path: Path) -> None:
    sample = vector_table(tmp_path / "sample")
    table = bind(server.place(tmp_path.name), server.settings()) / "vectors"
    for file in sample.rglob("*"):
        if file.is_file():
            StoreFiles(table / file.relative_to(sample).as_posix()).write(file.read_bytes())
    engine = open_plain_engine(table)
    engine.vacuum(0)
    assert len([name for name in StoreFiles(table).names() if "deletion_vector" in name]) == 2
    assert sorted(engine.read(["id"], "TRUE")["id"].to_pylist()) == ROWS


def test_iceberg_table_beside_a_delta_table_equals_it_when_the_store_refuses_some_requests(
    server: S3Server, tmp_path: Path
) -> None:
    place = server.place(f"{tmp_path.name}/t")
    catalog = sql_catalog(tmp_path, place)
    for version, faulty in enumerate((False, True, False)):
        rows = pa.table({"id": [version, 10 + version], "city": ["c/d e", None]})
        write_deltalake(str(place), rows, mode="append", partition_by=["city"], storage_options=place.delta_options)
        if faulty:
            server.break_down(refused=0.2, seed=3)
        try:
            make_mirror(catalog, place, most_snapshots=2).sync()
        except StorageError:
            assert faulty
            server.recover()
            make_mirror(catalog, place, most_snapshots=2).sync()
        server.recover()
        table = catalog.load_table(IDENTIFIER)
        assert iceberg_rows(table) == delta_rows(place)
    assert SECRET_KEY not in str(table.properties)
    mirror = make_mirror(catalog, place)
    assert mirror.check().is_equal
    mirror.clean()
    assert iceberg_rows(table) == delta_rows(place), "nothing is old enough to be removed"
    catalog.close()
