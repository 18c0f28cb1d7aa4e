"""Unit tests of headstream.server.http.overview."""

from __future__ import annotations

from typing import Any

from tests.support.server.http_servers import Http
from tests.unit.server.http.test_views import BROWSE, http

__all__ = ["http"]  # fixtures


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
