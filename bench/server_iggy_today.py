"""The frames of Iggy's protocol 0.11 beside the older ones, on the same server.

The load is that of server.py. Both kinds of frames take turns on one server; shown are the medians of their messages a second, a
request's time and the server's processor time, and the ratio of the rates. What is polled was sent in the older frames.
Arguments are the loads to run, by how their names begin; without any, all are run, and the results are written down.
`--old DIR` adds the older frames on the server of another checkout with its own .venv.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.machine import Report  # noqa: E402
from bench.server import SECONDS, Load, Result, compile_load, fill, run, served  # noqa: E402

ROUNDS = 5
LOADS = [
    *(Load(mode, connections, 1000, size) for mode in ("send", "poll") for size in (1000, 100) for connections in (1, 4)),
    *(Load(mode, connections, 1, 100) for mode in ("send", "poll") for connections in (1, 4, 8)),
    Load("ping", 1, 1, 1),
]


def compare(report: Report, program: str, load: Load, old: Path | None) -> None:
    """Measure one load in both kinds of frames, alternating."""
    today = load._replace(mode=f"{load.mode}-today")
    with ExitStack() as ends:
        place = Path(ends.enter_context(tempfile.TemporaryDirectory()))
        target = ends.enter_context(served(place / "log"))
        turns = [(target, load), (target, today)]
        targets = [target]
        if old is not None:
            targets.append(ends.enter_context(served(place / "old", str(old / ".venv/bin/python"))))
            turns.append((targets[1], load))
        if load.mode == "poll":
            for each in targets:
                fill(each, load)
        found: list[list[Result]] = [[] for _ in turns]
        for number in range(ROUNDS):
            for at in range(len(turns)):
                chosen = (at + number) % len(turns)
                found[chosen].append(run(program, *turns[chosen]))
    older, newer, *olds = (Result(*map(statistics.median, zip(*each, strict=True))) for each in found)
    beside = "".join(f" | {other.rate:12,.0f} {older.rate / other.rate:6.2f}" for other in olds)
    report.line(
        f"{load!s:32} {older.rate:12,.0f} {older.median_us:8.0f} {older.server_us:9.1f}"
        f" | {newer.rate:12,.0f} {newer.median_us:8.0f} {newer.server_us:9.1f} | {newer.rate / older.rate:6.2f}{beside}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("loads", nargs="*", help="how the names of the loads begin")
    parser.add_argument("--old", type=Path, help="a checkout of another version, with its own .venv")
    options = parser.parse_args()
    asked = tuple(options.loads)
    with Report("server_iggy_today", write=not asked) as report, tempfile.TemporaryDirectory() as place:
        program = compile_load(Path(place))
        report.line(f"{ROUNDS} rounds of {SECONDS:g} s, alternating; medians. A message is one of those in a request.")
        head = f"{'messages/s':>12} {'us':>8} {'cpu us/rq':>9}"
        report.line(
            f"{'':32} {'older frames: ' + head[14:]} | {'0.11: ' + head[6:]} |  ratio"
            + " |        old/s  ratio" * bool(options.old)
        )
        for load in LOADS:
            if not asked or str(load).startswith(asked):
                compare(report, program, load, options.old)


if __name__ == "__main__":
    main()
