"""Retries: attempts, and delays that double, within their bounds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import headstream as hs
from headstream.core.model.deliveries import MAX_ERROR_BYTES, Delivery, RetryOrder, cut_error
from headstream.errors import InvalidInputError, InvalidOptionError


def test_delays_double_up_to_the_longest_and_the_second_half_is_random() -> None:
    retry = hs.Retry(attempts=5, delay="1s", max_delay="5s")
    assert [retry.delay_after(failures, 0.0) for failures in (1, 2, 3, 4, 500)] == [
        1_000_000,
        2_000_000,
        4_000_000,
        *[5_000_000] * 2,
    ]
    assert [retry.delay_after(failures, 1.0) for failures in (1, 4)] == [500_000, 2_500_000]


def test_the_last_attempt_is_the_one_that_was_asked_for() -> None:
    assert [hs.Retry(attempts=3).is_last(failures) for failures in (1, 2, 3)] == [False, False, True]
    assert not hs.Retry(attempts=None).is_last(1_000_000)
    assert hs.Retry(3, timedelta(seconds=2), 3_000_000, "key") == hs.Retry(3, "2s", "3s", RetryOrder.KEY)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"attempts": 0}, InvalidOptionError),
        ({"attempts": 1001}, InvalidOptionError),
        ({"attempts": True}, InvalidOptionError),
        ({"attempts": "5"}, InvalidOptionError),
        ({"order": "topic"}, InvalidOptionError),
        ({"delay": "2s", "max_delay": "1s"}, InvalidOptionError),
        ({"delay": "soon"}, InvalidInputError),
    ],
)
def test_a_policy_that_cannot_be_is_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        hs.Retry(**options)


def test_a_message_waits_no_longer_than_its_delay_whatever_the_clock_does() -> None:
    delivery = Delivery(7, failures=1, failed_us=1000, delay_us=500)
    assert [delivery.left_us(now_us) for now_us in (1000, 1400, 1500, 9000)] == [500, 100, 0, 0]
    assert delivery.left_us(0) == 500  # the clock went back
    assert Delivery(7).left_us(0) == 0


def test_an_errors_text_is_cut_between_characters() -> None:
    assert cut_error("é" * 200) == "é" * (MAX_ERROR_BYTES // 2)
    assert cut_error("\ud800") == "?"
