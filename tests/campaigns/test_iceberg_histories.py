"""An Iceberg table beside a Delta table has the rows of a model after every step, whenever its mirrors end."""

from __future__ import annotations

from tests.campaigns.iceberg_histories import IcebergHistory
from tests.campaigns.iceberg_rounds import IcebergRoundsHistory
from tests.campaigns.runner import run_history


def test_rows_of_an_iceberg_table_are_those_of_the_model() -> None:
    counts = run_history(IcebergHistory, 7, 30).counts
    for name in ("merges", "killed before", "killed after", "overtaken", "lost", "down", "older snapshots"):
        assert counts[name], f"the history has no {name}"


def test_both_formats_have_the_same_rows_when_the_process_is_killed_between_the_commits() -> None:
    counts = run_history(IcebergRoundsHistory, 3, 5).counts
    assert counts["kills"]
    assert counts["rounds continued"], "no round was ended by another process"
