"""Python programs with a NATS server (JetStream, files) and with a Headstream server, side by side: results/beside_nats.txt.

Both servers run on this machine with a stream on its disk; each acknowledges what the operating system has, and syncs later
(NATS every 2 minutes, Headstream every second). The programs are nats-py and Headstream's client, one connection each.

send      messages of 100 bytes, acknowledged, as many under way as the client allows (NATS 4,000; Headstream's batches)
wait      one message at a time, each waited for
receive   all of them, in requests for up to 1,000 (NATS a pull consumer without acknowledgements)

Rounds of both alternate, and the report has medians. Needs nats-server in PATH and `pip install nats-py`.

    python -m bench.beside_nats
"""

from __future__ import annotations

import asyncio
import socket
import statistics
import subprocess
import tempfile
import time
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from typing import Final

import nats
import psutil
from nats.js.api import AckPolicy, ConsumerConfig, StorageType

import headstream as hs
from bench.machine import Report
from tests.support.server.server_process import ServerProcess

COUNT: Final = 50_000
WAITED: Final = 1_000
ROUNDS: Final = 5
PAYLOAD: Final = b"x" * 100
Rates = dict[str, list[float]]


def measure_headstream(url: str, topic: str, rates: Rates) -> None:
    """Add a round of Headstream's: messages a second."""
    with hs.connect(url) as log:
        log.create_topic(topic)
        with log.producer(topic) as producer:
            begin = time.perf_counter()
            for _ in range(COUNT):
                producer.send(PAYLOAD)
            producer.flush()
            rates["send"].append(COUNT / (time.perf_counter() - begin))
        with log.producer(topic, linger_ms=0) as producer:
            begin = time.perf_counter()
            for _ in range(WAITED):
                producer.send_and_wait(PAYLOAD)
            rates["wait"].append(WAITED / (time.perf_counter() - begin))
        with log.consumer(topic, name="bench", start="first") as consumer:
            begin, received = time.perf_counter(), 0
            while received < COUNT + WAITED:
                received += len(consumer.poll(1000, timeout_ms=1000))
            rates["receive"].append(received / (time.perf_counter() - begin))
        log.delete_topic(topic)


async def measure_nats(url: str, name: str, rates: Rates) -> None:
    """Add a round of NATS's."""
    connection = await nats.connect(url)
    stream = connection.jetstream(publish_async_max_pending=4000)
    await stream.add_stream(name=name, subjects=[name], storage=StorageType.FILE)
    begin = time.perf_counter()
    futures = [await stream.publish_async(name, PAYLOAD, wait_stall=60) for _ in range(COUNT)]
    await asyncio.gather(*futures)
    rates["send"].append(COUNT / (time.perf_counter() - begin))
    begin = time.perf_counter()
    for _ in range(WAITED):
        await stream.publish(name, PAYLOAD)
    rates["wait"].append(WAITED / (time.perf_counter() - begin))
    config = ConsumerConfig(ack_policy=AckPolicy.NONE)
    reader = await stream.pull_subscribe(name, config=config)
    begin, received = time.perf_counter(), 0
    while received < COUNT + WAITED:
        received += len(await reader.fetch(min(1000, COUNT + WAITED - received), timeout=60))
    rates["receive"].append(received / (time.perf_counter() - begin))
    await stream.delete_stream(name)
    await connection.close()


def start_nats(stack: ExitStack, directory: Path) -> tuple[str, subprocess.Popen[bytes]]:
    """Start a NATS server on a free port, and wait until it listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["nats-server", "-js", "-sd", str(directory), "-a", "127.0.0.1", "-p", str(port)]
    server = stack.enter_context(subprocess.Popen(command, stderr=subprocess.DEVNULL))
    stack.callback(server.terminate)
    until = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return f"nats://127.0.0.1:{port}", server
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def main() -> None:
    with Report("beside_nats") as report, ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headstream-bench-")))
        ours = stack.enter_context(ServerProcess(place / "log"))
        url, theirs = start_nats(stack, place / "nats")
        found: dict[str, Rates] = {side: {way: [] for way in ("send", "wait", "receive")} for side in ("headstream", "nats")}
        version = subprocess.run(["nats-server", "--version"], capture_output=True, text=True, check=True).stdout.strip()
        report.line(
            f"{version}, nats-py {metadata.version('nats-py')}; {COUNT:,} messages of {len(PAYLOAD)} B, {ROUNDS} rounds of each"
        )
        for number in range(ROUNDS):
            host, port = ours.tcp
            measure_headstream(f"headstream://iggy:iggy@{host}:{port}", f"bench/t{number}", found["headstream"])
            asyncio.run(measure_nats(url, f"t{number}", found["nats"]))
        report.line(f"\n{'messages a second':20} {'Headstream':>12} {'NATS':>12}")
        for way in found["nats"]:
            mine, other = (statistics.median(found[side][way]) for side in ("headstream", "nats"))
            report.line(f"{way:20} {mine:12,.0f} {other:12,.0f}")
        sizes = [psutil.Process(pid).memory_info().rss / 1e6 for pid in (ours.pid, theirs.pid)]
        report.line(f"{'memory at the end, MB':20} {sizes[0]:12.0f} {sizes[1]:12.0f}")


if __name__ == "__main__":
    main()
