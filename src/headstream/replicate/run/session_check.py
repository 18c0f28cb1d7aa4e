"""Checks a Spark session before the run, so that missing requirements are reported early."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Collection
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headstream.errors import EnvironmentSetupError, InvalidOptionError
from headstream.replicate.engines.engines import find_workers
from headstream.replicate.engines.spark_store import has_class
from headstream.spark.sessions.spark_home import SESSION_VERSIONS, find_pyspark
from headstream.version import __version__

_LOGGER: Final = logging.getLogger("headstream.replicate")
_EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG: Final = ("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
_PRINTED: Final = re.compile(r"Error from python worker:\n(.*?)\nPYTHONPATH was:", re.DOTALL)
_RAISED: Final = re.compile(r"(Caused by: )?[\w.$]*(Error|Exception)\b")
_PACKAGES: Final = ("headstream.replicate.decoding.decode", "pyarrow")


def check_classic(spark: SparkSession) -> None:
    """Check that the session does not use Spark Connect, and that its Spark version supports micro-batch limits.

    Raises:
        InvalidOptionError: the session is a Spark Connect client.
        MissingExtraError: this version of Spark is not supported.
    """
    find_pyspark(SESSION_VERSIONS)
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise InvalidOptionError(
            "ReplicatePipeline does not support Spark Connect: the pipeline runs in Spark's driver",
            where="spark",
            advice="Use the session from headstream.spark.session(), with the cluster as its master, or use spark-submit",
        )


def check_delta(spark: SparkSession, kinds: Collection[str], *, has_catalog: bool) -> None:
    """Check that Spark can write Delta tables. If only some column names would require Spark, log a warning instead of an error.

    Raises:
        EnvironmentSetupError: Delta's jars or settings are missing.
    """
    lacks = _find_lacking(spark)
    if not lacks:
        return
    why = None
    if has_catalog:
        why = "tables are registered in a catalog"
    elif "spark" in kinds or ("auto" in kinds and not find_workers(spark).in_driver):
        why = "Spark merges the tables"
    if why is None:
        _LOGGER.warning(
            "without %s, this session cannot write tables with column names such as `order date`", " and ".join(lacks)
        )
        return
    raise EnvironmentSetupError(
        f"{why}, but this session lacks {' and '.join(lacks)}",
        where="spark",
        advice="Start the session with headstream.spark.session(), or with the jars of `headstream jars` and Delta's settings",
    )


def _find_lacking(spark: SparkSession) -> list[str]:
    lacks = []
    if not has_class(spark, _EXTENSION):
        lacks.append("Delta's jars")
    if _EXTENSION not in (spark.conf.get("spark.sql.extensions", "") or ""):
        lacks.append(f"spark.sql.extensions={_EXTENSION}")
    if spark.conf.get(_CATALOG[0], "") != _CATALOG[1]:
        lacks.append("=".join(_CATALOG))
    return lacks


def check_workers(spark: SparkSession) -> None:
    """Check that the Python of Spark's workers has this version of Headstream, unless it is the Python of this process.

    Raises:
        EnvironmentSetupError: a package is missing in the workers' Python or has a different version.
    """
    python = str(spark.sparkContext.pythonExec)
    if find_workers(spark).in_driver and python == sys.executable:
        return
    packages = _PACKAGES

    def probe(_: int) -> tuple[str, str]:  # serialized by value, because the workers may lack Headstream
        import importlib

        try:
            for name in packages:
                importlib.import_module(name)
            return "", importlib.import_module("headstream.version").__version__
        except ImportError as error:
            return str(error), ""

    advice = (
        "Install the same headstream[spark] for the Python of the executors: PYSPARK_PYTHON, spark.pyspark.python, or a packed "
        "environment (--archives)"
    )
    try:
        lacking, version = spark.sparkContext.parallelize([0], 1).map(probe).collect()[0]
    except (PySparkException, Py4JError) as error:
        raise EnvironmentSetupError(
            f"Spark's Python workers cannot be started: {_reason(str(error))}", where=python, advice=advice
        ) from error
    if lacking:
        raise EnvironmentSetupError(f"Spark's Python workers cannot run a pipeline: {lacking}", where=python, advice=advice)
    if version != __version__:
        raise EnvironmentSetupError(
            f"Spark's Python workers have Headstream {version}, but this process has {__version__}", where=python, advice=advice
        )


def _reason(error: str) -> str:
    """Return the line with the reason from a failed job's error: the last line from Python, or the line of an exception."""
    printed = [line for line in _PRINTED.findall(error)[-1:] for line in line.splitlines() if line.strip()]
    raised = [line for line in error.splitlines() if _RAISED.match(line.strip())]
    return (printed or raised or ["unknown"])[-1].strip()
