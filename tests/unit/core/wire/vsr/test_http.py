"""The JSON of Iggy's HTTP since server 0.9: to a server whose client has logged in as such an SDK, beside the older form."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from headstream.core.model.topology import Fsync
from headstream.core.wire.commands.topics import CreateTopic
from headstream.core.wire.statuses import Status
from headstream.core.wire.vsr.http import decode_request
from headstream.errors import HeadstreamError
from headstream.server.config.http_settings import HttpSettings
from tests.support.server.http_servers import Answer, Http, serving

LOGIN = {"username": "iggy", "password": "iggy", "version": "0.11.0", "context": ""}
TOPIC = "/streams/shop/topics/eu"


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def header(key: str, kind: str, value: bytes, key_kind: str = "string") -> dict[str, Any]:
    return {"key": {"kind": key_kind, "value": encoded(key.encode())}, "value": {"kind": kind, "value": encoded(value)}}


class Today:
    """A client of today's beside an older one of the same server."""

    def __init__(self, http: Http) -> None:
        self.older = http
        login = http.call("POST", "/users/login", LOGIN, token=None)
        assert login.status == 200
        self.token = login.json["access_token"]["token"]

    def call(self, method: str, path: str, body: Any = None) -> Answer:
        return self.older.call(method, path, body, token=self.token)

    def send(self, partition: int, *messages: dict[str, Any]) -> Answer:
        partitioning = {"kind": "partition_id", "value": encoded(partition.to_bytes(4, "little"))}
        return self.call("POST", f"{TOPIC}/messages", {"partitioning": partitioning, "messages": messages})


@pytest.fixture(scope="module")
def today() -> Iterator[Today]:
    """A client with the topic shop/eu of 2 partitions."""
    with serving(HttpSettings()) as http:
        today = Today(http)
        assert today.call("POST", "/streams", {"name": "shop"}).status == 200
        made = today.call("POST", "/streams/shop/topics", {"name": "eu", "partitions_count": 2, "options": {}})
        assert [each["id"] for each in made.json["partitions"]] == [0, 1]
        yield today


def test_messages_have_lists_of_typed_headers_and_partitions_from_0(today: Today) -> None:
    message = {"id": 7, "payload": encoded(b"tea"), "user_headers": [header("attempt", "uint8", b"\x03")]}
    sent = today.send(1, message, {"payload": encoded(b"plain")})
    assert sent.status == 201
    [place] = sent.json["confirmations"]
    assert (place["partition_id"], place["base_offset"]) == (1, 0)
    polled = today.call("GET", f"{TOPIC}/messages?consumer_id=reader&partition_id=1&kind=offset&value=0&count=9").json
    typed, plain = polled["messages"]
    assert (polled["partition_id"], polled["count"], polled["current_offset"]) == (1, 2, 1)
    assert (typed["header"]["id"], typed["header"]["offset"], typed["header"]["payload_length"]) == (7, 0, 3)
    assert typed["header"]["origin_timestamp"] == typed["header"]["timestamp"] > 0
    assert typed["header"]["checksum"] > 0
    assert (typed["payload"], typed["user_headers"]) == (encoded(b"tea"), [header("attempt", "uint8", b"\x03")])
    assert (plain["header"]["offset"], plain["user_headers"]) == (1, [])
    older = today.older.call("GET", f"{TOPIC}/messages?consumer_id=1&partition_id=2&kind=offset&value=0&count=9").json
    assert older["messages"][0]["headers"] == {"attempt": {"kind": "uint8", "value": encoded(b"\x03")}}
    assert older["partition_id"] == 2


def test_offsets_and_groups_count_partitions_from_0(today: Today) -> None:
    today.send(0, {"payload": encoded(b"a")})
    assert today.call("PUT", f"{TOPIC}/consumer-offsets", {"consumer_id": "ann", "partition_id": 0, "offset": 0}).status == 204
    assert today.call("PUT", f"{TOPIC}/consumer-offsets", {"consumer_id": "ann", "partition_id": -1, "offset": 0}).status == 422
    stored = today.call("GET", f"{TOPIC}/consumer-offsets?consumer_id=ann&partition_id=0").json
    assert (stored["partition_id"], stored["stored_offset"]) == (0, 0)
    assert today.call("GET", f"{TOPIC}/consumer-offsets?consumer_id=ann&partition_id=1").status == 404
    assert today.call("GET", f"{TOPIC}/messages?consumer_id=ann&partition_id=2&count=1").status == 404
    assert today.call("DELETE", f"{TOPIC}/consumer-offsets/ann?partition_id=0").status == 204
    assert today.call("DELETE", f"{TOPIC}/partitions/1?segments_count=1").status == 204
    assert today.call("POST", f"{TOPIC}/consumer-groups", {"name": "billing"}).json["members"] == []


def test_keys_choose_the_partition_that_clients_over_tcp_choose(today: Today) -> None:
    key = {"partitioning": {"kind": "messages_key", "value": encoded(b"42")}, "messages": [{"payload": encoded(b"k")}]}
    assert today.call("POST", f"{TOPIC}/messages", key).json["confirmations"][0]["partition_id"] == 1  # XXH32 % 2


def test_server_describes_itself(today: Today) -> None:
    [node] = today.call("GET", "/cluster/metadata").json["nodes"]
    assert (node["endpoints"]["http"], node["role"], node["status"]) == (today.older.port, "leader", "healthy")
    options = {each["key"]: each for each in today.call("GET", "/options/topic").json}
    assert (options["durability"]["kind"], bytes(options["durability"]["default_value"])) == ("string", b"replicated")
    assert today.call("GET", "/options/user").json == []
    assert today.call("GET", "/stats").json["threads_count"] > 0


def test_a_change_leaves_what_it_does_not_name(today: Today) -> None:
    assert (
        today.call("POST", "/streams/shop/topics", {"name": "kept", "partitions_count": 1, "message_expiry": 7_000_000}).status
        == 200
    )
    assert today.call("PUT", "/streams/shop/topics/kept", {"name": "new", "message_expiry": None, "options": {}}).status == 204
    assert today.call("GET", "/streams/shop/topics/new").json["message_expiry"] == 7_000_000


def test_a_refreshed_token_keeps_the_form(today: Today) -> None:
    token = today.older.call("POST", "/users/login", LOGIN, token=None).json["access_token"]["token"]
    refreshed = today.older.call("POST", "/users/refresh-token", {"token": token}, token=None).json["access_token"]["token"]
    assert today.older.call("GET", f"{TOPIC}", token=refreshed).json["partitions"][0]["id"] == 0


@pytest.mark.parametrize("version", ["0.7.0", "0.10.2"])
def test_a_generation_between_is_refused_at_login(today: Today, version: str) -> None:
    refused = today.older.call("POST", "/users/login", LOGIN | {"version": version}, token=None)
    assert refused.refusal == (400, Status.INVALID_VERSION)
    assert "0.11" in refused.json["reason"]


def test_options_of_a_topic_are_read() -> None:
    body = b'{"name": "eu", "partitions_count": 1, "options": {"durability": "persisted", "segment_size": "1 MB"}}'
    made = decode_request(CreateTopic, {"stream_id": "shop"}, {}, body)
    assert isinstance(made, CreateTopic)
    assert made.fsync is Fsync.ALWAYS
    for options, status in (('{"colour": "red"}', Status.UNSUPPORTED_OPTION), ('{"durability": "odd"}', Status.INVALID_OPTION)):
        with pytest.raises(HeadstreamError) as refused:
            decode_request(CreateTopic, {"stream_id": "s"}, {}, body.replace(body[body.index(b'{"dur') : -1], options.encode()))
        assert refused.value.status == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([header("a", "uint8", b"\x03", "uint8")], Status.INVALID_HEADER_KIND),
        ([header("a", "uint8", b"\x03")] * 2, Status.INVALID_HEADER_KIND),
        ([{"key": {"kind": "string", "value": "/w=="}, "value": {"kind": "raw", "value": "AA=="}}], Status.INVALID_HEADER_KIND),
        ([header("", "uint8", b"\x03")], Status.INVALID_HEADER_KEY),
        ([header("a", "uint8", b"")], None),
        ([header("a", "odd", b"\x03")], None),
        ([{"key": 1}], None),
        ("AAAA", None),
        ({"a": {"kind": "uint8", "value": "Aw=="}}, None),
        (7, None),
    ],
)
def test_headers_that_are_none_are_refused(today: Today, headers: Any, status: int | None) -> None:
    refused = today.send(0, {"payload": encoded(b"a"), "user_headers": headers})
    assert refused.status in (400, 422)
    assert status is None or refused.json["id"] == status
    bodies: list[Any] = [
        None,
        [],
        {"partitioning": 1, "messages": 1},
        {"partitioning": {"kind": "partition_id"}, "messages": [1]},
    ]
    for body in bodies:
        assert today.call("POST", f"{TOPIC}/messages", body).status in (400, 415, 422)
