"""Pipelines in plain sessions of Spark: without Delta, and with workers whose Python has no packages; for test_submit.py."""

from __future__ import annotations

import json
import logging
import os
import sys
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Literal

from pyspark.sql import SparkSession

from headstream.errors import EnvironmentSetupError
from headstream.replicate.run.pipeline import ReplicatePipeline
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.table_settings import TableRules, TableSettings


def try_pipeline(spark: SparkSession, url: str, directory: Path, engine: Literal["deltalake", "spark"]) -> object:
    config = ReplicateConfig(
        source=url,
        topics=("cdc/data",),
        tables=directory / "tables",
        checkpoint=directory / "checkpoint",
        rules=TableRules(defaults=TableSettings(engine=engine)),
        once=True,
    )
    try:
        return ReplicatePipeline(spark, config).run().changes
    except EnvironmentSetupError as error:
        return str(error)


def main(url: str, directory: Path, bare: str) -> None:
    kept = BufferingHandler(10_000)
    logging.getLogger("headstream.replicate").addHandler(kept)
    found: dict[str, object] = {}
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    found["no delta, spark"] = try_pipeline(spark, url, directory, "spark")
    found["no delta, deltalake"] = try_pipeline(spark, url, directory, "deltalake")
    spark.stop()
    os.environ["PYSPARK_PYTHON"] = bare
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    found["no packages"] = try_pipeline(spark, url, directory, "deltalake")
    spark.stop()
    sys.stdout.write("\n" + json.dumps(found | {"lines": [record.getMessage() for record in kept.buffer]}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
