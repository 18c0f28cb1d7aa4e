"""A pipeline whose executors are processes of their own, which test_replicate_cluster.py runs."""

from __future__ import annotations

import json
import logging
import os
import sys
from logging.handlers import BufferingHandler
from pathlib import Path

from headstream.errors import HeadstreamError
from headstream.replicate.run.pipeline import ReplicatePipeline
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.table_settings import TableRules
from headstream.spark import session, stop


def main(url: str, directory: Path) -> None:
    kept = BufferingHandler(10_000)
    logger = logging.getLogger("headstream.replicate")
    logger.addHandler(kept)
    logger.setLevel(logging.INFO)
    spark = session(master="local-cluster[2,1,1024]", quick_start=True)
    found: dict[str, object] = {}
    os.chdir(directory)  # executors have working directories of their own: below, none of them has a schema store
    for name, zone in (("seen", None), ("unseen", Path("/proc/self/cwd/zone"))):
        config = ReplicateConfig(
            source=url,
            topics=("cdc/data",),
            metadata=("cdc/metadata",),
            tables=directory / name / "tables",
            checkpoint=directory / name / "checkpoint",
            rules=TableRules(include=("SHOP.customers",)),
            zone=zone,
            once=True,
        )
        try:
            found[name] = ReplicatePipeline(spark, config).run().to_dict()
        except HeadstreamError as error:
            found[name] = str(error)
    stop(spark)
    sys.stdout.write(json.dumps(found | {"lines": [record.getMessage() for record in kept.buffer]}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
