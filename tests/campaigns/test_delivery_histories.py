"""What send() takes is stored once and in order, through kills of a real server and connections that break."""

from __future__ import annotations

import pytest

from tests.campaigns.delivery_histories import DeliveryHistory
from tests.campaigns.runner import run_history


@pytest.mark.parametrize("seed", [3, 7, 19])
def test_a_history_of_deliveries_keeps_every_promise(seed: int) -> None:
    assert run_history(DeliveryHistory, seed).counts["messages stored"] > 0
