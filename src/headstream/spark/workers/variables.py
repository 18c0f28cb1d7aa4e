"""Sets the environment variables of a data source's Python workers before concurrently starting queries set them.

Spark stores the variables in one map per data source and JVM, shared by all sessions. Each starting stream puts its variables
into the map without a lock, while other streams may be serializing the map into their tasks. If two threads add a new name at the
same time, the map has a wrong size, and all later queries of the source fail with "Task not serializable" or "Task serialization
failed: Illegal size of collection". If the map already contains the names, their values are only replaced by equal values, which
is harmless.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_lock: Final = threading.Lock()


def set_worker_variables(spark: SparkSession) -> None:
    """For the `headstream` source, add the variables that Spark sets when a stream starts; existing variables stay."""
    with _lock:
        manager = spark._jsparkSession.sessionState().dataSourceManager()
        if not manager.dataSourceExists("headstream"):
            return  # Spark reports the missing source when it is first used
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

    A method handle gets the BlockManager from SparkEnv. Py4J would inspect all methods of SparkEnv; in Spark 4.3, one of them
    refers to protobuf classes that the PySpark package lacks.
    """
    jvm: Any = spark._jvm
    find_class, invoke, arguments = jvm.java.lang.Class.forName, jvm.java.lang.invoke, jvm.java.util.ArrayList()
    kind = invoke.MethodType.methodType(find_class("org.apache.spark.storage.BlockManager"))
    method = invoke.MethodHandles.publicLookup().findVirtual(find_class("org.apache.spark.SparkEnv"), "blockManager", kind)
    arguments.add(spark._jsparkSession.sparkContext().env())
    return method.invokeWithArguments(arguments)
