from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from headstream.replicate.decoding.frame_times import CLOCK_SLACK_US, FrameTimes, PartitionTimes, times_of

SECOND_US = 1_000_000


class Query:
    """The checkpoint and progress of a query that plans by offsets."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.progress: dict[str, Any] | None = None
        self.kept: str | None = None
        (directory / "offsets").mkdir()

    def open(self) -> FrameTimes:
        def save(text: str) -> None:
            self.kept = text

        return FrameTimes(self.directory, lambda: self.progress, lambda: self.kept, save)

    def plan(self, batch_id: int, **topics: dict[str, int]) -> None:
        (self.directory / "offsets" / str(batch_id)).write_text(f"v1\n{{}}\n{json.dumps(topics)}")

    def progressed(self, batch_id: int, begun: str, **topics: dict[str, int]) -> None:
        self.progress = {"batchId": batch_id, "timestamp": begun, "sources": [{"latestOffset": json.dumps(topics)}]}


def test_times_of_tells_each_partition_and_its_steps_back() -> None:
    topics = pa.array(["a", "b", "a", "a", "b"])
    times = np.array([5, 7, 9, 6, 8])
    assert times_of(topics, np.array([0, 0, 0, 0, 1]), times) == [
        PartitionTimes("a", 0, 5, 9, 3, 3), PartitionTimes("b", 0, 7, 7, 0, 1), PartitionTimes("b", 1, 8, 8, 0, 1)
    ]  # fmt: skip


def test_frame_times_follow_the_slowest_partition_less_the_steps_back_of_its_times(tmp_path: Path) -> None:
    query = Query(tmp_path)
    times = query.open()
    query.plan(0, t={"0": 5, "1": 3})
    assert times.read_until(0, [PartitionTimes("t", 0, 10, 50, 0)]) == 0, "nothing is known of the other partition"
    query.plan(1, t={"0": 5, "1": 9})
    batch = [PartitionTimes("t", 1, 20, 40, 0), PartitionTimes("t", 1, 35, 60, 2)]
    assert times.read_until(1, batch) == 50
    assert query.open().read_until(1, batch) == 50, "run again, the times have not stepped back"
    query.plan(2, t={"0": 8, "1": 9})
    assert query.open().read_until(2, [PartitionTimes("t", 0, 70, 90, 0)]) == 60 - 5
    assert times.read_until(99, []) is None, "it is not planned"


def test_frame_times_count_a_partition_that_was_read_to_its_end(tmp_path: Path) -> None:
    query = Query(tmp_path)
    times = query.open()
    now_us = 1_700_000_000 * SECOND_US
    for batch_id in range(3):
        query.plan(batch_id, data={"0": 10 * batch_id + 10}, metadata={"0": 2})
    assert times.read_until(0, [PartitionTimes("data", 0, 100, 200, 0), PartitionTimes("metadata", 0, 1, 2, 0)]) == 2
    query.progressed(0, "2023-11-14T22:13:20.000Z", data={"0": 999}, metadata={"0": 2})
    assert times.read_until(1, [PartitionTimes("data", 0, 201, 300, 0)]) == 300, "long before the trigger began"
    late = now_us + 2 * SECOND_US
    assert times.read_until(2, [PartitionTimes("data", 0, late, late, 0)]) == now_us - CLOCK_SLACK_US
    query.progressed(1, "2023-11-14T22:13:20.000Z", data={"0": 999}, metadata={"0": 3})
    assert times.read_until(2, []) == 2, "the other topic has something new"


def test_frame_times_know_nothing_of_offsets_of_another_form(tmp_path: Path) -> None:
    query = Query(tmp_path)
    (tmp_path / "offsets" / "0").write_text('v1\n{}\n{"seq": 5}')
    query.progress = {"batchId": 0, "timestamp": "2023-11-14T22:13:20.000Z", "sources": [{"latestOffset": None}]}
    assert query.open().read_until(0, [PartitionTimes("t", 0, 1, 2, 0)]) is None
