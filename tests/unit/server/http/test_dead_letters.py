"""Dead letters and pipelines over HTTP: what the routes do, to whom, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import headstream as hs
from headstream.errors import StorageError
from headstream.server.http.pipeline_reports import PipelineReports
from tests.support.server.http_servers import Http, serving
from tests.unit.server.http.test_overview import log_in, rights

TOPIC, DEAD = "shop/orders", "shop/orders.dead"
LETTERS = "/streams/shop/topics/orders.dead/partitions/1/letters"
COUNT = 6


def fill(http: Http) -> hs.Client:
    """Give up six messages: two were rejected, four failed."""
    log = hs.Client(http.dispatcher.broker)
    log.create_topic(TOPIC)
    for number in range(COUNT):
        log.send(TOPIC, b"%d" % number, key=b"k")
    retry = hs.Retry(1, delay="0s", max_delay="0s")
    with log.consumer(TOPIC, group="billing", on_error=retry, dead_letter=DEAD, timeout_ms=0) as consumer:
        for number, message in enumerate(consumer.poll(COUNT)):
            if number < 2:
                consumer.reject(message, reason="it's unwanted")
            else:
                consumer.retry(message, reason=ValueError("no"))
    return log


@pytest.fixture
def http() -> Iterator[Http]:
    with serving() as served:
        fill(served)
        yield served


def post(http: Http, action: str, **body: Any) -> Any:
    answer = http.call("POST", f"{LETTERS}/{action}", body)
    assert answer.status == 200, answer.body
    return answer.json


def copies(http: Http) -> list[bytes | None]:
    return [message.payload for message in hs.Client(http.dispatcher.broker).poll(TOPIC, start=COUNT, count=100)]


def test_reasons_are_counted_by_origin_group_and_error(http: Http) -> None:
    found = http.call("GET", f"{LETTERS}/reasons").json
    assert (found["next_offset"], found["is_last"], found["scanned_count"]) == (COUNT, True, COUNT)
    assert [(one["topic"], one["group"], one["reason_code"], one["reason"], one["count"]) for one in found["reasons"]] == [
        (TOPIC, "billing", "max_attempts", "ValueError: no", 4),
        (TOPIC, "billing", "rejected", "it's unwanted", 2),
    ]
    part = http.call("GET", f"{LETTERS}/reasons?from_offset=4&where=hs.attempts%20%3D%201").json
    assert [one["count"] for one in part["reasons"]] == [2]


def test_a_dry_run_counts_and_changes_nothing(http: Http) -> None:
    where = "hs.reason = 'it''s unwanted'"
    nothing = {"next_offset": COUNT, "is_last": True, "matched": 2}
    assert post(http, "redrive", where=where, dry_run=True) == {**nothing, "redriven": 0, "resumed": 0, "foreign": 0}
    assert post(http, "discard", where=where, dry_run=True) == {**nothing, "discarded": 0}
    assert copies(http) == []
    assert http.call("GET", "/streams/shop/topics/orders.dead/partitions/1/states").json == []


def test_letters_are_sent_back_part_after_part_each_once(http: Http) -> None:
    first = post(http, "redrive", where="hs.reason_code = 'max_attempts'", count=3)
    assert (first["redriven"], first["next_offset"], first["is_last"]) == (3, 5, False)
    rest = post(http, "redrive", where="hs.reason_code = 'max_attempts'", count=3, from_offset=5, resumes=False)
    assert (rest["redriven"], rest["is_last"]) == (1, True)
    assert copies(http) == [b"2", b"3", b"4", b"5"]
    assert post(http, "redrive", where="hs.reason_code = 'max_attempts'")["matched"] == 0
    changes = http.call("GET", "/streams/shop/topics/orders.dead/partitions/1/states").json
    assert {(one["state"], one["reason"], one["by"]) for one in changes} == {("marked_for_deletion", "redriven", "iggy")}


def test_only_the_given_offsets_are_discarded(http: Http) -> None:
    assert post(http, "discard", from_offset=1, until_offset=3)["discarded"] == 2
    changes = http.call("GET", "/streams/shop/topics/orders.dead/partitions/1/states").json
    assert [(one["offset"], one["reason"]) for one in changes] == [(1, "discarded"), (2, "discarded")]


def test_letters_are_reached_by_ids_too(http: Http) -> None:
    streams = {one["name"]: one["id"] for one in http.call("GET", "/streams").json}
    topics = {one["name"]: one["id"] for one in http.call("GET", "/open/topics/visible").json["topics"]}
    path = f"/streams/{streams['shop']}/topics/{topics['orders.dead']}/partitions/1/letters/redrive"
    assert http.call("POST", path, {"dry_run": True}).json["matched"] == COUNT
    missing = http.call("POST", f"/streams/{streams['shop']}/topics/99/partitions/1/letters/redrive", {})
    assert (missing.status, missing.json["error"]["kind"]) == (400, "TopicNotFoundError")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"what": 1}, 422), ({"count": 0}, 422), ({"count": 1001}, 422), ({"from_offset": -1}, 422), ({"until_offset": "x"}, 422),
        ({"where": 5}, 422), ({"where": "hs.reason ="}, 400), ({"dry_run": "yes"}, 422), ({"resumes": 1}, 422), ([], 422),
        (b"{", 400),
    ],
)  # fmt: skip
def test_wrong_bodies_are_refused_and_nothing_is_done(http: Http, body: Any, status: int) -> None:
    answer = http.call("POST", f"{LETTERS}/redrive", body)
    assert answer.status == status, answer.body
    assert copies(http) == []


def test_missing_places_tokens_and_methods_are_refused(http: Http) -> None:
    assert http.call("POST", LETTERS.replace("/1/", "/9/") + "/discard", {}).status == 404
    assert http.call("GET", LETTERS.replace("/1/", "/x/") + "/reasons").status == 400
    assert http.call("GET", f"{LETTERS}/reasons?from_offset=x").status == 400
    assert http.call("POST", f"{LETTERS}/redrive", {}, token=None).status == 401
    refused = http.call("GET", f"{LETTERS}/redrive")
    assert (refused.status, refused.headers["Allow"]) == (405, "POST")
    assert http.call("POST", f"{LETTERS}/redrive").status == 415


def test_a_reader_counts_letters_but_neither_sends_nor_discards_them(http: Http) -> None:
    given = rights(read_streams=True, read_topics=True, poll_messages=True)
    token = log_in(http, "reader", {"global": given, "streams": None})
    assert http.call("GET", f"{LETTERS}/reasons", token=token).status == 200
    assert http.call("POST", f"{LETTERS}/redrive", {"dry_run": True}, token=token).status == 200
    assert http.call("POST", f"{LETTERS}/discard", {}, token=token).status == 403
    assert http.call("POST", f"{LETTERS}/redrive", {}, token=token).status == 403
    assert copies(http) == []
    nobody = log_in(http, "nobody", {"global": rights(), "streams": None})
    assert http.call("GET", f"{LETTERS}/reasons", token=nobody).status in (403, 404)


def test_a_redrive_needs_the_right_to_send_to_the_topics_of_origin(http: Http) -> None:
    given = {**rights(read_streams=True, poll_messages=True), "manage_topics": True}
    token = log_in(http, "manager", {"global": given, "streams": None})
    refused = http.call("POST", f"{LETTERS}/redrive", {}, token=token)
    assert (refused.status, copies(http)) == (403, [])
    redriven = post(http, "redrive")
    assert (redriven["resumed"], redriven["redriven"]) == (0, COUNT)  # what was refused is a letter still
    assert len(copies(http)) == COUNT


def test_pipelines_are_shown_to_who_can_read_the_server_with_their_errors() -> None:
    def fail() -> dict[str, Any]:
        raise StorageError("no such bucket", where="s3://lake/checkpoint")

    asked: list[int] = []

    def read() -> dict[str, Any]:
        asked.append(1)
        return {"state": "running"}

    reports = PipelineReports({"/data/one": read, "s3://lake": fail}, needs_right=True)
    with serving(pipelines=reports) as http:
        one, other = http.call("GET", "/open/pipelines").json["pipelines"]
        assert (one["checkpoint"], one["report"], one["error"]) == ("/data/one", {"state": "running"}, None)
        assert (other["checkpoint"], other["report"]) == ("s3://lake", None)
        assert "no such bucket" in other["error"]
        http.call("GET", "/open/pipelines")
        assert asked == [1]  # pages that ask within a second share a report
        token = log_in(http, "reader", {"global": rights(read_streams=True, read_topics=True), "streams": None})
        assert http.call("GET", "/open/pipelines", token=token).status == 403
        admin = log_in(http, "admin", {"global": rights(read_servers=True), "streams": None})
        assert http.call("GET", "/open/pipelines", token=admin).status == 200


def test_a_server_without_pipelines_says_so(http: Http) -> None:
    assert http.call("GET", "/open/pipelines").json["pipelines"] == []
