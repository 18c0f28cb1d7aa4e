"""Transactions that come in parts, with `atomic`: their changes wait, and come into the tables together."""

from __future__ import annotations

import itertools
import json
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from headstream.cli.replicate.command import replicate
from headstream.errors import ReplicateError, StorageError
from headstream.metrics.families import write_openmetrics
from headstream.replicate.codec import TableMetadata, data_message, data_schema, metadata_message
from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.engines.deltalake import DeltaLakeEngine
from headstream.replicate.parked import parking
from headstream.replicate.parked.ledger import Ledger
from headstream.replicate.parked.requests import Requests, Selection
from headstream.replicate.run import transactions
from headstream.replicate.run.metrics import describe_pipeline
from headstream.replicate.run.status import note_status, read_status
from headstream.replicate.settings.table_settings import TableRules
from headstream.replicate.tables.tables import table_path
from tests.support.crashes import fail_to_write, fail_with
from tests.support.replicate.pipeline_work import SECOND_US, Work
from tests.support.replicate.replicate_messages import COLUMNS, make_change, make_table

KIT = make_table()
BOX = make_table(schema_id="F" * 32, table="box")
METADATA = [metadata_message(KIT), metadata_message(BOX)]


def event(number: int, last: int, table: TableMetadata = KIT, *, of: str = "T", at: int = 0, form: Any = "avro") -> bytes:
    """The event of a transaction that inserts the row of its number, at a place in the order."""
    told: dict[str, Any] = {"transaction_id": of, "transaction_event_counter": number, "transaction_last_event": number == last}
    return data_message(table, make_change(number, change_sequence=f"{at + number:035d}", **told), form=form)


def start(directory: Path, **options: Any) -> Work:
    work = Work(directory, atomic=True, **options)
    work.send(*METADATA)
    return work


def ids(work: Work, table: str = "kit") -> list[int]:
    there = table_path(work.tables_directory, "shop", table).is_dir()
    return sorted(row["id"] for row in work.rows("shop", table)) if there else []


@pytest.mark.parametrize("order", list(itertools.permutations([1, 2, 3])), ids=str)
def test_transaction_is_shown_when_its_last_part_has_come_and_not_before(tmp_path: Path, order: tuple[int, ...]) -> None:
    work = start(tmp_path)
    for number in order:
        assert ids(work) == ids(work, "box") == []
        work.send(event(number, 3, BOX if number == 2 else KIT))
        work.restart()
    assert (ids(work), ids(work, "box")) == ([1, 3], [2])
    assert work.ledger.waiting().count == 0
    work.send(event(1, 3))
    assert work.ledger.waiting().count == 0, "a single event that comes again is a repeat"
    work.close()


def test_whole_transactions_and_full_loads_do_not_wait_for_one_that_is_not(tmp_path: Path) -> None:
    work = start(tmp_path)
    load = data_message(KIT, make_change(9, "REFRESH", change_sequence="", timestamp=""))
    work.send(event(1, 2), event(1, 2, of="U", at=10), event(2, 2, of="U", at=10), load)
    assert ids(work) == [1, 2, 9]
    work.send(event(2, 2))
    rows = work.rows("shop", "kit")
    assert {row["id"]: int(row["_hs_sequence"][:35]) for row in rows if row["id"] < 9} == {1: 11, 2: 12}, "older does not win"
    assert (work.ledger.waiting().count, work.summary.changes_without_transaction_position) == (0, 0)
    work.close()


def test_transaction_waits_for_an_event_whose_schema_has_not_come(tmp_path: Path) -> None:
    work = Work(tmp_path, atomic=True)
    work.send(METADATA[0], event(1, 2), event(2, 2, BOX))
    work.processor.sweep()
    assert ids(work) == []
    work.send(METADATA[1])
    assert (ids(work), ids(work, "box")) == ([1], [2])
    work.close()


@pytest.mark.parametrize("form", ["avro", "json"])
def test_events_of_tables_that_are_passed_over_count(tmp_path: Path, form: Any) -> None:
    work = start(tmp_path, rules=TableRules(exclude=("*.box",)))
    raws = [work.raw([event(2, 3, BOX, form=form)]), work.raw([event(1, 3)]), work.raw([event(3, 3, BOX, form=form)])]
    for number, raw in enumerate(raws, 1):
        assert ids(work) == []
        decoded = work.decoder.decode(raw.combine_chunks().to_batches()[0])
        travelled = Decoded.from_table(pa.Table.from_batches([decoded.to_batch()]))
        work.processor.process(travelled, lambda wanted, raw=raw: raw, number)  # type: ignore[misc]
    assert ids(work) == [1]
    work.close()


def test_transaction_of_which_earlier_events_were_passed_over_is_applied_without_being_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = start(tmp_path, rules=TableRules(exclude=("*.box",)))
    work.send(event(1, 2, BOX))
    monkeypatch.setattr(work.processor.parking, "_put_held", None)
    work.send(event(2, 2))
    assert ids(work) == [2]
    work.close()


def dead_event(number: int, last: int) -> bytes:
    """An event that is cut short."""
    return event(number, last)[:-4]


@pytest.mark.parametrize("policy", ["wait", "apply", "fail"])
def test_transaction_without_an_event_is_dealt_with_by_the_policy_when_it_has_waited_too_long(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, policy: Any
) -> None:
    wait_us = 20 * SECOND_US
    work = start(tmp_path, on_incomplete_transaction=policy, transaction_wait_us=wait_us, max_dead_rate=1.0)
    work.send(event(1, 3), dead_event(2, 3), event(3, 3, BOX))
    Requests(work.ledger).ask("redrive", Selection().to_document(), work.now_us)
    work.processor.sweep(last=True)
    assert ids(work) == ids(work, "box") == [], "neither time nor a redrive shows a part"
    work.now_us += wait_us
    work.restart()
    work.processor.sweep()
    assert ids(work) == [], "the run has just begun, and may read the rest of it yet"
    caplog.clear()
    work.now_us += wait_us
    lacks = "event 2 of s/t/T has not arrived, but event 3 has"
    if policy == "fail":
        with pytest.raises(ReplicateError, match=lacks):
            work.processor.sweep()
    else:
        for _ in range(3):
            work.processor.sweep()
        warned = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
        assert len(warned) == 1, "once a minute"
        assert lacks in warned[0]
    assert ids(work) == ([1] if policy == "apply" else [])
    assert work.summary.incomplete_transactions == (policy == "apply")
    assert work.ledger.counts().get("dead") == 1
    work.send(event(2, 3))
    assert (ids(work), ids(work, "box")) == ([1, 2], [3])
    assert work.ledger.waiting().count == 0
    work.close()


def test_changes_that_do_not_say_where_they_stand_are_applied_and_counted(tmp_path: Path) -> None:
    table = make_table()
    older = TableMetadata("D" * 32, table.lineage, COLUMNS, data_schema(COLUMNS, logical_types=True, transaction_fields=False))
    work = Work(tmp_path, atomic=True)
    work.send(metadata_message(older), data_message(older, make_change(1, transaction_id="T")))
    work.send(data_message(older, make_change(2, transaction_id="T")))
    assert (ids(work), work.summary.changes_without_transaction_position) == ([1, 2], 2)
    work.close()


def test_what_waits_for_transactions_comes_back_when_a_run_does_not_ask_for_whole_ones(tmp_path: Path) -> None:
    work = start(tmp_path)
    work.send(event(1, 2))
    work.options["atomic"] = False
    work.restart()
    work.processor.sweep()
    assert ids(work) == [1]
    work.close()


@pytest.mark.parametrize("owner", [parking.ParkingLot, Ledger])
def test_nothing_is_shown_in_part_when_setting_the_last_part_aside_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: type
) -> None:
    work = start(tmp_path)
    work.send(event(1, 2))
    raw = work.raw([event(2, 2)])
    step = "_put_held" if owner is parking.ParkingLot else "add"
    with monkeypatch.context() as patch:
        patch.setattr(owner, step, fail_with(MemoryError()))
        with pytest.raises(MemoryError):
            work.process(raw, work.next_batch)
    work.restart()
    work.processor.sweep()
    assert ids(work) == [], "the second part is nowhere yet"
    work.process(raw, work.next_batch)
    assert ids(work) == [1, 2]
    work.close()


def test_an_event_that_comes_again_does_not_go_before_the_rest_that_waits_for_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = start(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(DeltaLakeEngine, "merge", fail_to_write)
        work.send(event(1, 2), event(2, 2))
    work.now_us += 400 * SECOND_US
    seen = []
    original = DeltaLakeEngine.merge

    def merge(self: DeltaLakeEngine, *arguments: Any, **options: Any) -> Any:
        counts = original(self, *arguments, **options)
        seen.append(ids(work))
        return counts

    monkeypatch.setattr(DeltaLakeEngine, "merge", merge)
    work.send(event(1, 2))
    assert seen[0] == ids(work) == [1, 2]
    work.close()


def test_transaction_larger_than_a_release_comes_back_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parking, "MAX_RELEASE", 2)
    work = start(tmp_path)
    work.send(*(event(number, 4) for number in (1, 2, 3)), event(1, 2, BOX, of="U"))
    work.send(event(4, 4), event(2, 2, BOX, of="U"))
    assert (ids(work), ids(work, "box")) == ([1, 2, 3, 4], [1, 2])
    assert work.summary.merges == 2
    work.close()


def test_status_parked_and_metrics_tell_of_transactions_that_wait(tmp_path: Path) -> None:
    work = start(tmp_path)
    work.send(event(1, 3), event(2, 3, BOX))
    work.now_us += 7 * SECOND_US
    note_status(work.ledger, "running", work.summary, work.schema_store.directory, work.now_us)
    status = read_status(work.ledger, work.now_us)
    lacks = "the last event of s/t/T has not arrived, after 2 events"
    assert (status["open_transactions"], status["oldest_transaction"]) == (1, {"wait_seconds": 7.0, "lacks": lacks})
    told = write_openmetrics(describe_pipeline(status))
    assert "headstream_replicate_open_transactions 1.0\n" in told
    assert "headstream_replicate_oldest_transaction_seconds 7.0\n" in told
    place = ["--checkpoint", str(work.config.checkpoint)]
    shown = CliRunner().invoke(replicate, ["parked", *place, "--output", "json"], catch_exceptions=False)
    parked_batches = {(one["waits_for"], one["table"], one["transaction"]) for one in json.loads(shown.output)}
    assert parked_batches == {("transaction", "shop.kit", "s/t/T"), ("transaction", "shop.box", "s/t/T")}
    assert lacks in CliRunner().invoke(replicate, ["status", *place, "--output", "json"], catch_exceptions=False).output
    work.close()


def test_what_is_remembered_of_transactions_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "KEPT_CLOSED", 2)
    monkeypatch.setattr(transactions, "KEPT_EMPTY", 1)
    work = start(tmp_path, rules=TableRules(exclude=("*.box",)))
    for name in "ABC":
        work.send(event(1, 2, of=name), event(2, 2, of=name))
    assert work.ledger.rows("SELECT key FROM closed_transactions ORDER BY key") == [("s/t/B",), ("s/t/C",)]
    for name in "XYZ":
        work.now_us += 1
        work.send(event(1, 2, BOX, of=name))
        work.send(event(1, 2, KIT, of=f"waiting {name}"))
    kept = [key for (key,) in work.ledger.rows("SELECT key FROM open_transactions ORDER BY key")]
    assert kept == ["s/t/Z", "s/t/waiting X", "s/t/waiting Y", "s/t/waiting Z"], "what changes wait for is never forgotten"
    work.close()


def test_transaction_that_waits_for_its_table_is_whole_however_many_come_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = DeltaLakeEngine.merge

    def fail(self: DeltaLakeEngine, *arguments: Any, **options: Any) -> Any:
        if self.path.name == "box":
            raise StorageError("no space left", where=str(self.path))
        return original(self, *arguments, **options)

    monkeypatch.setattr(transactions, "KEPT_CLOSED", 1)
    work = start(tmp_path)
    work.send(event(1, 2))
    with monkeypatch.context() as patch:
        patch.setattr(DeltaLakeEngine, "merge", fail)
        work.send(event(2, 2, BOX))
        for name in "ABC":
            work.send(event(1, 2, of=name, at=10), event(2, 2, of=name, at=10))
    work.now_us += 400 * SECOND_US
    work.processor.sweep()
    assert (ids(work), ids(work, "box")) == ([1, 2], [2])
    assert work.ledger.waiting().count == 0
    work.close()


def test_a_table_is_not_waited_for_when_its_transaction_has_only_begun_to_wait(tmp_path: Path) -> None:
    work = start(tmp_path)
    work.send(event(1, 2))
    assert work.ledger.tables_waited_for(work.now_us - 1) == set()
    assert work.ledger.tables_waited_for(work.now_us) == {("shop", "kit")}
    work.close()


def test_hold_takes_the_changes_of_incomplete_transactions_out_of_a_unit_and_records_nothing_yet(tmp_path: Path) -> None:
    work = start(tmp_path)
    unit = work.unit(
        event(1, 2, of="whole"), event(2, 2, BOX, of="whole", at=5), event(3, 4, of="part"), event(5, 6, BOX, of="gap")
    )
    held = transactions.Transactions(work.context).hold(unit)
    waits = {part.table: part.messages.to_pylist() for part in held.held}
    assert {table: [(row["offset"], row["transaction"]) for row in found] for table, found in waits.items()} == {
        ("shop", "kit"): [(4, "s/t/part")],
        ("shop", "box"): [(5, "s/t/gap")],
    }
    assert {name: sum(map(len, batches)) for name, batches in held.decoded.changes.items()} == {
        KIT.schema_id: 1,
        BOX.schema_id: 1,
    }
    assert {name: sum(map(len, batches)) for name, batches in unit.decoded.changes.items()} == {
        KIT.schema_id: 2,
        BOX.schema_id: 2,
    }
    assert work.ledger.rows("SELECT key FROM open_transactions") == []
    with work.ledger.transaction() as connection:
        held.record(connection)
    assert work.ledger.rows("SELECT key FROM open_transactions ORDER BY key") == [("s/t/gap",), ("s/t/part",)]
    assert work.ledger.rows("SELECT key FROM closed_transactions") == [("s/t/whole",)]
    work.close()
