from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.replicate.change_tables import METADATA, change, sequence
from tests.support.replicate.histories import deliver, random_history, tell
from tests.support.replicate.target_tables import Target


def versions(target: Target) -> dict[int, list[tuple[Any, ...]]]:
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in sorted(target.stored(), key=lambda row: str(row["_hs_valid_from"])):
        if row["_hs_valid_from"] != row["_hs_valid_to"]:
            version = (row["_hs_valid_from"], row["_hs_valid_to"], row["name"], row["total"], row["note"], row["_hs_deleted"])
            found.setdefault(row["ID"], []).append(version)
    return found


def reason(target: Target) -> str:
    applied = target.apply(change("INSERT", 9, "x", at=900), fails=True)
    return str(next(iter(applied.failed.values())))


def test_history_is_the_sorted_one_when_scd_type_is_2(tmp_path: Path) -> None:
    target = Target(tmp_path, scd_type=2)
    changes = [row for row in random_history(9, 45) if row["_hs_sequence"]]
    for batch in deliver(changes, 9):
        target.apply(*batch)
    assert versions(target) == tell(changes)


def test_reload_closes_versions_that_it_did_not_bring(tmp_path: Path) -> None:
    target = Target(tmp_path, scd_type=2)
    target.apply(change("INSERT", 1, "a", at=1) | {"_hs_logged_us": 10}, change("INSERT", 2, "b", at=2) | {"_hs_logged_us": 11})
    target.apply(change("REFRESH", 1, "a") | {"_hs_logged_us": 20})
    target.apply(change("INSERT", 3, "c", at=5) | {"_hs_logged_us": 30})
    loaded, gone = f"{sequence(2)}.{20:016d}", f"{sequence(2)}.{19:016d}"  # just before the load's first row
    expected = {1: [(sequence(1), loaded), (loaded, None)], 2: [(sequence(2), gone)], 3: [(sequence(5), None)]}
    assert {key: [row[:2] for row in rows] for key, rows in versions(target).items()} == expected
    target.reopen()
    target.apply(change("DELETE", 3, at=7) | {"_hs_logged_us": 40})
    assert versions(target)[3][-1][:2] == (sequence(5), sequence(7))


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_table_says_so_when_its_scd_type_is_changed(tmp_path: Path, before: int, after: int) -> None:
    target = Target(tmp_path, scd_type=before)
    target.apply(change("INSERT", 1, "a", at=1))
    target.reopen(scd_type=after, deletes="soft")
    assert f"type {after} is configured" in reason(target)
    assert len(target.stored()) == 1


def test_history_is_refused_when_the_table_has_no_key(tmp_path: Path) -> None:
    keyless = replace(METADATA, columns=tuple(replace(column, primary_key_position=0) for column in METADATA.columns))
    target = Target(tmp_path, scd_type=2)
    applied = target.apply({**change("INSERT", 1, "a", at=1)}, metadata=keyless, fails=True)
    assert "no key" in str(next(iter(applied.failed.values())))


def test_soft_deletions_mark_rows_when_the_settings_say_so(tmp_path: Path) -> None:
    target = Target(tmp_path, deletes="soft")
    target.apply(change("INSERT", 1, "a", at=1), change("INSERT", 2, "b", at=2))
    target.apply(change("DELETE", 1, at=3))
    assert {row["ID"]: row["_hs_deleted"] for row in target.stored()} == {1: True, 2: False}
    target.apply(change("UPDATE", 1, "late", at=2), change("UPDATE", 2, "b4", at=4))
    assert target.names() == {1: "late", 2: "b4"}  # the last value before the deletion


@pytest.mark.parametrize("scd_type", [1, 2])
def test_deletions_are_passed_over_when_the_settings_say_so_but_keys_still_change(tmp_path: Path, scd_type: int) -> None:
    target = Target(tmp_path, deletes="skip", scd_type=scd_type)
    target.apply(change("INSERT", 1, "a", at=1), change("INSERT", 2, "b", at=2))
    target.apply(change("DELETE", 1, at=3), change("UPDATE", 7, "b", at=4, old=2))
    assert {row["ID"] for row in target.stored() if row.get("_hs_current", True)} == {1, 7}
