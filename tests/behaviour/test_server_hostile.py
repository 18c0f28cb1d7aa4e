"""A well-behaved producer and consumer beside hostile clients: nothing is lost, and nobody waits for long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.server.hostile import KINDS
from tests.support.server.hostile_soak import Outcome, Phase, soak

_SLOW_MS = 5000.0
"""A send takes no longer at p99, though other tests run beside this one; on a quiet machine bench/server_hostile.py measures."""


def check(outcome: Outcome, most_resident_bytes: int) -> None:
    assert outcome.is_complete, (outcome.sent, len(outcome.received))
    assert {name for name, count in outcome.hostile.rounds.items() if count} == set(KINDS)
    assert Phase.percentile_ms(outcome.hostile.sends_s, 0.99) < _SLOW_MS
    assert outcome.hostile.most_resident_bytes < most_resident_bytes


def test_good_clients_lose_nothing_when_hostile_ones_do_what_they_can(tmp_path: Path) -> None:
    check(soak(tmp_path, 1.0, 8.0, 200), 1 << 30)


@pytest.mark.soak
def test_good_clients_lose_nothing_when_hostile_ones_stay_for_half_an_hour(tmp_path: Path) -> None:
    check(soak(tmp_path, 300.0, 1800.0, 20_000), 1 << 30)
