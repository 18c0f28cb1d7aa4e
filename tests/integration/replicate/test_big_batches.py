"""Micro-batches that do not fit into Spark's driver: named by an error, fetched in pieces, limited by bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from headstream.connect import connect
from headstream.errors import ReplicateError
from headstream.replicate.inputs import collecting
from headstream.replicate.inputs.collecting import collect, find_planned_batch
from headstream.replicate.inputs.inputs import default_max_bytes
from headstream.replicate.run import pipeline
from headstream.replicate.run.processor import Processor
from headstream.testing import CaptureOptions, SourceDatabase
from tests.integration.replicate.test_pipeline import DATA, PLAIN_TABLES, Run
from tests.support.crashes import fail_with
from tests.unit.replicate.inputs.test_collecting import UnreadableError

pytestmark = pytest.mark.spark


@pytest.fixture
def small_results(spark: SparkSession) -> Iterator[None]:
    """Let Spark's driver take 100 KiB of results at a time: it stands for a driver that has no more memory."""
    conf = spark.sparkContext._jsc.sc().conf()
    conf.set("spark.driver.maxResultSize", "100k")
    yield
    conf.remove("spark.driver.maxResultSize")


@pytest.mark.usefixtures("small_results")
def test_collect_fetches_pieces_when_the_driver_cannot_hold_the_whole(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(collecting, "_PIECE_BYTES", 10_000)
    frame = spark.range(0, 300, 1, 3).selectExpr("id", "CAST(repeat(sha2(CAST(id AS STRING), 512), 8) AS BINARY) AS content")
    found = collect(frame)
    assert sorted(found["id"].to_pylist()) == list(range(300))
    assert {len(content) for content in found["content"].to_pylist()} == {1024}
    assert "is fetched in pieces" in caplog.text
    assert len(spark.sparkContext._jsc.getPersistentRDDs()) == 0


def test_collect_in_pieces_returns_no_rows_and_all_columns_when_there_are_none(spark: SparkSession) -> None:
    frame = spark.range(0).selectExpr("id", "CAST('' AS BINARY) AS content")
    found = collect(frame, in_pieces=True)
    assert (found.num_rows, found.column_names) == (0, ["id", "content"])


def test_collect_raises_what_is_not_about_memory(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        collect(spark.range(1).selectExpr("1 / id AS x"))


def test_pipeline_fetches_a_planned_batch_in_pieces_when_an_earlier_run_did_not_finish_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(spark, tmp_path)
    source = SourceDatabase(5, tables=PLAIN_TABLES, rows=20, transactions=40)
    run.send(source.capture(CaptureOptions()))
    with monkeypatch.context() as patched:
        patched.setattr(Processor, "process", stop)
        with pytest.raises(ReplicateError, match="stopped here"):
            run.run()
    assert find_planned_batch(tmp_path / "checkpoint" / "spark") == 0
    ways: list[bool] = []

    def noted(frame: DataFrame, *, in_pieces: bool = False) -> pa.Table:
        ways.append(in_pieces)
        return collect(frame, in_pieces=in_pieces)

    monkeypatch.setattr(pipeline, "collect", noted)
    run.run(max_messages_per_batch=100)
    assert ways[0]
    assert not any(ways[1:])
    run.assert_equal(source)


def stop(self: Processor, *arguments: Any) -> None:
    raise ReplicateError("stopped here")


def test_pipeline_names_what_to_do_when_spark_says_that_its_driver_lacks_memory(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Processor, *arguments: Any) -> None:
        collect(spark.sql("SELECT raise_error('java.lang.OutOfMemoryError: Java heap space')"), in_pieces=True)

    run = Run(spark, tmp_path)
    run.send_values(b"x")
    monkeypatch.setattr(Processor, "process", fail)
    with pytest.raises(ReplicateError, match="too little memory for a micro-batch") as caught:
        run.run()
    assert "--driver-memory" in str(caught.value.advice)
    assert "max_bytes_per_batch" in str(caught.value.advice)


def test_pipeline_names_what_to_do_and_goes_on_when_the_text_of_sparks_error_cannot_be_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(spark, tmp_path)
    source = SourceDatabase(5, tables=PLAIN_TABLES, rows=20, transactions=40)
    run.send(source.capture(CaptureOptions()))
    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "collect", fail_with(UnreadableError()))
        with pytest.raises(ReplicateError, match="too little memory for a micro-batch") as caught:
            run.run()
    assert "Run again with the same checkpoint" in str(caught.value.advice)
    assert find_planned_batch(tmp_path / "checkpoint" / "spark") == 0
    run.run()
    run.assert_equal(source)


def test_pipeline_takes_so_many_bytes_a_micro_batch_and_an_eighth_of_the_heap_by_default(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = Run(spark, tmp_path)
    with connect(run.url) as log:
        for number in range(20):
            with log.producer(DATA) as producer:
                producer.send(b"%d" % number * 5000)
    assert run.run(max_bytes_per_batch=30_000, max_dead_rate=1.0).batches >= 4
    heap = spark._jvm.java.lang.Runtime.getRuntime().maxMemory()  # type: ignore[union-attr]
    assert default_max_bytes(spark) == heap // 8


def test_find_planned_batch_knows_what_was_planned_and_not_finished(tmp_path: Path) -> None:
    assert find_planned_batch(tmp_path) is None
    for name, numbers in (("offsets", (8, 9, 10)), ("commits", (8, 9))):
        (tmp_path / name).mkdir()
        for number in numbers:
            (tmp_path / name / str(number)).write_text("v1")
            (tmp_path / name / f".{number}.crc").write_text("")
    assert find_planned_batch(tmp_path) == 10
    (tmp_path / "commits" / "10").write_text("v1")
    assert find_planned_batch(tmp_path) is None
