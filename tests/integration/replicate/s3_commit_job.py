"""A driver of Spark that is overtaken in the middle of a commit to S3, or gets no answer to one, for test_s3_commits.py.

python -m tests.integration.replicate.s3_commit_job
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from headstream.replicate.engines.delta_spark import DeltaSparkEngine
from headstream.replicate.engines.engine import RowCounts
from headstream.replicate.engines.plan import MergePlan
from headstream.replicate.engines.spark_store import configure_store
from headstream.replicate.storage.places import StorePlace
from headstream.replicate.storage.store_files import StoreFiles
from headstream.spark import session, stop
from tests.support.replicate.s3_server import S3Server


class Overtaken:
    """The lines of a commit: before the first one is read, another driver makes that commit."""

    def __init__(self, commit: StorePlace) -> None:
        self._commit = commit
        self._lines = ["late"]

    def hasNext(self) -> bool:
        """Return whether there is another line."""
        return bool(self._lines)

    def next(self) -> str:
        """Return the next line."""
        assert StoreFiles(self._commit).create(b"first\n")
        return self._lines.pop()

    class Java:
        """The interface that Java sees."""

        implements = ("java.util.Iterator",)


def overtake(spark: SparkSession, place: StorePlace) -> dict[str, list[str]]:
    """Return who has made a commit, and the error of the late driver: with the session's class for logs, and with Delta's own."""
    context = spark.sparkContext
    jvm: Any = context._jvm
    hadoop = context._jsc.hadoopConfiguration()
    start_callbacks: Any = ensure_callback_server_started
    start_callbacks(context._gateway)
    used = jvm.org.apache.spark.sql.delta.storage.LogStore.apply(spark._jsparkSession)
    own = jvm.org.apache.spark.sql.delta.storage.LogStoreAdaptor(jvm.io.delta.storage.S3SingleDriverLogStore(hadoop))
    found = {}
    for name, store in {"used": used, "own": own}.items():
        commit = place / name / "_delta_log" / f"{1:020d}.json"
        lines = jvm.scala.jdk.javaapi.CollectionConverters.asScala(Overtaken(commit))
        try:
            store.write(jvm.org.apache.hadoop.fs.Path(commit.hadoop_uri), lines, False, hadoop)
            error = ""
        except Py4JJavaError as raised:
            error = str(raised.java_exception.getClass().getName())
        read = StoreFiles(commit).read()
        assert read is not None
        found[name] = [read[0].decode(), error]
    return found


def lose_answers(spark: SparkSession, server: S3Server, place: StorePlace) -> list[int]:
    """Return the rows of a table after each commit whose answer is lost: an append into no rows, a merge, another append."""
    engine = DeltaSparkEngine(place, spark)
    engine.create({"id": "BIGINT"})
    plan = MergePlan(["id"], [], None, "TRUE", {"id": "s.id"}, "TRUE", {"id": "s.id"})
    rows = [pa.table({"id": pa.array(range(n, n + 2), pa.int64())}) for n in range(3)]
    found = []
    writes: list[Callable[[pa.Table, str, int], RowCounts]] = [*[partial(engine.merge, plan)] * 2, engine.append]
    for version, write in enumerate(writes, 1):
        server.break_down(lost=1, of=f"_delta_log/{version:020d}.json")
        recovery = threading.Timer(3, server.recover)
        recovery.start()
        write(rows[version - 1], "app", version)
        recovery.join()
        found.append(spark.read.format("delta").load(place.hadoop_uri).count())
    return found


def main() -> None:
    """Write what has been found into found.json here."""
    with S3Server() as server:
        place = server.place("lake")
        spark = session(master="local[1]", with_jars=["s3"], quick_start=True)
        try:
            configure_store(spark, place)
            found: dict[str, Any] = dict(overtake(spark, place))
            found["rows"] = lose_answers(spark, server, place / "table")
        finally:
            stop(spark)
    Path("found.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
