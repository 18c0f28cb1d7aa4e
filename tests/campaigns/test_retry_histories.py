"""Consumers with `on_error` keep every guarantee, through kills at file operations and jumps of the clock."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from headstream.client.consumer.retrying.fetching import RetryingFetching
from headstream.client.consumer.retrying.track import Track
from headstream.log.partition.delivery_journal import DeliveryJournal
from tests.campaigns.retry_histories import RetryHistory
from tests.campaigns.runner import run_history


def run_some(count: int = 40) -> None:
    for seed in range(count):
        run_history(RetryHistory, seed)


def test_histories_of_retries_are_those_of_the_model() -> None:
    totals = Counter[str]()
    for seed in range(16):
        totals += run_history(RetryHistory, seed).counts
    for name in ("delivered", "done", "dead", "retry", "late", "kills", "restarts", "messages"):
        assert totals[name], f"no history has {name}"


@pytest.mark.nightly
def test_hidden_messages_that_hold_the_offset_back_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Track, "_pass", lambda track, offset: setattr(track, "begun_until", max(track.begun_until, offset)))
    with pytest.raises(AssertionError, match=r"seed \d+: .* never finished"):
        run_some()


def test_a_consumer_that_gives_away_what_it_has_in_hand_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RetryingFetching, "has_in_hand", property(lambda fetching: fetching.current is not None))
    with pytest.raises(AssertionError, match=r"seed \d+: .* twice"):
        run_some(60)


def test_failures_that_are_not_stored_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    store: Any = DeliveryJournal.store

    def lose(journal: DeliveryJournal, touched: Any, *arguments: Any, **options: Any) -> None:
        if not touched.failing:
            store(journal, touched, *arguments, **options)

    monkeypatch.setattr(DeliveryJournal, "store", lose)
    with pytest.raises(AssertionError, match="seed"):
        run_some()


def test_messages_that_overtake_a_failing_one_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Track, "wait", lambda track, offset: False)
    monkeypatch.setattr(Track, "is_blocked", property(lambda track: False))
    with pytest.raises(AssertionError, match=r"overtakes"):
        run_some()


def test_a_second_dead_letter_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headstream.broker.deliveries.dead_letters.DeadLetterCopies.find_copy", lambda *arguments: None)
    with pytest.raises(AssertionError, match="two dead letters"):
        run_history(RetryHistory, 22)
