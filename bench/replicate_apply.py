"""Envelopes in a log to Delta tables, side by side in one run; results in results/replicate_apply.txt.

append   inserts of new keys, into one table and into one without a key; beside them a hand-written job that appends
merge    80 % updates, 10 % inserts, 10 % deletes into a table of 1,000,000 rows, keys beside each other and anywhere; beside
         them a hand-written job: from_avro twice, the last change of each key by row_number, MERGE
tables   100 updates into each of 200 tables of 10,000 rows in one micro-batch: the first of a run, which opens the tables,
         and the ones after it; beside it the hand-written MERGE of a few of those tables

Both sides read the same log by the same source in micro-batches of 200,000 messages, local[2], a warmed-up session. A rate is
of the time in the micro-batches; `in all` is the whole run, its start and its end included.

    python -m bench.replicate_apply [--quick] [--parts append,merge,tables]
"""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from deltalake import DeltaTable
from pyspark.sql import Window
from pyspark.sql import functions as sf
from pyspark.sql.avro.functions import from_avro

from bench.machine import Report
from bench.replicate_messages import (
    ENVELOPE_SCHEMA,
    Envelopes,
    fill_table,
    make_config,
    make_log,
    make_table,
    mix,
    send,
    table_types,
    write_merge,
)
from headstream.replicate.codec import TableMetadata
from headstream.replicate.run.pipeline import ReplicatePipeline
from headstream.replicate.run.summary import Summary
from headstream.spark import session, stop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_MESSAGES: Final = 200_000
_COLUMNS: Final = list(table_types())


@dataclass(frozen=True, slots=True)
class Run:
    """What a job did: its micro-batches' seconds, and those of the whole of it."""

    batches: list[float]
    seconds: float

    def rate(self, count: int) -> float:
        """Return thousands of changes a second in the micro-batches."""
        return count / sum(self.batches) / 1e3

    def overall(self, count: int) -> float:
        """Return thousands of changes a second of the whole run."""
        return count / self.seconds / 1e3


def run_ours(spark: SparkSession, work: Path, name: str, batch_messages: int = BATCH_MESSAGES) -> Run:
    """Run the pipeline over all that is in the log; tables at `work/name/shop`."""
    times: list[float] = []

    def note(summary: Summary) -> None:
        if summary.batches > len(times):
            times.append(summary.seconds - sum(times))

    config = make_config(work, name, max_messages_per_batch=batch_messages, once=True)
    began = time.perf_counter()
    summary = ReplicatePipeline(spark, config, on_progress=note).run()
    assert (summary.dead, summary.parked, summary.failing) == (0, 0, {})
    return Run(times, time.perf_counter() - began)


def run_theirs(spark: SparkSession, work: Path, name: str, apply: Callable[[DataFrame], None]) -> Run:
    """Run a hand-written job over all that is in the log."""
    times: list[float] = []

    def timed(batch: DataFrame, number: int) -> None:
        began = time.perf_counter()
        apply(batch)
        times.append(time.perf_counter() - began)

    stream = spark.readStream.format("headstream").option("url", (work / "log").as_uri()).option("subscribe", "cdc/data")
    stream = stream.option("startingOffsets", "earliest").option("headers", "none")
    stream = stream.option("maxOffsetsPerTrigger", BATCH_MESSAGES)
    began = time.perf_counter()
    writer = stream.load().writeStream.foreachBatch(timed).option("checkpointLocation", str(work / f"{name}-theirs"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return Run(times, time.perf_counter() - began)


def decoded(batch: DataFrame, table: TableMetadata) -> DataFrame:
    """Return a batch's changes, as a hand-written job for one table decodes them."""
    opened = batch.select(from_avro("payload", ENVELOPE_SCHEMA).alias("e"))
    rows = opened.where(sf.col("e.messageSchemaId") == table.schema_id)
    read = rows.select(from_avro("e.message", table.data_schema).alias("r"))
    sequence = sf.col("r.headers.changeSequence").alias("_hs_sequence")
    return read.select("r.data.*", sequence, (sf.col("r.headers.operation") == "DELETE").alias("_hs_delete"))


def merge_by_hand(batch: DataFrame, table: TableMetadata, path: Path) -> None:
    """Merge a batch's changes of one table into it."""
    order = Window.partitionBy("c0").orderBy(sf.desc("_hs_sequence"))
    last = decoded(batch, table).withColumn("_place", sf.row_number().over(order)).where("_place = 1").drop("_place")
    last.createOrReplaceTempView("changes")
    batch.sparkSession.sql(write_merge(path, "c0", [*_COLUMNS, "_hs_sequence"]))


def bench_append(report: Report, work: Path, spark: SparkSession, count: int) -> None:
    """Inserts of new keys."""
    for name, table in (("keyed", make_table(0)), ("keyless", make_table(0, has_key=False))):
        place = work / name
        writer = Envelopes(table)
        make_log((place / "log").as_uri(), [table])
        run_ours(spark, place, "ours")  # the schemas alone
        send((place / "log").as_uri(), (writer.write("INSERT", n, n) for n in range(count)))
        ours = run_ours(spark, place, "ours")
        assert DeltaTable(str(place / "ours/shop/table0")).to_pyarrow_dataset().count_rows() == count
        told = f"append, {count:,} inserts, {'a table with a key' if name == 'keyed' else 'a table without a key'}: "
        told += f"{ours.rate(count):.0f} thousand changes/s ({ours.overall(count):.0f} in all)"
        if name == "keyed":
            path = place / "theirs/shop/table0"

            def append(batch: DataFrame, table: TableMetadata = table, path: Path = path) -> None:
                decoded(batch, table).drop("_hs_delete").write.format("delta").mode("append").save(str(path))

            theirs = run_theirs(spark, place, "theirs", append)
            told += f"; hand-written append {theirs.rate(count):.0f} ({theirs.overall(count):.0f}); "
            told += f"{ours.rate(count) / theirs.rate(count):.1f} x"
        report.line(told)
        shutil.rmtree(place)


def bench_merge(report: Report, work: Path, spark: SparkSession, rows: int, count: int) -> None:
    """Updates, inserts and deletes into a large table."""
    table = make_table(0)
    writer = Envelopes(table)
    for name in ("clustered", "random"):
        place = work / name
        url = (place / "log").as_uri()
        make_log(url, [table])
        fill_table(place / "ours/shop/table0", rows)
        shutil.copytree(place / "ours/shop/table0", place / "theirs")
        run_ours(spark, place, "ours")  # the schemas alone
        near = range(rows // 2, rows // 2 + count)
        keys = list(near) if name == "clustered" else random.Random(1).sample(range(rows), count)
        kinds = mix(count)
        new = iter(range(rows, rows + count))
        keys = [next(new) if kind == "INSERT" else key for kind, key in zip(kinds, keys, strict=True)]
        send(url, (writer.write(kind, key, n) for n, (kind, key) in enumerate(zip(kinds, keys, strict=True))))
        ours = run_ours(spark, place, "ours")
        theirs = run_theirs(spark, place, "hand", lambda batch, place=place: merge_by_hand(batch, table, place / "theirs"))  # type: ignore[misc]
        _check_same(place / "ours/shop/table0", place / "theirs")
        where = "beside each other" if name == "clustered" else "anywhere"
        report.line(
            f"merge, {count:,} changes into {rows:,} rows, keys {where}: {ours.rate(count):.0f} thousand changes/s "
            f"({ours.overall(count):.0f} in all); hand-written MERGE {theirs.rate(count):.1f} ({theirs.overall(count):.1f}); "
            f"{ours.rate(count) / theirs.rate(count):.1f} x"
        )
        shutil.rmtree(place)


def bench_tables(report: Report, work: Path, spark: SparkSession, tables: int, rows: int, batches: int) -> None:
    """A few updates into each of many tables."""
    place = work / "tables"
    known = [make_table(number) for number in range(tables)]
    url = (place / "log").as_uri()
    make_log(url, known)
    fill_table(place / "first", rows)
    for table in known:
        shutil.copytree(place / "first", place / "ours/shop" / table.lineage.table)
    run_ours(spark, place, "ours")  # the schemas alone
    writers = [Envelopes(table) for table in known]
    each = tables * 100
    keys = random.Random(1)
    for batch in range(batches):
        changes = [(table, keys.randrange(rows)) for _ in range(100) for table in range(tables)]
        send(url, (writers[table].write("UPDATE", key, batch * each + n) for n, (table, key) in enumerate(changes)))
    ours = run_ours(spark, place, "ours", each)
    few = known[:3]

    def merge(batch: DataFrame) -> None:
        for table in few:
            merge_by_hand(batch, table, place / "ours/shop" / table.lineage.table)

    theirs = run_theirs(spark, place, "hand", merge)
    by_hand = sum(theirs.batches) / len(theirs.batches) / len(few)
    later = sum(ours.batches[1:]) / len(ours.batches[1:])
    report.line(
        f"tables, 100 updates into each of {tables} tables of {rows:,} rows: {ours.batches[0]:.1f} s for the first micro-batch "
        f"of a run, {later:.1f} s for the next ones; hand-written {by_hand:.2f} s a table, so {by_hand * tables:.0f} s; "
        f"{by_hand * tables / later:.0f} x"
    )
    shutil.rmtree(place)


def _check_same(ours: Path, theirs: Path) -> None:
    columns = ["c0", "_hs_sequence"]
    tables = [DeltaTable(str(path)).to_pyarrow_table(columns=columns).sort_by("c0") for path in (ours, theirs)]
    assert tables[0].equals(tables[1].cast(tables[0].schema)), "both jobs must come to the same table"


def warm_up(work: Path, spark: SparkSession) -> None:
    """Run both jobs once over little, so that Java has compiled what both use."""
    table = make_table(0)
    make_log((work / "warm/log").as_uri(), [table])
    fill_table(work / "warm/theirs", 1000)
    writer = Envelopes(table)
    send((work / "warm/log").as_uri(), (writer.write("UPDATE", n, n) for n in range(2000)))
    run_ours(spark, work / "warm", "ours")
    for number in range(2):
        run_theirs(spark, work / "warm", f"hand{number}", lambda batch: merge_by_hand(batch, table, work / "warm/theirs"))


def main() -> None:
    """Run all of it, or some parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, nothing written")
    parser.add_argument("--parts", default="append,merge,tables", help="which; nothing is written unless it is all of them")
    arguments = parser.parse_args()
    parts, scale = arguments.parts.split(","), 10 if arguments.quick else 1
    runs: dict[str, tuple[Callable[..., None], Iterable[Any]]] = {
        "append": (bench_append, (1_000_000 // scale,)),
        "merge": (bench_merge, (1_000_000 // scale, 400_000 // scale)),
        "tables": (bench_tables, (200 // scale, 10_000, 4)),
    }
    complete = not arguments.quick and set(parts) == set(runs)
    with tempfile.TemporaryDirectory(prefix="headstream-bench-") as name, Report("replicate_apply", write=complete) as report:
        spark = session("bench-replicate", master="local[2]", config={"spark.driver.memory": "3g"})
        try:
            warm_up(Path(name), spark)
            for part in parts:
                run, arguments_of_it = runs[part]
                run(report, Path(name), spark, *arguments_of_it)
        finally:
            stop(spark)


if __name__ == "__main__":
    main()
