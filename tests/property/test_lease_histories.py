"""Workers that share partitions keep every guarantee, through kills at file operations and jumps of the clock."""

from __future__ import annotations

from collections import Counter

import pytest

from headstream.testing.lease_histories import run_history


def test_histories_of_leases_are_those_of_the_model() -> None:
    totals = Counter[str]()
    for seed in range(12):
        totals += run_history(seed).counts
    for name in ("leased", "done", "failed", "released", "deferred", "late", "ended", "dead", "kills", "restarts"):
        assert totals[name], f"no history has {name}"


@pytest.mark.soak
def test_a_thousand_histories_of_leases_are_those_of_the_model() -> None:
    for seed in range(100, 1100):
        run_history(seed)
