"""What a task of a write stages: however much and however big, in bounded memory; of its attempts one counts."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

import headstream as hs
from headstream.core.model.identifiers import TopicName
from headstream.errors import LimitError
from headstream.log.segments.layout import STAGED_NAME
from headstream.log.staged.staging import Manifest
from headstream.spark.sink.columns import plan_columns
from headstream.spark.sink.log import DirectorySink
from headstream.spark.sink.options import parse_sink_options
from headstream.spark.sink.stager import Staged, StageTask, stage_rows

MOST_BYTES = (64 << 20) - 24
"""What a payload has at most: a message of 64 MiB is it, with its id and two lengths."""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[hs.Client]:
    with hs.connect((tmp_path / "log").as_uri()) as log:
        log.create_topic("shop/orders", partitions=2, limits="wide")
        yield log


def rows_of(payloads: list[bytes]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(payloads, pa.binary())], names=["payload"])


def stage(root: Path, batches: Iterator[pa.RecordBatch], topic: str = "shop/orders", epoch: int = 1) -> Staged:
    options = parse_sink_options({"url": root.as_uri(), "topic": topic})
    columns = plan_columns(StructType([StructField("payload", BinaryType())]), options)
    return stage_rows(StageTask(DirectorySink(str(root)), columns, TopicName.parse(topic), None, "query", epoch, 0), batches)


def commit(root: Path, *staged: Staged, epoch: int = 1) -> None:
    sink = DirectorySink(str(root))
    parts = tuple(each.part for each in staged if each.part is not None)
    limits = {name: each for one in staged for name, each in one.limits.items()}
    sink.commit(Manifest("query", epoch, sink.read_identity(), limits, parts), 60)


def payloads(log: hs.Client) -> list[bytes]:
    found: list[bytes] = []
    for number in (1, 2):
        start = 0
        while messages := log.poll("shop/orders", number, start=start, count=10_000):  # a poll ends at so many bytes
            found += [message.payload or b"" for message in messages]
            start += len(messages)
    return sorted(found)


def peak_bytes(root: Path, batches: int, epoch: int) -> int:
    """Return the memory that staging so many batches of 10,000 rows takes at most."""
    batch = rows_of([b"x" * 100] * 10_000)
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    stage(root, (batch for _ in range(batches)), epoch=epoch)
    most: int = tracemalloc.get_traced_memory()[1] + pa.total_allocated_bytes() - before
    tracemalloc.stop()
    return most


def test_memory_of_a_task_does_not_grow_with_its_rows(log: hs.Client, tmp_path: Path) -> None:
    few, many = (peak_bytes(tmp_path / "log", batches, epoch) for epoch, batches in enumerate((20, 80)))
    assert many < 1.3 * few < 30_000_000


def test_a_huge_message_passes_up_to_what_a_batch_takes(log: hs.Client, tmp_path: Path) -> None:
    huge = bytes(range(256)) * (1 << 18)
    commit(tmp_path / "log", stage(tmp_path / "log", iter([rows_of([b"a", huge[:MOST_BYTES], b"b"])])))
    assert payloads(log) == sorted([b"a", huge[:MOST_BYTES], b"b"])


@pytest.mark.parametrize(("topic", "size"), [("shop/orders", MOST_BYTES + 1), ("shop/small", 10_000_001)])
def test_a_message_that_is_too_big_is_named_and_nothing_stays_staged(
    log: hs.Client, tmp_path: Path, topic: str, size: int
) -> None:
    log.create_topic("shop/small")
    batches = iter([rows_of([b"a"] * 7), rows_of([b"b", bytes(size)])])
    with pytest.raises(
        LimitError, match=rf"a (message|payload) must have at most .* bytes, not .*row 8 of task 0, topic {topic}"
    ):
        stage(tmp_path / "log", batches, topic)
    assert not [path for path in (tmp_path / "log" / STAGED_NAME).rglob("*") if path.is_file()]


def test_commit_takes_one_of_two_completed_attempts_at_a_task(log: hs.Client, tmp_path: Path) -> None:
    root = tmp_path / "log"
    first, second = (stage(root, iter([rows_of([b"a", b"b"]), rows_of([b"c"])])) for _ in range(2))
    assert first.part is not None
    assert second.part is not None
    assert first.part.name != second.part.name
    commit(root, second)
    assert payloads(log) == [b"a", b"b", b"c"]
    late = stage(root, iter([rows_of([b"a", b"b", b"c"])]))  # an attempt that Spark has not ended in time
    commit(root, late)
    assert payloads(log) == [b"a", b"b", b"c"]
    assert not (root / STAGED_NAME / "query").exists()
