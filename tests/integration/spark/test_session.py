"""The session: what session() promises of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headstream.errors import JarsError
from headstream.spark import session
from headstream.spark.sessions.jar_sets import SPARK
from headstream.spark.sessions.jars import fetch
from tests.support.spark_versions import needs_spark_4_2

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, needs_spark_4_2]


def test_session_returns_the_one_that_runs_with_settings_that_can_change(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.shuffle.partitions")
    try:
        assert session(config={"spark.sql.shuffle.partitions": "7", "spark.driver.memory": "9g"}) is spark
        assert spark.conf.get("spark.sql.shuffle.partitions") == "7"
        assert spark.conf.get("spark.driver.memory", "unset") == "unset"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(before))


def test_session_writes_reads_and_merges_delta(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    spark.range(10).selectExpr("id", "0 AS n").write.format("delta").save(path)
    spark.sql(
        f"MERGE INTO delta.`{path}` AS t USING (SELECT id, 1 AS n FROM range(5, 15)) AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET n = s.n WHEN NOT MATCHED THEN INSERT *"
    )
    assert spark.read.format("delta").load(path).selectExpr("count(*)", "sum(n)").first() == (15, 10)


def test_session_speaks_avro_and_knows_the_kafka_source(spark: SparkSession) -> None:
    from pyspark.sql.avro.functions import from_avro, to_avro

    frame = spark.range(3)
    schema = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}'
    there = frame.selectExpr("named_struct('id', id) AS r").select(to_avro("r", schema).alias("bytes"))
    assert [row.r.id for row in there.select(from_avro("bytes", schema).alias("r")).collect()] == [0, 1, 2]
    kafka = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "localhost:1").option("subscribe", "x").load()
    assert "value" in kafka.columns


def test_session_has_workers_that_import_the_installed_pyspark(spark: SparkSession) -> None:
    def where(_: object) -> object:
        import pyspark

        return [pyspark.__file__, sys.executable]

    import pyspark

    assert spark.sparkContext.parallelize([0], 1).map(where).first() == [pyspark.__file__, sys.executable]


def test_session_has_workers_that_do_not_look_through_their_imports_after_each_task(spark: SparkSession) -> None:
    def count(_: object) -> int:
        import gc

        return gc.get_freeze_count()

    numbers = spark.sparkContext.parallelize([0], 1).map(count)  # read to the end: else the worker ends with its task
    numbers.collect()
    assert numbers.collect()[0] > 10_000


def test_session_starts_and_stops_again_in_one_process_without_a_warning(tmp_path: Path) -> None:
    code = """
from headstream.spark import session, stop
for round in range(2):
    spark = session(master="local[1]", quick_start=True)
    assert spark.range(5).count() == 5
    stop(spark)
    print("stopped")
"""
    command = [sys.executable, "-W", "error", "-X", "dev", "-c", code]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=400)
    assert (ran.returncode, ran.stdout) == (0, "stopped\nstopped\n"), ran.stderr
    # Java itself has this one line to say, whatever a log's settings are.
    assert set(ran.stderr.splitlines()) <= {"WARNING: Using incubator modules: jdk.incubator.vector"}


SUBMITTED = """
import json, sys
from headstream.spark import session
from headstream.spark.sessions.jar_sets import S3, SPARK
from headstream.spark.sessions.session import lacking_sets
spark = session()
table = sys.argv[1]
spark.range(3).write.format("delta").save(table)
keys = ("spark.sql.shuffle.partitions", "spark.driver.memory", "spark.app.name", "spark.python.unix.domain.socket.enabled")
found = {key: spark.conf.get(key, None) for key in keys}
found |= {"rows": spark.read.format("delta").load(table).count(), "master": spark.sparkContext.master}
found["page"] = spark.sparkContext.uiWebUrl is not None
found["lacks"] = [jar_set.name for jar_set in lacking_sets([SPARK, S3])]
print("FOUND", json.dumps(found))
"""


@pytest.mark.nightly  # test_submit.py is in the first tier
@pytest.mark.parametrize("way", ["spark-submit", "python"])
def test_session_keeps_what_spark_was_told_when_it_starts(tmp_path: Path, way: str) -> None:
    job = tmp_path / "job.py"
    job.write_text(SUBMITTED)
    told = ["--master", "local[1]", "--name", "mine", "--conf", "spark.sql.shuffle.partitions=7", "--driver-memory", "700m"]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    if way == "spark-submit":
        told += ["--jars", ",".join(map(str, fetch()))]
        environment["HEADSTREAM_JARS"] = os.devnull  # nothing can be fetched into it: the session takes those given
        command = [str(Path(sys.executable).with_name("spark-submit")), *told, str(job), str(tmp_path / "table")]
    else:
        command = [sys.executable, str(job), str(tmp_path / "table")]
        environment["PYSPARK_SUBMIT_ARGS"] = " ".join([*told, "pyspark-shell"])
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=400)
    (line,) = [line for line in ran.stdout.splitlines() if line.startswith("FOUND ")] or [ran.stderr]
    assert json.loads(line.removeprefix("FOUND ")) == {
        "spark.sql.shuffle.partitions": "7",
        "spark.driver.memory": "700m",
        "spark.app.name": "mine",
        "spark.python.unix.domain.socket.enabled": "true",
        "rows": 3,
        "master": "local[1]",
        "page": True,
        "lacks": ["s3"] if way == "spark-submit" else ["spark", "s3"],
    }


def test_session_names_the_settings_that_a_running_one_cannot_take(spark: SparkSession, caplog: pytest.LogCaptureFixture) -> None:
    assert session(master="local[7]", config={"spark.driver.memory": "9g", "spark.ui.enabled": "false"}) is spark
    assert [record.getMessage().partition(" has no effect")[0] for record in caplog.records] == [
        "spark.driver.memory=9g",
        "spark.master=local[7]",
    ]


def test_jars_say_what_to_do_when_nothing_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A proxy that is not there: what a machine without a way out looks like.
    options = " ".join(f"-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort=9" for scheme in ("http", "https"))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", options)
    with pytest.raises(JarsError) as raised:
        fetch(tmp_path / "jars")
    text = str(raised.value)
    assert "could not be fetched" in text
    assert "io.delta:delta-spark_4.2_2.13:4.4.0" in text
    assert "HEADSTREAM_JARS" in text
    assert os.listdir(tmp_path / "jars") == []  # noqa: PTH208


def test_jars_are_there_when_a_session_runs(spark: SparkSession) -> None:
    assert {path.name for path in fetch()} == {jar.file_name for jar in SPARK.jars}


@pytest.mark.soak
@pytest.mark.nightly
def test_class_archive_is_made_once_and_taken_by_a_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tools.class_archive import make

    from headstream.spark.sessions.jars import cache_folder

    monkeypatch.setenv("HEADSTREAM_JARS", str(cache_folder() / "jars"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive = make()
    assert archive.stat().st_size > 20_000_000
    made_ns = archive.stat().st_mtime_ns
    assert make().stat().st_mtime_ns == made_ns
    code = """
from headstream.spark import session, stop
spark = session(master="local[1]")
bean = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
print([option for option in bean.getInputArguments() if "SharedArchiveFile" in option])
print(spark.range(3).count())
stop(spark)
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=400)
    assert ran.stdout == f"['-XX:SharedArchiveFile={archive}']\n3\n", ran.stderr
