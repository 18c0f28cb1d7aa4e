"""Commits of Delta tables in S3: the store refuses one that is already there."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession
from tools.build_s3_log_store import build

from headstream.replicate.engines.delta_spark import DeltaSparkEngine
from headstream.replicate.engines.deltalake import DeltaLakeEngine
from headstream.replicate.engines.engine import RowCounts
from headstream.replicate.engines.plan import MergePlan
from headstream.replicate.engines.spark_store import configure_store
from headstream.replicate.storage.places import StorePlace
from headstream.replicate.storage.store_files import StoreFiles
from headstream.spark.sessions.s3_commits import LOG_STORE_JAR
from tests.support.replicate.plain_engine import NoMappedTables
from tests.support.replicate.s3_server import S3Server

pytestmark = pytest.mark.spark


@pytest.fixture
def place(spark: SparkSession, server: S3Server) -> StorePlace:
    place = server.place("lake")
    configure_store(spark, place)
    return place


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


def test_a_driver_that_is_overtaken_within_a_commit_replaces_none(spark: SparkSession, place: StorePlace) -> None:
    found = overtake(spark, place)
    assert found["used"] == ["first\n", "java.nio.file.FileAlreadyExistsException"]
    assert found["own"] == ["late\n", ""], "Delta's own class has the condition now: ours is not needed"


def test_a_commit_whose_answer_is_lost_is_made_once(spark: SparkSession, server: S3Server, place: StorePlace) -> None:
    engine = DeltaSparkEngine(place / "table", spark)
    server.lose_answer(f"_delta_log/{0:020d}.json", partial(engine.create, {"id": "INT"}))
    server.lose_answer(f"_delta_log/{1:020d}.json", partial(engine.widen, {"id": "BIGINT"}))
    plan = MergePlan(["id"], [], None, "TRUE", {"id": "s.id"}, "TRUE", {"id": "s.id"})
    rows = [pa.table({"id": pa.array(range(n, n + 2), pa.int64())}) for n in range(3)]
    found = []
    writes: list[Callable[[pa.Table, str, int], RowCounts]] = [*[partial(engine.merge, plan)] * 2, engine.append]
    for version, write in enumerate(writes):
        server.lose_answer(f"_delta_log/{version + 2:020d}.json", partial(write, rows[version], "app", version))
        found.append(spark.read.format("delta").load((place / "table").hadoop_uri).count())
    assert found == [2, 3, 5]


def test_each_commit_of_deltalake_whose_answer_is_lost_is_made_once(server: S3Server, tmp_path: Path) -> None:
    for version in (0, 1):  # the properties that deltalake does not know are the second commit
        engine = DeltaLakeEngine(server.place(tmp_path.name) / f"table-{version}", NoMappedTables(), "auto")
        server.lose_answer(f"_delta_log/{version:020d}.json", partial(engine.create, {"id": "INT"}))
    begin, found = engine._log.table.version() + 1, list[int]()
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", "a"]})
    writes: list[Callable[[], object]] = [
        lambda: engine.add_columns({"name": "STRING"}),
        lambda: engine.widen({"id": "BIGINT"}),
        lambda: engine.append(rows, "app", 1),
        lambda: found.append(engine.update({"name": "'b'"}, "id = 1")),
        lambda: found.append(engine.delete("id = 2")),
    ]
    for version, write in enumerate(writes, begin):
        server.lose_answer(f"_delta_log/{version:020d}.json", write)
        assert engine._log.table.version() == version
    assert (found, engine.read(["id", "name"], "TRUE").to_pylist()) == ([1, 1], [{"id": 1, "name": "b"}])


def test_the_jar_is_what_its_source_compiles_to(tmp_path: Path) -> None:
    compiler = shutil.which("javac")
    version = (
        "" if compiler is None else subprocess.run([compiler, "-version"], capture_output=True, text=True, check=True).stdout
    )
    if not version.startswith("javac 17."):
        pytest.skip("needs javac 17: another one writes other bytes")
    build(tmp_path / "built.jar")
    assert (tmp_path / "built.jar").read_bytes() == LOG_STORE_JAR.read_bytes()
