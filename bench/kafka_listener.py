"""The server's listener for Kafka's clients beside a real broker, by Kafka's own tools; results in results/kafka_listener.txt.

    send      producer-perf-test: 100 B and 1 KiB, its defaults (acks=all, idempotent, batches of 16 KiB), no limit of rate
    latency   the same at a rate that both hold, for half a minute: the 50th and the 99th percentile of what acks=all takes,
              after five seconds: the program sends what it owes from its first 0.3 seconds, a hundredth of all, in one burst
    read      consumer-perf-test: what was sent
    memory    of the process: idle after its start, and after all this

    python -m bench.kafka_listener [--records 1000000] [--rounds 3]

Both are asked in turn, round after round; the median is told. Client and server share the machine. No client logs in: Java's
login takes tens of milliseconds when a connection is made, which a run of five seconds counts among its slowest hundredth.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil

from bench.machine import Report
from headstream.testing import KafkaBroker
from tests.support.kafka_tools import run_kafka_tool

_TOOLS: Final = "org.apache.kafka.tools"
_SENT: Final = re.compile(r"records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\).* (\d+) ms 50th, \d+ ms 95th, (\d+) ms 99th")
_SIZES: Final = (100, 1024)
_RATE: Final = 5_000
_RATE_S: Final = 30
_WARM_S: Final = 5


@dataclass
class Peer:
    """One of the two: where it is, and what was measured."""

    name: str
    address: str
    process: psutil.Process
    idle_bytes: int = 0
    found: dict[str, list[float]] = field(default_factory=dict)

    def note(self, what: str, value: float) -> None:
        self.found.setdefault(what, []).append(value)

    def tool(self, name: str, *arguments: str) -> str:
        places = ("--bootstrap-server", self.address)
        return run_kafka_tool(f"{_TOOLS}.{name}", *places, *arguments, heap_mb=512, timeout_s=900).stdout


def _memory(process: psutil.Process) -> int:
    return sum(each.memory_info().rss for each in (process, *process.children(recursive=True)))


@contextmanager
def _headstream(directory: Path) -> Iterator[Peer]:
    """Run a server of ours in a process of its own."""
    data = directory / "log"
    flags = ["--tcp", "127.0.0.1:0", "--no-http", "--kafka", "127.0.0.1:0", "--kafka-user", "iggy"]
    command = [sys.executable, "-m", "headstream.cli", "server", "--data", str(data), *flags]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            told = data / "runtime" / "current_config.toml"
            until_s = time.monotonic() + 60
            while not told.exists() and time.monotonic() < until_s:
                time.sleep(0.05)
            address = tomllib.loads(told.read_text())["kafka"]["address"]
            yield Peer("headstream", address, psutil.Process(process.pid))
        finally:
            process.kill()


@contextmanager
def _kafka() -> Iterator[Peer]:
    """Run a real broker, with a heap that its own scripts would give it."""
    with KafkaBroker(heap_mb=1024) as broker:
        processes = [each for each in psutil.Process().children(recursive=True) if "java" in each.name()]
        yield Peer("kafka", broker.bootstrap_servers, processes[-1])


def _send(peer: Peer, topic: str, records: int, size: int, rate: int = -1, warm: int = 0) -> tuple[float, float, float]:
    """Return records a second, and the 50th and 99th percentile of the latency in milliseconds, but for `warm` records."""
    flags = ["--num-records", str(records + warm), "--record-size", str(size), "--throughput", str(rate)]
    flags += ["--warmup-records", str(warm)] if warm else []
    last = peer.tool("ProducerPerformance", "--topic", topic, *flags).strip().splitlines()[-1]
    found = _SENT.search(last)
    if found is None:
        raise RuntimeError(f"{peer.name}: {last}")
    return float(found[1]), float(found[3]), float(found[4])


def _read(peer: Peer, topic: str, records: int) -> float:
    """Return records a second, without the time that the group takes to form."""
    lines = peer.tool("ConsumerPerformance", "--topic", topic, "--num-records", str(records), "--timeout", "60000").splitlines()
    names, values = ([word.strip() for word in line.split(",")] for line in lines[-2:])
    return float(values[names.index("fetch.nMsg.sec")])


def _measure(peer: Peer, number: int, records: int) -> None:
    for size in _SIZES:
        topic, count = f"bench-{size}-{number}", records * _SIZES[0] // min(size, 4 * _SIZES[0])
        peer.tool("TopicCommand", "--create", "--topic", topic, "--partitions", "2")
        peer.note(f"send {size:4} B, thousand records/s", _send(peer, topic, count, size)[0] / 1e3)
        peer.note(f"read {size:4} B, thousand records/s", _read(peer, topic, count) / 1e3)
    _, half_ms, most_ms = _send(peer, f"bench-{_SIZES[0]}-{number}", _RATE_S * _RATE, _SIZES[0], _RATE, _WARM_S * _RATE)
    peer.note(f"acks=all at {_RATE} records/s, p50 ms", half_ms)
    peer.note(f"acks=all at {_RATE} records/s, p99 ms", most_ms)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headstream-bench-") as name:
        directory = Path(name)
        with Report("kafka_listener") as report, _headstream(directory) as ours, _kafka() as theirs:
            report.line(
                f"{arguments.records} records of 100 B, a quarter of 1 KiB, 2 partitions, median of {arguments.rounds} rounds"
            )
            time.sleep(5)
            for peer in (ours, theirs):
                peer.note("idle memory, MiB", _memory(peer.process) / (1 << 20))
            for number in range(arguments.rounds):
                for peer in (ours, theirs):
                    _measure(peer, number, arguments.records)
            for peer in (ours, theirs):
                peer.note("memory afterwards, MiB", _memory(peer.process) / (1 << 20))
            report.line(f"  {'':44} {'headstream':>12} {'kafka':>12} {'ratio':>7}")
            for what in ours.found:
                one, other = (statistics.median(peer.found[what]) for peer in (ours, theirs))
                report.line(f"  {what:44} {one:12.1f} {other:12.1f} {one / other if other else 0:7.2f}")


if __name__ == "__main__":
    main()
