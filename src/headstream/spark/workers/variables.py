"""The environment variables of a data source's Python workers, set before concurrently starting queries race for them.

Spark stores them in one map per data source and JVM, for all sessions. Each starting stream puts its variables into
that map, without a lock, while other streams can be serializing the map into their tasks. Two threads that add a name for the
first time at the same moment leave the map with a wrong size, and from then on every query over the source fails with "Task not
serializable" or "Task serialization failed: Illegal size of collection". With the names already in it they are only
replaced by equal values, which is harmless.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_lock: Final = threading.Lock()


def set_worker_variables(spark: SparkSession) -> None:
    """Put the entries into the map of `headstream` that Spark puts there when a stream starts; existing entries stay."""
    with _lock:
        manager = spark._jsparkSession.sessionState().dataSourceManager()
        if not manager.dataSourceExists("headstream"):
            return  # Spark raises this itself, at the first use
        variables = manager.lookupDataSource("headstream").dataSourceCls().envVars()
        conf = spark._jsparkSession.sparkContext().conf()
        for name, value in {
            "SPARK_LOCAL_DIRS": ",".join(each.getPath() for each in _find_blocks(spark).diskBlockManager().localDirs()),
            "SPARK_AUTH_SOCKET_TIMEOUT": str(conf.getTimeAsSeconds("spark.python.authenticate.socketTimeout", "15s")),
            "SPARK_BUFFER_SIZE": str(conf.getSizeAsBytes("spark.buffer.size", "65536")),
            "SPARK_PYTHON_RUNTIME": "PYTHON_WORKER",
        }.items():
            variables.putIfAbsent(name, value)


def _find_blocks(spark: SparkSession) -> Any:
    """Return the driver's BlockManager.

    A method handle finds it in SparkEnv, since Py4J looks at all methods of a class: in 4.3 one of SparkEnv's names classes of
    protobuf, which the package of PySpark lacks.
    """
    jvm: Any = spark._jvm
    find_class, invoke, arguments = jvm.java.lang.Class.forName, jvm.java.lang.invoke, jvm.java.util.ArrayList()
    kind = invoke.MethodType.methodType(find_class("org.apache.spark.storage.BlockManager"))
    method = invoke.MethodHandles.publicLookup().findVirtual(find_class("org.apache.spark.SparkEnv"), "blockManager", kind)
    arguments.add(spark._jsparkSession.sparkContext().env())
    return method.invokeWithArguments(arguments)
