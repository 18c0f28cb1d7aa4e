"""A producer's send(): what a message costs the program that sends it, receipts dropped, kept and asked.

Each way sends the same messages through a producer, embedded in memory, and through a server over TCP that is a process of
its own with a log on the disk. `--old DIR` measures a checkout of another version beside this one, with kernels built in
place: short runs of both alternate (old, this, this, old), each pair gives one ratio, and the report has the median of these
ratios with the range that contains the true median with 95 %. Pairs of neighbouring runs share the machine's moment;
several sessions, each with new processes, keep the luck of one process's memory out of the result.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.machine import Report  # noqa: E402

SESSIONS = 7
ROUNDS = 10
"""Pairs of each way in a session."""
MORE_ROUNDS = 4
"""So many times as many of the ways without a wait, which cost 60 ms each: 280 pairs tell 3 % where runs scatter by 15 %."""
WAYS = tuple(f"{place}, {way}" for place in ("memory", "server") for way in ("dropped", "kept", "one a batch", "and wait"))
PROGRAM = """
import gc, json, sys, tempfile, time
from contextlib import ExitStack
from pathlib import Path
import headstream as hs
from headstream.core.codec import mode
try:
    from tests.support.server.server_process import ServerProcess
except ImportError:  # an older version
    from tests.server_process import ServerProcess

def measure(log, way):
    count = 20_000 if way in ("dropped", "kept") else 500
    options = {"linger_ms": 0} if way in ("one a batch", "and wait") else {}
    with log.producer("bench/topic", buffer_bytes=1 << 30, **options) as producer:
        if way == "and wait" and not hasattr(producer, "send_and_wait"):
            return None
        send = producer.send_and_wait if way == "and wait" else producer.send
        payload, kept = b"x" * 100, []
        gc.collect()
        begin = time.perf_counter()
        if way == "kept":
            keep = kept.append
            for _ in range(count):
                keep(send(payload))
        elif way == "one a batch":
            for _ in range(count):
                send(payload)
                producer.flush()
        else:
            for _ in range(count):
                send(payload)
        producer.flush()
        return (time.perf_counter() - begin) / count * 1e6

def main(tree):
    if not Path(hs.__file__).is_relative_to(tree) or not mode.compiled():
        sys.exit(f"{hs.__file__} is not the compiled headstream of {tree}")
    with ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory())
        server = stack.enter_context(ServerProcess(Path(place) / "log"))
        urls = {"memory": "memory://", "server": "headstream://iggy:iggy@%s:%d" % server.tcp}
        logs = {name: stack.enter_context(hs.connect(url)) for name, url in urls.items()}
        for log in logs.values():
            log.create_topic("bench/topic", retention_bytes=1 << 26)
        print("ready", flush=True)
        for line in sys.stdin:
            name, way = line.rstrip().split(", ")
            print(json.dumps(measure(logs[name], way)), flush=True)

main(sys.argv[1])
"""


class Worker:
    """A process that measures one way at a time with the code of a tree."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._read()

    def measure(self, way: str) -> float | None:
        """Return microseconds a message, None where the tree has no such way."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{way}\n")
        self._process.stdin.flush()
        found: float | None = json.loads(self._read())
        return found

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a worker ended with exit code {self._process.wait()}")
        return line


@contextmanager
def worker(tree: Path) -> Iterator[Worker]:
    """Start a worker that runs the code of a tree."""
    python = tree / ".venv/bin/python"
    command = [str(python if python.exists() else sys.executable), "-c", PROGRAM, str(tree)]
    environ = {**os.environ, "PYTHONPATH": str(tree / "src")}
    with subprocess.Popen(command, cwd=tree, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Worker(process)
        assert process.stdin is not None
        process.stdin.close()


def measure_session(trees: dict[str, Path], rounds: int, costs: dict[str, dict[str, list[float]]]) -> None:
    """Measure all ways in new processes, both trees in turns; the first run of each way warms up."""
    with ExitStack() as stack:
        workers = {name: stack.enter_context(worker(tree)) for name, tree in trees.items()}
        for way in WAYS:
            for each in workers.values():
                each.measure(way)
            for number in range(rounds * MORE_ROUNDS if way.endswith(("dropped", "kept")) else rounds):
                for name in sorted(workers, reverse=number % 2 == 1):
                    cost_us = workers[name].measure(way)
                    if cost_us is not None:
                        costs[name].setdefault(way, []).append(cost_us)


def describe_ratio(ratios: list[float]) -> str:
    """Return the median of ratios, and the range of order statistics that contains the true median with 95 %."""
    ordered, count = sorted(ratios), len(ratios)
    reach = max(int((count - 1.96 * count**0.5) / 2), 0)
    return f"{statistics.median(ordered):5.2f}x ({ordered[reach]:.2f} to {ordered[count - 1 - reach]:.2f})"


def main() -> None:
    """Measure, and write bench/results/producer.txt."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", type=Path, help="a checkout of another version, with kernels built in place")
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    trees = {"this": ROOT} | ({"old": options.old.resolve()} if options.old else {})
    costs: dict[str, dict[str, list[float]]] = {name: {} for name in trees}
    for _ in range(options.sessions):
        measure_session(trees, options.rounds, costs)
    is_whole = options.sessions >= SESSIONS and options.rounds >= ROUNDS
    with Report("producer", write=is_whole) as report:
        report.line(f"microseconds a message of 100 bytes, medians; this / old with its 95 % range; {options.sessions} sessions")
        for way, these in costs["this"].items():
            others = costs.get("old", {}).get(way)
            beside = ""
            if others:
                ratios = [this / old for this, old in zip(these, others, strict=True)]
                beside = f"   old {statistics.median(others):8.2f}   {describe_ratio(ratios)}"
            report.line(f"{way:24} {statistics.median(these):8.2f}{beside}")


if __name__ == "__main__":
    main()
