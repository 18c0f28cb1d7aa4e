"""The step that stores what a unit did not apply, on a real log and ledger."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headstream.errors import StorageError
from headstream.replicate.codec import data_message, metadata_message
from headstream.replicate.columns.raw import change_coordinates
from headstream.replicate.parked.parking import Held
from headstream.replicate.run.parking_step import ParkingStep
from headstream.replicate.run.stopped_tables import StoppedTables
from headstream.replicate.run.unit import Unit
from tests.support.replicate.pipeline_work import Work
from tests.support.replicate.replicate_messages import make_change, make_table

KIT = make_table()
TABLE = ("shop", "kit")


def start(directory: Path) -> tuple[Work, ParkingStep, pa.Table, Unit]:
    """A unit of four messages: one waits for its table, one for its load, and one is rejected."""
    work = Work(directory, max_dead_rate=1.0)
    work.send(metadata_message(KIT))
    raw = work.raw([data_message(KIT, make_change(number)) for number in range(4)])
    places = change_coordinates(
        pa.Table.from_batches(work.decoder.decode(raw.to_batches()[0]).changes[KIT.schema_id]), KIT.schema_id
    )
    reason = places.schema.get_field_index("reason")
    rejected = places.slice(2, 1).set_column(reason, "reason", pa.array(["too late"]))
    held = [Held(TABLE, "no space", places.slice(0, 1)), Held(TABLE, "behind", places.slice(1, 1), "load")]
    unit = replace(work.unit(), held=held, rejected=rejected)
    step = ParkingStep(work.context, work.processor.parking, StoppedTables(work.context, work.processor.health))
    return work, step, raw, unit


def test_set_aside_parks_whole_messages_by_what_they_wait_for_and_gives_up_the_rejected_ones(tmp_path: Path) -> None:
    work, step, raw, unit = start(tmp_path)
    step.park(unit, lambda wanted: raw)
    assert work.count_waiting() == {("table", TABLE): 1, ("load", TABLE): 1}
    (dead,) = work.ledger.parked_batches("dead")
    assert (dead.reason, dead.schema_id, work.summary.dead) == ("too late", KIT.schema_id, 1)
    kept = {
        row["offset"]: row["payload"]
        for part in work.processor.parking.log.read("replicate/parked", 0, 2)
        for row in part.to_pylist()
    }
    assert kept == {row["offset"]: row["payload"] for row in raw.slice(0, 2).to_pylist()}
    work.close()


def test_set_aside_reads_nothing_again_when_everything_was_applied(tmp_path: Path) -> None:
    work, step, _, _ = start(tmp_path)
    step.park(work.unit(), lambda wanted: pytest.fail("it asks the source"))
    assert work.ledger.counts() == {}
    work.close()


def test_set_aside_stores_nothing_when_the_source_has_lost_a_message(tmp_path: Path) -> None:
    work, step, raw, unit = start(tmp_path)
    with pytest.raises(StorageError, match="1 messages that were not applied"):
        step.park(unit, lambda wanted: raw.slice(1))
    assert work.ledger.counts() == {}
    work.close()


def test_finish_release_names_the_tables_that_failed_when_other_messages_of_it_wait_for_a_load(tmp_path: Path) -> None:
    work, step, raw, unit = start(tmp_path)
    work.processor.parking.hold([Held(("shop", "all"), "no space", raw)], work.now_us)
    release = work.processor.parking.next_release((), [("shop", "all")])
    assert release is not None
    box = ("shop", "box")
    held = [unit.held[0], replace(unit.held[1], table=box)]
    assert step.finish_release(replace(unit, kind="release", number=release.number, held=held), release) == {TABLE}
    assert work.count_waiting() == {("table", TABLE): 1, ("load", box): 1}
    assert (work.summary.dead, work.summary.released) == (1, 1)
    work.close()
