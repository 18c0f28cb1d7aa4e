"""HttpServer on the wire: what it takes, what it bounds, who waits, how it stops."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import logging
import re
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from headstream.server.config.http_settings import CorsSettings, HttpSettings
from tests.support.server.http_servers import Answer, Http, serving

TOPIC = {"name": "t", "partitions_count": 1, "compression_algorithm": "none", "message_expiry": 0, "max_topic_size": 0}
SEND = {"partitioning": {"kind": "balanced"}, "messages": [{"payload": "aGVsbG8="}]}
MESSAGES = "/streams/s/topics/t/messages"
JSON = "Content-Type: application/json\r\n"


@pytest.fixture(scope="module")
def http() -> Iterator[Http]:
    with serving(HttpSettings(max_body_bytes=50_000)) as served:
        make_topic(served)
        yield served


@pytest.fixture(scope="module")
def broken_http(make_loop: Callable[[], asyncio.AbstractEventLoop]) -> Iterator[Http]:
    """A server that would wait for a body longer than any test does."""
    with serving(HttpSettings(body_s=3600), make_loop=make_loop) as served:
        make_topic(served)
        yield served


def make_topic(http: Http) -> None:
    assert http.call("POST", "/streams", {"name": "s"}).status == 200
    assert http.call("POST", "/streams/s/topics", TOPIC).status == 200


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


def head(http: Http, method: str, path: str, more: str = "", *, close: bool = True) -> bytes:
    more += "Connection: close\r\n" if close else ""
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {http.token}\r\n{more}\r\n".encode()


def statuses(answered: bytes) -> list[int]:
    return [int(number) for number in re.findall(rb"HTTP/1\.1 (\d+) ", answered)]


def test_root_ping_and_health_need_no_token(http: Http) -> None:
    for path, body in (("/", b"Iggy API"), ("/ping", b"pong"), ("/health", b'{"status":"ready"}')):
        answer = http.call("GET", path, token=None)
        assert (answer.status, answer.body, answer.headers["Server"]) == (200, body, "headstream")


def test_a_head_is_a_get_without_its_body(http: Http) -> None:
    answer = http.call("HEAD", "/ping", token=None)
    assert (answer.status, answer.body, answer.headers["Content-Length"]) == (200, b"", "4")


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("application/vnd.own+json", 200),
        ("text/plain", 415),
        ("application/jsonx", 415),
        ("", 415),
        (None, 415),
    ],
)
def test_a_body_is_json_by_its_content_type(http: Http, kind: str | None, status: int) -> None:
    body = b'{"username":"iggy","password":"iggy"}'
    line = "" if kind is None else f"Content-Type: {kind}\r\n"
    assert statuses(raw(http, head(http, "POST", "/users/login", f"{line}Content-Length: {len(body)}\r\n"), body)) == [status]


def test_a_body_may_be_zipped_and_is_bounded_as_what_it_becomes(http: Http) -> None:
    for plain, status in ((json.dumps(SEND).encode(), 201), (b" " * 60_000, 413)):
        answer = http.call("POST", MESSAGES, gzip.compress(plain), headers={"Content-Encoding": "gzip"})
        assert answer.status == status


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_a_body_that_is_not_zipped_as_its_head_says_is_refused(http: Http, caplog: pytest.LogCaptureFixture, coding: str) -> None:
    more = f"{JSON}Content-Encoding: {coding}\r\nContent-Length: 5\r\n"
    assert statuses(raw(http, head(http, "POST", MESSAGES, more), b"abcde")) == [400]
    assert [record for record in caplog.records if record.exc_info] == []


@pytest.mark.parametrize(("size", "status"), [(49_900, 201), (50_001, 413), (1 << 40, 413)])
def test_a_body_that_is_announced_too_long_is_refused_before_it_comes(http: Http, size: int, status: int) -> None:
    body = json.dumps(SEND).encode()
    body += b" " * (size - len(body)) if size < 1 << 20 else b""
    answered = raw(http, head(http, "POST", MESSAGES, f"{JSON}Content-Length: {size}\r\n"), body if status == 201 else b"")
    assert statuses(answered) == [status]


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


def test_who_asks_before_sending_is_told_to_go_on_or_not(http: Http) -> None:
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
def test_what_is_no_http_is_refused_and_others_go_on(http: Http, data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "headstream.server"):
        assert set(statuses(raw(http, data))) <= {400, 404}
    assert {(record.message, record.exc_info) for record in caplog.records} <= {("invalid request", None)}
    assert http.call("GET", "/ping").status == 200


def test_a_fault_inside_is_told_by_the_log_alone(
    http: Http, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("the inner secret")

    monkeypatch.setattr(http.dispatcher, "answer", fail)
    with caplog.at_level(logging.ERROR, "headstream.server"):
        answer = http.call("GET", "/streams")
    assert answer.refusal == (500, 1)
    assert b"inner secret" not in answer.body
    assert "the inner secret" in caplog.text


def test_a_token_is_taken_by_its_scheme_in_any_case(http: Http) -> None:
    for scheme, status in (("Bearer", 200), ("bearer", 200), ("BEARER ", 200), ("Basic", 401), ("", 401)):
        answer = http.call("GET", "/streams", token=None, headers={"Authorization": f"{scheme} {http.token}"})
        assert answer.status == status, scheme


def test_a_preflight_needs_no_token(http: Http) -> None:
    asked = {"Origin": f"http://{http.host}:{http.port}", "Access-Control-Request-Method": "POST"}
    answer = http.call("OPTIONS", MESSAGES, token=None, headers=asked)
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["Access-Control-Allow-Methods"] == "GET,POST,PUT,DELETE"


def test_without_cors_nothing_is_said_of_it() -> None:
    with serving(HttpSettings(cors=None, metrics_path=None)) as http:
        assert "Vary" not in http.call("GET", "/ping").headers
        assert http.call("OPTIONS", "/streams").status == 405
        assert http.call("GET", "/metrics").status == 404
        assert "/metrics" not in http.call("GET", "/openapi.json").json["paths"]


def test_cors_tells_the_origins_that_are_allowed() -> None:
    with serving(HttpSettings(cors=CorsSettings(allowed_origins=("https://a",)))) as http:
        for origin, told in (("https://a", "https://a"), ("https://b", None)):
            assert http.call("GET", "/ping", headers={"Origin": origin}).headers.get("Access-Control-Allow-Origin") == told


def test_metrics_count_what_was_asked(http: Http) -> None:
    http.call("POST", MESSAGES, SEND)
    http.call("GET", "/streams", token=None)
    answer = http.call("GET", "/metrics", token=None)
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert answer.body.endswith(b"# EOF\n")
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.body.decode())  # type: ignore[no-untyped-call]
        for sample in family.samples
    }
    for name in ("streams", "topics", "partitions", "segments", "users"):
        assert samples[name,] == 1, name
    assert samples["messages",] >= 1
    assert samples["clients",] == 0
    assert samples["http_requests_total",] >= 4
    labels = ("command", "message.send"), ("status", "ok"), ("transport", "http")
    sent = samples["headstream_requests_total", *labels]
    assert sent >= 1
    assert samples["headstream_request_seconds_count", ("command", "message.send"), ("transport", "http")] >= sent
    assert samples["headstream_received_bytes_total", ("transport", "http")] > 0
    assert samples["headstream_sent_bytes_total", ("transport", "http")] > 0
    assert samples["headstream_connections", ("transport", "http")] >= 1


def test_metrics_tell_how_far_groups_are_behind_where_they_may() -> None:
    for told in (False, True):
        with serving(HttpSettings(metrics_of_groups=told)) as http:
            make_topic(http)
            for _ in range(3):
                assert http.call("POST", MESSAGES, SEND).status == 201
            committed = {"consumer": "group:billing", "offsets": {"1": 1}}
            assert http.call("PUT", "/streams/s/topics/t/consumer-offsets/committed", committed).status == 204
            text = http.call("GET", "/metrics", token=None).body.decode()
            assert ('headstream_group_lag{group="billing",stream="s",topic="t"} 2.0' in text) is told


def during(work: Callable[[], Answer]) -> tuple[threading.Thread, list[Answer]]:
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(work()))
    thread.start()
    return thread, answers


def wait_until(is_so: Callable[[], bool]) -> None:
    done = threading.Event()
    for _ in range(2000):
        if is_so():
            return
        done.wait(0.01)
    raise AssertionError("it did not come to that")


def wait_for_messages(http: Http, offset: int, timeout_ms: int) -> Answer:
    return http.call("POST", f"{MESSAGES}/wait", {"positions": {"1": offset}, "timeout_ms": timeout_ms})


def test_who_waits_is_woken_by_a_message_and_holds_no_thread() -> None:
    with serving() as http:
        make_topic(http)
        waiting = [during(lambda: wait_for_messages(http, 0, 60_000)) for _ in range(100)]
        wait_until(lambda: http.server.waiting_count == 100)
        assert http.call("POST", MESSAGES, SEND).status == 201
        for thread, answers in waiting:
            thread.join(30)
            assert answers[0].json == {"is_woken": True}
        assert wait_for_messages(http, 0, 60_000).json == {"is_woken": True}
        assert wait_for_messages(http, 1, 10).json == {"is_woken": False}
        assert http.server.waiting_count == 0


def test_who_goes_away_waits_no_more() -> None:
    with serving() as http:
        make_topic(http)
        body = json.dumps({"positions": {"1": 0}, "timeout_ms": 60_000}).encode()
        with socket.create_connection((http.host, http.port), timeout=20) as peer:
            peer.sendall(head(http, "POST", f"{MESSAGES}/wait", f"{JSON}Content-Length: {len(body)}\r\n") + body)
            wait_until(lambda: http.server.waiting_count == 1)
        wait_until(lambda: http.server.waiting_count == 0)


def test_stopping_answers_who_waits_and_takes_nothing_more() -> None:
    with serving() as http:
        make_topic(http)
        thread, answers = during(lambda: wait_for_messages(http, 0, 60_000))
        wait_until(lambda: http.server.waiting_count == 1)
        http.stop()
        thread.join(30)
        assert answers[0].json == {"is_woken": False}
        with pytest.raises(OSError, match="refused"):
            http.call("GET", "/ping")
        http.stop()


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
