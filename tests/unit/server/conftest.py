"""What tests of the server share: both event loops that it runs on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest


@pytest.fixture(params=["asyncio", "uvloop"], scope="module")
def make_loop(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    """The event loop of the standard library, and the quicker one."""
    if request.param == "asyncio":
        return asyncio.new_event_loop
    make: Callable[[], asyncio.AbstractEventLoop] = pytest.importorskip("uvloop").new_event_loop
    return make
