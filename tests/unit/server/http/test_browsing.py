"""Unit tests of headstream.server.http.browsing."""

from __future__ import annotations

import base64

import pytest

from tests.support.server.http_servers import Http
from tests.unit.server.http.test_overview import browse, log_in, rights
from tests.unit.server.http.test_views import BROWSE, http

__all__ = ["http"]  # fixtures


def test_browse_shows_repeated_headers_in_order_with_their_kinds(http: Http) -> None:
    first = browse(http)["messages"][0]
    assert [(one["key"], one["kind"], one["value"]) for one in first["headers"]] == [
        ("tag", "string", "a"),
        ("tag", "string", "b"),
        ("n", "uint8", "7"),
    ]
    assert first["key"] == {"size_bytes": 3, "base64": base64.b64encode(b"key").decode()}
    assert first["is_intact"] is True


def test_browse_cuts_payloads_and_says_how_long_they_are(http: Http) -> None:
    found = browse(http, "?kind=offset&value=1&count=1&payload_bytes=10")
    (message,) = found["messages"]
    assert (message["payload"]["size_bytes"], base64.b64decode(message["payload"]["base64"])) == (4000, b"\x00\xff" * 5)
    assert message["state"] == "poisoned"
    assert [one["value"] for one in message["headers"]] == ["AQI=", "", "true"]
    assert (found["next_offset"], found["end_offset"]) == (2, 4)


def test_browse_shows_null_payloads_and_the_newest_messages(http: Http) -> None:
    messages = browse(http, "?kind=last&count=2")["messages"]
    assert [(one["offset"], one["payload"] is None) for one in messages] == [(2, True), (3, False)]


@pytest.mark.parametrize(
    ("text", "offsets"), [("gr%C3%BC%C3%9Fe", [3]), ("gone", [2]), ("tag", [0]), ("AQI%3D", [1]), ("zz", [])]
)
def test_browse_finds_a_text_in_payloads_keys_and_headers(http: Http, text: str, offsets: list[int]) -> None:
    found = browse(http, f"?contains={text}")
    assert [one["offset"] for one in found["messages"]] == offsets
    assert (found["next_offset"], found["scanned_count"]) == (4, 4)


def test_browse_continues_a_search_after_the_last_match_that_fits(http: Http) -> None:
    found = browse(http, "?contains=e&count=1")
    assert [one["offset"] for one in found["messages"]] == [0]
    assert (found["next_offset"], found["scanned_count"]) == (1, 1)
    again = browse(http, f"?kind=offset&value={found['next_offset']}&contains=e&count=1")
    assert again["messages"][0]["offset"] > 0


def test_browse_returns_the_messages_that_match_a_filter(http: Http) -> None:
    found = browse(http, "?where=n%20%3D%207")
    assert [one["offset"] for one in found["messages"]] == [0]
    assert (found["next_offset"], found["scanned_count"]) == (4, 4)
    assert browse(http, "?where=n%20%3E%207")["messages"] == []


@pytest.mark.parametrize(
    "query",
    [
        "?where=n%20%3D",
        "?where=n%20%3D%207&contains=a",
        "?kind=next",
        "?count=0",
        "?count=501",
        "?payload_bytes=65537",
        "?value=-1",
        "?what=1",
        "?count=x",
    ],
)
def test_browse_refuses_wrong_parameters(http: Http, query: str) -> None:
    assert http.call("GET", BROWSE + query).status == 400


def test_download_returns_the_whole_payload_as_a_file(http: Http) -> None:
    answer = http.call("GET", "/streams/shop/topics/orders/partitions/1/messages/1/payload")
    assert (answer.status, answer.body) == (200, b"\x00\xff" * 2000)
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"].startswith("attachment;")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("offset", ["2", "4", "99"])
def test_download_is_404_for_a_null_payload_and_a_missing_message(http: Http, offset: str) -> None:
    assert http.call("GET", f"/streams/shop/topics/orders/partitions/1/messages/{offset}/payload").status == 404


def test_browse_is_refused_without_the_right_to_poll(http: Http) -> None:
    token = log_in(http, "reader", {"global": rights(read_servers=True), "streams": None})
    assert http.call("GET", BROWSE, token=token).status == 403
    assert http.call("GET", "/streams/shop/topics/orders/partitions/1/messages/0/payload", token=token).status == 403
