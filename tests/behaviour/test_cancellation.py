"""Calls of the asyncio client that are cancelled at random times lose no message and commit none that nobody received."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tests.behaviour.conftest import Place
from tests.campaigns.cancellation import MODES, run_history
from tests.campaigns.cancelled_calls import run_calls
from tests.campaigns.cancelling import find_coroutines, impatient

KAFKA_MODES = [mode for mode in MODES if "retrying" not in mode and "shared" not in mode]


def run(place: Place, seed: int, count: int) -> Counter[str]:
    """Run a history of each kind of consumer, and one of the other calls, and return how often each call was cancelled."""
    modes = KAFKA_MODES if place.url.startswith("kafka") else MODES
    with place.connect():
        cancelled = asyncio.run(run_calls(place.url, seed))
        for mode in modes:
            cancelled += asyncio.run(run_history(place.url, mode, seed, count))
    return cancelled


def test_cancelled_calls_lose_no_message(place: Place) -> None:
    cancelled = run(place, 1, 20)
    assert cancelled.total() > 0
    if place.url.startswith("headstream"):
        assert find_coroutines() - cancelled.keys() == set(), "the campaign cancels every call"


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 8))
def test_many_cancelled_calls_lose_no_message(place: Place, seed: int) -> None:
    assert run(place, seed, 400).total() > 0


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(8, 12))
def test_many_interrupted_calls_lose_no_message(place: Place, seed: int) -> None:
    with impatient():
        assert run(place, seed, 60).total() > 0
