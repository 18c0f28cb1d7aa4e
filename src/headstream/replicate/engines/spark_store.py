"""Spark's access to an object store: settings of a running session, and a check for the store's jars."""

from __future__ import annotations

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from headstream.errors import EnvironmentSetupError
from headstream.replicate.storage.places import StorePlace


def configure_store(spark: SparkSession, place: StorePlace) -> None:
    """Apply the settings of an object store to a running session; tasks receive the settings with each read and write.

    The settings are in the driver's Hadoop configuration, which neither the JVM's command line nor Spark's web UI shows. A class
    that the session lacks is not set, since the session can have another class for the store, as on cloud providers' clusters.
    """
    configuration, access = spark.sparkContext._jsc.hadoopConfiguration(), place.access
    settings = access.hadoop_settings()
    if all(configuration.get(name) is None for name in access.hadoop_logins):
        settings = access.hadoop_identity() | settings
    for name, value in settings.items():
        if not name.endswith(".impl") or has_class(spark, value):
            configuration.set(name, value)


def explain(text: str, place: object) -> str:
    """Return the first line of Spark's error, with advice if the jars for an object store are missing."""
    line = (text.splitlines() or [""])[0]
    if isinstance(place, StorePlace) and (place.access.file_system in line or "No FileSystem for scheme" in line):
        return f"{line}. {_lacking(place)}"
    return line


def require_store(spark: SparkSession, place: StorePlace, why: str) -> None:
    """Raise EnvironmentSetupError, with the reason `why`, if a session has no file system for an object store."""
    jvm, context = spark.sparkContext._jvm, spark.sparkContext._jsc
    assert jvm is not None
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(_scheme(place), context.hadoopConfiguration())
    except Py4JError:
        raise EnvironmentSetupError(f"{why}, but Spark cannot write to an object store", advice=_lacking(place)) from None


def has_class(spark: SparkSession, name: str) -> bool:
    """Return whether the session's JVM has a class, given its name with the package."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    try:
        jvm.java.lang.Class.forName(name, False, jvm.Thread.currentThread().getContextClassLoader())
    except Py4JError:
        return False
    return True


def _scheme(place: StorePlace) -> str:
    return place.hadoop_uri.partition(":")[0]


def _lacking(place: StorePlace) -> str:
    scheme, jars = _scheme(place), place.access.jars
    return (
        f"Spark has no jars for {scheme}://. Fetch them with `headstream jars --with {jars}`, and start the session with "
        f'session(with_jars=["{jars}"]), or pass them to spark-submit (--jars)'
    )
