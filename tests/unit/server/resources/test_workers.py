"""Unit tests of headstream.server.resources.workers."""

from __future__ import annotations

import threading

import pytest

from headstream.core.wire.codes import Code
from headstream.core.wire.statuses import Status
from headstream.errors import ServerUnreachableError
from headstream.server.resources.workers import Workers
from tests.unit.server.resources.test_fair_threads import few_passwords

__all__ = ["few_passwords"]  # fixtures


def test_workers_check_a_quiet_addresss_password_next_when_another_address_has_hundreds_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    workers, go, served = Workers(), threading.Event(), list[str]()
    try:
        first = workers.submit(Code.LOGIN, go.wait, "192.0.2.1")
        many = [workers.submit(Code.LOGIN, lambda: served.append("busy"), "192.0.2.2") for _ in range(200)]
        one = workers.submit(Code.LOGIN, lambda: served.append("quiet"), "192.0.2.3")
        go.set()
        assert first.result(60)
        for future in (*many, one):
            future.result(60)
    finally:
        workers.close()
    assert served.index("quiet") == 1


@pytest.mark.usefixtures("few_passwords")
def test_workers_refuse_a_password_when_too_many_wait_and_take_one_again_when_they_are_done() -> None:
    workers, go, is_running = Workers(), threading.Event(), threading.Event()

    def block() -> bool:
        is_running.set()
        return go.wait(60)

    try:
        first = workers.submit(Code.LOGIN, block, "192.0.2.1")
        assert is_running.wait(60)
        waiting = [workers.submit(Code.LOGIN, lambda: 5, f"192.0.2.{number}") for number in (2, 3)]
        with pytest.raises(ServerUnreachableError) as refused:
            workers.submit(Code.LOGIN, lambda: 5, "192.0.2.4").result(60)
        assert refused.value.status == Status.SERVER_BUSY
        assert "10 s" in (refused.value.advice or "")
        assert workers.submit(Code.STATS, lambda: 6, 1).result(60) == 6
        go.set()
        assert first.result(60)
        assert [each.result(60) for each in waiting] == [5, 5]
        assert workers.submit(Code.LOGIN, lambda: 5, "192.0.2.4").result(60) == 5
    finally:
        go.set()
        workers.close()
