"""Unit tests of headstream.broker.broker."""

from __future__ import annotations

from headstream.broker.broker import Broker
from headstream.log.opening import open_memory


def test_identity_is_made_at_the_first_write_of_the_entropy_given(broker: Broker) -> None:
    assert broker.identity is None
    broker.streams.create("shop")
    assert broker.identity == "00000000-0000-4000-8000-000000000000"


def test_close_can_be_called_twice() -> None:
    broker = Broker(open_memory())
    broker.close()
    broker.close()
