"""Unit tests of headstream.log.directory.waiters."""

from __future__ import annotations

from headstream.log.directory.waiters import Bell, Waiters
from tests.unit.log.directory.test_watcher import LONG, waiting

__all__ = ["waiting"]  # fixtures

NO_TIME = 0.0


def test_bell_tells_each_directory_once_however_often_it_is_rung() -> None:
    bell = Bell()
    for _ in range(3):
        bell.ring("a")
    bell.ring("b")
    assert bell.listen(LONG) == {"a", "b"}
    assert bell.listen(NO_TIME) == set()


def test_ring_wakes_those_who_wait_for_that_partition_alone(waiting: Waiters) -> None:
    with waiting.bell(["a", "b"]) as both, waiting.bell(["b"]) as other:
        waiting.ring("a")
        assert both.listen(NO_TIME) == {"a"}
        assert other.listen(NO_TIME) == set()
        waiting.ring_all()
        assert both.listen(NO_TIME) == {"a", "b"}
        assert other.listen(NO_TIME) == {"b"}


def test_waiting_knows_nobody_when_all_have_gone(waiting: Waiters) -> None:
    with waiting.bell(["a"]), waiting.bell(["a", "b"]):
        assert waiting.is_for("a")
    assert not waiting.is_for("a")
    assert not waiting.is_for("b")
