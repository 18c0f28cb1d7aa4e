"""session(): a SparkSession with the jars, the settings and the headstream source.

_common_settings() and _local_settings() contain the default settings and their reasons. spark-defaults.conf and the options of
spark-submit (given_settings.py) override the defaults, and `config` overrides both.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headstream.errors import EnvironmentSetupError
from headstream.spark.kafka.urls import install
from headstream.spark.sessions.given_settings import conf_directory, find_given, find_master, note_launched
from headstream.spark.sessions.jar_sets import S3, SETS, SPARK, JarSet
from headstream.spark.sessions.jars import fetch
from headstream.spark.sessions.java import find_java
from headstream.spark.sessions.s3_commits import LOG_STORE_JAR, LOG_STORE_SETTINGS
from headstream.spark.sessions.spark_home import (
    LOG_SETTINGS_NAME,
    SESSION_VERSIONS,
    SOURCE_VERSIONS,
    archive_path,
    find_missing_jars,
    find_pyspark,
    link_home,
)
from headstream.spark.workers.arrow_functions import has_arrow_functions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGGER: Final = logging.getLogger("headstream.spark")
_DELTA: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_LOCAL_MASTER: Final = re.compile(r"local(?:\[(\*|\d+)(?:,\s*\d+)?\])?|local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,.*\]")
_JOINED: Final = {
    _JAVA_OPTIONS: " ",
    "spark.driver.extraClassPath": os.pathsep,
    "spark.executor.extraClassPath": os.pathsep,
    "spark.jars": ",",
    "spark.sql.extensions": ",",
}
"""Settings whose values are lists, and their separators."""
_EXIT_SECONDS: Final = 120
"""Timeout of the JVM's exit, seconds: a JVM that writes a class archive takes longer to exit."""


def session(
    app_name: str | None = None,
    *,
    master: str | None = None,
    config: Mapping[str, str] | None = None,
    jars: bool = True,
    with_jars: Sequence[str] = (),
    quick_start: bool = False,
) -> SparkSession:
    """Return a SparkSession that reads `headstream`, Delta, Avro and Kafka, starting a session if none is running.

    If a session is running in this process, that session is returned. Settings of `config` that can change at run time are
    applied; a warning of the logger headstream.spark names all other settings.

    Args:
        app_name: The session's name in Spark; by default the name set by spark-submit, or `headstream`.
        master: The master; by default spark.master in `config`, spark-submit or spark-defaults.conf, or SPARK_MASTER, or
            `local[*]`.
        config: Spark settings; they override the settings of spark-submit, which override the defaults. Java options of the
            driver are appended to Headstream's.
        jars: Whether to include the jars of Delta, Avro and Kafka. They require Spark 4.2; Spark 4.3 starts without them, with a
            warning.
        with_jars: Names of additional sets of jars: `s3` for `s3a://`, `azure` for `abfss://`, `gcs` for `gs://`.
        quick_start: Whether to start faster, with less throughput and without Spark's web page: for tests and demos.

    Raises:
        MissingExtraError: PySpark or PyArrow is not installed, or this version of Spark is not supported.
        JavaError: no Java was found that Spark can run on.
        JarsError: the jars are missing and could not be fetched.
        EnvironmentSetupError: the running session lacks Delta, or Spark did not start.
    """
    pyspark = find_pyspark(SESSION_VERSIONS if jars else SOURCE_VERSIONS)
    if jars and (missing := find_missing_jars()):
        _LOGGER.warning("%s", missing)
        jars = False
    settings = dict(config or {})
    running = _find_running(jars=jars)
    if running is not None:
        _apply_settings(running, settings | ({} if master is None else {"spark.master": master}))
        register(running)
        return running
    given = find_given(os.environ, pyspark)
    known = given | settings
    master = master or find_master(known, os.environ)
    app_name = app_name or known.get("spark.app.name") or "headstream"
    paths = _find_jars([*([SPARK] if jars else []), *(SETS[name] for name in with_jars)])
    is_local = _count_cores(master) > 0
    conf = conf_directory(os.environ, pyspark)
    home = link_home(pyspark) if is_local and "SPARK_HOME" not in os.environ else None
    archive = archive_path(find_java(), pyspark, paths)
    has_log_settings = (conf / LOG_SETTINGS_NAME).is_file()
    ours = _settings(
        master,
        paths,
        None if has_log_settings else home,
        archive if archive.is_file() else None,
        delta=jars,
        quick_start=quick_start,
    ) | (LOG_STORE_SETTINGS if LOG_STORE_JAR in paths else {})
    chosen = _merge_settings(ours, given, settings) | {"spark.app.name": app_name, "spark.master": master}
    environment = {"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON") or known.get("spark.pyspark.python") or sys.executable}
    if "spark.driver.host" in ours and not {"spark.driver.host", "spark.driver.bindAddress"} & known.keys():
        environment["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
    if home is not None:
        environment["SPARK_HOME"] = str(home)
        if conf.is_dir():
            environment["SPARK_CONF_DIR"] = str(conf)
    started = _start(chosen, environment, paths)
    register(started)
    return started


def _merge_settings(ours: Mapping[str, str], given: Mapping[str, str], config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings to start a session with: the caller's settings, and the defaults for all others.

    Lists (class path, jars) and Java options are joined, so a caller who adds a jar keeps the Delta jars.
    """
    known = {**given, **config}
    chosen = {key: value for key, value in ours.items() if key not in known} | dict(config)
    for key, separator in _JOINED.items():
        if key in ours and known.get(key):
            parts = [ours[key], known[key]] if separator == " " else [*ours[key].split(separator), *known[key].split(separator)]
            chosen[key] = separator.join(dict.fromkeys(parts))
    return chosen


def _apply_settings(running: SparkSession, settings: Mapping[str, str]) -> None:
    """Apply the settings that can change in a running session, and warn of the other settings."""
    for key, value in settings.items():
        if running.conf.isModifiable(key):
            running.conf.set(key, value)
        elif running.conf.get(key, None) != value:
            _LOGGER.warning("%s=%s has no effect: a session is already running in this process, with %s=%s; stop it first",
                            key, value, key, running.conf.get(key, "its default"))  # fmt: skip


def register(spark: SparkSession) -> None:
    """Add support for Kafka URLs in `format("headstream")` and the SQL functions to a session that session() did not create.

    Args:
        spark: A classic session or a Spark Connect session.

    Raises:
        MissingExtraError: the data source does not run in this version of Spark.
    """
    find_pyspark(SOURCE_VERSIONS)
    from headstream.spark.functions import register_functions

    install(spark)
    if has_arrow_functions():
        register_functions(spark)


def stop(spark: SparkSession) -> None:
    """Stop a session and its JVM, and wait until both have stopped; `spark.stop()` leaves the JVM running until Python exits.

    Args:
        spark: The session returned by session().
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
            "a SparkSession without Delta is already running in this process",
            advice='Stop that session first, or use it without session(): format("headstream") does not need session()',
        )
    return running


def _start(settings: Mapping[str, str], environment: Mapping[str, str], jars: list[Path]) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if SparkContext._gateway is None:
        note_launched(settings)
    else:
        _add_to_class_path(SparkContext._jvm, jars)
    with _changed_environment(environment):
        try:
            return SparkSession.builder.config(conf=SparkConf().setAll(list(settings.items()))).getOrCreate()
        except PySparkException as error:
            raise EnvironmentSetupError(
                f"Spark did not start: {error}", where=settings["spark.master"], advice="Java has printed the reason above"
            ) from error


def _find_jars(sets: Sequence[JarSet]) -> list[Path]:
    """Return those jars of the sets that the JVM lacks, fetching missing jars, and the jar for Delta commits to S3."""
    found = [path for jar_set in lacking_sets(sets) for path in fetch(jar_set=jar_set)]
    return [*found, LOG_STORE_JAR] if SPARK in sets and S3 in sets else found


def lacking_sets(sets: Sequence[JarSet]) -> list[JarSet]:
    """Return the sets with a jar that the spark-submit JVM lacks; all sets if there is no such JVM."""
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    there: set[str] = set()
    if SparkContext._jvm is not None:
        with suppress(Py4JError):  # _add_to_class_path then raises an error
            there = _loaded_jars(SparkContext._jvm.Thread.currentThread().getContextClassLoader())
    return [each for each in sets if not {jar.file_name for jar in each.jars} <= there]


def _loaded_jars(loader: Any) -> set[str]:
    return {url.getFile().rpartition("/")[2] for url in loader.getURLs()}


def _add_to_class_path(jvm: Any, jars: list[Path]) -> None:
    """Add jars to the class path of a JVM that session() did not start."""
    from py4j.protocol import Py4JError

    loader = jvm.Thread.currentThread().getContextClassLoader()
    try:
        there = _loaded_jars(loader)
        for jar in jars:
            if jar.name not in there:
                loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
    except Py4JError as error:
        raise EnvironmentSetupError(
            "the jars of Delta, Avro and Kafka cannot be added to a running JVM",
            advice="Pass the jars to spark-submit: --jars with the list from `headstream jars --output json`, joined by commas",
        ) from error


@contextmanager
def _changed_environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables while the JVM and the Spark context start and inherit them."""
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
    """Return the number of tasks that run concurrently if the master is local; otherwise 0."""
    match = _LOCAL_MASTER.fullmatch(master.strip())
    if match is None:
        return 0
    threads, workers, cores = match.groups()
    if workers is not None:
        return int(workers) * int(cores)
    return (os.cpu_count() or 1) if threads == "*" else int(threads or 1)


def _settings(
    master: str, jars: list[Path], home: Path | None, archive: Path | None, *, delta: bool, quick_start: bool
) -> dict[str, str]:
    settings = _common_settings()
    if quick_start:
        settings["spark.ui.enabled"] = "false"  # saves a second
    if delta:
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
    import pyspark

    package = "org.apache.spark.sql.execution.streaming"
    if not pyspark.__version__.startswith("4.0."):
        package += ".checkpointing"
    return {
        "spark.ui.showConsoleProgress": "false",
        # Commits of a micro-batch's offsets: 20 ms instead of 75 to 110.
        "spark.sql.streaming.checkpointFileManagerClass": f"{package}.FileSystemBasedCheckpointFileManager",
        # toPandas and createDataFrame by columns, not by rows.
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Spark's default INT96 lets other readers of a table misread years before 1677 or after 2262.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    }


def _local_settings(cores: int, jars: list[Path]) -> dict[str, str]:
    settings = {
        # Local only: no other machine connects, and resolving this machine's name can take seconds.
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # Between the JVM and its Python workers, a small batch takes half as long as over TCP. Not on a cluster: the paths of
        # YARN's temporary directories are too long for a Unix socket.
        "spark.python.unix.domain.socket.enabled": "true",
        # Workers that exit silently when their task has enough rows.
        "spark.python.daemon.module": "headstream.spark.workers.daemon",
        # Each session uses a port for its web page, from 4040 on; by default, Spark fails after 16 used ports.
        "spark.port.maxRetries": "200",
        # The defaults 200 and 50 are for clusters: in a local session, starting a task costs more than its work.
        "spark.sql.shuffle.partitions": str(cores),
        "spark.databricks.delta.snapshotPartitions": str(min(cores, 4)),
    }
    if jars:
        # On the class path from the start: no jar is copied, and a class archive can contain the jars' classes.
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
        options += [f"-XX:SharedArchiveFile={archive}", "-Xlog:disable"]  # no message if the JVM cannot use the archive
    return options
