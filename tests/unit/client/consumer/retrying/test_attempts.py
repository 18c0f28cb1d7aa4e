"""Unit tests of headstream.client.consumer.retrying.attempts."""

from __future__ import annotations

import pytest

import headstream as hs
from tests.unit.client.consumer.retrying.test_reading import OPTIONS, log, lose_next

__all__ = ["log"]  # fixtures


def test_a_message_whose_attempt_could_not_be_recorded_is_delivered_by_the_next_call(
    log: hs.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with log.consumer("shop/orders", **OPTIONS) as consumer:
        lose_next(monkeypatch)
        with pytest.raises(hs.OutcomeUnknownError):
            next(consumer)
        assert [message.payload for message in consumer] == [b"a", b"b", b"c"]
