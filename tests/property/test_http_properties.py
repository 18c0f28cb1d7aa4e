"""Requests over HTTP at random: each is answered as the description tells, none finds a fault, and the server goes on."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.support.server.http_fuzz import requests
from tests.support.server.http_servers import Http, serving

TOPIC = {"name": "t", "partitions_count": 2, "compression_algorithm": "none", "message_expiry": 0, "max_topic_size": 0}


@pytest.fixture(scope="module")
def server() -> Iterator[Http]:
    with serving() as served:
        yield served


def prepare(server: Http) -> None:
    """What random requests may have deleted: a stream, its topic, and who asks."""
    server.token = server.tokens.issue(1, 0).token
    server.call("POST", "/streams", {"name": "s"})
    server.call("POST", "/streams/s/topics", TOPIC)


def ask_at_random(server: Http, data: st.DataObject, description: Any, count: int) -> None:
    prepare(server)
    for _ in range(count):
        asked = data.draw(requests(description))
        if asked.path.endswith("/messages/wait") or "timeout_ms" in str(asked.body):
            continue  # it may be asked to wait for weeks
        try:
            answer = server.call(asked.method, asked.path, asked.body)
        except (http.client.InvalidURL, UnicodeEncodeError):
            continue  # this client cannot spell it
        assert answer.status < 500, (asked, answer)
        if answer.headers.get("Content-Type") == "application/json" and answer.status >= 400:
            whole = {**description["components"]["schemas"]["Error"]}
            assert [error.message for error in Draft202012Validator(whole).iter_errors(answer.json)] == [], (asked, answer)
        if answer.status == 401:
            prepare(server)
    assert server.call("GET", "/ping", token=None).body == b"pong"


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_request_at_random_is_answered(server: Http, data: st.DataObject) -> None:
    description = server.call("GET", "/openapi.json").json
    ask_at_random(server, data, description, 5)


@pytest.mark.soak
@settings(max_examples=5000, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_many_requests_at_random_are_answered(server: Http, data: st.DataObject) -> None:
    description = server.call("GET", "/openapi.json").json
    ask_at_random(server, data, description, 20)
