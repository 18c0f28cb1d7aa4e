"""Unit tests of headstream.broker.messages.waits."""

from __future__ import annotations

import pytest

from headstream.broker.broker import Broker
from tests.support.log.logs import batch
from tests.unit.broker.messages.test_messages import TOPIC, broker, clock

__all__ = ["broker", "clock"]  # fixtures


def test_wait_says_whether_there_is_a_message_at_a_position(broker: Broker) -> None:
    broker.messages.send(TOPIC, 2, batch(b"x"))
    assert broker.messages.wait(TOPIC, {1: 0, 2: 0}, 60_000)
    assert not broker.messages.wait(TOPIC, {1: 0, 2: 1}, 0)


def test_a_wait_looks_at_no_file_where_this_process_writes_them(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.messages.send(TOPIC, 1, batch(b"a"))
    notified: list[bool] = []
    monkeypatch.setattr(broker.backing.log, "reading", None)
    wait = broker.messages.begin_wait(TOPIC, {1: 1}, lambda: notified.append(True))
    assert not wait.is_ready
    broker.messages.send(TOPIC, 1, batch(b"b"))
    assert notified == [True]
    assert wait.is_ready
    wait.cancel()
    assert broker.messages.begin_wait(TOPIC, {1: 0}, lambda: None).is_ready
