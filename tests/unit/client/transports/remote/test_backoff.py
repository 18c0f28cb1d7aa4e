"""Waits between attempts: they double from 50 ms to 2 s, are shortened by at most half, and end when the time is over."""

from __future__ import annotations

import pytest

from headstream.client.transports.remote.backoff import Backoff


def waits(backoff: Backoff, count: int) -> list[float | None]:
    """The waits after failures at one moment."""
    return [backoff.next_wait(100.0) for _ in range(count)]


def test_waits_double_up_to_two_seconds() -> None:
    assert waits(Backoff(60, lambda: 1.0), 8) == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0])


def test_waits_are_shortened_at_random_by_at_most_half() -> None:
    assert waits(Backoff(60, lambda: 0.0), 3) == pytest.approx([0.025, 0.05, 0.1])
    assert waits(Backoff(60, lambda: 0.5), 3) == pytest.approx([0.0375, 0.075, 0.15])


def test_the_time_is_counted_from_the_first_failure() -> None:
    backoff = Backoff(1, lambda: 1.0)
    assert backoff.next_wait(1000.0) == pytest.approx(0.05)
    assert backoff.next_wait(1000.9) == pytest.approx(0.1)
    assert backoff.next_wait(1000.95) == pytest.approx(0.05)  # what is left of 0.2
    assert backoff.next_wait(1001.0) is None


def test_no_time_is_no_second_attempt() -> None:
    assert Backoff(0, lambda: 1.0).next_wait(5.0) is None


def test_an_end_that_is_given_counts_instead_of_the_limit() -> None:
    backoff = Backoff(0, lambda: 1.0, until_s=10.0)
    assert backoff.next_wait(9.98) == pytest.approx(0.02)
    assert backoff.next_wait(10.0) is None
