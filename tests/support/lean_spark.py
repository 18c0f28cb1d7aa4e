"""How the JVMs of tests run: they live for seconds, and the first tier's queries are over some rows."""

from __future__ import annotations

from typing import Final

LEAN: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.streaming.pollingDelay": "50ms",
    "spark.sql.ui.explainMode": "simple",
    "spark.ui.enabled": "false",
}
"""Settings of the first tier: queries over some rows need a third less processor time without generated code and stages."""


QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""The simple JIT compiler needs a third less processor time than the usual one. For SPARK_LAUNCHER_OPTS, and for a driver."""


def driver_options(*, lean: bool) -> str:
    """Return the options of a driver's JVM, for SPARK_SUBMIT_OPTS.

    A heap that begins with what a session needs spares most collections of garbage. Spark takes settings from the JVM's
    properties where a session does not give them: so programs that tests start are lean too.
    """
    return " ".join(
        [QUICK, "-Xms640m -Xmn400m -XX:MetaspaceSize=256m", *(f"-D{name}={value}" for name, value in LEAN.items() if lean)]
    )
