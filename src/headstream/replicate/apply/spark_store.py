"""Spark's access to an object store: the settings of a running session, and the check for its jars."""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from headstream.errors import EnvironmentSetupError
from headstream.replicate.storage.places import StorePlace

__all__ = ["configure_store", "explain", "require_store"]


def configure_store(spark: SparkSession, place: StorePlace) -> None:
    """Set the settings of an object store in a running session; tasks receive them with each read and write.

    They are set in the driver's Hadoop configuration, where neither the JVM's command line nor Spark's page shows them.

    Args:
        spark: A session that has its JVM in this process.
        place: A place in the store.
    """
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in place.access.hadoop_settings().items():
        configuration.set(name, value)


def explain(text: str, place: object) -> str:
    """Return the first line of Spark's error, with advice if the jars for an object store are missing.

    Args:
        text: The error.
        place: The place that Spark was to read or write.
    """
    line = (text.splitlines() or [""])[0]
    if isinstance(place, StorePlace) and (place.access.file_system in line or "No FileSystem for scheme" in line):
        return f"{line}. {_lacking(place)}"
    return line


def require_store(spark: SparkSession, place: StorePlace, why: str) -> None:
    """Check that a session can read and write an object store.

    Args:
        spark: The session.
        place: A place in the store.
        why: The reason, for the error.

    Raises:
        EnvironmentSetupError: the jars are missing, or Spark does not write to this kind of store.
    """
    if place.access.spark_gap is not None:
        raise EnvironmentSetupError(f"{why}, and Spark does not write to {place.access.what} yet", advice=_lacking(place))
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    try:
        loader = jvm.Thread.currentThread().getContextClassLoader()
        jvm.java.lang.Class.forName(place.access.file_system, False, loader)
    except Py4JError:
        raise EnvironmentSetupError(f"{why}, and Spark cannot write to an object store", advice=_lacking(place)) from None


def _lacking(place: StorePlace) -> str:
    if place.access.spark_gap is not None:
        return f'{place.access.spark_gap}. Use engine = "deltalake", which merges in the driver'
    scheme, jars = place.hadoop_uri.partition(":")[0], place.access.jars
    return (
        f"Spark has no jars for {scheme}://. Fetch them with `headstream jars --with {jars}`, and start the session with "
        f'session(with_jars=["{jars}"]), or give them to spark-submit (--jars)'
    )
