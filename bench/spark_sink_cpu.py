"""Where the processor time of a write with Spark goes; results in results/spark_sink_cpu.txt.

jvm       Spark: plans, tasks, rows to Arrow, the sockets to Python
workers   PySpark's Python processes: Arrow batches taken, packed and written to staged files; then the commit, in one process,
          which reads the staged files and appends them to the log
driver    this process

Each in user and system seconds a million rows. `dropped` is a Python sink that drops its batches: the workers' difference to it
is our code and its writes. Then the same steps in this process, without Spark, and the commit's functions by cProfile over
time.process_time. Processor time depends less than rates do on what else the machine does.

    python -m bench.spark_sink_cpu [--messages 1000000] [--rounds 3] [--draft]
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa
from pyspark.sql.types import BinaryType, StructField, StructType

import headstream as hs
from bench.machine import Report
from bench.spark_sink import PAYLOAD_BYTES, DroppingSink, dropped, rows_of, writer
from headstream.core.model.identifiers import TopicName
from headstream.log.staged.staging import Manifest
from headstream.spark import session, stop
from headstream.spark.sink.columns import plan_columns
from headstream.spark.sink.log import DirectorySink
from headstream.spark.sink.options import parse_sink_options
from headstream.spark.sink.stager import Staged, StageTask, stage_rows

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_SHOWN: Final = 8
BATCH_ROWS: Final = 10_000
_BUFFER: Final = bytes(4 << 20)
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


class Steps:
    """The sink's steps in this process, for payloads alone.

    Args:
        root: The log's directory.
        messages: How many rows.
    """

    def __init__(self, root: Path, messages: int) -> None:
        options = parse_sink_options({"url": root.as_uri(), "topic": "bench/messages"})
        columns = plan_columns(StructType([StructField("payload", BinaryType())]), options)
        self._sink = DirectorySink(str(root))
        self._epoch = 0
        payloads = pa.array([b"%0100d" % number for number in range(BATCH_ROWS)], pa.binary())
        self._batches = [pa.record_batch([payloads], names=["payload"])] * (messages // BATCH_ROWS)
        self._task = StageTask(self._sink, columns, TopicName.parse("bench/messages"), None, "bench", 0, 0)
        self._staged: Staged | None = None

    def stage(self) -> None:
        """Pack the rows, and write them to a staged file."""
        self._epoch += 1
        self._staged = stage_rows(replace(self._task, epoch=self._epoch), self._batches)

    def commit(self) -> None:
        """Append the staged file to the log."""
        staged = self._staged
        assert staged is not None, "stage() comes first"
        assert staged.part is not None, "there are rows"
        self._sink.commit(Manifest("bench", self._epoch, self._sink.read_identity(), staged.limits, (staged.part,)), 60)

    @property
    def size_bytes(self) -> int:
        """How many bytes were staged."""
        assert self._staged is not None, "stage() comes first"
        assert self._staged.part is not None, "there are rows"
        return sum(chunk.size_bytes for chunk in self._staged.part.chunks)


def write_file(path: Path, size_bytes: int) -> None:
    """Write a file from one buffer, and remove it: what the kernel takes to copy so many bytes into its page cache."""
    with path.open("wb", buffering=0) as file:
        for _ in range(size_bytes // len(_BUFFER)):
            file.write(_BUFFER)
    path.unlink()


def isolated(report: Report, steps: Steps, messages: int, rounds: int, purge: Callable[[], None], scratch: Path) -> None:
    """Report the steps in this process: user and system time, and the commit's functions."""
    steps.stage()
    size_bytes = steps.size_bytes
    plain = partial(write_file, scratch / "plain", size_bytes)
    for name, step in ((f"{size_bytes >> 20} MiB into a file", plain), ("stage", steps.stage), ("commit", steps.commit)):
        found = []
        for _ in range(rounds):
            purge()  # else the commit checks what was appended within the last minute
            if step == steps.commit:
                steps.stage()
            before = os.times()
            step()
            after = os.times()
            found.append((after.user - before.user, after.system - before.system))
        user, system = min(found, key=sum)
        report.line(f"  {name:34} {user / messages * 1e6:4.2f} + {system / messages * 1e6:4.2f}")
    purge()
    steps.stage()
    profiler = cProfile.Profile(time.process_time)
    profiler.runcall(steps.commit)
    stats = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    listed = [(f"{Path(place[0]).stem} {place[2]}".strip("~ "), own, calls) for place, (calls, _, own, _, _) in stats.items()]
    for function, own, calls in sorted(listed, key=lambda entry: entry[1], reverse=True)[:_SHOWN]:
        report.line(f"    {own / messages * 1e6:5.3f} s  {calls:5} calls  {function}")


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
            report.line(f"{messages} rows of {PAYLOAD_BYTES} B into 2 partitions, local[2]; CPU seconds a million rows")
            runs = {
                "dropped, payload alone": dropped(rows, "payload"),
                "headstream, payload alone": writer(rows, url, "payload"),
                "dropped, three header columns": dropped(rows, *typed),
                "headstream, three header columns": writer(rows, url, *typed, headerColumns="attempt, source, total"),
            }
            for name, run in runs.items():
                taken = measure(run, arguments.rounds, purge)
                parts = [f"{part} {u / messages * 1e6:4.2f} + {s / messages * 1e6:4.2f}" for part, (u, s) in taken.items()]
                report.line(f"  {name:34} {'   '.join(parts)}   (user + system)")
            purge()
            report.line("the steps without Spark, payload alone (user + system), then the functions of the commit")
            isolated(report, Steps(Path(scratch) / "log", messages), messages, arguments.rounds, purge, Path(scratch))
    finally:
        stop(spark)


if __name__ == "__main__":
    main()
