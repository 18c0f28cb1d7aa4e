from __future__ import annotations

import pytest

from headstream.server.patience import Patience
from headstream.server.tcp_settings import ConnectionLimits

LIMITS = ConnectionLimits()


def fault(patience: Patience, now_s: float, *, pending: int | None = None, unsent: int | None = None, known: bool = True) -> str:
    found = patience.find_fault(now_s, pending, unsent, is_known=known)
    return "" if found is None else found[0]


@pytest.mark.parametrize("size_bytes", [0, 16 << 10, 64 << 20])
def test_a_request_has_its_time_and_a_second_for_each_16_kib_of_it(size_bytes: int) -> None:
    assert LIMITS.bytes_a_second == 16 << 10
    patience = Patience(LIMITS, 0)
    patience.begin_frame(10)
    patience.begin_frame(15)  # more of it has come: the clock runs from its first byte
    end_s = 10 + LIMITS.frame_s + size_bytes / (16 << 10)
    assert fault(patience, end_s, pending=size_bytes) == ""
    assert fault(patience, end_s + 0.001, pending=size_bytes) == "a request did not come to its end"
    assert fault(patience, end_s + 0.001) == ""  # nothing is read just now
    patience.begin_again(end_s)
    assert fault(patience, end_s + 1, pending=size_bytes) == ""
    patience.end_frame()
    patience.begin_again(end_s)
    assert fault(patience, 10 * end_s + 10_000, pending=size_bytes) == ""


def test_a_client_that_takes_no_bytes_of_its_answers_is_given_up_after_the_stall_time() -> None:
    patience = Patience(LIMITS, 0)
    patience.begin_stall(0, 1000)
    assert fault(patience, LIMITS.stall_s, unsent=1000) == ""
    assert fault(patience, LIMITS.stall_s + 0.001, unsent=1000) == "the client does not take its answers"
    assert fault(patience, LIMITS.stall_s + 0.001, unsent=999) == ""  # a byte was taken: the time begins anew
    assert fault(patience, 2 * LIMITS.stall_s, unsent=999) == ""
    assert fault(patience, 2 * LIMITS.stall_s + 0.002, unsent=999) == "the client does not take its answers"


def test_a_connection_without_a_login_ends_after_the_login_time_since_it_was_last_known() -> None:
    patience = Patience(LIMITS, 0)
    assert fault(patience, LIMITS.login_s, known=False) == ""
    assert fault(patience, LIMITS.login_s + 1, known=True) == ""
    assert fault(patience, 2 * LIMITS.login_s + 1, known=False) == ""
    assert fault(patience, 2 * LIMITS.login_s + 1.001, known=False) == "nobody has logged in"
