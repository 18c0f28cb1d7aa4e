"""Two pipelines that write one target: the second is told, and its changes wait."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headstream.errors import ReplicateError
from headstream.replicate.codec import data_message, metadata_message
from headstream.replicate.tables.tables import table_path
from headstream.replicate.tables.target_owner import OWNER_FILE, Owner
from tests.support.replicate.pipeline_work import SECOND_US, Work
from tests.support.replicate.replicate_messages import make_change, make_table

KIT = make_table()
SHARED = ("shop", "kit")


def make_work(directory: Path, name: str, **options: Any) -> Work:
    return Work(directory / name, tables=directory / "tables", change_tables=directory / "changes", **options)


def test_a_second_pipeline_is_refused_by_name_and_its_changes_wait(tmp_path: Path) -> None:
    first, second = make_work(tmp_path, "one"), make_work(tmp_path, "two")
    first.send(metadata_message(KIT), data_message(KIT, make_change(1)))
    second.send(metadata_message(KIT), data_message(KIT, make_change(2)))
    reason = second.processor.health.failing[SHARED].reason
    assert "another pipeline writes to the table" in reason
    assert str(first.config.checkpoint) in reason
    assert second.ledger.waiting().count == 1
    first.send(data_message(KIT, make_change(3)))
    assert sorted(row["id"] for row in first.rows(*SHARED)) == [1, 3]
    assert first.processor.health.failing == {}
    first.close()
    second.close()


def test_a_table_is_taken_over_when_it_is_asked_for_and_then_the_first_is_refused(tmp_path: Path) -> None:
    first, second = make_work(tmp_path, "one"), make_work(tmp_path, "two", take_over=True)
    first.send(metadata_message(KIT), data_message(KIT, make_change(1)))
    second.send(metadata_message(KIT), data_message(KIT, make_change(2)))
    assert sorted(row["id"] for row in second.rows(*SHARED)) == [1, 2]
    second.options["take_over"] = False
    second.restart()
    second.send(data_message(KIT, make_change(3)))
    first.send(data_message(KIT, make_change(4)))
    assert first.processor.health.failing.keys() == {SHARED}
    assert sorted(row["id"] for row in second.rows(*SHARED)) == [1, 2, 3]
    assert sorted(row["id"] for row in second.rows(*SHARED, tmp_path / "changes")) == [1, 2, 3]
    first.close()
    second.close()


def test_whose_a_table_is_stays_known_when_files_are_vacuumed(tmp_path: Path) -> None:
    work = make_work(tmp_path, "one", compact_every_us=SECOND_US, vacuum_every_us=SECOND_US, vacuum_kept_us=0)
    work.send(metadata_message(KIT), data_message(KIT, make_change(1)))
    for number in (2, 3):
        work.send(data_message(KIT, make_change(number)))
        work.now_us += 10 * SECOND_US
        work.processor.sweep(last=True)
    place = table_path(tmp_path / "tables", *SHARED)
    assert len(list(place.glob("*.parquet"))) == 1, "the files before are gone"
    with pytest.raises(ReplicateError, match="another pipeline"):
        Owner("other", tmp_path).claim(place)
    work.close()


def test_a_table_in_the_directory_of_one_that_an_older_headstream_made_is_refused_and_waits(tmp_path: Path) -> None:
    inner = make_table(schema_id="1" * 32, schema="kit", table="part")
    write_deltalake(str(tmp_path / "tables" / "kit"), pa.table({"id": [1]}))
    work = make_work(tmp_path, "one")
    work.send(metadata_message(inner), data_message(inner, make_change(1)))
    assert "the directory of another table" in work.processor.health.failing["kit", "part"].reason
    assert work.ledger.waiting().count == 1
    work.close()


def test_of_pipelines_that_come_at_once_one_has_the_table(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()

    def try_to_claim(number: int) -> bool:
        try:
            Owner(f"pipeline {number}", tmp_path / str(number)).claim(tmp_path)
        except ReplicateError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(try_to_claim, range(40))) == 1
    assert [place.name for place in tmp_path.iterdir() if place.is_file()] == [OWNER_FILE]


def test_a_file_that_says_nothing_is_taken_for_anothers(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / OWNER_FILE).write_text("{")
    with pytest.raises(ReplicateError, match="take-over"):
        Owner("mine", tmp_path).claim(tmp_path)
    Owner("mine", tmp_path, take_over=True).claim(tmp_path)
    Owner("mine", tmp_path).claim(tmp_path)
