"""AUTO CDC of Spark's declarative pipelines beside Headstream, the same changes in one run: results/beside_auto_cdc.txt.

cases    changes that pipelines often get wrong (change_cases.py): which tables are the source's in the end
history  the same changes, all versions of the rows (type 2): which tables have the source's versions; AUTO CDC needs PySpark 4.3
speed    inserts of new keys into an empty table, then 80 % updates, 10 % inserts, 10 % deletes with keys anywhere; beside both
         a hand-written job of from_avro, row_number, MERGE. All three read the same log by the same source, in micro-batches of
         200,000 messages, each in a process of its own, local[2], warmed up by small runs. Seconds are those of a whole run, its
         start included; processor time is that of all processes.

This is AUTO CDC of Apache Spark (pyspark.pipelines), not that of Databricks. It writes to tables with Spark's row-level
operations. Delta Lake's have none, and the first line of the results shows what Spark says; Iceberg's have them, so it writes to
those, by a small catalog (IcebergTables.java), since Iceberg is not released for Spark 4.2. Needs javac, and Iceberg's jar:

    mvn dependency:get -Dtransitive=false -Dartifact=org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0
    python -m bench.beside_auto_cdc [--quick] [--parts cases,history,speed] [--iceberg JAR] [--python PYTHON]

`--python` is a Python that has Headstream and another version of PySpark, for the processes of AUTO CDC.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from deltalake import DeltaTable
from pyspark import pipelines
from pyspark.errors import PySparkException
from pyspark.pipelines.add_pipeline_analysis_context import add_pipeline_analysis_context
from pyspark.pipelines.graph_element_registry import graph_element_registration_context
from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, start_run

from bench.change_cases import CASES, RUNS, find_difference, find_wrong_versions, plain_rows, plain_schema, run_cases
from bench.cluster_meter import find_processes
from bench.machine import Report
from bench.replicate_apply import BATCH_MESSAGES, decoded, merge_by_hand, run_ours, run_theirs
from bench.replicate_messages import Envelopes, load_then_mix, make_log, make_table, send, table_types
from headstream.spark import register, session, stop
from headstream.spark.sessions.jars import fetch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ICEBERG: Final = "org/apache/iceberg/iceberg-spark-runtime-4.1_2.13/1.12.0/iceberg-spark-runtime-4.1_2.13-1.12.0.jar"
_WAYS: Final = ("headstream", "auto cdc", "by hand")
_SPARK_TYPES: Final = {"int32": "int", "int64": "bigint", "string": "string", "bool": "boolean"}


def start_connect(directory: Path, iceberg: Path | None) -> SparkSession:
    """Return a session of Spark Connect with a server in this process.

    Args:
        directory: Where its tables are.
        iceberg: The class path of Iceberg's tables, separated by colons; without it tables are Delta's.
    """
    from pyspark.sql import SparkSession

    warnings.simplefilter("ignore")  # the client sets each setting again, and says which the server has already
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "3g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.driver.extraClassPath": os.pathsep.join([*map(str, fetch()), *([] if iceberg is None else [str(iceberg)])]),
    }
    if iceberg is None:
        settings["spark.sql.extensions"] = "io.delta.sql.DeltaSparkSessionExtension"
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    else:
        settings["spark.sql.catalog.tables"] = "bench.IcebergTables"
        settings["spark.sql.catalog.tables.warehouse"] = str(directory)
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.remote("local[2]").getOrCreate()
    register(spark)
    return spark


def run_flows(spark: SparkSession, define: Callable[[], None], storage: Path, catalog: str | None = "tables") -> None:
    """Run a pipeline once over all that is new, as `spark-pipelines run` does."""
    graph = create_dataflow_graph(spark, default_catalog=catalog, default_database="default", sql_conf={})
    registry = SparkConnectGraphElementRegistry(spark, graph)
    with (
        graph_element_registration_context(registry),
        add_pipeline_analysis_context(spark=spark, dataflow_graph_id=graph, flow_name=None),
    ):
        define()
    events = start_run(spark, graph, full_refresh=[], full_refresh_all=False, refresh=[], dry=False, storage=storage.as_uri())
    for _ in events:
        pass


def define_case(spark: SparkSession, feed: Path, name: str, schema: str, table_format: str, scd_type: int) -> None:
    """Define a table with its flow of changes."""
    history: dict[str, Any] = {"stored_as_scd_type": 2} if scd_type == 2 else {}

    @pipelines.temporary_view(name=f"{name}_changes")
    def changes() -> Any:
        return spark.readStream.schema(schema).parquet(str(feed))

    pipelines.create_streaming_table(name, format=table_format)
    pipelines.create_auto_cdc_flow(
        name, f"{name}_changes", ["id"], "seq", apply_as_deletes="deleted", except_column_list=["seq", "deleted"], **history
    )


def run_their_cases(spark: SparkSession, work: Path, scd_type: int) -> list[str]:
    """Run all cases by AUTO CDC, and return what became of each."""
    failures: dict[int, str] = {}
    for run in range(RUNS):
        due = [number for number, case in enumerate(CASES) if run < len(case.runs)]
        for number in due:
            feed = work / f"feed/case{number}"
            feed.mkdir(parents=True, exist_ok=True)
            rows = plain_rows(CASES[number].runs[run])
            pq.write_table(pa.Table.from_pylist(rows, schema=plain_schema(CASES[number].columns(run))), feed / f"{run}.parquet")
        if (
            run_cases_once(spark, work, due, run, scd_type) is not None
        ):  # which ones: those that ended well have nothing more to do
            for number in due:
                failure = run_cases_once(spark, work, [number], run, scd_type)
                if failure is not None:
                    named = re.search(r"\[([A-Z_.]+)\]", failure)
                    failures.setdefault(number, f"the flow fails: {named[1] if named else failure}")
    found = []
    for number, case in enumerate(CASES):
        stored = [row.asDict() for row in spark.table(f"tables.default.case{number}").drop("__spark_autocdc_metadata").collect()]
        wrong = find_difference(case, stored) if scd_type == 1 else find_wrong_versions(case, stored, "__START_AT", "__END_AT")
        found.append(failures.get(number) or wrong)
    return found


def run_cases_once(
    spark: SparkSession, work: Path, numbers: Sequence[int], run: int, scd_type: int, table_format: str = "iceberg"
) -> str | None:
    """Run a pipeline of the flows of some cases, and return how it failed."""

    def define() -> None:
        for number in numbers:
            schema = plain_schema(CASES[number].columns(run))
            told = ", ".join(f"{field.name} {_SPARK_TYPES[str(field.type)]}" for field in schema)
            define_case(spark, work / f"feed/case{number}", f"case{number}", told, table_format, scd_type)

    try:
        run_flows(spark, define, work / "storage", "tables" if table_format == "iceberg" else None)
    except PySparkException as error:
        return str(error).splitlines()[0]
    return None


def define_speed(spark: SparkSession, work: Path) -> None:
    """Define the table of the speed runs."""
    table = make_table(0)

    @pipelines.temporary_view(name="changes")
    def changes() -> Any:
        stream = spark.readStream.format("headstream").option("url", (work / "log").as_uri()).option("subscribe", "cdc/data")
        stream = stream.option("startingOffsets", "earliest").option("headers", "none")
        return decoded(stream.option("maxOffsetsPerTrigger", BATCH_MESSAGES).load(), table)

    pipelines.create_streaming_table("shop", format="iceberg")
    pipelines.create_auto_cdc_flow(
        "shop", "changes", ["c0"], "_hs_sequence", apply_as_deletes="_hs_delete", except_column_list=["_hs_delete"]
    )


def run_speed(spark: SparkSession, work: Path, way: str) -> float:
    """Apply all that is new in a log, and return the seconds."""
    if way == "headstream":
        return run_ours(spark, work, "ours").seconds
    if way == "auto cdc":
        began = time.perf_counter()
        run_flows(spark, lambda: define_speed(spark, work), work / "storage")
        return time.perf_counter() - began
    path = work / "hand"
    if not path.exists():
        columns = ", ".join(f"{name} {kind}" for name, kind in {**table_types(), "_hs_sequence": "STRING"}.items())
        spark.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta")
    return run_theirs(spark, work, "hand", lambda batch: merge_by_hand(batch, make_table(0), path)).seconds


def run_job(way: str, work: Path, rows: int, changes: int, iceberg: str) -> dict[str, Any]:
    """Run one of the ways in this process: the logs of the warm-up, of the load and of the changes, one after another."""
    if way == "auto cdc":
        spark = start_connect(work, Path(iceberg))
    else:
        spark = session(master="local[2]", config={"spark.driver.memory": "3g", "spark.log.level": "ERROR"})
    found: dict[str, Any] = {}
    envelopes = Envelopes(make_table(0))
    for name, sizes in (("warm", (3000, 1000)), ("measured", (rows, changes))):
        place = work / name
        for part, changes_of_part in zip(("load", "merge"), load_then_mix(*sizes), strict=True):
            if part == "load":
                make_log((place / "log").as_uri(), [make_table(0)])
            send((place / "log").as_uri(), (envelopes.write(*change) for change in changes_of_part))
            before = sum(seconds for _, seconds in find_processes().values())
            seconds = run_speed(spark, place, way)
            processor = sum(seconds for _, seconds in find_processes().values()) - before
            found[part] = {"seconds": seconds, "processor": processor}
        if way == "auto cdc" and name == "warm":
            for table in ("shop", "__spark_autocdc_aux_state_shop"):
                (work / "default" / table).rename(work / f"warm/{table}")
    kept = work / "kept"
    if way == "auto cdc":
        spark.table("tables.default.shop").select("c0", "_hs_sequence").write.parquet(str(kept))
        spark.stop()
    else:
        path = work / "measured" / ("ours/shop/table0" if way == "headstream" else "hand")
        kept.mkdir()
        pq.write_table(DeltaTable(str(path)).to_pyarrow_table(columns=["c0", "_hs_sequence"]), kept / "0.parquet")
        stop(spark)
    return found


def bench_speed(report: Report, directory: Path, iceberg: Path, python: str, rows: int, changes: int) -> None:
    """Run each way in a process of its own."""
    tables = []
    report.line(f"{'':34} {'a run':>8} {'changes/s':>12} {'processor time a change':>26}")
    for way in _WAYS:
        work = directory / way.replace(" ", "-")
        work.mkdir()
        own = python if way == "auto cdc" else sys.executable
        find = [own, "-c", "import pyspark; print(pyspark.__path__[0])"]
        home = {"SPARK_HOME": subprocess.check_output(find, text=True).strip(), "PYSPARK_PYTHON": own}
        command = [own, "-m", "bench.beside_auto_cdc", "--job", way, str(work), str(rows), str(changes), str(iceberg)]
        with tempfile.TemporaryFile("w+") as errors:
            ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, env={**os.environ, **home}, check=False)
            errors.seek(0)
            assert ran.returncode == 0, errors.read()[-3000:]
        for part, used in json.loads(ran.stdout.splitlines()[-1]).items():
            count = rows if part == "load" else changes
            told = f"{part} of {count:,}, {way}"
            rate, cost = count / used["seconds"], used["processor"] / count * 1e6
            report.line(f"{told:34} {used['seconds']:6.1f} s {rate:12,.0f} {cost:23.1f} us")
        tables.append(pq.read_table(work / "kept").sort_by("c0"))
    for table in tables[1:]:
        assert table.cast(tables[0].schema).equals(tables[0]), "all ways must come to the same table"
    report.line("all three came to the same table")


def bench_cases(report: Report, directory: Path, iceberg: Path, python: str, scd_type: int) -> None:
    """Run the cases by both."""
    spark = session(master="local[2]", config={"spark.log.level": "ERROR"})
    ours = run_cases(spark, directory / "ours", history=scd_type == 2)
    stop(spark)
    theirs = json.loads(_run_in_process(python, directory, iceberg, scd_type))
    width = max(len(case.title) for case in CASES)
    report.line(f"{'':{width}}  {'Headstream':10}  AUTO CDC")
    for case, our, their in zip(CASES, ours, theirs, strict=True):
        report.line(f"{case.title:{width}}  {our:10}  {their}")


def _run_in_process(python: str, directory: Path, iceberg: Path | None, scd_type: int = 1) -> str:
    jars = "" if iceberg is None else str(iceberg)
    command = [python, "-m", "bench.beside_auto_cdc", "--cases", str(directory), jars, str(scd_type)]
    ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return ran.stdout.decode().splitlines()[-1]


def main() -> None:
    """Run all of it, or one job."""
    logging.disable()
    if "--job" in sys.argv:
        way, work, rows, changes, iceberg = sys.argv[2:]
        print(json.dumps(run_job(way, Path(work), int(rows), int(changes), iceberg)))
        return
    if "--cases" in sys.argv:
        place, path, scd_type = Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
        spark = start_connect(place, Path(path) if path else None)
        if not path:
            (place / "feed/case0").mkdir(parents=True)
        print(json.dumps(run_their_cases(spark, place, scd_type) if path else run_cases_once(spark, place, [0], 0, 1, "delta")))
        spark.stop()
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the changes, nothing written")
    parser.add_argument("--parts", default="cases,history,speed", help="which; nothing is written unless it is all of them")
    parser.add_argument("--iceberg", type=Path, default=Path.home() / ".m2/repository" / _ICEBERG, help="Iceberg's jar")
    parser.add_argument("--python", default=sys.executable, help="for AUTO CDC's processes")
    given = parser.parse_args()
    parts, scale = given.parts.split(","), 10 if given.quick else 1
    with (
        tempfile.TemporaryDirectory(prefix="headstream-bench-") as name,
        Report("beside_auto_cdc", write=not given.quick and len(parts) == 3) as report,
    ):
        directory = Path(name)
        jars = Path(pyspark.__file__).parent / "jars"
        source = Path(__file__).with_name("IcebergTables.java")
        classes = directory / "classes"
        subprocess.run(
            ["javac", "-nowarn", "-XDsuppressNotes", "-d", classes, "-cp", f"{given.iceberg}:{jars}/*", source], check=True
        )
        tables = Path(f"{given.iceberg}{os.pathsep}{classes}")
        if "cases" in parts:
            refusal = json.loads(_run_in_process(given.python, directory / "delta", None))
            report.line(f"AUTO CDC into Delta: {refusal}")
            report.line(f"AUTO CDC below: into {given.iceberg.stem}\n")
            bench_cases(report, directory / "cases", tables, given.python, 1)
        if "history" in parts:
            report.line(f"\nall versions of each row (type 2), AUTO CDC into {given.iceberg.stem}\n")
            bench_cases(report, directory / "history", tables, given.python, 2)
        if "speed" in parts:
            report.line("")
            bench_speed(report, directory, tables, given.python, 200_000 // scale, 100_000 // scale)


if __name__ == "__main__":
    main()
