"""Unit tests of headstream.server.http.requests."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.support.server.http_servers import Http
from tests.unit.server.http.test_connections import raw, statuses
from tests.unit.server.http.test_server import JSON, MESSAGES, SEND, head


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


def test_a_token_is_taken_by_its_scheme_in_any_case(http: Http) -> None:
    for scheme, status in (("Bearer", 200), ("bearer", 200), ("BEARER ", 200), ("Basic", 401), ("", 401)):
        answer = http.call("GET", "/streams", token=None, headers={"Authorization": f"{scheme} {http.token}"})
        assert answer.status == status, scheme
