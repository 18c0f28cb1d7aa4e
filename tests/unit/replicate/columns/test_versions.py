"""A target table is a function of the set of changes: each history in every order, and in random micro-batches."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.replicate.codec import ColumnMetadata, TableMetadata
from headstream.replicate.columns.row_merge import KeyState, KnownRow, Written, join_key
from headstream.replicate.columns.row_versions import read_versions
from headstream.replicate.columns.versions import ABSENT_VERSION, moved_version, version_of
from tests.support.replicate.change_tables import COLUMNS, METADATA, change, sequence
from tests.support.replicate.target_tables import Target
from tests.support.tiers import some_of

NARROW = replace(METADATA, columns=COLUMNS[:3], lineage=replace(METADATA.lineage, table_version=2), schema_id="B" * 32)
WHOLE: tuple[Literal[1, 2], ...] = (1, 2)


def part(*names: str) -> set[str]:
    return {"ID", *names}


def cuts(changes: list[Any], seed: int) -> Iterable[list[Any]]:
    rng = random.Random(seed)
    while changes:
        size = rng.randint(1, len(changes))
        yield changes[:size]
        changes = changes[size:]


def end_of(
    directory: Path, batches: Iterable[list[tuple[dict[str, Any], TableMetadata]]], **settings: Any
) -> list[tuple[Any, ...]]:
    """Apply batches of changes, each with its schema, and return the open rows that they end in."""
    target = Target(directory, **settings)
    for batch in batches:
        for _, group in itertools.groupby(batch, key=lambda pair: pair[1].schema_id):
            pairs = list(group)
            target.apply(*(row for row, _ in pairs), metadata=pairs[0][1])
    rows = [row for row in target.stored() if row.get("_hs_current", True)]
    target.tables.close()
    shown = [(row["ID"], row["name"], row.get("note"), bool(row.get("_hs_deleted"))) for row in rows]
    return sorted(shown, key=lambda row: row[0])


def ends(tmp_path: Path, changes: list[tuple[dict[str, Any], TableMetadata]], **settings: Any) -> list[list[tuple[Any, ...]]]:
    """Return the different ends of a history over its orders, each cut at random and repeated in part."""
    orders = list(itertools.permutations(changes))
    chosen = some_of(orders if len(orders) <= 6 else random.Random(1).sample(orders, 6))
    found: list[list[tuple[Any, ...]]] = []
    for number, order in enumerate(chosen):
        delivery = [*order, order[number % len(order)]]
        end = end_of(tmp_path / str(number), cuts(delivery, number), **settings)
        if end not in found:
            found.append(end)
    return found


def test_a_partial_image_takes_no_value_of_another_row_when_keys_are_used_again(tmp_path: Path) -> None:
    history = [
        change("INSERT", 2, "a1", None, "b1", at=1),
        change("INSERT", 1, "a2", None, "b2", at=2),
        change("UPDATE", 9, "a3", None, "b3", at=3, old=1),
        change("UPDATE", 1, "a4", at=4, old=2, present=part("name")),
        change("UPDATE", 2, "a5", at=5, old=1, present=part("name")),
    ]
    assert ends(tmp_path, [(row, METADATA) for row in history]) == [[(2, "a5", "b1", False), (9, "a3", "b3", False)]]


def test_a_partial_image_takes_no_value_of_another_row_when_the_key_was_deleted_in_between(tmp_path: Path) -> None:
    history = [
        change("INSERT", 2, "a1", None, "b1", at=1),
        change("INSERT", 1, "a2", None, "b2", at=2),
        change("DELETE", 1, at=3),
        change("UPDATE", 1, "a4", at=4, old=2, present=part("name")),
        change("UPDATE", 2, "a5", at=5, old=1, present=part("name")),
    ]
    told = [(row, METADATA) for row in history]
    assert ends(tmp_path / "apply", told) == [[(2, "a5", "b1", False)]]
    assert ends(tmp_path / "soft", told, deletes="soft") == [[(1, "a4", "b1", True), (2, "a5", "b1", False)]]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
@pytest.mark.parametrize("scd_type", WHOLE)
@pytest.mark.parametrize("rising", [True, False])
def test_shifting_every_key_in_one_transaction_keeps_every_row(
    tmp_path: Path, order: tuple[int, ...], scd_type: int, rising: bool
) -> None:
    rows = [change("INSERT", key, f"a{key}", at=key) for key in (1, 2, 3)]
    for number, place in enumerate(order):
        key = place + 1
        moved = change("UPDATE", key + 1, f"a{key}", at=10 + number * rising, old=key)
        rows.append({**moved, "_hs_transaction": "T", "_hs_event": number + 1})
    expected = [(2, "a1", None, False), (3, "a2", None, False), (4, "a3", None, False)]
    assert ends(tmp_path, [(row, METADATA) for row in rows], scd_type=scd_type) == [expected]


@pytest.mark.parametrize("scd_type", WHOLE)
def test_swapping_two_keys_in_one_transaction_keeps_both_rows(tmp_path: Path, scd_type: int) -> None:
    rows = [change("INSERT", key, f"a{key}", at=key) for key in (1, 2)]
    rows += [
        {**change("UPDATE", 2, "a1", at=10, old=1), "_hs_transaction": "T", "_hs_event": 1},
        {**change("UPDATE", 1, "a2", at=11, old=2), "_hs_transaction": "T", "_hs_event": 2},
    ]
    expected = [(1, "a2", None, False), (2, "a1", None, False)]
    assert ends(tmp_path, [(row, METADATA) for row in rows], scd_type=scd_type) == [expected]


@pytest.mark.parametrize("scd_type", WHOLE)
def test_a_row_that_goes_there_and_back_in_one_transaction_is_one_row(tmp_path: Path, scd_type: int) -> None:
    rows = [
        change("INSERT", 1, "a1", at=1),
        {**change("UPDATE", 2, "a2", at=10, old=1), "_hs_transaction": "T", "_hs_event": 1},
        {**change("UPDATE", 1, "a3", at=11, old=2), "_hs_transaction": "T", "_hs_event": 2},
    ]
    assert ends(tmp_path, [(row, METADATA) for row in rows], scd_type=scd_type) == [[(1, "a3", None, False)]]


def test_rows_cross_within_their_own_transaction_when_its_id_is_used_again(tmp_path: Path) -> None:
    later = "2024010100000000" + sequence(20)[16:]
    rows = [
        {**change("UPDATE", 2, "a1", at=10, old=1), "_hs_transaction": "T", "_hs_event": 1},
        {**change("UPDATE", 3, "a2", at=20, old=2), "_hs_transaction": "T", "_hs_event": 2, "_hs_sequence": later},
        change("INSERT", 2, "a0", at=2),
        change("INSERT", 1, "a1", at=1),
    ]
    assert ends(tmp_path, [(row, METADATA) for row in rows]) == [[(3, "a2", None, False)]]


def test_a_softly_deleted_row_has_its_last_values_in_any_cut_and_order(tmp_path: Path) -> None:
    rows = [
        change("INSERT", 1, "1", None, "n", at=1),
        change("UPDATE", 1, "2", at=2, present=part("name")),
        change("DELETE", 1, at=3),
    ]
    assert ends(tmp_path / "1", [(row, METADATA) for row in rows], deletes="soft") == [[(1, "2", "n", True)]]
    whole = [change("INSERT", 1, "1", at=1), change("UPDATE", 1, "2", at=2), change("DELETE", 1, at=3)]
    assert ends(tmp_path / "2", [(row, METADATA) for row in whole], deletes="soft") == [[(1, "2", None, True)]]
    again = [*whole, change("INSERT", 1, "4", at=4)]
    assert ends(tmp_path / "3", [(row, METADATA) for row in again], deletes="soft") == [[(1, "4", None, False)]]


@pytest.mark.parametrize("scd_type", WHOLE)
def test_a_dropped_column_is_kept_by_updates_and_null_in_new_rows_in_any_order(tmp_path: Path, scd_type: int) -> None:
    first = (change("INSERT", 1, "a", None, "7", at=1), METADATA)
    again = [(change("DELETE", 1, at=2), NARROW), (change("INSERT", 1, "b", at=3), NARROW)]
    assert ends(tmp_path / "again", [first, *again], scd_type=scd_type) == [[(1, "b", None, False)]]
    changed = (change("UPDATE", 1, "b", at=2), NARROW)
    assert ends(tmp_path / "changed", [first, changed], scd_type=scd_type) == [[(1, "b", "7", False)]]
    between = (change("UPDATE", 1, "a", None, "8", at=2), METADATA)
    later = [(change("UPDATE", 1, "b", at=3), NARROW), (change("UPDATE", 1, "c", at=4), NARROW)]
    assert ends(tmp_path / "between", [first, between, *later], scd_type=scd_type) == [[(1, "c", "8", False)]]


def test_a_column_that_is_not_the_sources_is_left_alone(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(change("INSERT", 1, "a", at=1))
    table = DeltaTable(str(target.path))
    table.alter.add_columns([Field("mine", PrimitiveType("string"))])
    table.update({"mine": "'kept'"})
    target.reopen()
    target.apply(change("UPDATE", 1, "b", at=2), change("UPDATE", 1, name="c", at=3, present=part("name")))
    assert [(row["name"], row["mine"]) for row in target.stored()] == [("c", "kept")]


def test_a_late_change_of_key_leaves_one_row_when_later_deletions_are_forgotten(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(change("INSERT", 1, "a1", at=1))
    target.apply(change("UPDATE", 3, "a3", at=3, old=2), change("INSERT", 8, "b", at=4), change("DELETE", 8, at=5))
    assert not target.forget(kept_us=8, now_us=10)
    assert target.forget(kept_us=8, now_us=100)
    applied = target.apply(change("UPDATE", 2, "a2", at=2, old=1))
    assert target.names() == {3: "a3"}
    assert all("the table does not contain the row" in reason for reason in applied.rejected.values())


def test_a_key_column_grows_after_a_deletion_and_a_change_of_key(tmp_path: Path) -> None:
    small = replace(METADATA, columns=(ColumnMetadata("ID", 1, "INT4", 0, 0, 0, 1, False), *COLUMNS[1:]), schema_id="C" * 32)
    target = Target(tmp_path)
    target.apply(
        change("INSERT", 1, "a", at=1), change("INSERT", 2, "b", None, "n", at=2), change("INSERT", 5, "e", at=2), metadata=small
    )
    target.apply(change("DELETE", 1, at=5), change("UPDATE", 3, "b3", at=6, old=2, present=part("name")), metadata=small)
    grown = replace(METADATA, lineage=replace(METADATA.lineage, table_version=2))
    target.apply(change("DELETE", 5, at=7), change("INSERT", 1 << 40, "c", at=8), metadata=grown)
    target.reopen()
    late = [change("UPDATE", 1, "late", at=4), change("UPDATE", 2, note="n3", at=3, present=part("note"))]
    target.apply(*late, change("UPDATE", 1 << 41, "c9", at=9, old=1 << 40, present=part("name")), metadata=grown)
    assert target.rows() == {3: ("b3", None, "n3"), 1 << 41: ("c9", None, None)}


def test_a_change_of_key_says_what_it_waits_for_when_the_row_before_is_not_known(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = Target(tmp_path)
    target.apply(change("UPDATE", 2, "b", at=2, old=1, present=part("name")))
    assert target.rows() == {2: ("b", None, None)}
    assert f"key (2,): columns total, note are NULL because change {sequence(2)} changed the key" in caplog.text
    caplog.clear()
    target.apply(change("INSERT", 1, "a", "1", "n", at=1))
    assert target.rows() == {2: ("b", 1, "n")}
    assert caplog.text == ""


def test_a_change_of_key_says_what_is_missing_when_another_row_has_replaced_its_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = Target(tmp_path)
    target.apply(change("INSERT", 1, "a", "1", "n", at=1))
    target.apply(change("INSERT", 1, "b", "2", "m", at=4))
    late = (
        change("UPDATE", 1, name="a2", at=2, present=part("name")),
        change("UPDATE", 2, None, "3", at=3, old=1, present=part("total")),
    )
    target.apply(*late)
    assert target.rows() == {1: ("b", 2, "m"), 2: ("a2", 3, None)}
    assert f"key (2,): columns note are NULL because change {sequence(3)} changed the key" in caplog.text
    assert "another row has replaced the row that they wrote" in caplog.text


def test_changes_of_key_that_an_older_version_kept_are_followed(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(change("INSERT", 2, "a2", None, None, at=5), change("DELETE", 1, at=5), change("INSERT", 4, "d", at=1))
    own, absent = version_of(sequence(5)), ABSENT_VERSION
    text = f"'{own}{own}{absent}{absent}'"  # columns ID and name are of the change of key 1 -> 2, the others are not known yet
    DeltaTable(str(target.path)).update({"_hs_versions": text}, predicate="ID = 2")
    move = pa.table({"ID": pa.array([1], pa.int64()), "_hs_sequence": [sequence(5)], "_hs_to.ID": pa.array([2], pa.int64())})
    write_deltalake(str(target.tombstones / "_moves"), move)
    for _ in range(2):
        target.reopen()
        target.apply(change("INSERT", 1, "a1", "3", "n", at=1), change("UPDATE", 1, note="late", at=4, present=part("note")))
        assert target.rows() == {2: ("a2", 3, "late"), 4: ("d", None, None)}
    assert not (target.tombstones / "_moves").exists()


sequences = st.integers(1, 9).map(sequence)
rows = st.builds(
    lambda base, columns: KnownRow.of_columns(
        Written(version_of(sequence(base)), base) if base else KnownRow().base,
        {name: Written(version_of(sequence(at)), at) for name, at in columns.items() if at > base},
    ),
    st.integers(0, 9),
    st.dictionaries(st.sampled_from("abc"), st.integers(1, 9)),
)
facts = st.lists(st.tuples(st.booleans(), sequences, rows), min_size=1, max_size=5)


def stored(state: KeyState | None) -> tuple[list[str], list[tuple[str, KnownRow]]]:
    """What a state is as facts, as a table and its tombstones have it."""
    if state is None:
        return [], []
    return [state.deletion, state.floor], [(state.upsert, state.row)] if state.exists else []


def joined(*parts: list[tuple[bool, str, KnownRow]]) -> KeyState | None:
    """Join batches of facts one after the other, each to the state before it."""
    state: KeyState | None = None
    for batch in parts:
        deletions, upserts = stored(state)
        deletions += [at for deletes, at, _ in batch if deletes]
        upserts += [(row_at(row), row) for deletes, _, row in batch if not deletes and row.version != ABSENT_VERSION]
        state = join_key(deletions, upserts)
    return state


def row_at(row: KnownRow) -> str:
    return row.version.rstrip("-")


def shown(state: KeyState | None) -> Any:
    return None if state is None else (state.deletion, state.upsert, state.row if state.exists else None)


@settings(max_examples=300, deadline=None)
@given(facts, facts, facts)
def test_joining_facts_is_commutative_associative_and_idempotent(one: Any, two: Any, three: Any) -> None:
    expected = shown(joined([*one, *two, *three]))
    assert shown(joined(one, two, three)) == expected
    assert shown(joined(three, one, two)) == expected
    assert shown(joined([*two, *one], three)) == expected
    assert shown(joined(one, two, [*one, *three], two)) == expected


def test_versions_of_older_rows_are_read() -> None:
    text = version_of(sequence(5)) + ABSENT_VERSION + version_of(sequence(3))
    row, _ = read_versions(text, sequence(5), ["ID", "a", "b", "c"], 7)
    assert [row.at(name) for name in ("ID", "b")] == [Written(version_of(sequence(5)), 7), Written(version_of(sequence(3)), 7)]
    assert row.at("a").version == row.at("c").version == ABSENT_VERSION


written = st.builds(lambda at, source: Written(version_of(sequence(at)), source), st.integers(1, 9), st.integers(0, 2))
"""Some of one version are of different sources: the same change in two batches."""
wide_names = st.integers(0, 23).map("c{}".format)
wide_rows = st.builds(KnownRow.of_columns, written | st.just(KnownRow().base), st.dictionaries(wide_names, written, max_size=24))


@settings(max_examples=300, deadline=None)
@given(wide_rows, wide_rows, st.integers(1, 9))
def test_columns_are_joined_in_groups_as_they_are_one_by_one(one: KnownRow, two: KnownRow, deleted_at: int) -> None:
    names = [f"c{number}" for number in range(25)]  # the last one is in the images alone
    joined = one.join(two)
    for name in names:
        assert joined.at(name).version == max(one.at(name).version, two.at(name).version)
        assert joined.at(name) in (one.at(name), two.at(name), joined.base)
    floor = sequence(deleted_at)
    since, moved = one.since(floor), one.moved(sequence(20))
    for name in names:
        own = one.at(name)
        assert since.at(name).version == (own.version if own.version >= version_of(floor) else ABSENT_VERSION)
        assert moved.at(name).version == moved_version(own.version, sequence(20))
    for row in (joined, since, moved):
        assert all(row.groups.values())
        assert sum(map(len, row.groups.values())) == len(row.columns)
        assert all(found.version != row.base.version for found in row.groups)
