"""Unit tests of headstream.server.http.connections."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import socket
from collections.abc import Callable, Iterator

import pytest

from headstream.server.config.http_settings import HttpSettings
from tests.support.server.http_servers import Http, make_topic, serving
from tests.support.waiting import wait_until
from tests.unit.server.http.test_server import JSON, MESSAGES, SEND, head


@pytest.fixture(scope="module")
def broken_http(make_loop: Callable[[], asyncio.AbstractEventLoop]) -> Iterator[Http]:
    """A server that would wait for a body longer than any test does."""
    with serving(HttpSettings(body_s=3600), make_loop=make_loop) as served:
        make_topic(served)
        yield served


def raw(http: Http, data: bytes, *more: bytes) -> bytes:
    """Return all that is answered to some bytes, until the server closes."""
    with socket.create_connection((http.host, http.port), timeout=20) as peer:
        for piece in (data, *more):
            peer.sendall(piece)
        return read_all(peer)


def read_all(peer: socket.socket) -> bytes:
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while piece := peer.recv(65536):
            found += piece
    return found


def statuses(answered: bytes) -> list[int]:
    return [int(number) for number in re.findall(rb"HTTP/1\.1 (\d+) ", answered)]


def test_a_body_in_pieces_is_taken_up_to_the_limit(http: Http) -> None:
    for size, status in ((1_000, 201), (49_999, 413)):
        body = json.dumps(SEND).encode()
        pieces = [body, b" " * size, b" " * (size if status == 413 else 1)]
        chunks = [f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces]
        answered = raw(http, head(http, "POST", MESSAGES, f"{JSON}Transfer-Encoding: chunked\r\n"), *chunks, b"0\r\n\r\n")
        assert statuses(answered) == [status]


CHUNKED = f"{JSON}Transfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    "broken", [b"zz\r\n", b"5 bytes\r\n", b"\r\n", b"3\r\nabcdef\r\n", b"f" * 17 + b"\r\n", b"0\r\nno trailer\r\n"]
)
@pytest.mark.parametrize(("method", "path"), [("POST", MESSAGES), ("POST", "/users/login"), ("POST", "/users/refresh-token")])
def test_a_body_that_breaks_in_the_middle_is_refused_at_once(broken_http: Http, method: str, path: str, broken: bytes) -> None:
    http = broken_http
    with socket.create_connection((http.host, http.port), timeout=20) as peer:
        peer.sendall(head(http, method, path, f"{CHUNKED}Expect: 100-continue\r\n", close=False))
        assert peer.recv(1000).startswith(b"HTTP/1.1 100")  # by now it waits for the body
        peer.sendall(b"1\r\n{\r\n")
        peer.sendall(broken)
        assert statuses(read_all(peer)) == [400]


def test_a_body_that_breaks_is_refused_at_once_when_its_request_had_to_wait(broken_http: Http) -> None:
    http = broken_http
    body = json.dumps({"positions": {"1": 0}, "timeout_ms": 60_000}).encode()
    waiting = head(http, "POST", f"{MESSAGES}/wait", f"{JSON}Content-Length: {len(body)}\r\n", close=False) + body
    with socket.create_connection((http.host, http.port), timeout=20) as peer:
        peer.sendall(waiting + head(http, "POST", MESSAGES, CHUNKED, close=False) + b"1\r\n{\r\n")
        wait_until(lambda: http.server.waiting_count == 1)
        peer.sendall(b"zz\r\n")
        assert http.call("POST", MESSAGES, SEND).status == 201  # what the first request waits for
        assert statuses(read_all(peer)) == [200, 400]


@pytest.mark.parametrize("more", [b"", b"1\r\n{\r\n", b"5\r\n{"])
def test_a_connection_is_closed_at_once_when_its_client_ends_a_body_in_the_middle(broken_http: Http, more: bytes) -> None:
    http = broken_http
    with socket.create_connection((http.host, http.port), timeout=20) as peer:
        peer.sendall(head(http, "POST", MESSAGES, CHUNKED, close=False) + more)
        peer.shutdown(socket.SHUT_WR)
        assert read_all(peer) == b""


def test_expect_100_continue_is_answered_before_the_body_is_sent(http: Http) -> None:
    body = json.dumps(SEND).encode()
    expecting = f"{JSON}Expect: 100-continue\r\nContent-Length: "
    with socket.create_connection((http.host, http.port), timeout=20) as peer:
        peer.sendall(head(http, "POST", MESSAGES, f"{expecting}{len(body)}\r\n"))
        assert peer.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        peer.sendall(body)
        assert statuses(peer.recv(65536)) == [201]
    assert statuses(raw(http, head(http, "POST", MESSAGES, f"{expecting}50001\r\n"))) == [413]


def test_requests_on_one_connection_are_answered_in_their_order(http: Http) -> None:
    body = json.dumps(SEND).encode()
    several = [head(http, "GET", "/ping", close=False)]
    several += [head(http, "POST", MESSAGES, f"{JSON}Content-Length: {len(body)}\r\n", close=False) + body]
    several += [head(http, "GET", "/streams/none", close=False), head(http, "GET", "/ping")]
    assert statuses(raw(http, b"".join(several))) == [200, 201, 404, 200]


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nbroken\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 20_000 + b"\r\n\r\n",
        b"GET /" + b"y" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /users/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /users/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"POST /users/login HTTP/1.1\r\nHost: [::]\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_bytes_that_are_not_http_are_refused_and_other_connections_continue(
    http: Http, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "headstream.server"):
        assert set(statuses(raw(http, data))) <= {400, 404}
    assert {(record.message, record.exc_info) for record in caplog.records} <= {("invalid request", None)}
    assert http.call("GET", "/ping").status == 200


def test_a_silent_connection_is_closed_also_in_the_middle_of_a_head() -> None:
    with serving(HttpSettings(idle_s=0.2)) as http:
        for begin in (b"", b"GET /ping HT", head(http, "GET", "/ping", close=False)):
            with socket.create_connection((http.host, http.port), timeout=20) as peer:
                peer.sendall(begin)
                assert statuses(read_all(peer)) in ([], [200])


def test_a_body_that_does_not_come_is_given_up() -> None:
    with serving(HttpSettings(body_s=0.1)) as http, socket.create_connection((http.host, http.port), timeout=20) as peer:
        peer.sendall(head(http, "POST", "/streams", f"{JSON}Content-Length: 100\r\n") + b"{")
        assert statuses(peer.recv(65536)) == [408]


def test_a_client_that_does_not_take_its_reply_is_closed() -> None:
    with serving(HttpSettings(reply_s=0.2)) as http:
        make_topic(http)
        big = {"partitioning": {"kind": "balanced"}, "messages": [{"payload": "A" * 1_800_000}]}
        for _ in range(10):
            assert http.call("POST", MESSAGES, big).status == 201
        with socket.socket() as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.settimeout(20)
            peer.connect((http.host, http.port))
            peer.sendall(head(http, "GET", f"{MESSAGES}?count=100&kind=first"))
            wait_until(lambda: http.traffic.connections == 0)
        assert http.call("GET", "/ping").status == 200
