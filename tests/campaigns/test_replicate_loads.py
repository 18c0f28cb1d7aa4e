"""Full loads among changes: whatever the reading, the kills and the cut into micro-batches, always the source's rows.

Each seed is a history (tests/support/replicate/load_histories.py): a log of several partitions with loads at any point, given
up and begun again, last loads that never end, messages that are sent again loads later, tables truncated and changed without a
capture, late metadata, all forms of messages. Each is read in several ways, a reader ahead in one partition by any amount. The
rows must be the source's, which load_model.py also tells from the facts of the messages alone; with soft deletions every row
that is kept must be the same whatever the reading. The exceptions, with what must be so for each, are in
tests/support/replicate/load_exceptions.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from headstream.replicate.settings.registry_settings import RegistrySettings
from headstream.replicate.settings.table_settings import TableRules, TableSettings
from tests.campaigns.test_replicate_delivery import Crashes
from tests.support.crashes import CrashError
from tests.support.replicate.bucketed_changes import BucketedWork
from tests.support.replicate.load_delivery import Cut, HistoryWork, cut_history, deliver
from tests.support.replicate.load_exceptions import Warned, is_expected, late_moves_until, unknown_moves, warned_moves
from tests.support.replicate.load_histories import History, Row, draw_history
from tests.support.replicate.load_model import expected_rows
from tests.support.replicate.pipeline_work import OpenEngine
from tests.support.replicate.plain_engine import open_plain_engine
from tests.support.tiers import some_of

MODES: dict[str, dict[str, Any]] = {
    "type 1": {},
    "soft": {"deletes": "soft"},
    "type 2": {"scd_type": 2},
    "type 2, soft": {"scd_type": 2, "deletes": "soft"},
    "atomic": {"atomic": True},
}
_STYLES: list[str | None] = ["once", None]
"""How a history is read: all at once, which costs least, and in some other way, which must come to the same."""
_CRASHES = 3


def read_history(
    directory: Path,
    history: History,
    cut: Cut,
    mode: str,
    *,
    seed: int | None = None,
    ends_runs: bool = False,
    open_engine: OpenEngine = open_plain_engine,
    executors: Callable[..., HistoryWork] | None = None,
) -> tuple[dict[str, list[Row]], Warned]:
    """Read a history in one way; return every row of its tables, and the changes of key that were warned of.

    A seed lets steps be cut off, and be done again; `ends_runs` is as of deliver(). `executors` makes the work of a
    pipeline whose changes are merged where they were decoded.
    """
    settings = dict(MODES[mode])
    atomic = settings.pop("atomic", False)
    options: dict[str, Any] = {"topic_tables": {"cdc/data": "shop.t"}} if history.scenario.bare_json else {}
    if history.schemas:
        options["registry"] = RegistrySettings(directory=_write_schemas(directory, history))
    rules = TableRules(defaults=TableSettings(**settings))
    if executors is not None:
        options["change_tables"] = directory / "changes"
        work: HistoryWork = executors(directory, rules=rules, atomic=atomic, **options)
    else:
        options |= {"change_tables": directory / "changes", "open_engine": open_engine}
        work = HistoryWork(directory, rules=rules, atomic=atomic, **options)
    with pytest.MonkeyPatch.context() as patch, warned_moves() as warned:
        disturb = None if seed is None else _disturb(work, Crashes(patch), Random(seed))
        deliver(work, cut, disturb=disturb, ends_runs=ends_runs)
    assert work.ledger.waiting().count == 0, work.ledger.waiting()
    assert work.dead_count() == 0, [parked_batch.reason for parked_batch in work.ledger.parked_batches("dead")]
    found = {table: work.table(table) for table in history.rows}
    told = [(row["_hs_partition"], row["_hs_offset"]) for table in history.rows for row in work.changes(table)]
    assert len(told) == len(set(told)) == sum(map(len, history.partitions)) - history.metadata_count
    work.close()
    return found, warned


def _write_schemas(directory: Path, history: History) -> Path:
    place = directory / "registry"
    place.mkdir(parents=True)
    for number, schema in history.schemas.items():
        (place / f"{number}.avsc").write_text(schema)
    return place


def _disturb(work: HistoryWork, fault: Crashes, random: Random) -> Any:
    def disturb(raw: pa.Table, batch_id: int) -> bool:
        begun = random.random() < 0.1
        while fault.count < _CRASHES and random.random() < 0.6:
            fault.plan(random)
            try:
                work.process(raw, batch_id)
                work.processor.sweep()
            except CrashError:
                begun = True
            fault.left = None
            work.restart()
            if random.random() < 0.5:
                work.processor.sweep()
        return begun

    return disturb


def shown(history: History, rows: list[Row], table: str) -> list[tuple[Any, ...]]:
    """The rows that the source has, by the columns that it has."""
    return in_order(history, there(rows), table)


def there(rows: list[Row]) -> list[Row]:
    """The rows that are there now."""
    return [row for row in rows if row.get("_hs_current", True) and not row.get("_hs_deleted")]


def in_order(history: History, rows: list[Row], table: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.get(name) for name in history.columns[table]) for row in rows), key=repr)


def kept(history: History, rows: list[Row], table: str, *, ends_above: str = "") -> list[tuple[Any, ...]]:
    """Every row that a table keeps, with what it says of when it was there.

    Args:
        history: The history.
        rows: The rows.
        table: The table.
        ends_above: Versions that begin at or below this place are without their ends, and deletions that found no row are left
            out; the ends of all versions if it is empty.
    """
    names = [*history.columns[table], "_hs_valid_from", "_hs_current", "_hs_deleted"]
    found = []
    for row in rows:
        if ends_above and row["_hs_deleted"] and row["_hs_valid_from"] == row["_hs_valid_to"]:
            continue
        has_end = row.get("_hs_valid_from", "") > ends_above or not ends_above
        found.append((*(row.get(name) for name in names), row.get("_hs_valid_to") if has_end else None))
    return sorted(found, key=repr)


def _fitting(mode: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return scenarios of histories that a mode can apply, with the given fields."""
    if MODES[mode].get("scd_type") == 2:  # a history needs keys, and whole changes of them
        return {"keyless": False, "key_changes": "whole"} | given
    return {"flat": False} | given if mode == "atomic" else given  # that form has no number within the transaction


def _modes(*first: str) -> list[Any]:
    """Return all modes as parameters, of which those given are in the first tier."""
    return [pytest.param(mode, marks=() if mode in first else pytest.mark.nightly) for mode in MODES]


def check(
    directory: Path,
    seed: int,
    mode: str,
    *,
    crash: bool = False,
    open_engine: OpenEngine = open_plain_engine,
    executors: Callable[..., HistoryWork] | None = None,
    readings: Sequence[int] = range(len(_STYLES)),
    **given: Any,
) -> None:
    """Read a seed's history in several ways, those of _STYLES, and compare."""
    given = _fitting(mode, given)
    history = draw_history(seed, **given)
    first: dict[str, list[Row]] = {}
    for number in readings:
        cut = cut_history(history, seed * 100 + number, style=_STYLES[number])
        faults = seed * 100 + number if crash else None
        found, warned = read_history(
            directory / f"{number}", history, cut, mode, seed=faults, open_engine=open_engine, executors=executors
        )
        atomic = mode == "atomic"
        for table, rows in found.items():
            expected = in_order(history, list(history.rows[table].values()), table)
            unknown = unknown_moves(history, cut, table, warned, atomic=atomic)
            assert shown(history, rows, table) == expected or (unknown and is_expected(history, there(rows), table, unknown)), (
                f"seed {seed}, cut {number} ({cut.style}), table {table}, {mode}, {given}"
            )
            if mode != "type 1" and not unknown:
                above = late_moves_until(history, cut, table, atomic=atomic) if MODES[mode].get("scd_type") == 2 else ""
                same = first.setdefault(table, rows)
                assert kept(history, rows, table, ends_above=above) == kept(history, same, table, ends_above=above), (
                    f"seed {seed}, cut {number} ({cut.style}), table {table}, {mode}, {given}"
                )


def test_model_tells_the_rows_of_the_source_from_the_facts_of_its_messages() -> None:
    for seed in some_of(range(200)):
        history = draw_history(seed, abandoned=False, repeats=False)  # of those the rows are the model's own
        facts = history.facts
        Random(seed).shuffle(facts)
        for table, rows in history.rows.items():
            found, wanted = list(expected_rows(facts, table).values()), list(rows.values())
            assert in_order(history, found, table) == in_order(history, wanted, table), f"seed {seed}"


@pytest.mark.parametrize("seed", range(1000, 1006))
@pytest.mark.parametrize("mode", MODES)
def test_tables_equal_the_source_with_loads_whatever_the_reading(tmp_path: Path, seed: int, mode: str) -> None:
    check(tmp_path, seed, mode)


@pytest.mark.parametrize("seed", range(2000, 2004))
@pytest.mark.parametrize("mode", _modes("type 2, soft", "atomic"))
def test_tables_equal_the_source_with_loads_whatever_is_cut_off(tmp_path: Path, seed: int, mode: str) -> None:
    check(tmp_path, seed, mode, crash=True)


@pytest.mark.parametrize("seed", range(4000, 4006))
@pytest.mark.parametrize("mode", _modes("soft"))
def test_tables_equal_the_source_with_loads_when_executors_merge_by_bucket_of_keys(tmp_path: Path, seed: int, mode: str) -> None:
    check(tmp_path, seed, mode, executors=BucketedWork, crash=seed % 2 == 0)


@pytest.mark.parametrize("seed", range(4100, 4104))
@pytest.mark.parametrize("mode", _modes("type 2", "atomic"))
def test_executors_write_what_the_driver_would_with_all_bookkeeping(tmp_path: Path, seed: int, mode: str) -> None:
    check_same(tmp_path, seed, mode)


def check_same(directory: Path, seed: int, mode: str, **given: Any) -> None:
    """Read a seed's history in the driver and by bucket of keys, and compare every column."""
    given = _fitting(mode, given)
    history = draw_history(seed, **given)
    cut = cut_history(history, seed)
    found = [
        read_history(directory / f"{number}", history, cut, mode, executors=executors)[0]
        for number, executors in enumerate((None, BucketedWork))
    ]
    for table in history.rows:
        own, other = (sorted(map(repr, rows[table])) for rows in found)
        assert own == other, f"seed {seed}, {cut.style}, table {table}, {mode}, {given}"


def check_runs(directory: Path, seed: int, mode: str, *, crash: bool = False) -> None:
    """Read a history whose metadata comes late in many runs, each of which ends waiting for schemas, and compare."""
    given = dict.fromkeys(("bare_json", "flat", "registry", "keyless"), False) | {"key_changes": "whole"}
    given |= {"abandoned": False, "repeats": False}
    history = draw_history(seed, late_metadata=True, overtaken=True, evolves=True, **given)
    cut = cut_history(history, seed, style="even")
    found, _ = read_history(directory, history, cut, mode, seed=seed if crash else None, ends_runs=True)
    for table, rows in found.items():
        expected = in_order(history, list(history.rows[table].values()), table)
        assert shown(history, rows, table) == expected, f"seed {seed}, table {table}, {mode}"


@pytest.mark.parametrize("seed", range(3000, 3004))
@pytest.mark.parametrize("crash", [False, True])
def test_tables_equal_the_source_when_runs_end_while_schemas_are_missing(tmp_path: Path, seed: int, crash: bool) -> None:
    check_runs(tmp_path, seed, ["type 1", "soft", "type 2", "type 2, soft"][seed % 4], crash=crash)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(30_000, 30_500, 50))
def test_tables_equal_the_source_when_runs_end_while_schemas_are_missing_for_long(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 50):
        check_runs(tmp_path / str(seed), seed, ["type 1", "soft", "type 2", "type 2, soft"][seed % 4], crash=seed % 3 == 0)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(10_000, 15_000, 50))
def test_tables_equal_the_source_with_loads_for_long(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 50):
        mode = list(MODES)[seed % len(MODES)]
        check(tmp_path / str(seed), seed, mode, crash=seed % 3 == 0)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(45_000, 46_000, 50))
def test_tables_equal_the_source_with_loads_for_long_when_executors_merge(tmp_path: Path, first: int) -> None:
    for seed in range(first, first + 50):
        mode = list(MODES)[seed % len(MODES)]
        check(tmp_path / str(seed), seed, mode, executors=BucketedWork, crash=seed % 3 == 0)
