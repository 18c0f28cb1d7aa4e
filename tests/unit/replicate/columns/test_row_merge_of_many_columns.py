"""Rows of many columns: their columns are joined, stored and read by the changes that wrote them, never one by one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from bench.replicate_wide import KEY, Merges, make_changes
from headstream.replicate.columns.row_merge import KnownRow

ROWS, COLUMNS = 3, 120


@pytest.mark.parametrize("carried", [range(10), range(0, COLUMNS, 2)])
def test_late_whole_updates_join_columns_by_the_changes_that_wrote_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, carried: range
) -> None:
    def refuse(*arguments: Any) -> None:
        raise AssertionError("a row is taken apart into its columns")

    merges = Merges(tmp_path, ROWS, COLUMNS)
    monkeypatch.setattr(KnownRow, "columns", property(refuse))
    monkeypatch.setattr(KnownRow, "of_columns", refuse)
    merges.merge(make_changes("UPDATE", ROWS, COLUMNS, 300, carried))
    merges.merge(make_changes("UPDATE", ROWS, COLUMNS, 200))
    merges.merge(make_changes("UPDATE", ROWS, COLUMNS, 100))
    rows = DeltaTable(str(tmp_path / "table")).to_pyarrow_table().sort_by(KEY).to_pylist()
    own = [f"c{number}" for number in range(1, COLUMNS)]
    for place, row in enumerate(rows):
        later = {f"c{number}": f"UPDATE {300 + place} {number}" for number in carried if number}
        whole = {f"c{number}": f"UPDATE {200 + place} {number}" for number in range(1, COLUMNS)}
        assert {name: row[name] for name in own} == whole | later
