"""What is done for tables between micro-batches, on real tables, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from headstream.errors import InvalidOptionError
from headstream.replicate.codec import data_message, metadata_message
from headstream.replicate.engines.deltalake import DeltaLakeEngine
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.table_settings import TableRules, TableSettings, find_table_problems
from headstream.replicate.tables.tables import table_path
from tests.support.crashes import fail_to_write
from tests.support.replicate.pipeline_work import SECOND_US, Work
from tests.support.replicate.replicate_messages import make_change, make_table

KIT = make_table()
HOUR_US = 3600 * SECOND_US


def work_with_files(directory: Path, count: int, **options: Any) -> Work:
    """A pipeline that has written rows count..1 of `shop.kit`, a file each."""
    work = Work(directory, **options)
    work.send(metadata_message(KIT))
    for number in range(count, 0, -1):
        work.send(data_message(KIT, make_change(number)))
    return work


def table_of(work: Work) -> DeltaTable:
    return DeltaTable(str(table_path(work.tables_directory, "shop", "kit")))


def parquet_files(work: Work) -> list[Path]:
    return sorted(table_path(work.tables_directory, "shop", "kit").glob("*.parquet"))


@pytest.mark.parametrize("scd_type", [1, 2])
def test_small_files_are_put_together_when_it_is_time_and_rows_stay(tmp_path: Path, scd_type: Any) -> None:
    rules = TableRules(defaults=TableSettings(scd_type=scd_type))
    work = work_with_files(tmp_path, 6, compact_every_us=HOUR_US, rules=rules)
    rows = sorted(work.rows("shop", "kit"), key=lambda row: int(row["id"]))
    work.processor.sweep()
    assert len(table_of(work).file_uris()) == 1
    assert sorted(work.rows("shop", "kit"), key=lambda row: int(row["id"])) == rows
    work.send(data_message(KIT, make_change(3)), data_message(KIT, make_change(9, "UPDATE", data={"id": 3, "name": "new"})))
    assert {row["id"]: row["name"] for row in work.rows("shop", "kit") if row.get("_hs_current", True)}[3] == "new"
    version = table_of(work).version()
    work.restart()
    work.send(data_message(KIT, make_change(10)))
    work.processor.sweep()
    assert table_of(work).version() == version + 1, "not due again yet"
    work.now_us += HOUR_US
    work.processor.sweep()
    assert table_of(work).version() == version + 2
    work.close()


def test_a_batch_that_runs_again_after_compaction_changes_nothing(tmp_path: Path) -> None:
    work = work_with_files(tmp_path, 3, compact_every_us=HOUR_US)
    raw = work.raw([data_message(KIT, make_change(7))])
    work.process(raw, work.next_batch)
    work.processor.sweep()
    version = table_of(work).version()
    work.restart()
    work.process(raw, work.next_batch)
    assert table_of(work).version() == version
    work.close()


def test_files_are_sorted_by_the_columns_that_are_named(tmp_path: Path) -> None:
    rules = TableRules(defaults=TableSettings(cluster_by=("id",)))
    work = work_with_files(tmp_path, 5, compact_every_us=HOUR_US, rules=rules)
    work.processor.sweep()
    (file,) = table_of(work).file_uris()
    assert pq.read_table(file)["id"].to_pylist() == [1, 2, 3, 4, 5]
    work.close()


def test_files_that_no_version_needs_are_deleted_when_they_are_old_enough(tmp_path: Path) -> None:
    work = work_with_files(tmp_path, 4, compact_every_us=1, vacuum_every_us=HOUR_US, vacuum_kept_us=HOUR_US)
    left = table_path(work.tables_directory, "shop", "kit") / "part-left-by-a-killed-write.parquet"
    left.write_bytes(b"cut short")
    work.processor.sweep()
    assert len(parquet_files(work)) == 6, "younger than they are kept"
    work.close()
    work.options["vacuum_kept_us"] = 0
    work.now_us += HOUR_US
    work.open()
    work.processor.sweep()
    assert [str(path) for path in parquet_files(work)] == table_of(work).file_uris()
    assert len(work.rows("shop", "kit")) == 4
    work.close()


def test_a_failure_is_a_warning_that_names_the_table_and_is_tried_again_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    work = work_with_files(tmp_path, 3, compact_every_us=HOUR_US)
    with monkeypatch.context() as patch:
        patch.setattr(DeltaLakeEngine, "compact", fail_to_write)
        work.processor.sweep()
        work.processor.sweep()
    assert [record.levelname for record in caplog.records if "shop.kit" in record.getMessage()] == ["WARNING"]
    work.send(data_message(KIT, make_change(8)))
    assert len(work.rows("shop", "kit")) == 4
    work.now_us += HOUR_US
    work.processor.sweep()
    assert len(table_of(work).file_uris()) == 1
    work.close()


def test_one_table_is_cared_for_at_a_time_and_all_of_them_at_the_end(tmp_path: Path) -> None:
    tables = [make_table(table=f"t{number}", schema_id=f"{number:032d}") for number in range(3)]
    work = Work(tmp_path, compact_every_us=HOUR_US)

    def send(number: int) -> None:
        work.send(*(data_message(table, make_change(number)) for table in tables))

    def compacted() -> int:
        paths = [str(table_path(work.tables_directory, "shop", f"t{number}")) for number in range(3)]
        return sum(len(DeltaTable(path).file_uris()) == 1 for path in paths)

    work.send(*map(metadata_message, tables))
    send(1)
    send(2)
    assert compacted() == 0
    work.processor.sweep()
    assert compacted() == 1
    work.processor.sweep(last=True)
    assert compacted() == 3
    work.close()


def test_deletions_are_not_forgotten_while_something_waits_that_may_be_older(tmp_path: Path) -> None:
    other = make_table(table="other", schema_id="F" * 32)
    work = Work(tmp_path, tombstones_kept_us=HOUR_US)
    work.send(metadata_message(KIT), data_message(KIT, make_change(5, "DELETE", data={"id": 1})))
    work.send(data_message(other, make_change(1)))  # its table is not known: it may be of any
    for _ in range(3):
        work.now_us += HOUR_US
        work.processor.sweep()
    work.send(data_message(KIT, make_change(2, data={"id": 1, "name": "late"})))
    assert work.rows("shop", "kit") == []
    assert work.dead_count() == 0, "the deletion was still known"
    work.send(metadata_message(other))
    for _ in range(3):
        work.now_us += HOUR_US
        work.processor.sweep()
    work.send(data_message(KIT, make_change(3, data={"id": 1, "name": "later still"})))
    assert work.rows("shop", "kit") == []
    assert work.dead_count() == 1, "whether it was deleted is not known any more"
    work.close()


def test_settings_that_make_no_sense_are_refused() -> None:
    assert find_table_problems({"cluster_by": ("day",), "partition_by": ("day",)})[0][0] == "cluster_by"
    for name in ("_hs_current", "", "a~b"):
        assert find_table_problems({"partition_by": ("day", name)})[0][0] == "partition_by"
    with pytest.raises(InvalidOptionError, match="must not be negative"):
        ReplicateConfig(source="file:///x", topics=("a/b",), tables=Path("t"), checkpoint=Path("c"), vacuum_kept_us=-1)
