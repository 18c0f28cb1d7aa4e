"""FairThreads: who is served when, with one thread, so that the order can be seen."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError

import pytest

from headstream.core.wire.codes import Code
from headstream.core.wire.commands.sessions import Login
from headstream.core.wire.statuses import Status
from headstream.server.network.addresses import Address
from headstream.server.resources.fair_threads import FairThreads
from tests.support.server.peers import HttpPeer, RefusedError
from tests.support.server.served import config_of, serving


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
    assert first.result(60)
    for future in (*many, one):
        future.result(60)
    assert served.index("quiet") == 1


def test_fair_threads_hand_the_exception_on_when_a_function_raises_one(threads: FairThreads) -> None:
    with pytest.raises(ZeroDivisionError):
        threads.submit(1, lambda: 1 // 0).result(60)
    assert threads.submit(1, lambda: 5).result(60) == 5


def test_fair_threads_cancel_what_waits_when_they_are_closed() -> None:
    threads, go = FairThreads(1, "test-fair"), threading.Event()
    is_running = threading.Event()

    def work() -> bool:
        is_running.set()
        return go.wait(60)

    running = threads.submit(1, work)
    assert is_running.wait(60)
    waiting = threads.submit(1, lambda: 5)
    closer = threading.Thread(target=threads.close)
    closer.start()
    with pytest.raises(CancelledError):
        waiting.result(60)
    go.set()
    closer.join(60)
    assert running.result(60)
    assert threads.submit(1, lambda: 5).cancelled()


@pytest.fixture
def few_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let two requests wait for the only thread of passwords."""
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    monkeypatch.setattr("headstream.server.resources.workers._MOST_PASSWORDS", 2)


@pytest.mark.usefixtures("few_passwords")
def test_server_answers_a_login_with_a_refusal_over_tcp_and_http_when_too_many_wait() -> None:
    go, is_running = threading.Event(), threading.Event()

    def block() -> bool:
        is_running.set()
        return go.wait(60)

    config = config_of(http_address=Address("127.0.0.1", 0))
    with serving(config) as running, running.peer() as known, running.peer(is_logged_in=False) as peer:
        assert running.server._tcp is not None
        workers = running.server._tcp.workers
        try:
            held = [workers.submit(Code.LOGIN, block, "192.0.2.1")]
            assert is_running.wait(60)
            held += [workers.submit(Code.LOGIN, lambda: True, f"192.0.2.{number}") for number in (2, 3)]
            assert peer.request(Code.LOGIN, Login("iggy", "iggy").encode())[0] == Status.DISCONNECTED
            assert known.request(Code.PING) == (0, b"")
            assert running.server.http_address is not None
            with HttpPeer(running.server.http_address) as over_http, pytest.raises(RefusedError) as refused:
                over_http.login()
            assert refused.value.http_status == 503
        finally:
            go.set()
        assert all(each.result(60) for each in held)
        assert peer.request(Code.LOGIN, Login("iggy", "iggy").encode())[0] == 0
