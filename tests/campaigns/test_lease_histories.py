"""Workers that share partitions keep every guarantee, through kills at file operations and jumps of the clock."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.campaigns.lease_histories import LeaseHistory
from tests.campaigns.runner import run_history

PAUSES = "headstream.log.partition.pause_state.PauseState"


def test_histories_of_leases_are_those_of_the_model() -> None:
    totals = Counter[str]()
    for seed in range(12):
        totals += run_history(LeaseHistory, seed).counts
    for name in ("leased", "done", "failed", "released", "deferred", "late", "ended", "dead", "kills", "restarts", "pauses"):
        assert totals[name], f"no history has {name}"


def test_a_restart_after_the_clock_was_set_back_does_not_repeat_a_pause() -> None:
    run_history(LeaseHistory, 31490)


def run_some() -> None:
    for seed in range(12):
        run_history(LeaseHistory, seed)


FAULTS: dict[str, tuple[str, Any, str]] = {
    "a pause that the clock makes longer": (
        f"{PAUSES}.follow_clock",
        lambda state, now_us: False,
        "the pause did not end|never finished",
    ),
    "a pause that ends at once": (f"{PAUSES}.left_us", lambda state, now_us: 0, "seed"),
    "a second message on trial": ("headstream.broker.deliveries.leases.replace", lambda request, count: request, "on trial"),
}


@pytest.mark.nightly
@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_pause_is_found_out(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    place, function, message = FAULTS[fault]
    monkeypatch.setattr(place, function)
    with pytest.raises(AssertionError, match=message):
        run_some()
