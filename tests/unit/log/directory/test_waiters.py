"""Unit tests of headstream.log.directory.waiters."""

from __future__ import annotations

from headstream.log.directory.waiters import Waiter, Waiters
from tests.unit.log.directory.test_watcher import LONG, waiting

__all__ = ["waiting"]  # fixtures

NO_TIME = 0.0


def test_bell_tells_each_directory_once_however_often_it_is_rung() -> None:
    waiter = Waiter()
    for _ in range(3):
        waiter.notify("a")
    waiter.notify("b")
    assert waiter.listen(LONG) == {"a", "b"}
    assert waiter.listen(NO_TIME) == set()


def test_ring_wakes_those_who_wait_for_that_partition_alone(waiting: Waiters) -> None:
    with waiting.waiter(["a", "b"]) as both, waiting.waiter(["b"]) as other:
        waiting.notify("a")
        assert both.listen(NO_TIME) == {"a"}
        assert other.listen(NO_TIME) == set()
        waiting.notify_all()
        assert both.listen(NO_TIME) == {"a", "b"}
        assert other.listen(NO_TIME) == {"b"}


def test_waiting_knows_nobody_when_all_have_gone(waiting: Waiters) -> None:
    with waiting.waiter(["a"]), waiting.waiter(["a", "b"]):
        assert waiting.is_for("a")
    assert not waiting.is_for("a")
    assert not waiting.is_for("b")
