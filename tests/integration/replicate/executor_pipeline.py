"""Runs of one pipeline on a real cluster, which test_executors.py starts: each is a process, its executors are others."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa

from headstream.replicate.apply.on_executors import stored_batch
from headstream.replicate.apply.on_executors.spark_changes import SparkChanges
from headstream.replicate.apply.on_executors.stored_batch import StoredBatch
from headstream.replicate.apply.tombstones import Tombstones
from headstream.replicate.apply.type1.merge import Scd1Table
from headstream.replicate.engines.delta_spark import DeltaSparkEngine
from headstream.replicate.parked.parking import ParkingLot
from headstream.replicate.run.pipeline import ReplicatePipeline
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.table_settings import TableRules, TableSettings
from headstream.replicate.storage.places import Place, StorePlace
from headstream.replicate.storage.storage_settings import StorageSettings
from headstream.spark import session, stop

TABLES = ("SHOP.customers", "SHOP.order_lines")


def run_once(spark: Any, directory: Path, place: Place, *, soft: bool, history: bool) -> dict[str, Any]:
    """Apply all that is in the log; return the summary.

    Args:
        spark: The session.
        directory: Where the log is.
        place: Where tables and checkpoint are.
        soft: Whether deleted rows stay, marked.
        history: Whether tables have all versions of their rows, and change tables, and show whole transactions alone.
    """
    defaults = TableSettings(deletes="soft" if soft else "apply", scd_type=2 if history else 1)
    config = ReplicateConfig(
        source=(directory / "log").as_uri(),
        topics=("cdc/data",),
        metadata=("cdc/metadata",),
        tables=place / "tables",
        checkpoint=place / "checkpoint",
        change_tables=place / "changes" if history else None,
        atomic=history,
        storage=place.storage if isinstance(place, StorePlace) else StorageSettings(),
        rules=TableRules(include=TABLES, defaults=defaults),
        max_dead_rate=1.0,
        once=True,
    )
    return ReplicatePipeline(spark, config).run().to_dict()


def find_executors() -> list[int]:
    """Return the process numbers of the executors: they are descendants of this process."""
    parents: dict[int, int] = {}
    executors = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
                if b"CoarseGrainedExecutorBackend" in (entry / "cmdline").read_bytes():
                    executors.append(int(entry.name))
            except OSError:  # it has ended
                continue

    def is_ours(number: int) -> bool:
        while number in parents and number != os.getpid():
            number = parents[number]
        return number == os.getpid()

    return [number for number in executors if is_ours(number)]


def kill_an_executor_in_a_merge(killed: list[int]) -> None:
    """Let the first merge that Spark begins lose an executor while it runs."""
    merge = DeltaSparkEngine.merge

    def kill() -> None:
        time.sleep(0.5)  # the merge's first tasks have been sent; any moment of it is a test
        victim = min(find_executors())
        os.kill(victim, signal.SIGKILL)
        killed.append(victim)

    def merge_and_lose(self: DeltaSparkEngine, *arguments: Any) -> Any:
        if not killed:
            killed.append(0)
            killer = threading.Thread(target=kill)
            killer.start()
            try:
                return merge(self, *arguments)
            finally:
                killer.join()
        return merge(self, *arguments)

    DeltaSparkEngine.merge = merge_and_lose  # type: ignore[assignment, method-assign]


def die_at(step: int) -> None:
    """Let all processes be killed at the beginning or the end of a step, by its number among those of the run."""
    steps = itertools.count(1)

    def note() -> None:
        if next(steps) == step:
            os.killpg(os.getpgid(0), signal.SIGKILL)

    def noted(function: Any) -> Any:
        def run(*arguments: Any, **options: Any) -> Any:
            note()
            result = function(*arguments, **options)
            note()
            return result

        return run

    for owner, name in (
        (StoredBatch, "fetch_others"),
        (ParkingLot, "begin_batch"),
        (ParkingLot, "hold"),
        (SparkChanges, "fold"),
        (SparkChanges, "join"),
        (Tombstones, "record"),
        (DeltaSparkEngine, "merge"),
        (DeltaSparkEngine, "append"),
        (ParkingLot, "end_batch"),
        (ParkingLot, "finish_release"),
    ):
        setattr(owner, name, noted(getattr(owner, name)))


@contextmanager
def failing_executors() -> Iterator[None]:
    """Give the functions of executors tombstones without sequences: one of them fails."""
    found = Scd1Table.tombstones_above
    Scd1Table.tombstones_above = lambda self, lowest, most: pa.table({self.keys[0]: [1]})  # type: ignore[method-assign]
    try:
        yield
    finally:
        Scd1Table.tombstones_above = found  # type: ignore[method-assign]


def main(directory: Path, *how: str) -> None:
    """Run once for each line of the input, and write the summary.

    With the line `driver` the driver merges tables of its own; with `fail` executors cannot merge.
    """
    in_store = "s3" in how
    quick = {"spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    master = f"local-cluster[{1 if 'one-executor' in how else 2},1,1024]"
    spark = session(master=master, quick_start=True, config=quick, with_jars=["s3"] if in_store else [])
    store = StorePlace("lake", directory.name, StorageSettings(endpoint=os.environ["AWS_ENDPOINT_URL"])) if in_store else None
    killed: list[int] = []
    few = stored_batch.MAX_SMALL_ROWS
    if "lose-executor" in how:
        kill_an_executor_in_a_merge(killed)
    if "die-after-merges" in how:
        ParkingLot.end_batch = lambda self: os.killpg(os.getpgid(0), signal.SIGKILL)  # type: ignore[method-assign]
    for option in how:
        if option.startswith("die-at-"):
            die_at(int(option.removeprefix("die-at-")))
    for line in sys.stdin:
        in_driver = line.strip() == "driver"
        # So few changes would be merged in the driver.
        stored_batch.MAX_SMALL_ROWS = few if in_driver or "few" in how else 0  # type: ignore[misc]
        place = directory / "driver" if in_driver else store or directory
        with failing_executors() if line.strip() == "fail" else nullcontext():
            found = run_once(spark, directory, place, soft="soft" in how, history="history" in how)
        found["application"] = spark.sparkContext.applicationId
        found["killed"] = [number for number in killed if number]
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()
    stop(spark)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
