"""Load by iggy-py 0.4.0, one of Iggy's own clients: what bench/server.py runs, with the interpreter of the client's environment.

server_iggy.py send|poll PORT CONNECTIONS SECONDS MESSAGES BYTES BATCHES: a client a connection, all in one event loop, each
with one request at a time; send and poll do what they do in server_load.c. Prints the same five numbers.
"""

import asyncio
import os
import resource
import statistics
import sys
import time
from typing import Any

import iggy_py


async def open_client(port: str) -> Any:
    """Return a client, logged in."""
    client = iggy_py.IggyClient(f"127.0.0.1:{port}")
    await client.connect()
    await client.login_user("iggy", "iggy")
    return client


async def load(client: Any, topic: str, seconds: float, messages: int, size_bytes: int, batches: int) -> list[float]:
    """Ask again and again; return what each request took, seconds. Without `size_bytes`, messages are polled."""
    sent = [iggy_py.SendMessage("x" * size_bytes) for _ in range(messages)] if size_bytes else []
    times: list[float] = []
    began = time.perf_counter()
    until = began + seconds
    while began < until:
        if sent:
            await client.send_messages("bench", topic, 1, sent)
        else:
            strategy = iggy_py.PollingStrategy.Offset(len(times) % batches * messages)
            polled = await client.poll_messages("bench", topic, 1, strategy, messages, auto_commit=False)
            if len(polled) != messages:
                raise SystemExit(f"{len(polled)} messages")
        ended = time.perf_counter()
        times.append(ended - began)
        began = ended
    return times


async def main(mode: str, port: str, connections: int, seconds: float, messages: int, size_bytes: int, batches: int) -> None:
    """Run the load, and print what came of it."""
    clients = [await open_client(port) for _ in range(connections)]
    before = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    loads = [
        load(client, f"t{number}", seconds, messages, size_bytes if mode == "send" else 0, batches)
        for number, client in enumerate(clients)
    ]
    times = sorted(each for client_times in await asyncio.gather(*loads) for each in client_times)
    took = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    print(len(times), took, statistics.median(times) * 1e6, times[len(times) * 99 // 100] * 1e6, used)


words = sys.argv[2:]
asyncio.run(main(sys.argv[1], words[0], int(words[1]), float(words[2]), *map(int, words[3:])))
sys.stdout.flush()
os._exit(0)  # the client's runtime aborts now and then where the interpreter ends around it
