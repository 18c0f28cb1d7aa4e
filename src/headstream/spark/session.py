"""session(): a SparkSession with the jars, the settings and the source in place.

What it sets, and why, stands in _common_settings() and _local_settings(); every one of them gives way to `config`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headstream.errors import EnvironmentSetupError
from headstream.spark.jars import fetch
from headstream.spark.java import find_java
from headstream.spark.kafka.urls import install
from headstream.spark.spark_home import LOG_SETTINGS_NAME, archive_path, find_pyspark, link_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register", "session", "stop"]

_DELTA: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_LOCAL_MASTER: Final = re.compile(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?|local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]")
_EXIT_SECONDS: Final = 120
"""A JVM that writes a class archive at its end takes its time; another ends at once."""


def session(
    app_name: str = "headstream",
    *,
    master: str | None = None,
    config: Mapping[str, str] | None = None,
    jars: bool = True,
    quick_start: bool = False,
) -> SparkSession:
    """Return a SparkSession that reads `headstream`, Delta, Avro and Kafka, starting one where none runs.

    Where a session runs already in this process it is returned, with those settings of `config` that can change while
    it runs.

    Args:
        app_name: What Spark shows it as.
        master: Where it runs; by default SPARK_MASTER or spark.master of `config`, else `local[*]`.
        config: Spark settings; they win over what is set here. Java options of the driver are added to ours.
        jars: Whether to have Delta, Avro and Kafka; without them nothing is fetched.
        quick_start: Whether to trade throughput for a quicker start (a simpler JIT compiler and garbage collector): for
            tests and demos. Every local session starts in half the time where headstream.spark.class_archive.make() ran.

    Raises:
        MissingExtraError: PySpark or PyArrow is not installed.
        JavaError: there is no Java that Spark can run on.
        JarsError: the jars are not there and could not be fetched.
        EnvironmentSetupError: the session that runs already lacks Delta, or Spark did not start.
    """
    pyspark = find_pyspark()
    settings = dict(config or {})
    running = _find_running(jars=jars)
    if running is not None:
        for key, value in settings.items():
            if running.conf.isModifiable(key):
                running.conf.set(key, value)
        register(running)
        return running
    master = master or settings.get("spark.master") or os.environ.get("SPARK_MASTER") or "local[*]"
    java = find_java()
    paths = fetch() if jars else []
    is_local = _count_cores(master) > 0
    home = link_home(pyspark) if is_local and "SPARK_HOME" not in os.environ else None
    archive = archive_path(java, pyspark, paths)
    ours = _settings(master, paths, home, archive if archive.is_file() else None, quick_start=quick_start)
    if _JAVA_OPTIONS in settings and _JAVA_OPTIONS in ours:
        settings[_JAVA_OPTIONS] = f"{ours[_JAVA_OPTIONS]} {settings[_JAVA_OPTIONS]}"
    environment = {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)}
    if is_local:
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    if home is not None:
        environment["SPARK_HOME"] = str(home)
    started = _start({**ours, **settings, "spark.app.name": app_name, "spark.master": master}, environment)
    register(started)
    return started


def register(spark: SparkSession) -> None:
    """Give a session that somebody else made what session() gives: URLs of Kafka in `format("headstream")`, SQL functions.

    Args:
        spark: A session, also one of Spark Connect.
    """
    from headstream.spark.functions import register_functions

    install(spark)
    register_functions(spark)


def stop(spark: SparkSession) -> None:
    """Stop a session and the JVM behind it, and wait for both; `spark.stop()` leaves the JVM until Python ends.

    Args:
        spark: What session() returned.
    """
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    spark.stop()
    if gateway is None:
        return  # a client of Spark Connect has no JVM
    gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        process.stdin.close()
        process.wait(_EXIT_SECONDS)
    SparkContext._gateway = None
    SparkContext._jvm = None


def _find_running(*, jars: bool) -> SparkSession | None:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is None:
        return None
    running = SparkSession.builder.getOrCreate()
    if jars and _DELTA["spark.sql.extensions"] not in (running.conf.get("spark.sql.extensions", "") or ""):
        raise EnvironmentSetupError(
            "a SparkSession without Delta runs already in this process",
            advice='Stop it first, or read from it as it is: format("headstream") needs no session()',
        )
    return running


def _start(settings: Mapping[str, str], environment: Mapping[str, str]) -> SparkSession:
    from pyspark import SparkConf
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    with _changed_environment(environment):
        try:
            return SparkSession.builder.config(conf=SparkConf().setAll(list(settings.items()))).getOrCreate()
        except PySparkException as error:
            raise EnvironmentSetupError(
                f"Spark did not start: {error}", where=settings["spark.master"], advice="Java has printed the reason above"
            ) from error


@contextmanager
def _changed_environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for as long as the JVM and the context that inherit them start."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _count_cores(master: str) -> int:
    """Return how many tasks run at once where the master is this machine, else 0."""
    match = _LOCAL_MASTER.fullmatch(master.strip())
    if match is None:
        return 0
    threads, workers, cores = match.groups()
    if workers is not None:
        return int(workers) * int(cores)
    return (os.cpu_count() or 1) if threads == "*" else int(threads or 1)


def _settings(master: str, jars: list[Path], home: Path | None, archive: Path | None, *, quick_start: bool) -> dict[str, str]:
    settings = _common_settings()
    if jars:
        settings |= _DELTA
    cores = _count_cores(master)
    if cores:
        settings |= _local_settings(cores, jars)
        options = _java_options(home, archive, quick_start=quick_start)
        if options:
            settings[_JAVA_OPTIONS] = " ".join(options)
    elif jars:
        settings["spark.jars"] = ",".join(map(str, jars))
    return settings


def _common_settings() -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Commits of a micro-batch's offsets: 20 ms instead of 75 to 110.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        # Between the JVM and its Python workers: half the time of a small batch over TCP.
        "spark.python.unix.domain.socket.enabled": "true",
        # toPandas and createDataFrame by columns, not by rows.
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Spark writes INT96 otherwise, of which other readers of a table take years before 1677 or after 2262 for others.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }


def _local_settings(cores: int, jars: list[Path]) -> dict[str, str]:
    settings = {
        # Nobody else is to be talked to, and looking this machine's name up can take seconds.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # Workers that end without a word when their task has seen enough.
        "spark.python.daemon.module": "headstream.spark.worker_daemon",
        # 200 and 50 are for clusters: here each is a task of its own, and costs more than its work.
        "spark.sql.shuffle.partitions": str(cores),
        "spark.databricks.delta.snapshotPartitions": str(min(cores, 4)),
    }
    if jars:
        # On the class path from the start: nothing is copied, and a class archive can hold their classes too.
        path = os.pathsep.join(map(str, jars))
        settings |= {"spark.driver.extraClassPath": path, "spark.executor.extraClassPath": path}
    return settings


def _java_options(home: Path | None, archive: Path | None, *, quick_start: bool) -> list[str]:
    options = []
    if home is not None:
        options.append(f"-Dlog4j2.configurationFile={home / LOG_SETTINGS_NAME}")
    if quick_start:
        options += ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    if archive is not None:
        options += [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"]  # silent where it does not fit this JVM
    return options
