"""Full loads through the pipeline's work: partitions read at unequal speed, schemas that come late, kills in between."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from headstream.replicate.codec import TableMetadata, data_message, metadata_message
from headstream.replicate.columns.raw import RAW_SCHEMA
from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.run.load_waits import LoadWaits
from headstream.replicate.run.status import read_status
from headstream.replicate.schemas.schema_store import StoredSchema
from headstream.replicate.settings.table_settings import TableRules, TableSettings
from tests.campaigns.test_replicate_delivery import Crashes
from tests.support.crashes import CrashError
from tests.support.replicate.pipeline_work import SECOND_US, Work
from tests.support.replicate.replicate_messages import make_change, make_table

KIT, OTHER = make_table(), make_table(schema_id="F" * 32, table="other")
LATER = replace(KIT, schema_id="A" * 32)
START_US = 1_600_000_000 * SECOND_US


class Logged(NamedTuple):
    """A message of a partition, and when the log took it."""

    partition: int
    logged_us: int
    value: bytes


class LoadWork(Work):
    """A pipeline over a log of several partitions."""

    def __init__(self, directory: Path, messages: list[Logged], **options: Any) -> None:
        self.messages = messages
        self.read = 0
        settings = options.pop("settings", {})
        super().__init__(directory, load_gap_us=SECOND_US, rules=TableRules(defaults=TableSettings(**settings)), **options)

    def read_until_us(self, raw: pa.Table, batch_id: int) -> int | None:
        return self.until_us

    def read_batch(self, batch_id: int, taken: list[tuple[int, Logged]], until_us: int | None) -> None:
        """Let messages come, with their places in the log."""
        self.until_us = until_us
        rows = [
            {"topic": "cdc/data", "partition": one.partition, "offset": offset, "timestamp_us": one.logged_us}
            | {"key": None, "headers": None, "payload": one.value, "schema_id": None, "reason": None}
            for offset, one in taken
        ]
        self.process(pa.Table.from_pylist(rows, schema=RAW_SCHEMA), batch_id)

    def names(self) -> dict[int, str]:
        """Key -> name of the rows that are there."""
        rows = [row for row in self.rows("shop", "kit") if row.get("_hs_current", True) and not row.get("_hs_deleted")]
        assert len({row["id"] for row in rows}) == len(rows)
        return {row["id"]: row["name"] for row in rows}


def write(table: TableMetadata, operation: str, key: int, name: str, number: int = 0) -> bytes:
    change = make_change(number, operation, data={"id": key, "name": name}, change_sequence=f"{number:035d}" if number else "")
    return data_message(table, change)


def two_partitions() -> tuple[list[Logged], dict[int, str]]:
    """A table that is loaded again while its first partition is far ahead, and the rows it comes to."""
    clock, numbers = itertools.count(START_US, 1000), itertools.count(1)
    log = [Logged(2, next(clock), metadata_message(table)) for table in (KIT, OTHER)]
    log += [Logged(1, next(clock), write(KIT, "REFRESH", key, "first")) for key in range(1, 21)]
    log += [Logged(1, next(clock), write(KIT, "UPDATE", key, "old", next(numbers))) for key in range(1, 21)]
    log += [Logged(2, next(clock), write(OTHER, "INSERT", key, "x", next(numbers))) for key in range(1, 121)]
    reloaded = itertools.count(next(clock) + 2_500_000, 1000)
    log += [Logged(2, next(reloaded), write(KIT, "REFRESH", key, "again")) for key in range(1, 11)]
    log += [Logged(1, next(reloaded), write(KIT, "UPDATE", key, "new", next(numbers))) for key in range(1, 6)]
    return log, {key: "new" if key < 6 else "again" for key in range(1, 11)}


def late_metadata() -> tuple[list[Logged], dict[int, str]]:
    """A table whose rows from before a reload have a schema that comes after it."""
    clock, numbers = itertools.count(START_US, 1000), itertools.count(1)
    log = [Logged(1, next(clock), metadata_message(LATER))]
    log += [Logged(1, next(clock), write(KIT, "INSERT", key, "old", next(numbers))) for key in range(1, 21)]
    reloaded = itertools.count(next(clock) + 2_500_000, 1000)
    log += [Logged(2, next(reloaded), write(LATER, "REFRESH", key, "again")) for key in range(1, 11)]
    log += [Logged(2, next(reloaded), write(LATER, "UPDATE", key, "new", next(numbers))) for key in range(1, 6)]
    log += [Logged(2, next(reloaded), metadata_message(KIT))]
    return log, {key: "new" if key < 6 else "again" for key in range(1, 11)}


def read_log(work: LoadWork, random: Random, crashes: Crashes | None = None) -> None:
    """Read partitions at unequal speed, in micro-batches cut anywhere; what is known of how far lags behind or is not told."""
    parts = {number: [one for one in work.messages if one.partition == number] for number in (1, 2)}
    offsets = dict.fromkeys(parts, 0)
    most = random.choice([3, 20, 1000])
    for batch_id in itertools.count():
        taken: list[tuple[int, Logged]] = []
        for number, part in parts.items():
            begin = offsets[number]
            offsets[number] = min(len(part), begin + random.choice([0, 1, most, most]))
            taken += list(enumerate(part))[begin : offsets[number]]
        left = [parts[number][offset].logged_us for number, offset in offsets.items() if offset < len(parts[number])]
        until_us = random.choice([min(left, default=None), None, START_US])
        begun = False
        while crashes is not None and crashes.count < 4 and random.random() < 0.5:
            crashes.plan(random)
            try:
                work.read_batch(batch_id, taken, until_us)
                work.processor.sweep()
            except CrashError:
                begun = True
            crashes.left = None
            work.restart()
            if begun and random.random() < 0.5:
                work.processor.sweep()
        work.read_batch(batch_id, taken, until_us)
        work.processor.sweep()
        if not left:
            break
    while work.processor.sweep(last=True):
        pass


@pytest.mark.parametrize("settings", [{}, {"deletes": "soft"}, {"scd_type": 2}], ids=str)
@pytest.mark.parametrize("history", [two_partitions, late_metadata])
@pytest.mark.parametrize("seed", range(4))
def test_reload_replaces_the_same_rows_however_its_log_is_read(
    tmp_path: Path, history: Any, settings: dict[str, Any], seed: int
) -> None:
    messages, expected = history()
    work = LoadWork(tmp_path, messages, settings=settings, change_tables=tmp_path / "changes")
    with pytest.MonkeyPatch.context() as patch:
        read_log(work, Random(seed), Crashes(patch))
    assert work.names() == expected
    assert work.ledger.waiting().count == 0
    data = sum(b'"MD"' not in one.value and one.value[5:8] != b"\x04MD" for one in messages)
    rows = [
        row
        for table in ("kit", "other")
        if (tmp_path / "changes" / "shop" / table).exists()
        for row in work.rows("shop", table, tmp_path / "changes")
    ]
    assert len({(row["_hs_partition"], row["_hs_offset"]) for row in rows}) == len(rows) == data
    work.close()


def test_rows_of_a_load_wait_and_say_for_what_and_changes_do_not(tmp_path: Path) -> None:
    messages = [
        Logged(1, START_US, metadata_message(KIT)),
        Logged(1, START_US + 10, write(KIT, "INSERT", 1, "a", 1)),
        Logged(1, START_US + 20, write(KIT, "REFRESH", 2, "b")),
    ]
    work = LoadWork(tmp_path, messages)
    work.read_batch(0, list(enumerate(messages)), START_US + 20)
    work.restart()
    assert work.names() == {1: "a"}
    assert work.count_waiting() == {("load", ("shop", "kit")): 1}
    assert "until all partitions are read up to the load" in str(work.ledger.parked_batches("parked")[0].reason)
    assert read_status(work.ledger, work.now_us)["waiting_for_loads"] == 1
    assert not work.processor.sweep(), "nothing more is known"
    work.read_batch(1, [], START_US + 21)
    assert work.names() == {1: "a", 2: "b"}
    work.close()


def test_rows_of_a_load_wait_for_the_schema_of_earlier_messages_no_longer_than_these(tmp_path: Path) -> None:
    messages, _ = late_metadata()
    work = LoadWork(tmp_path, messages, schema_wait_us=10 * SECOND_US)
    work.read_batch(0, list(enumerate(messages[:-1])), messages[-1].logged_us)
    assert work.count_waiting() == {("schema", None): 20, ("load", ("shop", "kit")): 10}
    reasons = [parked_batch.reason for parked_batch in work.ledger.parked_batches("parked") if parked_batch.cause == "load"]
    assert reasons == [f"rows of a full load, logged after messages that wait for schema id {KIT.schema_id}"]
    work.now_us += 11 * SECOND_US
    while work.processor.sweep():
        pass
    assert work.count_waiting() == {("schema", None): 20}
    assert work.names().keys() == set(range(1, 11))
    work.read_batch(1, list(enumerate(messages))[-1:], messages[-1].logged_us + 1)
    while work.processor.sweep():
        pass
    assert work.names() == {key: "new" if key < 6 else "again" for key in range(1, 11)}, "older than the load, though late"
    work.close()


def test_a_unit_that_is_cut_off_and_run_again_when_more_is_known_loses_no_row(tmp_path: Path) -> None:
    messages, expected = late_metadata()
    work = LoadWork(tmp_path, messages)
    work.read_batch(0, list(enumerate(messages[:21])), START_US)
    batch = list(enumerate(messages))[21:-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work.processor.parking, "hold", crash)
        with pytest.raises(CrashError):
            work.read_batch(1, batch, messages[-1].logged_us)  # its table has the changes, the rows are not parked yet
    work.restart()
    work.schema_store.add(entry_of(work))
    work.processor.sweep()  # and now nothing is in the way of the rows any more
    work.read_batch(1, batch, messages[-1].logged_us)
    while work.processor.sweep(last=True):
        pass
    assert work.names() == expected
    work.close()


def crash(*_: Any, **__: Any) -> None:
    raise CrashError


def entry_of(work: Work) -> StoredSchema:
    return StoredSchema(KIT, work.now_us, "cdc/data", 2, 99)


def two_waiting_loads(directory: Path) -> tuple[LoadWork, dict[int, str]]:
    """Work in which rows of loads of two tables wait for the schema of changes that were logged before them."""
    messages, expected = late_metadata()
    schema = messages.pop()
    clock = itertools.count(messages[-1].logged_us + 1000, 1000)
    messages.insert(0, Logged(1, START_US - 1000, metadata_message(OTHER)))
    messages += [Logged(2, next(clock), write(OTHER, "REFRESH", key, "other")) for key in range(1, 4)]
    messages.append(schema._replace(logged_us=next(clock)))
    work = LoadWork(directory, messages)
    work.read_batch(0, list(enumerate(messages[:-1])), messages[-1].logged_us)
    assert work.count_waiting() == {("schema", None): 20, ("load", ("shop", "kit")): 10, ("load", ("shop", "other")): 3}
    return work, expected


def read_schema(work: LoadWork) -> None:
    """Let the missing schema come, and end the run."""
    work.read_batch(1, list(enumerate(work.messages))[-1:], work.messages[-1].logged_us + 1)
    while work.processor.sweep(last=True):
        pass


def test_a_run_that_is_stopped_leaves_rows_of_loads_waiting_for_schemas(tmp_path: Path) -> None:
    work, expected = two_waiting_loads(tmp_path)
    waiting = work.count_waiting()
    for given in ({"last": True, "all_read": False}, {"all_read": True}):  # stopped; idle at the end of all partitions
        work.processor.sweep(**given)
        assert work.count_waiting() == waiting
        work.restart()
    while work.processor.sweep(last=True):
        pass
    assert work.count_waiting() == {("schema", None): 20}
    assert work.names().keys() == set(range(1, 11))
    work.restart()
    read_schema(work)
    assert work.names() == expected
    work.close()


@pytest.mark.parametrize(("step", "call"), [("next_release", 1), ("finish_release", 1), ("next_release", 2)])
@pytest.mark.parametrize("ends_again", [False, True])
def test_a_run_that_ends_is_cut_off_at_a_release_and_the_schema_comes_then(
    tmp_path: Path, step: str, call: int, ends_again: bool
) -> None:
    work, expected = two_waiting_loads(tmp_path)
    calls = itertools.count(1)
    whole = getattr(work.processor.parking, step)

    def cut_off(*arguments: Any, **options: Any) -> Any:
        if next(calls) == call:
            raise CrashError
        return whole(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(work.processor.parking, step, cut_off)
        with pytest.raises(CrashError):
            work.processor.sweep(last=True)
    work.restart()
    if ends_again:
        while work.processor.sweep(last=True):
            pass
    read_schema(work)
    assert work.names() == expected
    assert {row["id"]: row["name"] for row in work.rows("shop", "other")} == dict.fromkeys((1, 2, 3), "other")
    assert work.ledger.waiting().count == 0
    work.close()


def test_a_run_after_one_that_ended_waits_for_schemas_again(tmp_path: Path) -> None:
    work, expected = two_waiting_loads(tmp_path)
    while work.processor.sweep(last=True):
        pass
    work.restart()
    at_us = work.messages[-1].logged_us
    loaded = [Logged(2, at_us + 5_000_000, write(OTHER, "REFRESH", 4, "again"))]
    work.read_batch(2, [(90, loaded[0])], at_us + 6_000_000)
    assert work.count_waiting() == {("schema", None): 20, ("load", ("shop", "other")): 1}
    read_schema(work)
    assert work.names() == expected
    assert work.ledger.waiting().count == 0
    work.close()


def test_hold_takes_rows_out_of_a_unit_that_were_logged_after_what_is_read_and_holds_the_same_in_a_rerun(tmp_path: Path) -> None:
    work = Work(tmp_path)
    work.send(metadata_message(KIT), data_message(KIT, make_change(1)))
    values = [data_message(KIT, make_change(number, "REFRESH", change_sequence="", timestamp="")) for number in (2, 3)]
    work.now_us += 100 * SECOND_US
    unit = work.unit(values[0])
    read_us = work.now_us + 1
    work.now_us += SECOND_US
    later = work.unit(values[1], data_message(KIT, make_change(4)))
    unit = replace(unit, decoded=Decoded.join([unit.decoded, later.decoded]))
    step = LoadWaits(work.context)
    held = step.hold(unit, read_us)
    (part,) = held.held
    assert (part.table, part.cause, part.messages["offset"].to_pylist()) == (("shop", "kit"), "load", [3])
    assert (unit.decoded.rows_in_driver, held.decoded.rows_in_driver) == (3, 2)
    (again,) = step.hold(unit, work.now_us + 10 * SECOND_US).held
    assert again.messages.equals(part.messages), "its tables have the others already"
    assert step.hold(replace(unit, number=unit.number + 1), work.now_us + 10 * SECOND_US).held == []
    work.close()
