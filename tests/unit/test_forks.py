"""Unit tests of headstream.forks."""

from __future__ import annotations

import os

import headstream as hs
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
