"""A pipeline in a notebook's session: started without blocking, watched by a listener, stopped, awaited."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headstream.errors import InvalidInputError, SchemaError
from headstream.replicate.codec import data_message, metadata_message
from headstream.testing import SourceDatabase
from tests.integration.replicate.test_pipeline import DATA, Run
from tests.support.replicate.replicate_messages import make_change, make_table

pytestmark = pytest.mark.spark

WAIT_S = 120
KIT = make_table()


@pytest.fixture
def run(spark: SparkSession, tmp_path: Path) -> Run:
    return Run(spark, tmp_path)


def test_a_pipeline_that_is_started_applies_what_arrives_until_it_is_stopped(run: Run) -> None:
    run.send_values(metadata_message(KIT), data_message(KIT, make_change(1)))
    pipeline = run.pipeline(once=False, trigger_every_us=200_000)
    first, second = threading.Event(), threading.Event()

    def watch(progress: dict[str, Any]) -> None:
        first.set()
        if pipeline.status()["run"]["changes"] == 2:
            second.set()

    pipeline.add_listener(watch)
    with pytest.raises(InvalidInputError, match="not started"):
        pipeline.await_termination()
    pipeline.start()
    assert first.wait(WAIT_S)
    assert pipeline.await_termination(0) is None, "it goes on"
    run.send_values(data_message(KIT, make_change(2)))
    assert second.wait(WAIT_S)
    pipeline.stop()
    summary = pipeline.await_termination(WAIT_S)
    assert summary is not None
    assert (summary.changes, summary.parked) == (2, 0)
    assert sorted(row["id"] for row in run.rows("shop", "kit")) == [1, 2]
    assert not run.spark.streams.active
    with pytest.raises(InvalidInputError, match="already started"):
        pipeline.start()


def test_a_pipeline_that_fails_in_the_background_raises_its_error_where_it_is_awaited(run: Run) -> None:
    run.send_values(data_message(KIT, make_change(1)))
    pipeline = run.pipeline(on_missing_schema="fail", schema_wait_us=0)
    pipeline.start()
    with pytest.raises(SchemaError, match="wait for a missing schema"):
        pipeline.await_termination(WAIT_S)


def test_a_listener_receives_what_each_micro_batch_did_with_sparks_own_progress(run: Run) -> None:
    source = SourceDatabase(8, rows=10, transactions=20)
    messages = list(source.capture())
    run.send(messages)
    run.send_values(b"junk", topic=DATA)
    pipeline = run.pipeline(max_messages_per_batch=60)
    found: list[dict[str, Any]] = []

    def fail(progress: dict[str, Any]) -> None:
        raise RuntimeError("a listener's own fault")

    pipeline.add_listener(fail)
    pipeline.add_listener(found.append)
    summary = pipeline.run()
    assert len(found) == summary.batches > 2
    assert [progress["batchId"] for progress in found] == list(range(summary.batches))
    ours = [progress["headstream"] for progress in found]
    assert sum(numbers["messages"] for numbers in ours) == summary.messages == len(messages) + 1
    assert sum(numbers["dead"] for numbers in ours) == summary.dead == 1
    assert sum(numbers["bytes"] for numbers in ours) == summary.size_bytes
    for name, counts in summary.to_dict()["tables"].items():
        inserted = sum(numbers["tables"][name]["inserted"] for numbers in ours if name in numbers["tables"])
        assert inserted == counts["inserted"], name
    assert {"numInputRows", "durationMs", "runId"} <= found[0].keys()
    assert not run.spark.streams.active
