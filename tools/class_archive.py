"""Make an archive of the classes that Spark loads (AppCDS), which halves the start time of a local session.

    python tools/class_archive.py [FILE]       with FILE it runs the session whose JVM writes the archive there

    $XDG_CACHE_HOME/headstream/spark-classes-<digest>.jsa      about 200 MB, created in half a minute

It starts a session of its own, runs a typical workload, and has the JVM write the classes loaded for it
to a file. A JVM checks every jar before it uses an archive and ignores one that does not fit, so an archive is never
wrong, at worst useless.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from headstream.errors import EnvironmentSetupError
from headstream.replicate.engines.delta_spark import DeltaSparkEngine
from headstream.replicate.engines.plan import MergePlan
from headstream.spark.sessions.jars import fetch
from headstream.spark.sessions.java import find_java
from headstream.spark.sessions.session import session, stop
from headstream.spark.sessions.spark_home import archive_path, find_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAKE_SECONDS: Final = 300


def make() -> Path:
    """Return the archive, creating it if missing or made by another version of this program.

    Raises:
        EnvironmentSetupError: no archive was written, or Java, PySpark or the jars are missing.
    """
    target = archive_path(find_java(), find_pyspark(), fetch())
    note, version = target.with_suffix(".version"), hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    if target.is_file() and note.is_file() and note.read_text() == version:
        return target
    target.unlink(missing_ok=True)  # a JVM that uses an archive writes none
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".spark-classes-", dir=target.parent) as work:
        made = Path(work) / target.name
        command = [sys.executable, str(Path(__file__).resolve()), str(made)]
        ran = subprocess.run(command, cwd=work, capture_output=True, text=True, errors="replace", timeout=_MAKE_SECONDS)
        if ran.returncode != 0 or not made.is_file():
            raise EnvironmentSetupError(
                f"no class archive was written: {ran.stderr.strip()[-500:]}",
                where=str(target),
                advice="Sessions start without it, a few seconds slower",
            )
        made.replace(target)
    note.write_text(version)
    return target


def _train(spark: SparkSession, folder: Path) -> None:
    """Run a typical workload, so that its classes are loaded."""
    log, table = str(folder / "log"), str(folder / "table")
    rows = spark.range(1000).selectExpr("id", "CAST(id AS STRING) AS text", "parse_json('{\"a\": 1}') AS headers")
    rows.groupBy("text").count().orderBy("count").limit(5).collect()
    rows.selectExpr("headers:a::int").toArrow()
    rows.select("id", "text").write.format("delta").save(table)
    spark.read.format("delta").load(table).count()
    _write_log(log)
    spark.read.format("headstream").option("url", f"file://{log}").option("subscribe", "a/b").load().collect()
    stream = spark.readStream.format("headstream").option("url", f"file://{log}").option("subscribe", "a/b").load()
    writer = stream.writeStream.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    writer.foreachBatch(lambda batch, _: batch.toArrow()).start().awaitTermination()
    _merge(DeltaSparkEngine(folder / "merged", spark, "deletion-vectors"))


def _merge(engine: DeltaSparkEngine) -> None:
    engine.create({"id": "BIGINT", "text": "STRING"})
    columns = {"id": "s.id", "text": "s.text"}
    plan = MergePlan(["id"], [], "s.text IS NULL", "TRUE", columns, "TRUE", columns)
    for version in (1, 2):
        engine.merge(plan, pa.table({"id": [version, 0], "text": ["a", "b"]}), "archive", version)
    engine.append(pa.table({"id": [3], "text": ["c"]}), "archive", 3)
    engine.read(["id"], "id > 1")
    engine.compact()
    engine.vacuum(0)


def _write_log(directory: str) -> None:
    from headstream.connect import connect

    with connect(f"file://{directory}") as log:
        log.create_topic("a/b")
        with log.producer("a/b") as producer:
            producer.send(b"payload", key=b"key", headers={"a": 1, "b": "text"})


def run_session(target: Path) -> None:
    """Run a session whose JVM writes an archive at its end."""
    options = f"-XX:ArchiveClassesAtExit={target} -Xlog:disable"
    spark = session(master="local[2]", quick_start=True, config={"spark.driver.extraJavaOptions": options})
    try:
        _train(spark, target.parent)
    finally:
        stop(spark)


if __name__ == "__main__":
    run_session(Path(sys.argv[1])) if sys.argv[1:] else make()
