"""FairThreads: who is served when, with one thread, so that the order can be seen."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError

import pytest

from headstream.server.fair_threads import FairThreads
from headstream.server.workers import Workers
from headstream.wire.codes import Code


@pytest.fixture
def threads() -> Iterator[FairThreads]:
    """One thread."""
    threads = FairThreads(1, "test-fair")
    yield threads
    threads.close()


def test_fair_threads_serve_the_second_client_second_when_the_first_has_asked_for_a_hundred_things(threads: FairThreads) -> None:
    go, served = threading.Event(), list[str]()
    first = threads.submit("blocker", go.wait)
    many = [threads.submit("busy", lambda: served.append("busy")) for _ in range(100)]
    one = threads.submit("quiet", lambda: served.append("quiet"))
    go.set()
    assert first.result(10)
    for future in (*many, one):
        future.result(10)
    assert served.index("quiet") == 1


def test_fair_threads_hand_the_exception_on_when_a_function_raises_one(threads: FairThreads) -> None:
    with pytest.raises(ZeroDivisionError):
        threads.submit(1, lambda: 1 // 0).result(10)
    assert threads.submit(1, lambda: 5).result(10) == 5


def test_fair_threads_cancel_what_waits_when_they_are_closed() -> None:
    threads, go = FairThreads(1, "test-fair"), threading.Event()
    is_running = threading.Event()

    def work() -> bool:
        is_running.set()
        return go.wait(10)

    running = threads.submit(1, work)
    assert is_running.wait(10)
    waiting = threads.submit(1, lambda: 5)
    closer = threading.Thread(target=threads.close)
    closer.start()
    with pytest.raises(CancelledError):
        waiting.result(10)
    go.set()
    closer.join(10)
    assert running.result(10)
    assert threads.submit(1, lambda: 5).cancelled()


def test_workers_check_a_quiet_addresss_password_next_when_another_address_has_hundreds_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    workers, go, served = Workers(), threading.Event(), list[str]()
    try:
        first = workers.submit(Code.LOGIN, go.wait, "192.0.2.1")
        many = [workers.submit(Code.LOGIN, lambda: served.append("busy"), "192.0.2.2") for _ in range(400)]
        one = workers.submit(Code.LOGIN, lambda: served.append("quiet"), "192.0.2.3")
        go.set()
        assert first.result(10)
        for future in (*many, one):
            future.result(10)
    finally:
        workers.close()
    assert served.index("quiet") == 1
