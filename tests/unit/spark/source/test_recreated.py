"""A query's files after topics were created again: positions of the new topics, and of all others as they were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headstream.connect import connect
from headstream.replicate.inputs.collecting import find_source_fault
from headstream.spark.source.aligned_reader import AlignedStreamReader
from headstream.spark.source.options import parse_options
from headstream.spark.source.recreated import accept_recreated_log, begin_anew

TOPICS = ("cdc/data", "cdc/other")


def write_batch(checkpoint: Path, number: int, positions: object, *, finished: bool = True) -> None:
    for name, text in (("offsets", f"v1\n{{}}\n{json.dumps(positions)}"), ("commits", "v1\n{}")):
        (checkpoint / name).mkdir(parents=True, exist_ok=True)
        if name == "offsets" or finished:
            (checkpoint / name / str(number)).write_text(text)


def newest(checkpoint: Path) -> tuple[int, dict[str, dict[str, object]]]:
    number = max(int(path.name) for path in (checkpoint / "offsets").iterdir())
    assert (checkpoint / "commits" / str(number)).is_file(), "it counts as finished"
    found: dict[str, dict[str, object]] = json.loads((checkpoint / "offsets" / str(number)).read_text().splitlines()[-1])
    return number, found


def test_accept_recreated_log_begins_the_new_topic_anew_and_reads_an_unfinished_micro_batch_again(tmp_path: Path) -> None:
    url, checkpoint = f"file://{tmp_path / 'log'}", tmp_path / "spark"
    options = {"url": url, "subscribe": ",".join(TOPICS), "startingOffsets": "earliest"}

    def send(log: Any, counts: dict[str, int]) -> None:
        for topic, count in counts.items():
            with log.producer(topic) as producer:
                for number in range(count):
                    producer.send(b"%d" % number)

    with connect(url) as log:
        for topic in TOPICS:
            log.create_topic(topic, partitions=1)
        send(log, {"cdc/data": 5, "cdc/other": 4})
        reader = AlignedStreamReader(parse_options(options))
        first = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
        write_batch(checkpoint, 0, first)
        accept_recreated_log(checkpoint, options)
        assert newest(checkpoint)[0] == 0, "without a change nothing is written"
        send(log, {"cdc/other": 3})
        write_batch(checkpoint, 1, reader.latestOffset(first, reader.getDefaultReadLimit()), finished=False)
        reader.stop()
        log.delete_topic("cdc/data")
        log.create_topic("cdc/data", partitions=1)
        send(log, {"cdc/data": 2})
    accept_recreated_log(checkpoint, options)
    number, begin = newest(checkpoint)
    assert (number, begin["cdc/data"], begin["cdc/other"]) == (2, {"1": 0}, {"1": 4})
    reader = AlignedStreamReader(parse_options(options))
    end = reader.latestOffset(begin, reader.getDefaultReadLimit())
    counts: dict[str, int] = {}
    for part in reader.partitions(begin, end):
        for rows in reader.read(part):
            for topic in rows.column("topic").to_pylist():
                counts[topic] = counts.get(topic, 0) + 1
    assert counts == {"data": 2, "other": 3}
    reader.stop()


def test_begin_anew_drops_the_positions_of_kafka_topics_and_keeps_the_others(tmp_path: Path) -> None:
    write_batch(tmp_path, 0, {"again": {"0": 7}, "other": {"0": 3}})
    begin_anew(tmp_path, ["again"])
    assert newest(tmp_path) == (1, {"other": {"0": 3}})


@pytest.mark.parametrize(
    ("text", "what", "option"),
    [
        (
            "headstream.errors.LogError: topic cdc/data was deleted and recreated after this query last read it; the offsets now "
            "refer to other messages (its number is 1/2, was 1/1). Start the query with a new checkpointLocation; it then reads",
            "topic cdc/data was deleted and recreated after this query last read it; the offsets now refer to other messages",
            "--accept-recreated",
        ),
        (
            "headstream.errors.OffsetOutOfRangeError: offsets 3 to 9 cannot all be read: only 5 to 9 exist (cdc/data). Older "
            "messages were removed by retention or DeleteRecords; later offsets were never written or are lost. Set "
            "failOnDataLoss=false",
            "messages were deleted before they were read: offsets 3 to 9 cannot all be read: only 5 to 9 exist",
            "--accept-loss",
        ),
    ],
)
def test_find_source_fault_says_what_happened_and_the_way_on(text: str, what: str, option: str) -> None:
    found = find_source_fault(RuntimeError(text))
    assert found is not None
    assert found.what.startswith(what)
    assert "checkpointLocation" not in found.what
    assert "failOnDataLoss" not in found.what
    assert option in found.advice
    assert find_source_fault(RuntimeError("no space left on device")) is None
