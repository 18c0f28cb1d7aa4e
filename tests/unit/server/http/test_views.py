"""Views: what they show, to whom, and what they refuse."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

import headstream as hs
from headstream.core.codec.binary import encode_sent
from headstream.core.model.constructors import bool_
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message
from headstream.core.model.polling import OffsetOwner
from tests.support.server.http_servers import Http, serving

BROWSE = "/streams/shop/topics/orders/partitions/1/messages/browse"
BINARY = "application/vnd.headstream.binary"


@pytest.fixture(scope="module")
def http() -> Iterator[Http]:
    with serving() as served:
        broker = served.dispatcher.broker
        for name in ("shop/orders", "shop/returns", "audit/logins"):
            broker.topics.create(TopicName.parse(name), 2, hs.Limits.WIDE)
        messages = [
            Message(
                payload=b"first",
                headers=hs.Headers([("tag", hs.string("a")), ("tag", hs.string("b")), ("n", hs.uint8(7))]),
                key=b"key",
            ),
            Message(
                payload=b"\x00\xff" * 2000,
                headers=hs.Headers([("raw", hs.raw(b"\x01\x02")), ("none", hs.null()), ("yes", bool_(True))]),
            ),
            Message(payload=None, key=b"gone"),
            Message(payload="grüße <b>".encode()),
        ]
        broker.messages.send(TopicName.parse("shop/orders"), 1, encode_sent(messages))
        broker.messages.set_state(TopicName.parse("shop/orders"), 1, [1], hs.MessageState.POISONED, reason="bad", by="ann")
        broker.offsets.commit(TopicName.parse("shop/orders"), OffsetOwner.group("billing"), {1: 1})
        yield served


def browse(http: Http, query: str = "", **options: Any) -> Any:
    answer = http.call("GET", BROWSE + query, **options)
    assert answer.status == 200, answer.body
    return answer.json


def log_in(http: Http, name: str, permissions: Any) -> str:
    body = {"username": name, "password": "secret", "status": "active", "permissions": permissions}
    assert http.call("POST", "/users", body).status == 200
    token: str = http.log_in(name, "secret").json["access_token"]["token"]
    return token


def rights(**given: bool) -> dict[str, Any]:
    names = "manage_servers read_servers manage_users read_users manage_streams read_streams manage_topics read_topics"
    return {name: given.get(name, False) for name in (*names.split(), "poll_messages", "send_messages")}


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


def test_views_need_a_token_and_take_only_get(http: Http) -> None:
    for path in (BROWSE, "/open/overview", "/open/topics/visible", "/open/group-lags", "/console/session"):
        assert http.call("GET", path, token=None).status == 401
        refused = http.call("DELETE", path)
        assert (refused.status, refused.headers["Allow"]) == (405, "GET")


def test_browse_is_refused_without_the_right_to_poll(http: Http) -> None:
    token = log_in(http, "reader", {"global": rights(read_servers=True), "streams": None})
    assert http.call("GET", BROWSE, token=token).status == 403
    assert http.call("GET", "/streams/shop/topics/orders/partitions/1/messages/0/payload", token=token).status == 403


def test_visible_topics_are_all_for_root_and_those_of_its_permissions_for_another_user(http: Http) -> None:
    everything = http.call("GET", "/open/topics/visible").json["topics"]
    assert {(one["stream"], one["name"]) for one in everything} == {("audit", "logins"), ("shop", "orders"), ("shop", "returns")}
    ids = {one["name"]: one["id"] for one in everything}
    streams = {one["name"]: one["id"] for one in http.call("GET", "/streams").json}
    no_rights = dict.fromkeys(
        ("manage_stream", "read_stream", "manage_topics", "read_topics", "poll_messages", "send_messages"), False
    )
    for_topic = {"manage_topic": False, "read_topic": True, "poll_messages": True, "send_messages": False}
    own = {
        str(streams["shop"]): {**no_rights, "topics": {str(ids["orders"]): for_topic, "99": for_topic}},
        str(streams["audit"]): {**no_rights, "read_topics": True, "topics": None},
    }
    token = log_in(http, "clerk", {"global": rights(), "streams": own})
    found = http.call("GET", "/open/topics/visible", token=token).json["topics"]
    assert {(one["stream"], one["name"]) for one in found} == {("audit", "logins"), ("shop", "orders")}
    assert [one["name"] for one in http.call("GET", "/open/group-lags", token=token).json["groups"]] == ["billing"]
    assert len(browse(http, token=token)["messages"]) == 4


def test_a_user_without_permissions_sees_no_topic(http: Http) -> None:
    token = log_in(http, "nobody", None)
    assert http.call("GET", "/open/topics/visible", token=token).json["topics"] == []
    assert http.call("GET", "/open/group-lags", token=token).json["groups"] == []


def test_group_lags_name_the_topic_of_each_group(http: Http) -> None:
    (group,) = http.call("GET", "/open/group-lags").json["groups"]
    assert (group["stream"], group["topic"], group["name"], group["lag"]) == ("shop", "orders", "billing", 3)
    assert group["partitions"][0]["committed"] == 1


def test_overview_counts_messages_and_the_bytes_of_each_transport(http: Http) -> None:
    found = http.call("GET", "/open/overview").json
    assert found["messages_count"] == 4
    assert found["memory_bytes"] > 1 << 20
    (transport,) = found["transports"]
    assert transport["transport"] == "http"
    assert transport["sent_bytes"] > 0


def test_session_tells_the_user_and_its_permissions(http: Http) -> None:
    found = http.call("GET", "/console/session").json
    assert found["user"]["username"] == "iggy"
    assert found["user"]["permissions"]["global"]["manage_servers"] is True
    assert "password" not in found["user"]
