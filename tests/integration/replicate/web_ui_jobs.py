"""A pipeline into a store with keys, in a session with Spark's page, for test_web_ui.py: it saves all that the page serves."""

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urljoin

from headstream.connect import connect
from headstream.replicate.codec import data_message, metadata_message
from headstream.replicate.run.pipeline import ReplicatePipeline
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.table_settings import TableRule, TableRules
from headstream.spark import session, stop
from tests.support.replicate.replicate_messages import make_change, make_table
from tests.support.replicate.s3_server import S3Server

SPARK_TABLE, OTHER_TABLE = make_table(schema="SHOP", table="orders"), make_table(schema_id="2" * 32, schema="SHOP", table="lines")
REST = (
    "jobs", "stages?details=true&withSummaries=true", "executors", "allexecutors", "storage/rdd", "environment",
    "sql?details=true&planDescription=true&length=10000", "executors/driver/threads", "allmiscellaneousprocess",
)  # fmt: skip
MOST_PAGES = 150
SESSION_TOKEN = "token+of/a_session"


def read_page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode(errors="replace"))


def crawl(url: str, application: str) -> dict[str, str]:
    """Return the pages that links lead to, and all of the REST interface."""
    rest = f"{url}/api/v1/applications/{application}"
    pages = {f"{rest}/{name}": read_page(f"{rest}/{name}") for name in REST}
    pages |= {f"{url}/{name}": read_page(f"{url}/{name}") for name in ("metrics/json", "metrics/executors/prometheus")}
    waiting = [f"{url}/{name}/" for name in ("jobs", "stages", "storage", "environment", "executors", "SQL", "StreamingQuery")]
    while waiting and len(pages) < MOST_PAGES:
        page = waiting.pop(0)
        if page in pages or "/static/" in page or "/kill" in page:
            continue
        try:
            pages[page] = read_page(page)
        except urllib.error.HTTPError as error:
            pages[page] = str(error)
        found = (
            urldefrag(urljoin(page, link.replace("&amp;", "&").replace(" ", "%20")))[0]
            for link in re.findall(r'href="([^"]+)"', pages[page])
        )
        waiting += [link for link in found if link.startswith(f"{url}/")]
    return pages


def main(directory: Path) -> None:
    log_url = (directory / "log").as_uri()
    with connect(log_url) as log:
        log.create_topic("cdc/data")
        with log.producer("cdc/data") as producer:
            for kit in (SPARK_TABLE, OTHER_TABLE):
                producer.send(metadata_message(kit))
                producer.send(data_message(kit, make_change(1)))
            producer.send(b"junk")
    with S3Server() as server:
        config = ReplicateConfig(
            source=log_url, topics=("cdc/data",), tables=server.place("tables"), checkpoint=directory / "checkpoint", once=True,
            storage=server.settings(session_token=SESSION_TOKEN), max_dead_rate=1, compact_every_us=1,
            rules=TableRules(rules=(TableRule("SHOP.orders", {"engine": "spark"}),)),
        )  # fmt: skip
        spark = session(master="local[2]", config={"spark.ui.enabled": "true"}, with_jars=["s3"])
        try:
            summary: dict[str, Any] = ReplicatePipeline(spark, config).run().to_dict()
            url = str(spark.sparkContext.uiWebUrl)
            pages = crawl(url, spark.sparkContext.applicationId)
            group = list(spark.sparkContext.statusTracker().getJobIdsForGroup("headstream-replicate"))
        finally:
            stop(spark)
    (directory / "found.json").write_text(json.dumps({"summary": summary, "pages": pages, "group": group}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
