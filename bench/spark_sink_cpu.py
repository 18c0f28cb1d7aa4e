"""Where the processor time of a write with Spark goes; results in results/spark_sink_cpu.txt.

jvm       Spark: plans, tasks, rows to Arrow, the sockets to Python
workers   PySpark's Python processes: Arrow batches taken, packed and written to staged files
driver    this process: the commit, which reads the staged files and appends them to the log

Each in user and system seconds a million rows. `dropped` is a Python sink that drops its batches: the workers' difference to it
is our code and its writes. The commit's functions are from cProfile over time.process_time. Processor time hardly depends on what
else the machine does, so this can be run beside other work.

    python -m bench.spark_sink_cpu [--messages 1000000] [--rounds 3] [--draft]
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeAlias

import headstream as hs
from bench.machine import Report
from bench.spark_sink import PAYLOAD_BYTES, DroppingSink, dropped, rows_of, writer
from headstream.spark import session, stop

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_SHOWN: Final = 8
Times: TypeAlias = dict[str, tuple[float, float]]
"""Part -> user and system seconds."""


def _read_stat(pid: int) -> tuple[int, str, float, float, float, float] | None:
    """Return parent, name, user and system seconds, and those of the children that have ended; None if it has ended."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return None
    name, rest = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
    user, system, ended_user, ended_system = (int(rest[place]) / _TICKS for place in (11, 12, 13, 14))
    return int(rest[1]), name, user, system, ended_user, ended_system


def times() -> Times:
    """Return the processor times of this process, the JVM and the workers so far."""
    found = {int(path.name): _read_stat(int(path.name)) for path in Path("/proc").iterdir() if path.name.isdecimal()}
    parents = {pid: stat[0] for pid, stat in found.items() if stat is not None}
    own = os.getpid()

    def is_ours(pid: int) -> bool:
        while pid in parents and pid != own:
            pid = parents[pid]
        return pid == own

    sums: Times = dict.fromkeys(("jvm", "workers", "driver"), (0.0, 0.0))
    for pid, stat in found.items():
        if stat is None or not is_ours(pid):
            continue
        part = "driver" if pid == own else "jvm" if stat[1] == "java" else "workers"
        user, system = stat[2:4] if part != "workers" else (stat[2] + stat[4], stat[3] + stat[5])
        sums[part] = (sums[part][0] + user, sums[part][1] + system)
    return sums


def measure(run: Callable[[], None], rounds: int, between: Callable[[], None]) -> Times:
    """Return the least times of some runs, after one that warms up."""
    best: Times = {}
    for number in range(rounds + 1):
        between()
        before = times()
        run()
        after = times()
        taken = {part: (after[part][0] - before[part][0], after[part][1] - before[part][1]) for part in after}
        if number and (not best or sum(map(sum, taken.values())) < sum(map(sum, best.values()))):
            best = taken
    return best


def profile(run: Callable[[], None]) -> Iterable[tuple[str, float, int]]:
    """Return the functions of this process that take most of a run: name, own seconds, calls."""
    found = cProfile.Profile(time.process_time)
    found.enable()
    run()
    found.disable()
    stats = pstats.Stats(found).stats  # type: ignore[attr-defined]
    listed = [(f"{Path(place[0]).stem} {place[2]}".strip("~ "), own, calls) for place, (calls, _, own, _, _) in stats.items()]
    return sorted(listed, key=lambda entry: entry[1], reverse=True)[:_SHOWN]


def main() -> None:
    """Measure, print and write down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--draft", action="store_true", help="do not write the result down")
    arguments = parser.parse_args()
    messages = arguments.messages
    spark = session("bench", master="local[2]", config={"spark.driver.memory": "3g"})
    try:
        with Report("spark_sink_cpu", write=not arguments.draft) as report, tempfile.TemporaryDirectory() as scratch:
            url = (Path(scratch) / "log").as_uri()
            with hs.connect(url) as log:
                log.create_topic("bench/messages", partitions=2)

            def purge() -> None:
                with hs.connect(url) as log:
                    log.purge_topic("bench/messages")

            rows = rows_of(spark, messages)
            spark.dataSource.register(DroppingSink)
            typed = ("payload", "attempt", "source", "total")
            payloads = writer(rows, url, "payload")
            headers = writer(rows, url, *typed, headerColumns="attempt, source, total")
            report.line(f"{messages} rows of {PAYLOAD_BYTES} B into 2 partitions, local[2]; CPU seconds a million rows")
            runs = {
                "dropped, payload alone": dropped(rows, "payload"),
                "headstream, payload alone": payloads,
                "dropped, three header columns": dropped(rows, *typed),
                "headstream, three header columns": headers,
            }
            for name, run in runs.items():
                taken = measure(run, arguments.rounds, purge)
                parts = [f"{part} {u / messages * 1e6:4.2f} + {s / messages * 1e6:4.2f}" for part, (u, s) in taken.items()]
                report.line(f"  {name:34} {'   '.join(parts)}   (user + system)")
            for name, run in (("payload alone", payloads), ("three header columns", headers)):
                purge()
                report.line(f"the driver's functions, {name}:")
                for function, own, calls in profile(run):
                    report.line(f"  {own / messages * 1e6:6.3f} s  {calls:7} calls  {function}")
    finally:
        stop(spark)


if __name__ == "__main__":
    main()
