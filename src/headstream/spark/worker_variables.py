"""The environment variables of a data source's Python workers, settled before queries that start at once race for them.

Spark keeps them in one map a data source and JVM, whatever the session. Each stream that starts puts its variables into
that map, without a lock, while others may be writing the map into their tasks. Two that put a name for the first time at
the same moment leave the map with a wrong size, and from then on every query over the source ends with "Task not
serializable" or "Task serialization failed: Illegal size of collection". With the names in it beforehand they are only
replaced by what they are, which harms nobody.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["settle_worker_variables"]

_lock: Final = threading.Lock()


def settle_worker_variables(spark: SparkSession) -> None:
    """Put into the map of `headstream` what Spark will put there when a stream starts; what is there already stays.

    Args:
        spark: A session with a JVM in reach, not one of Spark Connect.
    """
    with _lock:
        manager = spark._jsparkSession.sessionState().dataSourceManager()
        if not manager.dataSourceExists("headstream"):
            return  # Spark says so itself, as soon as it is used
        variables = manager.lookupDataSource("headstream").dataSourceCls().envVars()
        environment = spark._jvm.org.apache.spark.SparkEnv.get()  # type: ignore[union-attr]
        conf = environment.conf()
        for name, value in {
            "SPARK_LOCAL_DIRS": ",".join(each.getPath() for each in environment.blockManager().diskBlockManager().localDirs()),
            "SPARK_AUTH_SOCKET_TIMEOUT": str(conf.getTimeAsSeconds("spark.python.authenticate.socketTimeout", "15s")),
            "SPARK_BUFFER_SIZE": str(conf.getSizeAsBytes("spark.buffer.size", "65536")),
            "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
        }.items():
            variables.putIfAbsent(name, value)
