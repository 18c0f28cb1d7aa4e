"""Load by iggy-py 0.4.0 or apache-iggy 0.9.0, Iggy's own clients: run by the interpreter of the client's environment.

server_iggy.py MODE PORT CONNECTIONS SECONDS MESSAGES BYTES BATCHES: a client per connection, all in one event loop, each with one
request at a time. MODE is send or poll, or with apache-iggy send-today or poll-today; they do what they do in server_load.c.
Prints the same five numbers.
"""

import asyncio
import importlib
import os
import resource
import statistics
import sys
import time
from typing import Any

IS_TODAY = sys.argv[1].endswith("-today")
iggy: Any = importlib.import_module("apache_iggy" if IS_TODAY else "iggy_py")
PARTITION = 0 if IS_TODAY else 1
CONSUMER = {"consumer": iggy.Consumer.Single("bench")} if IS_TODAY else {}


async def open_client(port: str) -> Any:
    """Return a client, logged in."""
    client = iggy.IggyClient(f"127.0.0.1:{port}")
    await client.connect()
    await client.login_user("iggy", "iggy")
    return client


async def load(client: Any, topic: str, seconds: float, messages: int, size_bytes: int, batches: int) -> list[float]:
    """Ask again and again; return what each request took, seconds. Without `size_bytes`, messages are polled."""
    sent = [iggy.SendMessage("x" * size_bytes) for _ in range(messages)] if size_bytes else []
    times: list[float] = []
    began = time.perf_counter()
    until = began + seconds
    while began < until:
        if sent:
            await client.send_messages("bench", topic, PARTITION, sent)
        else:
            asked = {
                "partition_id": PARTITION,
                "polling_strategy": iggy.PollingStrategy.Offset(len(times) % batches * messages),
                "count": messages,
                "auto_commit": False,
            }
            polled = await client.poll_messages("bench", topic, **asked, **CONSUMER)
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
        load(client, f"t{number}", seconds, messages, size_bytes if mode.startswith("send") else 0, batches)
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
