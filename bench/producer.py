"""A producer's send(): what a message costs the program that sends it, receipts dropped, kept and asked.

Each way sends the same messages through a producer of this tree, embedded in memory, and through a server over TCP, best of
several runs. `--old DIR` measures a checkout of another version beside it, in processes that take turns, so that a ratio of
the two is of one moment of one machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.machine import Report  # noqa: E402

ROUNDS = 7
WAYS = ("dropped", "kept", "one a batch", "and wait")
PROGRAM = """
import json, sys, time
import headstream as hs

def measure(log, way):
    count = 200_000 if way in ("dropped", "kept") else 3_000
    options = {"linger_ms": 0} if way in ("one a batch", "and wait") else {}
    with log.producer("bench/topic", buffer_bytes=1 << 30, **options) as producer:
        if way == "and wait" and not hasattr(producer, "send_and_wait"):
            return None
        send = producer.send_and_wait if way == "and wait" else producer.send
        payload, kept = b"x" * 100, []
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

def main(ways):
    result = {}
    from headstream.testing.local_server import LocalServer
    with LocalServer() as server:
        for name, url in (("memory", "memory://"), ("server", server.url)):
            with hs.connect(url) as log:
                log.create_topic("bench/topic", retention_bytes=1 << 28)
                for way in ways:
                    result[f"{name}, {way}"] = measure(log, way)
    print(json.dumps(result))

main(sys.argv[1:])
"""


def run(tree: Path) -> dict[str, float | None]:
    """Return microseconds a message of each way, as the code of a tree does it."""
    python = tree / ".venv/bin/python"
    command = [str(python if python.exists() else sys.executable), "-c", PROGRAM, *WAYS]
    ran = subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True)
    found: dict[str, float | None] = json.loads(ran.stdout)
    return found


def main() -> None:
    """Measure, and write bench/results/producer.txt."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--old", type=Path, help="a checkout of another version, with its own .venv")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    trees = {"this": ROOT} | ({"old": options.old.resolve()} if options.old else {})
    best: dict[str, dict[str, float]] = {name: {} for name in trees}
    for _ in range(options.rounds):
        for name, tree in trees.items():
            for way, cost_us in run(tree).items():
                if cost_us is not None:
                    best[name][way] = min(best[name].get(way, cost_us), cost_us)
    with Report("producer", write=options.rounds >= ROUNDS) as report:
        report.line(f"microseconds a message of 100 bytes, best of {options.rounds}")
        for way, cost_us in best["this"].items():
            old_us = best.get("old", {}).get(way)
            beside = "" if old_us is None else f"   old {old_us:8.2f}   {cost_us / old_us:5.2f}x"
            report.line(f"{way:24} {cost_us:8.2f}{beside}")


if __name__ == "__main__":
    main()
