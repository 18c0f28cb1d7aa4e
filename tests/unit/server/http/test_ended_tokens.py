"""Access tokens that end: refreshed once, void for a deactivated user and after a changed password."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.server.http_servers import Http, serving

NAME = "alice"


@pytest.fixture(scope="module")
def http() -> Iterator[Http]:
    with serving() as served:
        yield served


def test_one_of_many_refreshes_of_a_token_at_once_gives_another_one(http: Http) -> None:
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
