"""Calls of the asyncio client that are cancelled at random times lose no message and commit none that nobody received."""

from __future__ import annotations

import asyncio

import pytest

from tests.behaviour.conftest import Place
from tests.campaigns.cancellation import MODES, run_history

KAFKA_MODES = [mode for mode in MODES if "retrying" not in mode and "shared" not in mode]


def run(place: Place, seed: int, count: int) -> int:
    modes = KAFKA_MODES if place.url.startswith("kafka") else MODES
    with place.connect():
        return sum(asyncio.run(run_history(place.url, mode, seed, count)) for mode in modes)


def test_cancelled_calls_lose_no_message(place: Place) -> None:
    assert run(place, 1, 40) > 0


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 8))
def test_many_cancelled_calls_lose_no_message(place: Place, seed: int) -> None:
    assert run(place, seed, 400) > 0
