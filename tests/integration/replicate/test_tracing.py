"""A trace from the sender of a change to the commit of its table, through a real Spark, with both engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from pyspark.sql import SparkSession

import headstream as hs
from headstream.interceptors import Tracing
from headstream.replicate.codec import data_message, metadata_message
from headstream.replicate.run.pipeline import ReplicatePipeline
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.table_settings import TableRules, TableSettings
from tests.support.replicate.replicate_messages import make_change, make_table

pytestmark = pytest.mark.spark

COUNT = 3


def named(spans: list[ReadableSpan], name: str) -> list[ReadableSpan]:
    return [span for span in spans if span.name == name]


@pytest.mark.parametrize("engine", ["deltalake", "spark"])
def test_each_change_is_traced_from_its_sender_to_the_commit_of_its_table(
    spark: SparkSession, tmp_path: Path, engine: Any
) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    table = make_table()
    url = (tmp_path / "log").as_uri()
    with hs.connect(url, interceptors=[Tracing(provider)]) as log:
        log.create_topic("cdc/data")
        log.send("cdc/data", metadata_message(table))
        exporter.clear()
        for number in range(COUNT):
            log.send("cdc/data", data_message(table, make_change(number)))
    sends = named(list(exporter.get_finished_spans()), "send cdc/data")
    config = ReplicateConfig(
        source=url, topics=("cdc/data",), tables=tmp_path / "tables", checkpoint=tmp_path / "checkpoint", once=True,
        tracing=True, rules=TableRules(defaults=TableSettings(engine=engine)),
    )  # fmt: skip
    assert ReplicatePipeline(spark, config, tracer_provider=provider).run().changes == COUNT
    spans = list(exporter.get_finished_spans())
    (batch,), (merge,) = named(spans, "process micro-batch"), named(spans, "merge shop.kit")
    assert merge.parent is not None
    assert merge.parent.span_id == batch.context.span_id
    assert merge.status.status_code is not StatusCode.ERROR
    assert (merge.attributes or {})["headstream.rows.inserted"] == COUNT
    assert (batch.attributes or {})["messaging.batch.message_count"] == COUNT + 1
    applied = {span.context.trace_id: span for span in named(spans, "applied")}
    for send in sends:
        if batch.context.trace_id != send.context.trace_id:
            (link,) = applied[send.context.trace_id].links
            assert link.context.span_id == batch.context.span_id
    linked = {link.context.trace_id for link in batch.links} | {batch.context.trace_id}
    assert {send.context.trace_id for send in sends} <= linked
    provider.shutdown()
