"""Every route over HTTP: what it answers where all is well, as its description says, and each way in which it refuses."""

from __future__ import annotations

import base64
import io
import itertools
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from headstream.core.wire.codes import TABLE, CodeEntry
from tests.support.server.http_servers import Answer, Http, serving
from tests.support.server.route_cases import CASES, MESSAGE, TOPIC_SETTINGS

NUMBERS = itertools.count(1)
TO_FIRST = {"kind": "partition_id", "value": "AQAAAA=="}


@pytest.fixture(scope="module")
def http() -> Iterator[Http]:
    with serving() as served:
        yield served


@pytest.fixture(scope="module")
def description(http: Http) -> Any:
    return http.call("GET", "/openapi.json", token=None).json


@dataclass
class Place:
    """A stream with a topic of two partitions, a message in it, and the rest of what routes are about; all of one name."""

    http: Http
    name: str
    client_id: int = 0
    member_id: int = 0
    token: str = ""

    def path(self, template: str) -> str:
        return template.format(n=self.name, t=f"/streams/{self.name}/topics/{self.name}", c=self.client_id, m=self.member_id)

    def make(self) -> None:
        topic = {"name": self.name, "partitions_count": 2, **TOPIC_SETTINGS}
        for path, body in (
            ("/streams", {"name": self.name}),
            ("/streams/{n}/topics", topic),
            ("{t}/messages", {"partitioning": TO_FIRST, "messages": [MESSAGE]}),
            ("{t}/consumer-groups", {"name": self.name}),
            ("/users", {"username": self.name, "password": "secret1", "status": "active"}),
            ("/personal-access-tokens", {"name": self.name, "expiry": 0}),
        ):
            answer = self.http.call("POST", self.path(path), body)
            assert answer.status in (200, 201), answer
        stored = {"id": "7", "partition_id": 1, "offset": 0}
        assert self.http.call("PUT", self.path("{t}/consumer-offsets"), stored).status == 204
        self.client_id = self.http.dispatcher.sessions.open(f"127.0.0.1:{self.name}").client_id
        entered = self.http.call("POST", self.path("{t}/consumer-groups/own/members"), {"session_timeout_ms": 60_000})
        self.member_id = entered.json["member_id"]


@pytest.fixture
def place(http: Http) -> Place:
    made = Place(http, f"n{next(NUMBERS):04}")
    made.make()
    return made


@pytest.fixture(scope="module")
def unchanged(http: Http) -> Place:
    """A place for requests that are refused, and the token of its user, who has no rights."""
    made = Place(http, "unchanged")
    made.make()
    made.token = http.log_in(made.name, "secret1").json["access_token"]["token"]
    return made


SPECIAL = {"user.logout", "personal_access_token.login"}


def fill(value: Any, name: str) -> Any:
    if isinstance(value, str):
        return value.replace("{n}", name)
    if isinstance(value, dict):
        return {key: fill(item, name) for key, item in value.items()}
    return [fill(item, name) for item in value] if isinstance(value, list) else value


def entry_of(name: str) -> CodeEntry:
    return next(entry for entry in TABLE.values() if entry.name == name)


def check_described(description: Any, entry: CodeEntry, answer: Answer) -> None:
    """A reply is one that the description tells."""
    assert entry.route is not None
    told = description["paths"][entry.route.path][entry.route.method.lower()]["responses"][str(answer.status)]
    content = told.get("content", {})
    kind = answer.headers.get("Content-Type", "").split(";")[0]
    assert kind in content if answer.body else not content
    if kind == "application/json":
        whole = {**content[kind]["schema"], "components": description["components"]}
        assert [error.message for error in Draft202012Validator(whole).iter_errors(answer.json)] == []


def test_every_route_is_tried() -> None:
    assert set(CASES) | SPECIAL == {entry.name for entry in TABLE.values() if entry.route is not None}


@pytest.mark.parametrize("name", CASES)
def test_a_route_answers_as_it_is_described(http: Http, place: Place, description: Any, name: str) -> None:
    entry = entry_of(name)
    assert entry.route is not None
    path, body = CASES[name]
    if name == "epoch.get":
        http.call("POST", place.path("/epochs/w{n}/1/commit"), {"batches": []})
    if name == "consumer_group.seek":
        http.call("PUT", place.path("{t}/consumer-offsets/committed"), {"consumer": "group:late", "offsets": {"1": 1}})
    if name == "lease.grant":
        entered = {"session_timeout_ms": 60_000, "is_shared": True}
        worker = http.call("POST", place.path("{t}/consumer-groups/workers/members"), entered).json
        body = {**body, "member_id": worker["member_id"]}
    answer = http.call(entry.route.method, place.path(path), fill(body, place.name))
    assert answer.status == entry.route.success, answer.body
    check_described(description, entry, answer)
    assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize("name", [name for name in CASES if entry_of(name).needs_login])
def test_a_route_needs_a_token_that_is_taken(http: Http, name: str) -> None:
    entry = entry_of(name)
    assert entry.route is not None
    place = Place(http, "nobody")
    for token in (None, "", "x.y.z"):
        shown = {} if token is None else {"Authorization": f"Bearer {token}"}
        answer = http.call(entry.route.method, place.path(CASES[name][0]), CASES[name][1], token=None, headers=shown)
        assert (answer.status, answer.body, answer.headers["WWW-Authenticate"]) == (401, b"", "Bearer")


FREE = (
    "cluster", "log.identity", "options.describe", "personal_access_token.", "snapshot", "user.get", "user.login",
    "user.password",
)  # fmt: skip
"""What everybody may do, beside what needs no login."""


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith((*FREE, "ping", "stats"))])
def test_a_route_refuses_a_user_without_rights(http: Http, unchanged: Place, name: str) -> None:
    entry = entry_of(name)
    assert entry.route is not None
    path, body = CASES[name]
    answer = http.call(entry.route.method, unchanged.path(path), fill(body, unchanged.name), token=unchanged.token)
    if name == "consumer_group.exit":  # it is not one of this user's members
        assert answer.refusal == (400, 8)
    else:
        assert answer.refusal == ((404, 404) if entry.is_lookup else (403, 41))


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith(FREE)])
def test_a_route_does_what_everybody_may_for_a_user_without_rights(http: Http, place: Place, name: str) -> None:
    entry = entry_of(name)
    assert entry.route is not None
    token = http.log_in(place.name, "secret1").json["access_token"]["token"]
    path, body = CASES[name]
    answer = http.call(entry.route.method, place.path(path), fill(body, place.name), token=token)
    assert answer.status in (200, 204, 404), answer.body


def test_log_out_revokes_the_token(http: Http, place: Place) -> None:
    token = http.log_in("iggy", "iggy").json["access_token"]["token"]
    assert http.call("DELETE", "/users/logout", token=token).status == 204
    assert http.call("GET", "/streams", token=token).status == 401
    assert http.call("DELETE", "/users/logout", token=token).status == 401
    assert http.call("GET", "/streams").status == 200


def test_a_personal_access_token_logs_in(http: Http, place: Place, description: Any) -> None:
    raw = http.call("POST", "/personal-access-tokens", {"name": f"l{place.name}", "expiry": 0}).json["token"]
    answer = http.call("POST", "/personal-access-tokens/login", {"token": raw}, token=None)
    check_described(description, entry_of("personal_access_token.login"), answer)
    assert answer.json["user_id"] == 1
    assert http.call("GET", "/streams", token=answer.json["access_token"]["token"]).status == 200
    for token, refused in (("no" * 20, (404, 20)), ("no" * 51, (401, 53)), ("", (401, 53))):
        assert http.call("POST", "/personal-access-tokens/login", {"token": token}, token=None).refusal == refused


def test_a_token_is_refreshed_once(http: Http) -> None:
    old = http.log_in("iggy", "iggy").json["access_token"]["token"]
    answer = http.call("POST", "/users/refresh-token", {"token": old}, token=None)
    assert (answer.status, answer.json["user_id"]) == (200, 1)
    assert http.call("GET", "/streams", token=answer.json["access_token"]["token"]).status == 200
    assert http.call("GET", "/streams", token=old).status == 401
    assert http.call("POST", "/users/refresh-token", {"token": old}, token=None).refusal == (401, 78)


def test_the_token_of_a_user_that_was_deleted_is_not_taken(http: Http, place: Place) -> None:
    token = http.log_in(place.name, "secret1").json["access_token"]["token"]
    assert http.call("DELETE", f"/users/{place.name}").status == 204
    assert http.call("GET", "/personal-access-tokens", token=token).status == 401
    assert http.call("POST", "/users/refresh-token", {"token": token}, token=None).status == 401


REFUSALS: list[tuple[str, str, Any, int, int | None]] = [
    ("GET", "/streams/99999", None, 404, 404),
    ("GET", "/streams/missing", None, 404, 404),
    ("GET", "/streams/0", None, 400, 6),
    ("GET", "/streams/%ff", None, 400, None),
    ("DELETE", "/streams/99999", None, 404, 1009),
    ("DELETE", "/streams/missing", None, 400, 1010),
    ("POST", "/streams", {"name": "{n}"}, 400, 1012),
    ("POST", "/streams", {"name": ""}, 400, 1013),
    ("POST", "/streams", {"name": "x" * 256}, 400, 1013),
    ("POST", "/streams", {}, 422, None),
    ("POST", "/streams", {"name": 5}, 422, None),
    ("POST", "/streams", {"name": "a", "stream_id": "1"}, 422, None),
    ("POST", "/streams", [], 422, None),
    ("POST", "/streams", b"{", 400, None),
    ("POST", "/streams", b"", 400, None),
    ("POST", "/streams", b"\xff", 400, None),
    ("POST", "/streams", b'{"name":"a","name":"b"}', 400, None),
    ("POST", "/streams", b"[" * 100_000, 400, None),
    ("POST", "/streams", b'{"name":"\\ud800"}', 400, None),
    ("GET", "/streams/{n}/topics/99999", None, 404, 404),
    ("DELETE", "{t}x", None, 400, 2011),
    ("DELETE", "/streams/{n}/topics/99999", None, 404, 2010),
    ("POST", "/streams/{n}/topics", {"name": "x", "partitions_count": 1001, **TOPIC_SETTINGS}, 400, 2015),
    ("POST", "/streams/{n}/topics", {"name": "x", "partitions_count": 1}, 422, None),
    ("POST", "{t}/partitions", {"partitions_count": 0}, 400, 2015),
    ("DELETE", "{t}/partitions", None, 400, None),
    ("DELETE", "{t}/partitions?partitions_count=x", None, 400, None),
    ("GET", "{t}/messages?count=0", None, 400, 4009),
    ("GET", "{t}/messages?count=-1", None, 400, None),
    ("GET", "{t}/messages?kind=x", None, 400, None),
    ("GET", "{t}/messages?count=1&count=2", None, 400, None),
    ("GET", "{t}/messages?id=%ff", None, 400, None),
    ("GET", "{t}/messages?" + "&".join(f"a{n}=1" for n in range(101)), None, 400, None),
    ("GET", "{t}/messages?partition_id=9", None, 404, 3007),
    ("POST", "{t}/messages", {"partitioning": TO_FIRST, "messages": []}, 400, 4009),
    ("POST", "{t}/messages", {"partitioning": TO_FIRST, "messages": [{"payload": 5}]}, 422, None),
    ("POST", "{t}/messages", {"partitioning": {"kind": "x"}, "messages": [MESSAGE]}, 422, None),
    ("POST", "{t}/messages", {"partitioning": {"kind": "partition_id", "value": "CQAAAA=="}, "messages": [MESSAGE]}, 404, 3007),
    ("GET", "{t}/messages/flush/1/yes", None, 400, None),
    ("GET", "{t}/messages/flush/x/true", None, 400, None),
    ("GET", "{t}/consumer-offsets?id=unknown", None, 404, 404),
    ("DELETE", "{t}/consumer-offsets/unknown?partition_id=1", None, 404, 3021),
    ("GET", "{t}/consumer-groups/unknown", None, 404, 404),
    ("DELETE", "{t}/consumer-groups/99", None, 404, 5000),
    ("DELETE", "{t}/consumer-groups/unknown", None, 404, 5003),
    ("GET", "/users/unknown", None, 404, 404),
    ("POST", "/users", {"username": "{n}", "password": "secret1", "status": "active"}, 400, 46),
    ("POST", "/users", {"username": "ab", "password": "secret1", "status": "active"}, 400, 43),
    ("POST", "/users", {"username": "abc", "password": "secret1", "status": "gone"}, 422, None),
    ("DELETE", "/users/1", None, 400, 48),
    ("POST", "/users/login", {"username": "iggy", "password": "wrong"}, 400, 42),
    ("POST", "/users/refresh-token", {"token": "x.y.z"}, 401, 78),
    ("POST", "/users/refresh-token", {"token": ""}, 401, 77),
    ("POST", "/users/refresh-token", {"token": "eyJhbGciOiJIUzM4NCIsInR5cCI6IkpXVCJ9.e30.AA"}, 400, 73),
    ("POST", "/users/refresh-token", {}, 422, None),
    ("POST", "/users/refresh-token", b"x", 400, None),
    ("GET", "/clients/0", None, 400, 101),
    ("GET", "/clients/4294967296", None, 400, None),
    ("DELETE", "/personal-access-tokens/ab", None, 400, 50),
    ("POST", "/snapshot", {"compression": "Deflated", "snapshot_types": ["All", "Test"]}, 400, 3),
    ("GET", "/epochs/unknown", None, 404, 404),
    ("GET", "/nowhere", None, 404, 404),
    ("GET", "/streams/", None, 404, 404),
    ("GET", "//streams", None, 404, 404),
    ("GET", "/streams/{n}/../{n}", None, 404, 404),
    ("DELETE", "/streams", None, 405, None),
    ("PATCH", "/streams/{n}", None, 405, None),
    ("POST", "/health", {}, 405, None),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "number"), REFUSALS)
def test_a_route_refuses_with_its_status(
    http: Http, unchanged: Place, method: str, path: str, body: Any, status: int, number: int | None
) -> None:
    answer = http.call(method, unchanged.path(path), body if isinstance(body, bytes) else fill(body, unchanged.name))
    assert answer.status == status, answer.body
    if number is None:
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert answer.body
    else:
        assert answer.json["id"] == number
        assert set(answer.json) >= {"id", "code", "reason", "field"}


def test_messages_come_back_as_they_were_sent(http: Http, place: Place) -> None:
    big = base64.b64encode(bytes(range(256)) * 100).decode()
    sent = [{"id": (1 << 128) - 1, "payload": big}, {"payload": "AA==", "headers": None}]
    assert http.call("POST", place.path("{t}/messages"), {"partitioning": TO_FIRST, "messages": sent}).status == 201
    polled = http.call("GET", place.path("{t}/messages?kind=o&value=1&count=100")).json
    assert (polled["partition_id"], polled["current_offset"]) == (1, 2)
    first, second = polled["messages"]
    assert (first["offset"], first["id"], first["payload"], first["headers"], first["state"]) == (
        *(1, (1 << 128) - 1, big, None),
        "available",
    )
    assert (second["payload"], second["id"] > 0) == ("AA==", True)


def test_names_are_decoded_and_numbers_are_ids(http: Http) -> None:
    name = "a stream/100% é+.dots"
    made = http.call("POST", "/streams", {"name": name}).json
    for path in (
        "/streams/a%20stream%2F100%25%20%C3%A9+.dots",
        f"/streams/{made['id']}",
        "/streams/%61 stream".replace(" ", "%20"),
    ):
        found = http.call("GET", path)
        assert (found.status, path) == (200, path) if "%61" not in path else found.status == 404
    assert http.call("DELETE", f"/streams/{made['id']}").status == 204


def test_a_snapshot_is_an_archive(http: Http, place: Place) -> None:
    answer = http.call("POST", "/snapshot", {"compression": "Deflated", "snapshot_types": ["ResourceUsage", "ProcessList"]})
    assert answer.headers["Content-Type"] == "application/zip"
    assert answer.headers["Content-Disposition"].startswith('attachment; filename="iggy_snapshot_2')
    with zipfile.ZipFile(io.BytesIO(answer.body)) as archive:
        assert archive.testzip() is None
        assert all(name.endswith(".txt") for name in archive.namelist())
        assert len(archive.namelist()) == 2


def test_requests_over_http_are_in_no_list_of_clients(http: Http) -> None:
    known = {session.client_id for session in http.dispatcher.sessions.list()}
    assert {client["client_id"] for client in http.call("GET", "/clients").json} == known
