"""`headstream dlq` with --checkpoint: a Replicate pipeline's dead letter by the same command as any other one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headstream.cli.main import cli
from headstream.connect import connect
from headstream.errors import StorageError
from headstream.replicate.codec import data_message, metadata_message
from headstream.replicate.parked.ledger import Ledger
from headstream.replicate.parked.parking import DEAD_LETTER_TOPIC, PARKED_TOPIC
from tests.support.crashes import fail_with
from tests.support.replicate.pipeline_work import SECOND_US, Work
from tests.support.replicate.replicate_messages import make_change, make_table

TABLE = make_table()


def run(work: Work, command: str, *arguments: str, topic: str = DEAD_LETTER_TOPIC, code: int = 0) -> Any:
    place = ["--checkpoint", str(work.config.checkpoint), "--output", "json"]
    result = CliRunner().invoke(cli, ["dlq", command, topic, *arguments, *place])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout) if code == 0 else result.output


@pytest.fixture
def work(tmp_path: Path) -> Work:
    """A pipeline with five dead letters in one parked batch, whose schema has come since, and one that cannot be read."""
    work = Work(tmp_path, schema_wait_us=0, on_missing_schema="dead-letter", max_dead_rate=1.0)
    work.send(*(data_message(TABLE, make_change(number)) for number in range(5)), b"hopeless")
    work.processor.sweep()
    work.send(metadata_message(TABLE))
    assert work.ledger.counts() == {"dead": 6}
    return work


def offsets(work: Work) -> list[int]:
    return [row["offset"] for row in run(work, "list")]


def origin_of(work: Work, number: int) -> str:
    return f"hs.origin.topic = 'cdc/data' AND hs.origin.offset = {number}"


def test_letters_of_a_pipeline_are_listed_counted_and_shown(work: Work) -> None:
    rows = run(work, "list", "--where", "hs.origin.offset BETWEEN 1 AND 2")
    assert [row["origin"] for row in rows] == ["cdc/data/1/1", "cdc/data/1/2"]
    assert all("did not arrive within" in row["reason"] for row in rows)
    assert [(row["count"], row["topic"]) for row in run(work, "reasons")] == [(5, "cdc/data"), (1, "cdc/data")]
    shown = run(work, "show", "1", str(rows[0]["offset"]))
    assert (shown["state"], shown["origin"]) == ("dead", "cdc/data/1/1")
    work.close()


def test_a_redrive_of_some_letters_of_a_parcel_leaves_the_others(work: Work) -> None:
    chosen = "--where", "hs.origin.offset = 1 OR hs.origin.offset = 3"
    assert run(work, "redrive", *chosen, "--dry-run")["matched"] == 2
    assert work.ledger.counts() == {"dead": 6}
    asked = run(work, "redrive", *chosen)
    assert (asked["matched"], asked["redriven"]) == (2, 0)
    assert asked["request"] is not None
    (letter,) = run(work, "list", "--where", origin_of(work, 1))
    work.restart()
    work.processor.sweep()
    assert sorted(row["id"] for row in work.rows("shop", "kit")) == [1, 3]
    assert work.ledger.counts() == {"dead": 4}
    assert len(offsets(work)) == 4
    assert run(work, "show", "1", str(letter["offset"]))["state"] == "released"
    assert run(work, "redrive")["matched"] == 4
    work.processor.sweep()
    assert sorted(row["id"] for row in work.rows("shop", "kit")) == [0, 1, 2, 3, 4]
    assert work.ledger.counts() == {"dead": 1}, "what cannot be read is dead again"
    work.close()


def test_nothing_is_asked_when_nothing_matches(work: Work) -> None:
    assert run(work, "redrive", "--where", "hs.origin.offset = 99")["request"] is None
    assert run(work, "discard", "--where", "hs.origin.offset = 99", "--yes")["request"] is None
    assert "--rate cannot be used with --checkpoint" in run(work, "redrive", "--rate", "1/s", code=2)
    work.close()


def test_discarded_letters_are_marked_for_deletion_and_not_redriven_also_after_a_crash(
    work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = run(work, "discard", "--where", "hs.origin.offset IN (0, 2, 4)", "--yes")
    assert (asked["matched"], asked["discarded"]) == (3, 0)

    with monkeypatch.context() as patched:  # between the marks and the ledger
        patched.setattr(Ledger, "transaction", fail_with(StorageError("no space left")))
        with pytest.raises(StorageError):
            work.processor.sweep()
    work.restart()
    work.processor.sweep()
    assert [row["origin"] for row in run(work, "list", "--where", "hs.reason LIKE 'schema id%'")] == [
        "cdc/data/1/1",
        "cdc/data/1/3",
    ]
    assert work.ledger.counts() == {"dead": 3}
    with connect(f"file://{work.config.state_directory}/log") as log:
        marked = [change for change in log.states(DEAD_LETTER_TOPIC, 1) if change.reason == "discarded"]
    assert len(marked) == 3
    assert run(work, "redrive")["matched"] == 3
    work.processor.sweep()
    assert sorted(row["id"] for row in work.rows("shop", "kit")) == [1, 3]
    work.close()


def test_what_a_pipeline_has_delayed_is_listed_and_redriven_too(tmp_path: Path) -> None:
    work = Work(tmp_path, schema_wait_us=0, on_missing_schema="delayed", delayed="replicate/late")
    work.send(*(data_message(TABLE, make_change(number)) for number in range(3)))
    work.processor.sweep()
    assert work.ledger.counts() == {"delayed": 3}
    assert len(run(work, "list", topic="replicate/late")) == 3
    assert run(work, "discard", "--where", "hs.origin.offset = 1", "--yes", topic="replicate/late")["matched"] == 1
    work.send(metadata_message(TABLE))
    work.processor.sweep()
    assert sorted(row["id"] for row in work.rows("shop", "kit")) == [0, 2]
    work.close()


@pytest.mark.parametrize("erased", [[1], [0, 1, 2], [3, 4], [0, 1, 2, 3, 4]])
def test_a_pipeline_goes_on_when_messages_that_wait_were_erased_from_its_log(tmp_path: Path, erased: list[int]) -> None:
    work = Work(tmp_path, schema_wait_us=60 * SECOND_US)
    work.send(
        *(data_message(TABLE, make_change(number)) for number in range(5)),
        data_message(make_table(schema_id="F" * 32), make_change(9)),
    )
    work.close()
    url = f"file://{work.config.state_directory}/log"
    with connect(url) as log:
        log.set_state(PARKED_TOPIC, 1, erased, "marked_for_deletion", reason="erase 42")
        log.remove_marked(PARKED_TOPIC, 1, reason="erase 42")
    work.open()
    work.send(metadata_message(TABLE))
    work.processor.sweep()
    left = sorted({*range(5)} - {*erased})
    found = [row["id"] for row in work.rows("shop", "kit")] if left else []
    assert sorted(found) == left
    work.now_us += 61 * SECOND_US
    work.processor.sweep()
    assert work.ledger.counts() == {"delayed": 1}
    work.close()
