"""A micro-batch on a cluster: what the driver's Python process needs, by its size; results in results/replicate_cluster.txt.

load     inserts of new keys into an empty table
merge    80 % updates, 10 % inserts, 10 % deletes of the same number of changes, keys anywhere

Each line is one micro-batch of a pipeline in a process of its own, local-cluster[2,1,2048], tables merged by Spark. `executors`
folds the changes on the executors; `driver` gets them into the driver's Python process, folds them there, and gives them back
to Spark. The memory is the peak of the driver's Python process less that before the run; the processor time is that of all
processes.

    python -m bench.replicate_cluster [--quick]
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyspark

from bench.machine import Report, run_benchmark
from bench.replicate_messages import Envelopes, make_log, make_table, mix, send
from headstream.replicate.run.pipeline import ReplicatePipeline
from headstream.replicate.settings.config import ReplicateConfig
from headstream.spark import session, stop

_MASTER: Final = "local-cluster[2,1,2048]"
_TICK: Final = os.sysconf("SC_CLK_TCK")


def find_processor_seconds() -> dict[int, float]:
    """Return the processor time of this process and its descendants so far."""
    seconds, parents = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            parents[int(entry.name)] = int(fields[1])
            seconds[int(entry.name)] = (int(fields[11]) + int(fields[12])) / _TICK

    def is_ours(number: int) -> bool:
        while number in parents and number != os.getpid():
            number = parents[number]
        return number == os.getpid()

    return {number: found for number, found in seconds.items() if is_ours(number)}


class Meter:
    """Measures while a micro-batch runs."""

    def __enter__(self) -> Meter:
        self._ended = threading.Event()
        self._seconds = self._before = find_processor_seconds()
        self._least = self._most = self._resident()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    @staticmethod
    def _resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def _watch(self) -> None:
        while True:
            self._most = max(self._most, self._resident())
            self._seconds = self._seconds | find_processor_seconds()
            if self._ended.wait(0.2):
                return

    @property
    def processor_seconds(self) -> float:
        """The processor time of all processes."""
        return sum(found - self._before.get(number, 0.0) for number, found in self._seconds.items())

    @property
    def grown_bytes(self) -> int:
        """By how much the driver's Python process has grown at most."""
        return self._most - self._least


def run_job(work: Path, way: str, name: str) -> dict[str, Any]:
    """Run the pipeline over all that is new in the log, one micro-batch, in this process."""
    settings = {"spark.driver.memory": "4g", "spark.driver.maxResultSize": "3g", "spark.executor.memory": "2g"}
    spark = session(master=_MASTER, config=settings)
    config = ReplicateConfig(
        source=(work / "log").as_uri(),
        topics=("cdc/data",),
        metadata=("cdc/metadata",),
        tables=work / name,
        checkpoint=work / f"{name}-checkpoint",
        max_messages_per_batch=100_000_000,
        max_bytes_per_batch=8 << 30,
        once=True,
    )
    pipeline = ReplicatePipeline(spark, config)
    if way == "driver":
        pipeline._store_session = None
    with Meter() as meter:
        summary = pipeline.run()
    stop(spark)
    assert (summary.dead, summary.parked, summary.failing, summary.batches) == (0, 0, {}, 1), summary
    found = {"seconds": summary.seconds, "processor": meter.processor_seconds, "grown": meter.grown_bytes}
    return found | {"rows": summary.rows_in_driver}


def start_job(work: Path, way: str) -> dict[str, Any]:
    """Run a job in a process of its own."""
    home = {"SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_SCALA_VERSION": "2.13", "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "bench.replicate_cluster", "--job", str(work), way]
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=True, env={**os.environ, **home})
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def make_changes(kind: str, count: int) -> Iterator[bytes]:
    """Yield the messages of one micro-batch."""
    envelopes = Envelopes(make_table(1))
    rng = random.Random(1)
    if kind == "load":
        for number in range(count):
            yield envelopes.write("INSERT", number, number)
    else:
        for number, operation in enumerate(mix(count)):
            key = count + number if operation == "INSERT" else rng.randrange(count)
            yield envelopes.write(operation, key, count + number)


def bench_batches(report: Report, directory: Path, counts: list[int]) -> None:
    """Both ways, by the number of changes."""
    for count in counts:
        work = directory / str(count)
        make_log((work / "log").as_uri(), [make_table(1)])
        for kind in ("load", "merge"):
            send((work / "log").as_uri(), make_changes(kind, count))
            for way in ("executors", "driver"):
                began = time.perf_counter()
                found = start_job(work, way)
                report.line(
                    f"{kind:5} of {count:>10,} changes, {way:9}: driver's Python process +{found['grown'] / 1e6:.0f} MB, "
                    f"{found['rows']:,} rows in it; {found['processor'] / count * 1e6:.1f} us of processor time a change, "
                    f"{found['seconds']:.1f} s ({time.perf_counter() - began:.0f} s with the start of Spark)"
                )


def main() -> None:
    """Run all of it, or one job."""
    if "--job" in sys.argv:
        work, way = sys.argv[sys.argv.index("--job") + 1 :]
        print(json.dumps(run_job(Path(work), way, way)))
        return
    with run_benchmark("replicate_cluster", __doc__, "smaller micro-batches, nothing written") as (report, directory, quick):
        bench_batches(report, directory, [20_000, 100_000] if quick else [200_000, 2_000_000])


if __name__ == "__main__":
    main()
