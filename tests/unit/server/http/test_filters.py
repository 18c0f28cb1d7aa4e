"""Filters over HTTP: parameters of a URL, how far a request came, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from headstream.core.codec.binary import decode_polled, encode_sent
from headstream.core.model import constructors as kinds
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message
from headstream.core.wire.extensions.filters import FilteredMessages, FilterMessages
from headstream.core.wire.extensions.messages import AppendMessages
from headstream.core.wire.records import BINARY
from headstream.server.config.http_settings import HttpSettings
from tests.support.server.http_servers import Answer, Http, serving

TOPIC = {"name": "t", "partitions_count": 1, "compression_algorithm": "none", "message_expiry": 0, "max_topic_size": 0}
PLACE = "/streams/s/topics/t/partitions/1"
VALUES: list[Any] = [*map(kinds.uint8, range(9)), "nine"]


@pytest.fixture(scope="module")
def http() -> Iterator[Http]:
    with serving(HttpSettings(max_body_bytes=1000, max_binary_bytes=50_000)) as served:
        assert served.call("POST", "/streams", {"name": "s"}).status == 200
        assert served.call("POST", "/streams/s/topics", TOPIC).status == 200
        sent = encode_sent([Message(payload=b"x", headers=Headers({"n": value})) for value in VALUES])
        command = AppendMessages("s", "t", 1, sent)
        answer = served.call("POST", command.to_path(), command.encode(), headers={"Content-Type": BINARY, "Accept": BINARY})
        assert answer.status == 200
        assert served.call("PUT", f"{PLACE}/states", {"offsets": [2, 8], "state": "poisoned", "reason": ""}).status == 204
        yield served


def ask(http: Http, headers: dict[str, str] | None = None, **parameters: object) -> Answer:
    return http.call("GET", f"{PLACE}/messages?{urlencode(parameters)}", headers=headers or {})


def test_a_filter_returns_what_matches_and_where_to_continue(http: Http) -> None:
    found = ask(http, where="n >= 1 AND n <> 4", count=3).json
    assert [message["offset"] for message in found["messages"]] == [1, 3, 5]
    assert (found["partition_id"], found["count"], found["next_offset"], found["end_offset"]) == (1, 3, 6, 10)
    found = ask(http, where="n >= 1 AND n <> 4", count=3, value=found["next_offset"]).json
    assert [message["offset"] for message in found["messages"]] == [6, 7]
    assert (found["next_offset"], found["scanned_count"], found["failed_count"]) == (10, 3, 1)
    nothing = ask(http, where="n = 100").json
    assert (nothing["messages"], nothing["next_offset"], nothing["scanned_count"]) == ([], 10, 8)


def test_a_filter_takes_all_parameters_of_a_poll(http: Http) -> None:
    found = ask(
        http, where="_state = 'poisoned' OR n = 3", states="available,poisoned", kind="first", on_filter_error="deliver"
    ).json
    assert [message["offset"] for message in found["messages"]] == [2, 3, 8, 9]
    polled: dict[str, Any] = {"where": "n > 4", "kind": "next", "consumer": "consumer:me", "auto_commit": "true", "count": 1}
    assert [ask(http, **polled).json["messages"][0]["offset"] for _ in range(3)] == [5, 6, 7]
    assert ask(http, **polled).json["messages"] == []


def test_a_filter_returns_bytes_to_who_accepts_them(http: Http) -> None:
    answer = ask(http, {"Accept": BINARY}, where="n = 3")
    assert answer.headers["Content-Type"] == BINARY
    reply: FilteredMessages = FilterMessages.decode_reply(answer.body)
    assert [message.offset for message in decode_polled(reply.messages)] == [3]


@pytest.mark.parametrize(
    ("parameters", "what"),
    [
        ({"where": "n >="}, "the filter is invalid at character 5"),
        ({}, "where is missing"),
        ({"where": "n = 1", "count": 0}, "a filter must request at least 1 message"),
        ({"where": "_state = 'poisoned'"}, "only available messages are requested"),
        ({"where": "n = 1", "kind": "last"}, "the newest messages cannot be filtered"),
        ({"where": "n > 1", "value": 9, "on_filter_error": "raise"}, "it compares the header 'n', of kind string"),
        ({"where": "n > 1", "on_filter_error": "ignore"}, "on_filter_error"),
        ({"where": "n > 1", "states": "rotten"}, "states"),
    ],
)
def test_a_filter_that_cannot_be_used_is_refused_with_a_reason(http: Http, parameters: dict[str, Any], what: str) -> None:
    answer = ask(http, **parameters)
    assert answer.status == 400
    assert what in answer.body.decode()


def test_a_poll_of_iggys_route_rejects_a_filter_instead_of_ignoring_it(http: Http) -> None:
    answer = http.call("GET", "/streams/s/topics/t/messages?partition_id=1&consumer_id=1&count=10&where=n%3D1")
    assert answer.status == 400
    assert b"this route does not support a filter" in answer.body
    assert http.call("GET", "/streams/s/topics/t/messages?partition_id=1&consumer_id=1&count=10").status == 200


def test_the_longest_filter_fits_into_a_request(http: Http) -> None:
    where = "n = '" + "é" * 1021 + "'"
    assert len(where.encode()) == 2048
    assert ask(http, where=where).status == 200
    assert "at most 2048 bytes" in ask(http, where=where + " " * 10).body.decode()


def test_metrics_count_what_filters_examine(http: Http) -> None:
    ask(http, where="n > 100")
    text = http.call("GET", "/metrics", token=None).body.decode()
    counts = dict(line.split(" ") for line in text.splitlines() if line.startswith("headstream_filter_"))
    assert float(counts["headstream_filter_scanned_messages_total"]) >= 8
    assert float(counts["headstream_filter_failed_messages_total"]) >= 1
