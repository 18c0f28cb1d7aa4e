"""The same requests over QUIC and over TCP, of our own client: what the second transport costs.

One client in a process of its own, the server in another; the transports in turn, several rounds, medians. Processor time is the
server's. The client's part is in all times: over QUIC, as over TCP, it is Python too.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import psutil  # noqa: E402

import headstream as hs  # noqa: E402
from bench.machine import run_benchmark  # noqa: E402
from tests.support.server.server_process import ServerProcess  # noqa: E402

ROUNDS = 5
SECONDS = 2.0
SIZES = (100, 10_000, 1_000_000)


def measure(server: ServerProcess, work: Callable[[], int], seconds: float) -> tuple[float, float]:
    """Return how much of something is done a second, and the server's processor time for each, microseconds."""
    process = psutil.Process(server.pid)
    before = sum(process.cpu_times()[:2])
    began_s = time.perf_counter()
    done = 0
    while time.perf_counter() - began_s < seconds:
        done += work()
    took_s = time.perf_counter() - began_s
    return done / took_s, (sum(process.cpu_times()[:2]) - before) / done * 1e6


def loads_of(log: hs.Client, topic: str, size: int) -> dict[str, Callable[[], int]]:
    """Return what is done with messages of a size; each returns how many messages that were."""
    count = max(1, min(1000, 1_000_000 // size))
    producer, consumer = log.producer(topic), log.consumer(topic, name=f"bench-{size}")

    def send() -> int:
        for _ in range(count):
            producer.send(b"x" * size)
        producer.flush()
        return count

    def poll() -> int:
        found = len(consumer.poll(count, timeout_ms=100))
        if found < count:
            consumer.seek(1, 0)
        return max(found, 1)

    return {"send": send, "poll": poll}


def main() -> None:
    with run_benchmark("server_quic", __doc__, "one round of half a second, nothing written") as (report, directory, is_quick):
        rounds, seconds = (1, 0.5) if is_quick else (ROUNDS, SECONDS)
        with (
            tempfile.TemporaryDirectory(dir=directory) as place,
            ServerProcess(
                Path(place) / "log", environ={"IGGY_QUIC_ENABLED": "true", "IGGY_QUIC_ADDRESS": "127.0.0.1:0"}
            ) as server,
        ):
            current = tomllib.loads((server.data / "runtime" / "current_config.toml").read_text())
            urls = {
                "tcp": f"headstream://iggy:iggy@127.0.0.1:{server.tcp[1]}",
                "quic": f"quic://iggy:iggy@{current['quic']['address']}?tls_verify=false",
            }
            report.line(f"{rounds} rounds of {seconds:g} s, in turn; medians. Up to 1 MB of messages a request.")
            report.line(f"{'':22} {'tcp msg/s':>11} {'cpu us':>8} {'quic msg/s':>11} {'cpu us':>8} {'ratio':>6}")
            for size in SIZES:
                compare(report.line, server, urls, size, rounds, seconds)


def compare(
    line: Callable[[str], None], server: ServerProcess, urls: dict[str, str], size: int, rounds: int, seconds: float
) -> None:
    """Measure sends and polls of one size by both transports."""
    logs = {name: hs.connect(url) for name, url in urls.items()}
    topic = f"bench/size-{size}"
    logs["tcp"].create_topic(topic)
    loads = {name: loads_of(log, topic, size) for name, log in logs.items()}
    for verb in ("send", "poll"):
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in urls}
        for _ in range(rounds):
            for name in urls:
                found[name].append(measure(server, loads[name][verb], seconds))
        medians = {name: [statistics.median(column) for column in zip(*each, strict=True)] for name, each in found.items()}
        (tcp, tcp_us), (quic, quic_us) = medians["tcp"], medians["quic"]
        line(f"{verb} {size:9,} B        {tcp:11,.0f} {tcp_us:8.1f} {quic:11,.0f} {quic_us:8.1f} {quic / tcp:6.2f}")
    for log in logs.values():
        log.close()


if __name__ == "__main__":
    main()
