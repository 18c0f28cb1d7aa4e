from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from headstream.cli.replicate.command import replicate
from headstream.errors import LogVersionError, StorageError
from headstream.replicate.parked.ledger import Ledger, ParkedBatch
from headstream.replicate.parked.ledger_schema import STEPS
from tests.support.waiting import run_together

NEWEST = len(STEPS)
PARKED_BATCH = ParkedBatch(
    state="parked", cause="schema", schema_id="A", log_topic="replicate/parked", from_offset=0, until_offset=3, size_bytes=30,
    since_us=5, batch=1,
)  # fmt: skip


def make(path: Path, version: int, *, numbered: bool = True) -> Path:
    """Make the ledger of a version, with one parked batch where it has any; without its number where versions had none."""
    with closing(sqlite3.connect(path)) as connection:
        for statement in (statement for step in STEPS[:version] for statement in step):
            connection.execute(statement)
        if version:
            connection.execute(
                "INSERT INTO parcels (state, cause, schema_id, log_topic, from_offset, until_offset, size_bytes, since_us) "
                "VALUES ('parked', 'schema', 'A', 'replicate/parked', 0, 3, 30, 5)"
            )
        connection.execute(f"PRAGMA user_version = {version if numbered else 0}")
        connection.commit()
    return path


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


@pytest.mark.parametrize("numbered", [True, False])
@pytest.mark.parametrize("version", range(1, NEWEST + 1))
def test_ledger_brings_an_older_one_up_with_what_waits_in_it(tmp_path: Path, version: int, numbered: bool) -> None:
    path = make(tmp_path / "ledger.sqlite", version, numbered=numbered)
    for _ in range(2):  # the second finds what the first made
        with closing(Ledger(path)) as ledger:
            (parked_batch,) = ledger.parked_batches("parked")
            assert (parked_batch.schema_id, parked_batch.count, parked_batch.transaction_key) == ("A", 3, None)
            assert ledger.begin_release(["A"], (), 10) is not None
            ledger.finish_release(1, [parked_batch])
        assert version_of(path) == NEWEST


def test_new_ledger_has_todays_version(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint" / "ledger.sqlite"
    with closing(Ledger(path)) as ledger:
        ledger.add([PARKED_BATCH])
    assert version_of(path) == NEWEST
    with closing(Ledger(path, read_only=True)) as ledger:
        assert [parked_batch.count for parked_batch in ledger.parked_batches("parked")] == [3]


@pytest.mark.parametrize("read_only", [True, False])
def test_ledger_refuses_a_newer_one_and_leaves_it_as_it_is(tmp_path: Path, read_only: bool) -> None:
    path = make(tmp_path / "ledger.sqlite", 1)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(LogVersionError, match=rf"version 99, but this version of Headstream reads {NEWEST} \(.*newer version"):
        Ledger(path, read_only=read_only)
    assert version_of(path) == 99
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(
            "SELECT COUNT(*) FROM pragma_table_info('parcels') WHERE name = 'transaction_key'"
        ).fetchone() == (0,)


def test_reader_of_an_older_ledger_is_told_to_run_the_pipeline(tmp_path: Path) -> None:
    path = make(tmp_path / "ledger.sqlite", 1, numbered=False)
    asked = ["parked", "--checkpoint", str(tmp_path)]
    refusal = CliRunner().invoke(replicate, asked).exception
    assert isinstance(refusal, LogVersionError)
    assert f"has version 1, but this version of Headstream reads {NEWEST}" in str(refusal)
    assert "Run the pipeline" in str(refusal)
    assert version_of(path) == 0
    Ledger(path).close()
    result = CliRunner().invoke(replicate, [*asked, "--output", "json"], catch_exceptions=False)
    assert [row["messages"] for row in json.loads(result.output)] == [3]


@pytest.mark.parametrize(
    ("tables", "read_only", "words"),
    [
        ("CREATE TABLE parked (topic TEXT, partition INTEGER, offset INTEGER)", False, "too old to be migrated.*new checkpoint"),
        ("CREATE TABLE parked (topic TEXT, partition INTEGER, offset INTEGER)", True, "too old to be migrated.*new checkpoint"),
        ("", True, "is empty.*checkpoint of a pipeline that has run"),
    ],
)
def test_ledger_says_what_to_do_with_what_cannot_be_brought_up(tmp_path: Path, tables: str, read_only: bool, words: str) -> None:
    path = tmp_path / "ledger.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(tables)
    with pytest.raises(StorageError, match=words):
        Ledger(path, read_only=read_only)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM sqlite_schema").fetchone() == (1 if tables else 0,)


def test_ledger_is_brought_up_once_when_several_open_it_together(tmp_path: Path) -> None:
    path = make(tmp_path / "ledger.sqlite", 1, numbered=False)
    failures: list[BaseException] = []

    def open_it() -> None:
        try:
            Ledger(path).close()
        except BaseException as error:
            failures.append(error)

    run_together(*[open_it] * 4)
    assert failures == []
    assert version_of(path) == NEWEST
