from __future__ import annotations

import random
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from headstream.replicate.apply.moved_keys.key_log import KeyLog
from headstream.replicate.apply.tombstones import Tombstones
from headstream.replicate.apply.type1.merge import Scd1Table
from headstream.replicate.columns.loads import TableNotice
from headstream.replicate.engines.engine import RowCounts
from headstream.replicate.tables.table_memory import TableMemory
from tests.support.crashes import CrashError
from tests.support.replicate.change_tables import METADATA, change, sequence
from tests.support.replicate.target_tables import Target


def load(key: int, name: str, *, logged_us: int) -> dict[str, Any]:
    return change("REFRESH", key, name, logged_us=logged_us)


def update(key: int, name: str, *, at: int) -> dict[str, Any]:
    return change("UPDATE", key, name, at=at, logged_us=at)


def test_a_first_load_stays_below_every_change_when_it_comes_late(tmp_path: Path) -> None:
    target = Target(tmp_path, load_gap_us=1000)
    target.apply(update(1, "changed", at=10))
    target.apply(load(1, "loaded", logged_us=5), load(2, "loaded", logged_us=20))
    assert target.names() == {1: "changed", 2: "loaded"}


def test_a_reload_replaces_what_was_changed_before_it(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(load(1, "first", logged_us=1), update(1, "changed", at=10))
    target.apply(load(1, "reloaded", logged_us=20))
    assert target.names() == {1: "reloaded"}
    target.apply(update(1, "later", at=30))
    assert target.names() == {1: "later"}


def test_a_reload_removes_rows_that_vanished_once_a_change_says_that_it_is_over(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(load(1, "a", logged_us=1), load(2, "b", logged_us=2), update(2, "b2", at=10))
    target.apply(load(1, "a again", logged_us=20))
    assert set(target.names()) == {1, 2}, "an interrupted load removes nothing"
    target.apply(update(1, "after", at=30))
    assert target.names() == {1: "after"}
    target.apply(update(2, "a late one", at=9))
    assert set(target.names()) == {1}, "what a finished load did not bring stays away"


@pytest.mark.parametrize("keys", [{1, 2, 3}, {3}], ids=["rows", "one row"])
@pytest.mark.parametrize("has_key", [True, False])
def test_a_snapshot_whose_last_row_is_marked_replaces_the_one_before_without_a_further_change(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, has_key: bool, keys: set[int]
) -> None:
    columns = METADATA.columns if has_key else tuple(replace(column, primary_key_position=0) for column in METADATA.columns)
    target, second = Target(tmp_path, load_gap_us=300_000_000), 10_000_000
    for at_us in (second, 2 * second):
        rows = [load(key + at_us, "a", logged_us=at_us + key) | {"_hs_offset": at_us + key} for key in sorted(keys)]
        marks = [("load", min(keys)), ("loaded", max(keys))][-len(keys) :]
        target.tables.note(TableNotice("shop", "orders", kind, "", at_us + key) for kind, key in marks)
        rows = [{name: value for name, value in row.items() if has_key or not name.startswith("_hs_old.")} for row in rows]
        target.apply(*rows, metadata=replace(METADATA, columns=columns))
        target.tables.remove_vanished_rows()
    assert sorted(row["ID"] for row in target.stored()) == [key + 2 * second for key in sorted(keys)]
    assert ("shop.orders has no key, and another snapshot" in caplog.text) == (not has_key and len(keys) > 1)


def test_a_reload_that_is_over_removes_what_vanished_when_the_next_one_is_not_over(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(
        *(load(1, "a", logged_us=1), load(2, "b", logged_us=2), update(2, "b2", at=10), load(1, "a2", logged_us=20)),
        *(update(1, "a3", at=30), load(1, "a4", logged_us=40)),
    )
    target.tables.remove_vanished_rows()
    assert target.names() == {1: "a4"}


@pytest.mark.parametrize("settles", [True, False])
def test_a_version_ends_alike_whether_its_row_comes_before_or_after_the_load_counts_as_over(
    tmp_path: Path, settles: bool
) -> None:
    target = Target(tmp_path, scd_type=2)
    later = [
        [load(1, "a", logged_us=1), load(2, "b", logged_us=2), load(3, "c", logged_us=3), update(1, "a2", at=10)],
        [load(1, "a3", logged_us=20), update(1, "a4", at=30)],
        [load(2, "b2", logged_us=31), change("UPDATE", 3, "c2", at=40, logged_us=40, present={"ID", "name"})],
    ]
    for batch in later:
        target.apply(*batch)
        if settles:
            target.tables.remove_vanished_rows()
    target.tables.remove_vanished_rows()
    ends = {(row["name"], row["_hs_valid_to"]) for row in target.stored() if row["ID"] > 1}
    assert ends == {("b", f"{sequence(10)}.{19:016d}"), ("b2", None), ("c", sequence(40)), ("c2", None)}


def test_a_reload_loses_to_changes_captured_meanwhile(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(load(1, "a", logged_us=1), update(1, "b", at=10))
    meanwhile = [change("INSERT", 3, "new", at=21, logged_us=40), change("DELETE", 1, at=22, logged_us=41)]
    target.apply(load(1, "loaded", logged_us=20), load(2, "loaded", logged_us=30), *meanwhile)
    target.tables.remove_vanished_rows()
    assert target.names() == {2: "loaded", 3: "new"}


def test_an_interrupted_load_goes_on_and_its_later_rows_win(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(load(1, "a", logged_us=1), load(2, "b", logged_us=1), load(3, "c", logged_us=1), update(1, "x", at=10))
    target.apply(load(1, "cut off", logged_us=20))
    target.reopen()
    target.apply(load(1, "resumed", logged_us=60), load(2, "resumed", logged_us=61))
    assert target.names() == {1: "resumed", 2: "resumed", 3: "c"}
    target.apply(update(2, "end", at=90))
    assert target.names() == {1: "resumed", 2: "end"}


def test_rows_of_a_load_that_come_after_it_was_taken_for_over_are_there_again(tmp_path: Path) -> None:
    target = Target(tmp_path, load_gap_us=1000)
    target.apply(load(1, "a", logged_us=1), load(2, "b", logged_us=2), update(1, "x", at=10))
    target.apply(load(1, "again", logged_us=5000))
    target.apply(update(1, "after", at=5010))
    assert set(target.names()) == {1}
    target.apply(load(2, "again", logged_us=5005))
    assert target.names() == {1: "after", 2: "again"}


def test_a_change_logged_before_a_reload_and_read_after_it_does_not_overwrite_it(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(load(1, "a", logged_us=1), update(1, "b", at=10))
    target.apply(load(1, "reloaded", logged_us=50))
    target.apply(update(1, "read late", at=40))
    assert target.names() == {1: "reloaded"}


def test_a_row_loaded_again_as_it_is_writes_nothing(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(load(1, "a", logged_us=1), load(2, "b", logged_us=1))
    applied = target.apply(load(1, "a", logged_us=2), load(2, "b2", logged_us=2))
    assert applied.counts["shop", "orders"] == RowCounts(updated=1)
    assert target.names() == {1: "a", 2: "b2"}


def test_a_load_begun_by_hand_removes_nothing_before_it_has_rows(tmp_path: Path) -> None:
    target = Target(tmp_path, load_gap_us=1000)
    target.apply(load(1, "a", logged_us=1), load(2, "b", logged_us=1), update(1, "x", at=10))
    target.tables.begin_load("shop", "orders", 20)
    target.apply(update(2, "y", at=30))
    target.tables.remove_vanished_rows()
    assert target.names() == {1: "x", 2: "y"}
    target.apply(load(1, "loaded", logged_us=40))
    target.tables.end_load("shop", "orders")
    assert target.tables.remove_vanished_rows().counts == {}, "a change newer than the floor is no vanished row"
    assert target.names() == {1: "loaded", 2: "y"}


STEPS = [(TableMemory, "keep"), (Scd1Table, "merge"), (Scd1Table, "end_load"), (Tombstones, "prune")]
STEPS += [(Tombstones, "record")]


@pytest.mark.every_combination
@pytest.mark.parametrize(("owner", "method"), STEPS, ids=lambda value: getattr(value, "__name__", str(value)))
@pytest.mark.parametrize("call", [1, pytest.param(2, marks=pytest.mark.nightly), pytest.param(3, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_reload_ends_the_same_when_a_step_of_it_is_cut_off_and_the_unit_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: type, method: str, call: int, when: str
) -> None:
    target = Target(tmp_path)
    units = [
        [load(1, "a", logged_us=1), load(2, "b", logged_us=1), change("DELETE", 2, at=5, logged_us=5), update(1, "x", at=10)],
        [load(1, "again", logged_us=20), load(3, "new", logged_us=21)],
        [change("DELETE", 3, at=30, logged_us=30), change("INSERT", 4, "d", at=31, logged_us=31)],
        [update(4, "dd", at=40)],
    ]
    original, calls = getattr(owner, method), 0

    def crashing(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call and when == "before":
            raise CrashError
        result = original(*arguments)
        if calls == call:
            raise CrashError
        return result

    monkeypatch.setattr(owner, method, crashing)
    for unit in units:
        try:
            target.apply(*unit)
        except CrashError:
            target.reopen()
            target.apply(*unit, again=True)
    assert target.names() == {1: "again", 4: "dd"}


def reload_history(rng: random.Random) -> tuple[list[list[dict[str, Any]]], dict[int, str]]:
    """Parts of a history with reloads, each part in log order, and the rows it ends with."""
    state: dict[int, str] = {}
    parts: list[list[dict[str, Any]]] = []
    at = 100
    for _ in range(rng.randint(1, 3)):
        state = {key: f"gap{at}" for key in range(8) if rng.random() < 0.6}  # unseen: the source moved on without us
        snapshot, part = dict(state), []
        meanwhile = []
        for _ in range(rng.randint(0, 4)):
            at += 1
            meanwhile.append(random_change(rng, state, at))
        loaded = list(snapshot.items())
        for key, name in loaded[: rng.randint(0, len(loaded))] if rng.random() < 0.5 else []:
            at += 1
            part.append(load(key, f"{name} cut off", logged_us=at))  # interrupted, and begun again
        for key, name in loaded:
            at += 1
            part.append(load(key, name, logged_us=at))
        for caught in meanwhile:
            at += 1
            part.append({**caught, "_hs_logged_us": at})
        for _ in range(rng.randint(3, 12)):
            at += 1
            part.append(random_change(rng, state, at))
        parts.append(part)
    return parts, state


def random_change(rng: random.Random, state: dict[int, str], at: int) -> dict[str, Any]:
    key = rng.randrange(8)
    if key in state and rng.random() < 0.3:
        del state[key]
        return change("DELETE", key, at=at, logged_us=at)
    verb = "UPDATE" if key in state else "INSERT"
    state[key] = f"n{at}"
    return change(verb, key, state[key], at=at, logged_us=at)


@pytest.mark.parametrize("seed", range(25))
def test_reloads_end_as_the_source_when_units_are_cut_anywhere_and_repeated(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    parts, state = reload_history(rng)
    target = Target(tmp_path)
    messages = [message for part in parts for message in part]
    position = 0
    while position < len(messages):
        size = rng.randint(1, 12)
        unit = messages[position : position + size]
        if rng.random() < 0.3:
            unit = unit + rng.sample(messages[: position + size], min(3, position + size))  # read again, out of turn
        rng.shuffle(unit)  # partitions are read side by side
        target.apply(*unit)
        position += size
        if rng.random() < 0.2:
            target.reopen()
            target.apply(*unit, again=True)
    target.tables.remove_vanished_rows()
    assert target.names() == state, f"seed {seed}"
    assert all(row["_hs_sequence"] > sequence(0) or row["_hs_sequence"].startswith(".") for row in target.stored())


def move(
    before: int, key: int, name: str | None = None, *, at: int, event: int, present: set[str] | None = None
) -> dict[str, Any]:
    told = change("UPDATE", key, name, at=at, old=before, present=present, logged_us=at)
    return told | {"_hs_transaction": "crossing", "_hs_event": event}


@pytest.mark.parametrize("load_is_late", [True, False])
@pytest.mark.parametrize("deletes", ["hard", "soft"])
def test_a_change_of_key_does_not_take_a_row_along_that_a_load_has_ended(
    tmp_path: Path, deletes: str, load_is_late: bool
) -> None:
    target = Target(tmp_path, deletes=deletes)
    target.apply(load(1, "gone", logged_us=1), load(5, "stays", logged_us=2), update(5, "s", at=10))
    reload, rows = [load(5, "s2", logged_us=20)], [change("INSERT", 4, "d", at=30, logged_us=30)]
    crossing = [move(4, 1, "arrives", at=40, event=1), move(1, 3, at=41, event=2, present={"ID"})]
    for batch in ([*rows, *crossing], reload) if load_is_late else (reload, rows, crossing):
        target.apply(*batch)
        target.tables.remove_vanished_rows()
    there = {row["ID"]: row["name"] for row in target.stored() if not row.get("_hs_deleted")}
    assert there == {3: "arrives", 5: "s2"}


@pytest.mark.parametrize("load_is_late", [True, False])
def test_a_history_departs_with_the_row_that_arrived_when_a_load_has_ended_the_one_before(
    tmp_path: Path, load_is_late: bool
) -> None:
    target = Target(tmp_path, scd_type=2)
    target.apply(load(1, "gone", logged_us=1), load(5, "stays", logged_us=2), update(5, "s", at=10))
    reload, rows = [load(5, "s2", logged_us=20)], [change("INSERT", 4, "d", at=30, logged_us=30)]
    crossing = [move(4, 1, "arrives", at=40, event=1), move(1, 3, "arrives", at=41, event=2)]
    for batch in ([*rows, *crossing], reload) if load_is_late else (reload, rows, crossing):
        target.apply(*batch)
        target.tables.remove_vanished_rows()
    found = {(row["ID"], row["name"], row["_hs_valid_to"]) for row in target.stored() if row["ID"] in (1, 3)}
    assert found == {(1, "gone", sequence(40)), (1, "arrives", sequence(41)), (3, "arrives", None)}


@pytest.mark.parametrize("late", [True, False])
def test_a_history_departs_with_the_older_row_in_each_of_several_transactions(tmp_path: Path, late: bool) -> None:
    target = Target(tmp_path, scd_type=2, deletes="soft")
    first = [change("INSERT", key, name, at=key) for key, name in enumerate("abc", start=1)]
    moves = [move(1, 2, "a", at=10, event=1), move(2, 8, "b", at=11, event=2)]
    moves += [m | {"_hs_transaction": "next"} for m in (move(3, 2, "c", at=20, event=1), move(2, 9, "a", at=21, event=2))]
    for batch in (moves, first) if late else (first, moves):
        target.apply(*batch)
    found = {(row["name"], row["_hs_valid_from"], row["_hs_valid_to"]) for row in target.stored() if row["ID"] == 2}
    assert found == {("b", sequence(2), sequence(10)), ("a", sequence(10), sequence(20)), ("c", sequence(20), None)}


@pytest.mark.parametrize("waits", [True, False])
def test_a_history_departs_with_the_row_of_a_load_when_that_row_had_waited_until_later_loads_were_over(
    tmp_path: Path, waits: bool
) -> None:
    target = Target(tmp_path, scd_type=2, deletes="soft")
    target.apply(load(9, "x", logged_us=1), update(9, "y", at=10), load(9, "z", logged_us=20))
    of_load = [load(1, "departs", logged_us=20)]
    crossing = [move(4, 1, "arrives", at=21, event=1), move(1, 3, "departs", at=22, event=2)]
    later = [load(9, "u", logged_us=30), move(9, 8, "u", at=40, event=1) | {"_hs_transaction": "later"}]
    for batch in (crossing, later, of_load) if waits else (of_load, crossing, later):
        target.apply(*batch)
        target.tables.remove_vanished_rows()
        target.maintain(may_forget=not waits or batch is of_load)
    end = f"{sequence(22)}.{29:016d}"
    found = {(row["ID"], row["name"], row["_hs_valid_to"]) for row in target.stored() if row["ID"] in (1, 3)}
    assert found == {(1, "departs", sequence(21)), (1, "arrives", end), (3, "departs", end)}
    assert set(KeyLog(target.tombstones, ["ID"]).keys()) == {(8,), (9,)}, "what is obsolete is forgotten once nothing waits"


def test_a_version_that_a_load_has_closed_stays_closed_when_later_versions_ended_before_the_next_change(tmp_path: Path) -> None:
    target = Target(tmp_path, scd_type=2)
    target.apply(load(1, "a", logged_us=1), load(2, "b", logged_us=2), update(2, "b2", at=10))
    target.apply(load(2, "b3", logged_us=20), update(2, "b4", at=30))
    target.tables.remove_vanished_rows()
    target.apply(load(1, "again", logged_us=31), change("DELETE", 1, at=40, logged_us=40))
    target.apply(change("INSERT", 1, "new", at=50, logged_us=50))
    found = {(row["name"], row["_hs_valid_to"]) for row in target.stored() if row["ID"] == 1}
    assert found == {("a", f"{sequence(10)}.{19:016d}"), ("again", sequence(40)), ("new", None)}


@pytest.mark.parametrize("scd_type", [1, 2])
def test_a_load_is_settled_as_soft_deletions_ask_for_when_the_process_has_just_begun(tmp_path: Path, scd_type: int) -> None:
    target = Target(tmp_path, deletes="soft", scd_type=scd_type)
    target.apply(load(1, "a", logged_us=1), load(2, "b", logged_us=2), update(2, "b2", at=10), load(2, "b3", logged_us=20))
    target.tables.end_load("shop", "orders")
    target.reopen()
    target.tables.remove_vanished_rows()
    gone = [row for row in target.stored() if row["ID"] == 1]
    assert [(row["name"], row["_hs_deleted"] if scd_type == 1 else not row["_hs_current"]) for row in gone] == [("a", True)]
    target.apply(load(1, "a", logged_us=30))
    there = [row["name"] for row in target.stored() if row["ID"] == 1 and row.get("_hs_current", not row["_hs_deleted"])]
    assert there == ["a"], "the load brings it as it was"


@pytest.mark.parametrize("deletes", ["hard", "soft"])
def test_rows_of_a_load_that_come_again_write_nothing_when_changes_of_key_connect_them(tmp_path: Path, deletes: str) -> None:
    target = Target(tmp_path, deletes=deletes)
    changes = [change("INSERT", 3, "c", at=5), move(3, 4, at=6, event=1, present={"ID"})]
    changes += [change("UPDATE", 1, "a2", at=7, present={"ID", "name"}), change("DELETE", 2, at=8)]
    target.apply(*(load(key, "x", logged_us=1) for key in (1, 2, 4)), *changes)
    before = target.stored()
    applied = target.apply(*(load(key, "x", logged_us=2) for key in (1, 2, 4)), *changes)
    assert all(counts == RowCounts() for counts in applied.counts.values()), applied.counts
    assert target.stored() == before


@pytest.mark.parametrize("ends_first", [True, False])
@pytest.mark.parametrize("deletes", ["hard", "soft"])
def test_columns_from_before_a_load_that_did_not_contain_their_row_are_null(
    tmp_path: Path, deletes: str, ends_first: bool
) -> None:
    target = Target(tmp_path, deletes=deletes)
    target.apply(change("INSERT", 1, "a", "1", "old", at=1, logged_us=1), change("INSERT", 2, "b", at=2, logged_us=2))
    target.apply(load(2, "loaded", logged_us=10))
    partial = change("UPDATE", 1, "a2", at=20, logged_us=20, present={"ID", "name"})
    whole = change("INSERT", 3, "c", at=21, logged_us=21)
    for unit in ([whole], [partial]) if ends_first else ([partial], [whole]):
        target.apply(*unit)
        target.tables.remove_vanished_rows()
    assert target.rows() == {1: ("a2", None, None), 2: ("loaded", None, None), 3: ("c", None, None)}
    before = target.stored()
    target.apply(change("UPDATE", 1, note="late", at=2, logged_us=2, present={"ID", "note"}))
    target.tables.remove_vanished_rows()
    assert target.stored() == before, "older than what has ended"
    target.apply(change("UPDATE", 1, note="new", at=30, logged_us=30, present={"ID", "note"}))
    target.apply(load(1, "brought late", logged_us=11))
    target.tables.remove_vanished_rows()
    assert target.rows()[1] == ("a2", None, "new")


def test_a_partial_change_of_key_that_comes_again_after_a_load_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = Target(tmp_path, deletes="soft")
    partial = move(1, 2, "b", at=2, event=1, present={"ID", "name"})
    target.apply(change("INSERT", 1, "a", "1", "old", at=1, logged_us=1), partial, update(5, "x", at=30))
    target.apply(load(5, "loaded", logged_us=40))
    target.apply(update(5, "y", at=50))
    target.tables.remove_vanished_rows()
    shown = itemgetter("ID", "name", "note", "_hs_deleted", "_hs_sequence")
    before = sorted(map(shown, target.stored()))
    assert [row[:4] for row in before[:2]] == [(1, "a", "old", True), (2, "b", "old", True)]
    target.apply(partial)
    target.tables.remove_vanished_rows()
    assert sorted(map(shown, target.stored())) == before
    assert "nulls" not in caplog.text
