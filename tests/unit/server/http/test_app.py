"""HTTP as the whole server opens it: encrypted, and with access tokens that outlive a restart."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headstream.broker.settings import ServerSettings
from headstream.server.app import ServerApp
from headstream.server.config.config import ServerConfig
from headstream.server.network.addresses import Address
from tests.support.server.certificates import write_certificate

ANY_PORT = Address("127.0.0.1", 0)


def during(config: ServerConfig, work: Callable[[Address], Any]) -> Any:
    """Run something while a server runs, and return its result."""

    async def run() -> Any:
        async with ServerApp(config) as server:
            assert server.http_address is not None
            return await asyncio.to_thread(work, server.http_address)

    return asyncio.run(asyncio.wait_for(run(), 60))


def config_of(data: Path | None, **more: Any) -> ServerConfig:
    settings = ServerSettings(password_rounds=4)
    place = None if data is None else str(data)
    return ServerConfig(data=place, tcp_address=None, http_address=ANY_PORT, settings=settings, **more)


def ask(connection: http.client.HTTPConnection, method: str, path: str, body: Any = None, token: str = "") -> tuple[int, Any]:
    data = None if body is None else json.dumps(body)
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    connection.request(method, path, data, headers)
    response = connection.getresponse()
    text = response.read()
    return response.status, json.loads(text) if text.startswith((b"{", b"[")) else text


def log_in(connection: http.client.HTTPConnection) -> str:
    _, answer = ask(connection, "POST", "/users/login", {"username": "iggy", "password": "iggy"})
    token: str = answer["access_token"]["token"]
    return token


def test_http_is_served_over_tls_when_a_certificate_is_given(tmp_path: Path) -> None:
    files = write_certificate(tmp_path, "127.0.0.1")

    def work(address: Address) -> None:
        trust = ssl.create_default_context(cafile=files.certificate)
        connection = http.client.HTTPSConnection(address.host, address.port, timeout=20, context=trust)
        token = log_in(connection)
        assert ask(connection, "POST", "/streams", {"name": "s"}, token)[0] == 200
        assert ask(connection, "GET", "/streams/s", token=token)[1]["name"] == "s"
        connection.close()
        plain = http.client.HTTPConnection(address.host, address.port, timeout=20)
        try:
            plain.request("GET", "/ping")
            raise AssertionError(plain.getresponse().read())
        except (http.client.HTTPException, ConnectionError):
            plain.close()

    during(config_of(None, http_tls=files), work)


def test_access_tokens_and_what_was_withdrawn_outlive_a_restart(tmp_path: Path) -> None:
    def first(address: Address) -> tuple[str, str]:
        connection = http.client.HTTPConnection(address.host, address.port, timeout=20)
        kept, gone = log_in(connection), log_in(connection)
        assert ask(connection, "DELETE", "/users/logout", token=gone)[0] == 204
        connection.close()
        return kept, gone

    def second(address: Address) -> list[int]:
        connection = http.client.HTTPConnection(address.host, address.port, timeout=20)
        try:
            return [ask(connection, "GET", "/streams", token=token)[0] for token in (kept, gone)]
        finally:
            connection.close()

    kept, gone = during(config_of(tmp_path / "data"), first)
    assert during(config_of(tmp_path / "data"), second) == [200, 401]
