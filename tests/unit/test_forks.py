"""Forks: each object that asked for it is told of a fork in the child."""

from __future__ import annotations

from headstream.forks import tell_of_forks
from tests.support.forked import in_child


class Told:
    """An object that notes that it is told."""

    is_told = False

    def after_fork(self) -> None:
        self.is_told = True


class HalfMade(Told):
    """An object that another thread of the parent was creating when it forked."""

    def after_fork(self) -> None:
        raise AttributeError("_lock")


def test_an_object_that_cannot_be_told_of_a_fork_keeps_no_other_from_it() -> None:
    objects = [kind() for _ in range(20) for kind in (Told, HalfMade)]
    for each in objects:
        tell_of_forks(each)
    assert in_child(lambda: sum(each.is_told for each in objects)) == "20"
    assert not any(each.is_told for each in objects)
