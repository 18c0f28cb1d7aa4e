"""Collector: long collections are followed by shorter ones, and nothing is excluded for ever."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest

from headstream.server.resources.collector import Collector


@pytest.fixture
def unfrozen() -> Iterator[None]:
    """The collector of this process as it was."""
    yield
    gc.unfreeze()


class Clock:
    """A clock that each collection advances."""

    def __init__(self, took_s: float) -> None:
        self.now_s = 0.0
        self.took_s = took_s

    def __call__(self) -> float:
        self.now_s += self.took_s
        return self.now_s


@pytest.mark.usefixtures("unfrozen")
@pytest.mark.parametrize(("took_s", "is_excluded"), [(0.006, True), (0.001, False)])
def test_objects_are_excluded_when_a_full_collection_took_long(took_s: float, is_excluded: bool) -> None:
    async def check() -> None:
        collector = Collector(asyncio.get_running_loop(), Clock(took_s))
        collector.start()
        try:
            before, kept = gc.get_freeze_count(), [[number] for number in range(1000)]
            gc.collect(1)
            await asyncio.sleep(0)
            assert gc.get_freeze_count() <= before
            gc.collect()
            await asyncio.sleep(0)
            assert (gc.get_freeze_count() >= before + len(kept)) is is_excluded
        finally:
            collector.stop()

    asyncio.run(check())


@pytest.mark.usefixtures("unfrozen")
def test_objects_are_included_again_when_an_hour_has_passed() -> None:
    async def check() -> None:
        clock = Clock(0.006)
        collector = Collector(asyncio.get_running_loop(), clock)
        collector.start()
        try:
            clock.now_s += 3600
            gc.collect()
            await asyncio.sleep(0)
            assert gc.get_freeze_count() == 0
            gc.collect()
            await asyncio.sleep(0)
            assert gc.get_freeze_count() > 0
        finally:
            collector.stop()

    asyncio.run(check())
