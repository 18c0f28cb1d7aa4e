"""Access tokens that end: refreshed once, void for a deactivated user and after a changed password."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import headstream as hs
from headstream.core.codec.binary import encode_sent
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import NewTopic
from headstream.core.wire.commands import permissions, sessions, system
from tests.support.server.http_servers import Http

NAME = "alice"


def test_token_is_refreshed_once_when_many_refresh_it_concurrently(http: Http) -> None:
    old = http.log_in("iggy", "iggy").json["access_token"]["token"]
    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(http.call, "POST", "/users/refresh-token", {"token": old}, token=None) for _ in range(24)]
        statuses = sorted(each.result().status for each in asked)
    assert statuses == [200] + [401] * 23


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/users/{name}", {"status": "inactive"}),
        ("/users/{name}/password", {"current_password": "secret1", "new_password": "secret2"}),
    ],
)
def test_the_token_of_a_user_that_is_deactivated_or_has_another_password_is_not_taken(
    http: Http, path: str, body: dict[str, str]
) -> None:
    user = {"username": NAME, "password": "secret1", "status": "active", "permissions": None}
    assert http.call("POST", "/users", user).status == 200
    token = http.log_in(NAME, "secret1").json["access_token"]["token"]
    assert http.call("GET", "/personal-access-tokens", token=token).status == 200
    assert http.call("PUT", path.format(name=NAME), body).status == 204
    assert http.call("GET", "/personal-access-tokens", token=token).status == 401
    assert http.call("POST", "/users/refresh-token", {"token": token}, token=None).refusal == (401, 78)
    assert http.call("PUT", f"/users/{NAME}", {"status": "active"}).status == 204
    assert http.call("GET", "/personal-access-tokens", token=token).status == 401
    assert http.call("DELETE", f"/users/{NAME}").status == 204


def test_the_token_that_changed_its_own_users_password_stays_and_the_others_end(http: Http) -> None:
    user = {"username": NAME, "password": "secret1", "status": "active", "permissions": None}
    user_id = http.call("POST", "/users", user).json["id"]
    token, other = (http.log_in(NAME, "secret1").json["access_token"]["token"] for _ in range(2))
    personal = http.call("POST", "/personal-access-tokens", {"name": "laptop", "expiry": 0}, token=token).json["token"]
    server = http.dispatcher
    connections = [server.sessions.open(f"192.0.2.7:{kind}", kind) for kind in system.TransportKind]
    for session in connections:
        server.answer(session, sessions.Login(NAME, "secret1"))
    change = {"current_password": "secret1", "new_password": "secret2"}
    assert http.call("PUT", f"/users/{NAME}/password", change, token=token).status == 204
    assert [http.call("GET", f"/users/{user_id}", token=each).status for each in (token, other)] == [200, 401]
    assert [session.is_ended for session in connections] == [True] * len(system.TransportKind)
    assert http.call("POST", "/personal-access-tokens/login", {"token": personal}, token=None).status == 404
    change = {"current_password": "secret2", "new_password": "secret3"}
    assert http.call("PUT", f"/users/{user_id}/password", change, token=token).status == 204  # a second time, by number
    assert http.call("PUT", f"/users/{NAME}", {"username": "renamed"}).status == 204
    assert http.call("PUT", "/users/renamed/permissions", {"permissions": None}).status == 204
    assert http.call("GET", f"/users/{user_id}", token=token).status == 200
    fresh = http.call("POST", "/users/refresh-token", {"token": token}, token=None).json["access_token"]["token"]
    assert [http.call("GET", f"/users/{user_id}", token=each).status for each in (token, fresh)] == [401, 200]
    assert http.call("DELETE", f"/users/{user_id}").status == 204


@pytest.mark.parametrize("end", ["deactivated", "changed by root", "changed by another token", "logged out", "deleted"])
def test_the_token_that_changed_the_password_ends_later_as_others_do(http: Http, end: str) -> None:
    user = {"username": NAME, "password": "secret1", "status": "active", "permissions": None}
    user_id = http.call("POST", "/users", user).json["id"]
    token = http.log_in(NAME, "secret1").json["access_token"]["token"]
    change = {"current_password": "secret1", "new_password": "secret2"}
    assert http.call("PUT", f"/users/{NAME}/password", change, token=token).status == 204
    assert http.call("GET", f"/users/{user_id}", token=token).status == 200
    again = {"current_password": "secret2", "new_password": "secret3"}
    if end == "deactivated":
        assert http.call("PUT", f"/users/{NAME}", {"status": "inactive"}).status == 204
        assert http.call("GET", f"/users/{user_id}", token=token).status == 401
        assert http.call("PUT", f"/users/{NAME}", {"status": "active"}).status == 204
    elif end == "changed by root":
        assert http.call("PUT", f"/users/{NAME}/password", again).status == 204
        assert http.call("GET", "/users").status == 200  # root's own token stays
    elif end == "changed by another token":
        other = http.log_in(NAME, "secret2").json["access_token"]["token"]
        assert http.call("PUT", f"/users/{NAME}/password", again, token=other).status == 204
    elif end == "logged out":
        assert http.call("DELETE", "/users/logout", token=token).status == 204
    if end != "deleted":
        assert http.call("GET", f"/users/{user_id}", token=token).status == 401
    assert http.call("DELETE", f"/users/{user_id}").status == 204
    assert http.call("GET", f"/users/{user_id}", token=token).status == 401


def test_a_request_that_waits_goes_on_when_its_token_changes_the_password_meanwhile(http: Http) -> None:
    everything = permissions.Permissions(permissions.GlobalPermissions.all())
    http.dispatcher.users.create(NAME, "secret1", is_active=True, permissions=everything, now_us=0)
    http.dispatcher.broker.topics.create(NewTopic(TopicName.parse("shop/orders"), 1, hs.Limits.WIDE))
    token, other = (http.log_in(NAME, "secret1").json["access_token"]["token"] for _ in range(2))
    path, wait = "/streams/shop/topics/orders/messages/wait", {"positions": {"1": 0}, "timeout_ms": 60_000}
    with ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(http.call, "POST", path, wait, token=each) for each in (token, other)]
        while http.server.waiting_count < 2 and not any(each.done() for each in waiting):
            time.sleep(0.01)
        change = {"current_password": "secret1", "new_password": "secret2"}
        assert http.call("PUT", f"/users/{NAME}/password", change, token=token).status == 204
        http.dispatcher.broker.messages.send(TopicName.parse("shop/orders"), 1, encode_sent([hs.Message(payload=b"m")]))
        assert [each.result().status for each in waiting] == [200, 401]
