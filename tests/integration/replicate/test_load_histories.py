"""Histories with full loads merged by Spark's engine: the same tables as the source's, as by deltalake."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.campaigns.test_replicate_loads import MODES, check
from tests.support.replicate.executor_work import ExecutorWork, merge_small_batches_by_spark, open_spark_engine

pytestmark = pytest.mark.spark


@pytest.mark.nightly
@pytest.mark.parametrize(("seed", "mode"), [(40_000, "type 1"), (40_002, "type 2")])
def test_tables_equal_the_source_with_loads_when_spark_merges(tmp_path: Path, spark: SparkSession, seed: int, mode: str) -> None:
    check(tmp_path, seed, mode, open_engine=open_spark_engine(spark), steps=2, keyless=False)


@pytest.mark.soak
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(40_100, 40_106))
def test_tables_equal_the_source_with_loads_for_long_when_spark_merges(
    tmp_path: Path, spark: SparkSession, seed: int, mode: str
) -> None:
    check(tmp_path, seed, mode, open_engine=open_spark_engine(spark), steps=3, crash=seed % 3 == 0)


@pytest.mark.nightly
@pytest.mark.parametrize(("seed", "mode"), [(41_000, "type 1"), (41_001, "soft")])
def test_tables_equal_the_source_with_loads_when_executors_fold_and_join(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, seed: int, mode: str
) -> None:
    merge_small_batches_by_spark(monkeypatch)
    check(tmp_path, seed, mode, executors=functools.partial(ExecutorWork, spark=spark), steps=2)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(41_100, 41_106))
def test_tables_equal_the_source_with_loads_for_long_when_executors_fold_and_join(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, seed: int, mode: str
) -> None:
    merge_small_batches_by_spark(monkeypatch)
    check(tmp_path, seed, mode, executors=functools.partial(ExecutorWork, spark=spark), steps=3, crash=seed % 3 == 0)
