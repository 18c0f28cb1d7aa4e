"""What a machine itself costs a small request: a server that only echoes, and a client that asks it as a producer asks ours.

    python -m tests.support.server.echo SECONDS

prints the seconds of each round trip as a list of JSON. The server has a process of its own and the same event loop as ours; what
it takes longer beside other processes is what they take of the processors.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import socket
import sys
import time
from typing import cast

MESSAGE_BYTES = 128
"""About the length of a producer's request with one short message."""
PAUSE_S = 0.01
_TIMEOUT_S = 10.0


class _Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


def _serve(listening: socket.socket) -> None:
    import uvloop

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(_Echo, sock=listening)
        await server.serve_forever()

    uvloop.run(serve())


def _measure(seconds: float) -> list[float]:
    listening = socket.create_server(("127.0.0.1", 0))
    process = multiprocessing.get_context("fork").Process(target=_serve, args=[listening], daemon=True)
    process.start()
    times_s, until_s = list[float](), time.monotonic() + seconds
    try:
        with socket.create_connection(listening.getsockname(), _TIMEOUT_S) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            message = bytes(MESSAGE_BYTES)
            while time.monotonic() < until_s:
                began_s = time.perf_counter()
                client.sendall(message)
                left = MESSAGE_BYTES
                while left:
                    left -= len(client.recv(left))
                times_s.append(time.perf_counter() - began_s)
                time.sleep(PAUSE_S)
    finally:
        process.kill()
        process.join()
    return times_s


if __name__ == "__main__":
    print(json.dumps(_measure(float(sys.argv[1]))))  # noqa: T201 - what this program is for
