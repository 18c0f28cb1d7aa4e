"""A pipeline's work whose micro-batches are decoded, folded, joined and merged by Spark, also where they are small."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from headstream.replicate.apply.on_executors import stored_batch
from headstream.replicate.apply.on_executors.stored_batch import open_store_session
from headstream.replicate.columns.raw import SOURCE_COLUMNS
from headstream.replicate.decoding.decode import decode_partitions
from headstream.replicate.decoding.decoded import DECODED_SPARK_SCHEMA
from headstream.replicate.engines.delta_spark import DeltaSparkEngine
from headstream.replicate.engines.engine import TableEngine
from headstream.replicate.inputs.collecting import collect
from headstream.replicate.run.decoded_storage import store_decoded
from headstream.replicate.schemas.schema_catalog import DecodeOptions
from headstream.replicate.settings.merge_settings import MergeStrategy
from headstream.replicate.storage.places import Place
from tests.support.replicate.load_delivery import HistoryWork

_COLLECT = functools.partial(collect, in_pieces=False)


class ExecutorWork(HistoryWork):
    """The work of a pipeline with `engine = "spark"` on the messages of a history."""

    def __init__(self, directory: Path, *, spark: SparkSession, **options: Any) -> None:
        self._spark = spark
        self._session = open_store_session(spark)
        self.rows_in_driver = 0
        super().__init__(directory, open_engine=open_spark_engine(spark), **options)

    def process(self, raw: pa.Table, batch_id: int) -> None:
        decode = decode_partitions(self.schema_store, DecodeOptions.of(self.config), with_statistics=True)
        rows = self._spark.createDataFrame(raw.select(SOURCE_COLUMNS)).mapInArrow(decode, DECODED_SPARK_SCHEMA)
        stored, decoded = store_decoded(self._session, rows, _COLLECT, self.processor.store_schemas)
        try:
            self.processor.process(decoded, lambda wanted: raw, batch_id, self.read_until_us(raw, batch_id))
        finally:
            self.rows_in_driver += stored.fetched_rows
            stored.close()


def open_spark_engine(spark: SparkSession) -> Any:
    """Return what opens a table by Spark."""

    def open_engine(
        path: Place, kind: Literal["auto", "deltalake", "spark"] = "auto", strategy: MergeStrategy = "rewrite"
    ) -> TableEngine:
        return DeltaSparkEngine(path, spark, strategy)

    return open_engine


def merge_small_batches_by_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let executors merge micro-batches of any size, in several buckets of keys."""
    monkeypatch.setattr(stored_batch, "MAX_SMALL_ROWS", 0)
    monkeypatch.setattr(stored_batch, "_LEAST_BUCKET_ROWS", 10)
