from __future__ import annotations

import pytest

from headstream.server.config.tcp_settings import ConnectionLimits
from headstream.server.iggy.tcp.timeouts import ConnectionTimeouts

LIMITS = ConnectionLimits()


def fault(
    patience: ConnectionTimeouts, now_s: float, *, pending: int | None = None, unsent: int | None = None, known: bool = True
) -> str:
    found = patience.find_fault(now_s, pending, unsent, is_known=known)
    return "" if found is None else found[0]


@pytest.mark.parametrize("size_bytes", [0, 16 << 10, 64 << 20])
def test_a_request_has_its_time_and_a_second_for_each_16_kib_of_it(size_bytes: int) -> None:
    assert LIMITS.bytes_a_second == 16 << 10
    patience = ConnectionTimeouts(LIMITS, 0)
    patience.begin_frame(10)
    patience.begin_frame(15)  # more of it has come: the clock runs from its first byte
    end_s = 10 + LIMITS.frame_s + size_bytes / (16 << 10)
    assert fault(patience, end_s, pending=size_bytes) == ""
    assert fault(patience, end_s + 0.001, pending=size_bytes) == "receiving a request timed out"
    assert fault(patience, end_s + 0.001) == ""  # nothing is read just now
    patience.begin_again(end_s)
    assert fault(patience, end_s + 1, pending=size_bytes) == ""
    patience.end_frame()
    patience.begin_again(end_s)
    assert fault(patience, 10 * end_s + 10_000, pending=size_bytes) == ""


def test_a_client_that_takes_no_bytes_of_its_answers_is_given_up_after_the_stall_time() -> None:
    patience = ConnectionTimeouts(LIMITS, 0)
    patience.begin_stall(0, 1000)
    assert fault(patience, LIMITS.stall_s, unsent=1000) == ""
    assert fault(patience, LIMITS.stall_s + 0.001, unsent=1000) == "sending responses timed out"
    assert fault(patience, LIMITS.stall_s + 0.001, unsent=999) == ""  # a byte was taken: the time begins anew
    assert fault(patience, 2 * LIMITS.stall_s, unsent=999) == ""
    assert fault(patience, 2 * LIMITS.stall_s + 0.002, unsent=999) == "sending responses timed out"


def test_a_connection_without_a_login_ends_after_the_login_time_since_it_was_last_known() -> None:
    patience = ConnectionTimeouts(LIMITS, 0)
    assert fault(patience, LIMITS.login_s, known=False) == ""
    assert fault(patience, LIMITS.login_s + 1, known=True) == ""
    assert fault(patience, 2 * LIMITS.login_s + 1, known=False) == ""
    assert fault(patience, 2 * LIMITS.login_s + 1.001, known=False) == "login timed out"


def test_client_that_dawdles_has_three_seconds_while_there_is_little_memory() -> None:
    def tight(now_s: float, *, pending: int | None = None, unsent: int | None = None) -> bool:
        return patience.find_fault(now_s, pending, unsent, is_known=True, is_tight=True) is not None

    patience = ConnectionTimeouts(LIMITS, 0)
    patience.begin_frame(10)
    assert not tight(13, pending=0)
    assert tight(13.001, pending=0)
    assert not tight(14, pending=16 << 10)
    assert tight(14.001, pending=16 << 10)
    assert fault(patience, 14, pending=0) == ""
    patience.begin_stall(10, 1000)
    assert not tight(13, unsent=1000)
    assert tight(13.001, unsent=1000)


def test_client_has_less_than_three_seconds_where_the_limits_say_so_while_there_is_little_memory() -> None:
    patience = ConnectionTimeouts(ConnectionLimits(frame_s=1, stall_s=1), 0)
    patience.begin_frame(10)
    patience.begin_stall(10, 1000)
    assert patience.find_fault(11.001, 0, None, is_known=True, is_tight=True) is not None
    assert patience.find_fault(11.001, None, 1000, is_known=True, is_tight=True) is not None


@pytest.mark.parametrize("unsent", [1, 1000])
def test_stall_begins_when_it_is_first_seen(unsent: int) -> None:
    patience = ConnectionTimeouts(LIMITS, 0)
    assert fault(patience, 10_000, unsent=unsent) == ""
    assert fault(patience, 10_000 + LIMITS.stall_s, unsent=unsent) == ""
    assert fault(patience, 10_000 + LIMITS.stall_s + 0.001, unsent=unsent) == "sending responses timed out"
