"""Unit tests of headstream.replicate.tables.schema_checks."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headstream.replicate.codec import ColumnMetadata
from tests.support.replicate.change_tables import change
from tests.support.replicate.target_tables import Target
from tests.unit.replicate.tables.test_target_table import ID, NAME, NOTE, ORDERS, TOTAL, version

RENAMED = replace(NAME, name="title")
SCHEMA_CHANGES: list[tuple[str, tuple[ColumnMetadata, ...], tuple[ColumnMetadata, ...]]] = [
    ("on_column_added", (ID, NAME), (ID, NAME, TOTAL)),
    ("on_column_dropped", (ID, NAME, TOTAL), (ID, NAME)),
    ("on_column_renamed", (ID, NAME), (ID, RENAMED)),
    ("on_type_widened", (ID, NAME, TOTAL), (ID, NAME, replace(TOTAL, precision=12))),
    ("on_type_narrowed", (ID, NAME, TOTAL), (ID, NAME, replace(TOTAL, precision=8))),
    ("on_nullability_changed", (ID, NAME), (ID, replace(NAME, nullable=False))),
]


@pytest.mark.parametrize(("setting", "before", "after"), SCHEMA_CHANGES, ids=[case[0] for case in SCHEMA_CHANGES])
@pytest.mark.parametrize("policy", ["evolve", "park", "fail"])
def test_a_change_of_the_schema_is_answered_by_its_policy(
    tmp_path: Path, setting: str, before: tuple[ColumnMetadata, ...], after: tuple[ColumnMetadata, ...], policy: str
) -> None:
    first, second = version(1, *before), version(2, *after)
    settings: dict[str, Any] = {setting: policy}
    target = Target(tmp_path, **settings)

    def row(key: int, at: int, columns: tuple[ColumnMetadata, ...]) -> dict[str, Any]:
        values = change("INSERT", key, "a", "1", at=at)
        return {("title" if name == "name" and RENAMED in columns else name): value for name, value in values.items()}

    target.apply(row(1, 1, before), metadata=first)
    applied = target.apply(row(2, 2, after), metadata=second, fails=policy != "evolve")
    assert {row["ID"] for row in target.stored()} == ({1, 2} if policy == "evolve" else {1})
    if policy != "evolve":
        assert setting in str(applied.failed[ORDERS])
        assert applied.held == {second.schema_id}
        assert (applied.fatal is not None) == (policy == "fail")
        target.reopen(**{setting: "evolve"})
        target.apply(row(2, 2, after), metadata=second, again=True)
        assert {row["ID"] for row in target.stored()} == {1, 2}
    # Rows of the older schema that come late fit as they are.
    target.apply(row(3, 3, before), metadata=first)
    assert {row["ID"] for row in target.stored()} == {1, 2, 3}


def test_a_change_of_the_primary_key_is_noticed_after_a_restart_and_refused(tmp_path: Path) -> None:
    target = Target(tmp_path)
    target.apply(change("INSERT", 1, "a", at=1))
    target.reopen()
    other = version(2, replace(ID, primary_key_position=0), replace(NAME, primary_key_position=1), TOTAL, NOTE)
    row = {**change("INSERT", 2, "b", at=2), "_hs_old.name": None}
    applied = target.apply(row, metadata=other, fails=True)
    assert "primary key was ID and is now name" in str(applied.failed[ORDERS])
    assert target.names() == {1: "a"}


@pytest.mark.parametrize(
    ("column", "why"), [("day", "has only the columns"), ("NAME", "has only the columns"), ("total", r"DECIMAL\(10,2\)")]
)
@pytest.mark.parametrize("scd_type", [1, 2])
def test_changes_wait_if_the_table_cannot_be_partitioned_as_configured(
    tmp_path: Path, column: str, why: str, scd_type: Any
) -> None:
    target = Target(tmp_path, partition_by=(column,), scd_type=scd_type)
    failed = target.apply(change("INSERT", 1, "a", at=1), fails=True).failed[ORDERS]
    assert re.search(why, str(failed))
    assert not target.path.exists()
    target.reopen(partition_by=("name",))
    target.apply(change("INSERT", 1, "Zürich", at=1))
    assert [row["name"] for row in target.stored()] == ["Zürich"]
