from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows

from headstream.broker.broker import Broker
from headstream.client.client import Client
from headstream.core.model.identifiers import TopicName
from headstream.log.opening import open_directory
from headstream.spark.source.aligned_reader import AlignedStreamReader, find_end, planned_until
from headstream.spark.source.offsets import SourceOffsets, TopicPartition
from headstream.spark.source.options import parse_options
from tests.support.log.logs import batch
from tests.support.replicate.pipeline_work import SECOND_US

TOPIC = "cdc/data"


def make_log(directory: Path, counts: list[int]) -> None:
    """A log whose partitions have so many sends of two messages each, a second apart."""
    now_us = SECOND_US
    broker = Broker(open_directory(str(directory)), clock_us=lambda: now_us)
    with Client(broker) as client:
        client.create_topic(TOPIC, partitions=len(counts))
        for number in range(max(counts)):
            for partition, count in enumerate(counts, start=1):
                if number < count:
                    now_us += SECOND_US
                    broker.messages.send(TopicName.parse(TOPIC), partition, batch(b"a", b"b"))


def open_reader(directory: Path, limit: int | None) -> AlignedStreamReader:
    options = {"url": f"file://{directory}", "subscribe": TOPIC, "startingOffsets": "earliest"}
    return AlignedStreamReader(parse_options(options | ({} if limit is None else {"maxOffsetsPerTrigger": str(limit)})))


def times(reader: AlignedStreamReader) -> dict[TopicPartition, list[int]]:
    """When each message of each partition was logged."""
    found: dict[TopicPartition, list[int]] = {}
    for part in reader.partitions(reader.initialOffset(), reader.reportLatestOffset()):
        for rows in reader.read(part):
            places = zip(*(rows.column(name).to_pylist() for name in ("stream", "topic", "partition")), strict=True)
            for (stream, topic, partition), time in zip(places, rows.column("timestamp").cast("int64").to_pylist(), strict=True):
                found.setdefault(TopicPartition(f"{stream}/{topic}", partition), []).append(time)
    return found


@pytest.mark.parametrize("limit", [None, 1, 7, 30])
def test_latest_offset_ends_all_partitions_at_one_time(tmp_path: Path, limit: int | None) -> None:
    make_log(tmp_path, [40, 3, 12])
    reader = open_reader(tmp_path, limit)
    start, batches = reader.initialOffset(), 0
    logged = times(reader)
    while True:
        end = reader.latestOffset(start, ReadMaxRows(limit or 10**9))
        if end == start:
            break
        batches += 1
        begun, ended = SourceOffsets.decode(start), SourceOffsets.decode(end)
        until_us = int(ended.topics["read until"])
        for place, found in logged.items():
            missing = [time_us for time_us in found[ended.positions[place] :] if time_us < until_us]
            assert not missing, "everything logged before is read"
            early = [time_us for time_us in found[: ended.positions[place]] if time_us >= until_us]
            assert not early or limit == 1, "and nothing later, where the messages of a time fit"
        assert limit is None or sum(ended.positions.values()) - sum(begun.positions.values()) <= limit
        start = end
    assert SourceOffsets.decode(start).positions == {place: len(found) for place, found in logged.items()}
    assert batches >= 110 // (limit or 110)
    reader.stop()


def test_find_end_fills_a_micro_batch_with_what_is_oldest_in_all_partitions() -> None:
    for seed in range(200):
        random = Random(seed)
        parts = {TopicPartition("s/t", n): sorted(random.randint(1, 50) for _ in range(random.randint(0, 40))) for n in range(3)}
        limit = random.randint(1, 60)

        def ends_at(us: int, parts: dict[TopicPartition, list[int]] = parts) -> dict[TopicPartition, int]:
            return {place: sum(time_us < us for time_us in found) for place, found in parts.items()}

        until_us, end = find_end(0, 51, ends_at, lambda end, limit=limit: sum(end.values()) / limit)  # type: ignore[misc]
        assert end == ends_at(until_us)
        assert sum(end.values()) <= limit or (until_us == 51 and sum(end.values()) <= 1.05 * limit)
        assert until_us == 51 or sum(end.values()) >= 0.75 * limit or sum(ends_at(until_us + 1).values()) > limit


def test_find_end_fills_a_micro_batch_to_95_percent_when_few_messages_have_one_time() -> None:
    for seed in range(50):
        random = Random(seed)
        begin_us = random.choice([0, 10**15])
        times = sorted(begin_us + 10**6 + random.randrange(10**6) for _ in range(10_000))
        limit = random.randrange(1000, 9000)
        place = TopicPartition("s/t", 1)

        def ends_at(us: int, times: list[int] = times, place: TopicPartition = place) -> dict[TopicPartition, int]:
            return {place: bisect_left(times, us)}

        _, end = find_end(begin_us, times[-1] + 1, ends_at, lambda end, limit=limit: sum(end.values()) / limit)  # type: ignore[misc]
        assert 0.95 * limit <= end[place] <= limit or limit < end[place] == len(times) <= 1.05 * limit


@pytest.mark.parametrize("seed", range(20))
def test_find_end_divides_twice_the_limit_into_two_micro_batches(seed: int) -> None:
    random, limit, place = Random(seed), 2000, TopicPartition("s/t", 1)
    times = sorted(10**6 + random.randrange(10**6) for _ in range(2 * limit))
    ends = [0]
    while ends[-1] < len(times):

        def fullness(end: Mapping[TopicPartition, int]) -> float:
            return (end[place] - ends[-1]) / limit

        ends.append(find_end(times[ends[-1]], times[-1] + 1, lambda us: {place: bisect_left(times, us)}, fullness)[1][place])
    assert len(ends) == 3


def test_planned_until_reads_what_a_query_planned(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    offsets = SourceOffsets({TopicPartition("s/t", 1): 5}, "log", {"s/t": "1", "read until": "123"}).encode()
    (tmp_path / "offsets" / "7").write_text(f"v1\n{{}}\n{json.dumps(offsets)}")
    (tmp_path / "offsets" / "8").write_text('v1\n{}\n{"s/t": {"1": 5}, "identity": {"log": "log"}}')
    (tmp_path / "offsets" / "9").write_text('v1\n{}\n{"t": {"0": 5}}')
    assert [planned_until(tmp_path, number) for number in (7, 8, 9, 10)] == [123, None, None, None]
