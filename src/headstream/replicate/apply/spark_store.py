"""Spark's access to an object store: the settings of a running session, and the check for its jars."""

from __future__ import annotations

from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from headstream.errors import EnvironmentSetupError
from headstream.replicate.storage.storage_settings import StorageSettings

__all__ = ["LACKING", "configure_store", "explain", "require_store"]

_FILE_SYSTEM: Final = "org.apache.hadoop.fs.s3a.S3AFileSystem"
LACKING: Final = (
    "Spark has no jars for s3a://. Fetch them with `headstream jars --with s3`, and start the session with "
    'session(with_jars=["s3"]), or give them to spark-submit (--jars)'
)


def configure_store(spark: SparkSession, storage: StorageSettings) -> None:
    """Set the settings of an object store in a running session; tasks receive them with each read and write.

    They are set in the driver's Hadoop configuration, where neither the JVM's command line nor Spark's page shows them.

    Args:
        spark: A session that has its JVM in this process.
        storage: The store.
    """
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in storage.hadoop_settings().items():
        configuration.set(name, value)


def explain(text: str) -> str:
    """Return the first line of Spark's error, with advice if the jars for an object store are missing."""
    line = (text.splitlines() or [""])[0]
    return f"{line}. {LACKING}" if _FILE_SYSTEM in line else line


def require_store(spark: SparkSession, why: str) -> None:
    """Check that a session can read and write an object store.

    Args:
        spark: The session.
        why: The reason, for the error.

    Raises:
        EnvironmentSetupError: the jars are missing.
    """
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    try:
        loader = jvm.Thread.currentThread().getContextClassLoader()
        jvm.java.lang.Class.forName(_FILE_SYSTEM, False, loader)
    except Py4JError:
        raise EnvironmentSetupError(f"{why}, and Spark cannot write to an object store", advice=LACKING) from None
