"""LocalConsole: who may ask it for anything."""

from __future__ import annotations

import asyncio
import http.client
from typing import cast

import headstream as hs
from headstream.server.http.console.local import LocalConsole


def test_local_console_refuses_a_request_when_its_host_or_origin_is_another() -> None:
    def ask(port: int, headers: dict[str, str]) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            connection.request("GET", "/console/", headers=headers)
            return connection.getresponse().status
        finally:
            connection.close()

    async def run() -> list[int]:
        served = LocalConsole(lambda _: None, cast(hs.Client, None), "file:///shop")
        port = int((await served.start()).split(":")[2].split("/")[0])
        asked = [{}, {"Host": f"localhost:{port}"}, {"Host": f"evil.example:{port}"}, {"Origin": "http://evil.example"}]
        try:
            return [await asyncio.to_thread(ask, port, headers) for headers in asked]
        finally:
            await served.stop()

    assert asyncio.run(asyncio.wait_for(run(), 60)) == [200, 200, 403, 403]
