"""Filters: messages of which one in a thousand matches, beside reading all of them and testing each in Python.

Every message has three headers and a payload of 256 bytes. `bytes` are polls without decoding; `messages` a consumer's loop that
tests a header in Python; `where` a consumer with the same condition as a filter. Times are of the wall and, since other
programs can run, of the processor (with a server between: of both processes).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from headstream.core.filters.poll_request import PollRequest

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import psutil  # noqa: E402

import headstream as hs  # noqa: E402
from bench.machine import Report, run_benchmark  # noqa: E402
from headstream.core.model.identifiers import TopicName  # noqa: E402
from headstream.core.model.polling import PollingStrategy  # noqa: E402
from tests.support.server.server_process import ServerProcess  # noqa: E402

TOPIC = "bench/topic"
COUNT = 2_000_000
QUICK_COUNT = 50_000
PAYLOAD = b"x" * 256
CONDITION = "customer = 7 AND source IN ('web', 'app')"


class Cost(NamedTuple):
    """What a run has found, and its cost in seconds."""

    found: int
    wall_s: float
    processor_s: float


def fill(url: str, count: int) -> int:
    """Send the messages and return the size of their topic in bytes."""
    with hs.connect(url) as log:
        log.create_topic(TOPIC)
        with log.producer(TOPIC) as producer:
            for number in range(count):
                source = "web" if number % 2 else "app"
                producer.send(PAYLOAD, headers={"customer": number % 1000, "source": source, "attempt": hs.uint8(number % 5)})
        return log.topic(TOPIC).size_bytes


def read_bytes(log: hs.Client) -> int:
    """Poll every message without decoding; return their number."""
    messages, offset, found = log._transport.messages, 0, 0
    while True:
        polled = messages.poll(
            TopicName("bench", "topic"), 1, PollRequest(PollingStrategy.offset(offset), 100_000, size_bytes=4 << 20)
        )
        if polled.next_offset == offset:
            return found
        offset, found = polled.next_offset, found + polled.count


def read_messages(log: hs.Client) -> int:
    """Test each message in Python; return how many match."""
    found = 0
    with log.consumer(TOPIC, timeout_ms=0) as consumer:
        for message in consumer:
            found += message.headers["customer"] == 7 and message.headers["source"] in ("web", "app")
    return found


def read_where(log: hs.Client) -> int:
    """Return how many messages a filter delivers."""
    with log.consumer(TOPIC, where=CONDITION, timeout_ms=0) as consumer:
        return sum(1 for _ in consumer)


def measure(run: Callable[[hs.Client], int], url: str, server: psutil.Process | None) -> Cost:
    """Run it once; the log is in the page cache after the first run."""

    def processor_s() -> float:
        there = server.cpu_times() if server is not None else None
        return time.process_time() + (there.user + there.system if there is not None else 0)

    with hs.connect(url) as log:
        begin_s, processor = time.perf_counter(), processor_s()
        found = run(log)
        return Cost(found, time.perf_counter() - begin_s, processor_s() - processor)


def compare(report: Report, title: str, url: str, count: int, size_bytes: int, server: psutil.Process | None) -> None:
    measure(read_bytes, url, server)
    costs = {name: measure(run, url, server) for name, run in RUNS.items()}
    for name, cost in costs.items():
        ratio = costs["messages"].processor_s / max(cost.processor_s, 1e-9)
        speed = size_bytes / 1e6 / max(cost.processor_s, 1e-9)
        report.line(
            f"  {title:<14}{name:<10}{cost.found:>10,}{cost.wall_s:>9.2f} s{cost.processor_s:>9.2f} s"
            f"{speed:>10,.0f} MB/s{ratio:>9.1f} x"
        )
    assert costs["bytes"].found == count
    assert costs["messages"].found == costs["where"].found == count // 1000


RUNS = {"bytes": read_bytes, "messages": read_messages, "where": read_where}


def main() -> None:
    with run_benchmark("filters", __doc__, "50,000 messages") as (report, directory, is_quick):
        count = QUICK_COUNT if is_quick else COUNT
        url = (directory / "log").as_uri()
        size_bytes = fill(url, count)
        report.line("")
        report.line(f"  {count:,} messages, {size_bytes / 1e6:,.0f} MB; where {CONDITION}")
        report.line("")
        report.line(f"  {'log':<14}{'read':<10}{'found':>10}{'wall':>11}{'processor':>11}{'stored':>15}{'of messages':>12}")
        compare(report, "file", url, count, size_bytes, None)
        with ServerProcess(directory / "log") as server:
            address = f"headstream://iggy:iggy@127.0.0.1:{server.tcp[1]}"
            compare(report, "server, TCP", address, count, size_bytes, psutil.Process(server.pid))


if __name__ == "__main__":
    main()
