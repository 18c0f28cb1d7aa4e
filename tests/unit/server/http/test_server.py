"""HttpServer on the wire: what it takes, what it bounds, who waits, how it stops."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable

import pytest

from headstream.server.config.http_settings import CorsSettings, HttpSettings
from tests.support.crashes import fail_with
from tests.support.server.http_servers import Answer, Http, make_topic, serving
from tests.support.waiting import wait_until

SEND = {"partitioning": {"kind": "balanced"}, "messages": [{"payload": "aGVsbG8="}]}
MESSAGES = "/streams/s/topics/t/messages"
JSON = "Content-Type: application/json\r\n"


def head(http: Http, method: str, path: str, more: str = "", *, close: bool = True) -> bytes:
    more += "Connection: close\r\n" if close else ""
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {http.token}\r\n{more}\r\n".encode()


def test_a_head_is_a_get_without_its_body(http: Http) -> None:
    answer = http.call("HEAD", "/ping", token=None)
    assert (answer.status, answer.body, answer.headers["Content-Length"]) == (200, b"", "4")


def test_a_fault_inside_is_told_by_the_log_alone(
    http: Http, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(http.dispatcher, "answer", fail_with(RuntimeError("the inner secret")))
    with caplog.at_level(logging.ERROR, "headstream.server"):
        answer = http.call("GET", "/streams")
    assert answer.refusal == (500, 1)
    assert b"inner secret" not in answer.body
    assert "the inner secret" in caplog.text


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


def during(work: Callable[[], Answer]) -> tuple[threading.Thread, list[Answer]]:
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(work()))
    thread.start()
    return thread, answers


def wait_for_messages(http: Http, offset: int, timeout_ms: int) -> Answer:
    return http.call("POST", f"{MESSAGES}/wait", {"positions": {"1": offset}, "timeout_ms": timeout_ms})


def test_wait_holds_no_thread_and_is_answered_when_a_message_arrives() -> None:
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


def test_wait_ends_when_its_client_closes_the_connection() -> None:
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
