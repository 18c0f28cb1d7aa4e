"""Unit tests of headstream.forks."""

from __future__ import annotations

import os

import headstream as hs
from headstream.forks import register_for_forks
from tests.support.forked import in_child
from tests.unit.client.producer.test_producer import log

__all__ = ["log"]  # fixtures


def test_a_forked_child_is_refused_and_takes_nothing_with_it(log: hs.Client) -> None:
    with log.producer("shop/orders", linger_ms=60_000) as producer:
        producer.send(b"the parent's")
        child = os.fork()
        if child == 0:
            code = 1
            try:
                producer.flush()
            except hs.ClosedError as error:
                code = 0 if "before this process was forked" in str(error) else 2
            finally:
                os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
    assert log.topic("shop/orders").messages_count == 1


class Told:
    """An object that notes that it is told."""

    is_reported = False

    def after_fork(self) -> None:
        self.is_reported = True


class HalfMade(Told):
    """An object that another thread of the parent was creating when it forked."""

    def after_fork(self) -> None:
        raise AttributeError("_lock")


def test_an_object_that_cannot_be_told_of_a_fork_keeps_no_other_from_it() -> None:
    objects = [kind() for _ in range(20) for kind in (Told, HalfMade)]
    for each in objects:
        register_for_forks(each)
    assert in_child(lambda: sum(each.is_reported for each in objects)) == "20"
    assert not any(each.is_reported for each in objects)
