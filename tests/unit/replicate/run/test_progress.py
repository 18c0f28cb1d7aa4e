"""The numbers of one micro-batch: differences of two summaries."""

from __future__ import annotations

from headstream.replicate.engines.engine import RowCounts
from headstream.replicate.run.progress import batch_numbers
from headstream.replicate.run.summary import Summary


def test_batch_numbers_are_those_of_the_micro_batch_and_name_the_ten_tables_with_most_changes() -> None:
    summary = Summary(messages=5, dead=1, parked=7, size_bytes=50)
    summary.tables = {("s", "quiet"): RowCounts(9, 9, 9), ("s", "busy"): RowCounts(1, 0, 0)}
    before = summary.to_dict()
    summary.messages, summary.dead, summary.parked, summary.size_bytes = 30, 3, 2, 90
    summary.tables[("s", "busy")] += RowCounts(100, 20, 3)
    summary.tables |= {("s", f"t{number:02d}"): RowCounts(number, 0, 0) for number in range(1, 13)}
    summary.lags_us = {("s", "busy"): 2_500_000, ("s", "t12"): 9_000_000, ("s", "quiet"): 99_000_000}
    numbers = batch_numbers(before, summary.to_dict())
    assert (numbers["messages"], numbers["dead"], numbers["parked"], numbers["bytes"]) == (25, 2, 2, 40)
    assert (numbers["table_count"], numbers["lag_seconds"]) == (13, 9.0)
    assert list(numbers["tables"]) == ["s.busy", *(f"s.t{number:02d}" for number in range(12, 3, -1))]
    assert numbers["tables"]["s.busy"] == {"inserted": 100, "updated": 20, "deleted": 3, "lag_seconds": 2.5}


def test_batch_numbers_have_no_lag_when_no_table_changed() -> None:
    summary = Summary().to_dict()
    numbers = batch_numbers(summary, summary)
    assert (numbers["lag_seconds"], numbers["tables"], numbers["table_count"]) == (None, {}, 0)
