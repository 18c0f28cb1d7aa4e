"""What tests of upkeep share: a clock."""

from __future__ import annotations

import pytest

from tests.support.log.logs import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(1_000_000)
