"""Histories with full loads merged by Spark's engine: the same tables as the source's, as by deltalake."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from pyspark.sql import SparkSession

from headstream.replicate.apply.delta_spark import DeltaSparkEngine
from headstream.replicate.apply.engine import TableEngine
from headstream.replicate.storage.places import Place
from tests.property.test_replicate_loads import check
from tests.support.replicate.pipeline_work import OpenEngine

pytestmark = pytest.mark.spark


def by_spark(spark: SparkSession) -> OpenEngine:
    def open_engine(path: Place, kind: Literal["auto", "deltalake", "spark"] = "auto") -> TableEngine:
        return DeltaSparkEngine(path, spark)

    return open_engine


@pytest.mark.parametrize(("seed", "mode"), [(40_000, "type 1"), (40_002, "type 2")])
def test_tables_equal_the_source_with_loads_when_spark_merges(tmp_path: Path, spark: SparkSession, seed: int, mode: str) -> None:
    check(tmp_path, seed, mode, open_engine=by_spark(spark), steps=2, keyless=False)


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["type 1", "soft", "type 2", "type 2, soft", "atomic"])
@pytest.mark.parametrize("seed", range(40_100, 40_106))
def test_tables_equal_the_source_with_loads_for_long_when_spark_merges(
    tmp_path: Path, spark: SparkSession, seed: int, mode: str
) -> None:
    check(tmp_path, seed, mode, open_engine=by_spark(spark), steps=3, crash=seed % 3 == 0)
