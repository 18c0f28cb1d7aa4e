"""Workers that share partitions keep every guarantee, through kills at file operations and jumps of the clock."""

from __future__ import annotations

from collections import Counter

import pytest

from headstream.log.partition.pause_state import PauseState
from tests.campaigns.lease_histories import LeaseHistory
from tests.campaigns.runner import run_history


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


@pytest.mark.nightly
def test_a_pause_that_the_clock_makes_longer_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PauseState, "follow_clock", lambda state, now_us: False)
    with pytest.raises(AssertionError, match=r"the pause did not end|never finished"):
        run_some()


@pytest.mark.nightly
def test_a_pause_that_ends_at_once_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PauseState, "left_us", lambda state, now_us: 0)
    with pytest.raises(AssertionError, match="seed"):
        run_some()


@pytest.mark.nightly
def test_a_second_message_on_trial_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headstream.broker.deliveries.leases.replace", lambda request, count: request)
    with pytest.raises(AssertionError, match="on trial"):
        run_some()
