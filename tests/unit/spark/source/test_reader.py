"""What executors do, without Spark: tasks to record batches, also of logs that are damaged, cut or gone."""

from __future__ import annotations

import logging
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import headstream as hs
from headstream.core.codec.binary import encode_sent
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Limits, NewTopic
from headstream.errors import CorruptSendError, HeadstreamError, OffsetOutOfRangeError
from headstream.log.opening import close_log, open_directory
from headstream.log.system.files import OsFiles
from headstream.log.upkeep.compaction_pass import CompactionPass
from headstream.log.upkeep.prefix_removal import remove_before
from headstream.spark.source import limits, offsets, planning, source, stream_reader
from headstream.spark.source.options import parse_options
from headstream.spark.source.reader import BATCH_ROWS, ReadTask, read_task
from headstream.testing.local_server import LocalServer
from tests.support.log.stored_logs import data_file
from tests.support.server.kafka_listeners import kafka_listener
from tests.support.tiers import some_of


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def server(directory: Path) -> Iterator[LocalServer]:
    with LocalServer(directory, segment_bytes=8192) as running:
        yield running


@pytest.fixture(params=["file", "tcp"])
def url(request: pytest.FixtureRequest, directory: Path) -> str:
    """Return the URL of a log in a directory, or of the server that has it: the same must be said of both."""
    if request.param == "file":
        return directory.as_uri()
    running: LocalServer = request.getfixturevalue("server")
    return running.url


def connect(url: str) -> hs.Client:
    return hs.connect(url, **({"segment_bytes": 8192} if url.startswith("file:") else {}))


def send(url: str, sends: int, count: int, *, payload: bytes = b"x" * 100) -> None:
    """Make so many sends of so many messages each to one partition."""
    batch = encode_sent([hs.Message(payload=payload, headers=hs.Headers({"n": 1}))] * count)
    with connect(url) as client:
        client.create_topic("shop/orders", if_not_exists=True, limits="wide")
        for _ in range(sends):
            client._transport.messages.send(TopicName("shop", "orders"), 1, batch)  # a producer may cut its batches otherwise


def plan(url: str, **options: str) -> list[ReadTask]:
    parsed = parse_options({"url": url, "subscribe": "shop/orders", "headers": "none", **options})
    return [partition.value for partition in source.HeadstreamReader(parsed).partitions() if partition.value]


def read(tasks: list[ReadTask]) -> list[int]:
    return [offset for task in tasks for batch in read_task(task) for offset in batch["offset"].to_pylist()]


def damage(directory: Path, offset: int) -> None:
    """Change a bit of a payload."""
    path = data_file(directory.as_uri())
    stored = bytearray(path.read_bytes())
    size = len(stored) // 50
    assert len(stored) == 50 * size
    stored[offset * size + size - 1] ^= 1
    path.write_bytes(stored)


def test_a_task_is_read_in_batches_of_limited_rows(url: str) -> None:
    send(url, 2, 12_500)
    (task,) = plan(url)
    batches = list(read_task(task))
    assert max(batch.num_rows for batch in batches) == BATCH_ROWS
    assert read([task]) == list(range(25_000))


def test_a_damaged_send_is_an_error_that_names_it(url: str, directory: Path) -> None:
    send(url, 5, 10)
    damage(directory, 23)
    with pytest.raises(CorruptSendError) as raised:
        read(plan(url))
    said = str(raised.value)
    assert "the send of offsets 20 to 29 is damaged" in said
    assert "shop/orders partition 1, offset 20; " in said


def test_a_damaged_send_is_passed_over_and_counted_when_loss_is_allowed(
    url: str, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    send(url, 5, 10)
    damage(directory, 23)
    damage(directory, 45)
    with caplog.at_level(logging.WARNING, "headstream.spark"):
        assert read(plan(url, failOnDataLoss="false")) == [*range(20), *range(30, 40)]
    lines = [record.getMessage() for record in caplog.records if record.name == "headstream.spark"]
    assert [line.partition(" because")[0] for line in lines] == [
        "shop/orders partition 1: skipped offsets 20 to 29",
        "shop/orders partition 1: skipped offsets 40 to 49",
    ]
    assert "20 offsets in this range so far: " in lines[1]
    assert "the send of offsets 40 to 49 is damaged" in lines[1]


def test_a_declared_header_of_another_type_is_null_with_one_warning_that_names_the_first_message(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    batches: list[list[dict[str, int | str | None]]] = [
        [{"n": 1}] * 3,
        [{}, {"n": None}, {"n": "x", "m": 2}],
        [{"n": 7}, {"n": "y"}],
    ]
    with connect(url) as client:
        client.create_topic("shop/orders", if_not_exists=True, limits="wide")
        for batch in batches:
            sent = encode_sent([hs.Message(payload=b"x", headers=hs.Headers(pairs)) for pairs in batch])
            client._transport.messages.send(TopicName("shop", "orders"), 1, sent)
    with caplog.at_level(logging.WARNING, "headstream.spark"):
        (task,) = plan(url, headerColumns="n INT, m BIGINT, never STRING")
        rows = [row for batch in read_task(task) for row in batch.select(["n", "m"]).to_pylist()]
    assert [row["n"] for row in rows] == [1, 1, 1, None, None, None, 7, None]
    assert [row["m"] for row in rows] == [None] * 5 + [2, None, None]
    assert [record.getMessage() for record in caplog.records if record.name == "headstream.spark"] == [
        "shop/orders partition 1, offset 5 and after: the header 'n' does not have the type INT32 declared in headerColumns; "
        "its column is null"
    ]


def test_a_range_that_begins_or_ends_in_a_damaged_send_passes_over_its_part_only(url: str, directory: Path) -> None:
    send(url, 5, 10)
    damage(directory, 23)
    bounds = {"startingOffsets": '{"shop/orders": {"1": 25}}', "endingOffsets": '{"shop/orders": {"1": 33}}'}
    assert read(plan(url, failOnDataLoss="false", **bounds)) == [30, 31, 32]
    bounds["endingOffsets"] = '{"shop/orders": {"1": 27}}'
    assert read(plan(url, failOnDataLoss="false", **bounds)) == []
    split = plan(url, failOnDataLoss="false", minPartitions="12")
    assert len(split) >= 12
    assert read(split) == [*range(20), *range(30, 50)]


def drop_oldest(directory: Path) -> int:
    """Remove the oldest segment, as retention does; return the first offset that is left."""
    first, second = sorted(directory.glob("streams/*/*/1/*.log"))[:2]
    first.unlink()
    first.with_suffix(".index").unlink()
    return int(second.stem)


@pytest.mark.parametrize("kind", ["file", "tcp"])
def test_deleted_records_that_were_not_read_are_an_error_or_passed_over_and_counted(
    directory: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    with kafka_listener(directory) as listener:
        url = directory.as_uri() if kind == "file" else f"headstream://iggy:iggy@{listener.running.address}"
        log = listener.broker
        log.topics.create(NewTopic(TopicName("shop", "orders"), 1, Limits.WIDE))
        log.messages.send(TopicName("shop", "orders"), 1, encode_sent([hs.Message(payload=b"x")] * 100))
        begun = {"startingOffsets": '{"shop/orders": {"1": 25}}'}
        strict, lenient = plan(url, **begun), plan(url, **begun, failOnDataLoss="false")
        stream = stream_reader.HeadstreamStreamReader(parse_options({"url": url, "subscribe": "shop/orders", **begun}))
        start = stream.initialOffset()
        record = log.backing.log.snapshot()["shop"].topics["orders"]
        assert remove_before(log.backing.writable_log(), record, 1, 40) == 40
        for read_strictly in (lambda: read(strict), lambda: plan(url, **begun)):
            with pytest.raises(OffsetOutOfRangeError, match=r"(?s)25 to 100 (cannot|were) .*40 to 100 exist.*orders partition 1"):
                read_strictly()
        with pytest.raises(
            OffsetOutOfRangeError, match=r"(?s)25 to 100 cannot all be read: only 40 to 100 exist.*shop/orders partition 1"
        ):
            stream.partitions(start, stream.reportLatestOffset())
        stream.stop()
        assert read(lenient) == [*range(40, 100)]
        assert "shop/orders partition 1: skipped offsets 25 to 39" in caplog.text
        assert read(plan(url, **begun, failOnDataLoss="false")) == [*range(40, 100)]
        assert "shop/orders partition 1, offsets 25 to 100: 15 messages are skipped" in caplog.text
        assert read(plan(url)) == [*range(40, 100)]


def test_messages_that_are_dropped_between_plan_and_read_are_an_error_or_passed_over(
    url: str, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    send(url, 40, 10)
    strict, lenient = plan(url), plan(url, failOnDataLoss="false")
    first = drop_oldest(directory)
    assert first > 0
    with pytest.raises(OffsetOutOfRangeError, match=r"shop/orders partition 1, offset 0"):
        read(strict)
    assert read(lenient) == list(range(first, 400))
    assert f"skipped offsets 0 to {first - 1}" in caplog.text


@pytest.mark.parametrize("keys", [1, 3, 400])
def test_a_compacted_partition_is_read_whole_however_it_is_divided(url: str, directory: Path, keys: int) -> None:
    with connect(url) as client:
        client.create_topic("shop/orders", limits="wide")
        with client.producer("shop/orders", batch_count=10) as producer:
            for number in range(600):
                producer.send(b"x" * 100, key=b"%d" % (number % keys if number % 7 else number))
    (partition,) = directory.glob("streams/*/*/1")
    CompactionPass(str(partition), OsFiles(), segment_bytes=8192, null_before_us=0, seed=bytes(16)).run()
    with hs.connect(url) as client:
        there = [message.offset for message in client.poll("shop/orders", 1, start="first", count=1000)]
    assert 0 < len(there) < 600
    assert read(plan(url)) == there
    for parts in some_of((2, 7, 300, 50)):
        tasks = plan(url, minPartitions=str(parts))
        assert len(tasks) >= parts
        assert read(tasks) == there
    view = planning.open_view(parse_options({"url": url, "subscribe": "shop/orders"}))
    place = offsets.TopicPartition("shop/orders", 1)
    end: dict[offsets.TopicPartition, int] = {place: 0}
    found: list[int] = []
    while end != view.offsets.positions:
        start, end = end, limits.admit_bytes(end, view.offsets.positions, 4000, view)
        assert end[place] > start[place]
        bounds = {"startingOffsets": f'{{"shop/orders": {{"1": {start[place]}}}}}'}
        found += read(plan(url, endingOffsets=f'{{"shop/orders": {{"1": {end[place]}}}}}', **bounds))
    view.close()
    assert found == there


def test_a_topic_that_was_purged_is_noticed_by_the_executor(url: str) -> None:
    send(url, 1, 10)
    tasks = plan(url)
    with connect(url) as client:
        client.purge_topic("shop/orders")
    send(url, 2, 10)
    with pytest.raises(HeadstreamError, match=r"deleted.*shop/orders partition 1, offset 0"):
        read(tasks)


def test_a_huge_message_is_read_as_it_is(url: str) -> None:
    payload = bytes(range(256)) * 240_000  # nearly what a frame to a server takes
    send(url, 1, 1, payload=payload)
    send(url, 1, 3)
    (task,) = plan(url, columns="offset,payload")
    batches = list(read_task(task))
    assert [offset for batch in batches for offset in batch["offset"].to_pylist()] == [0, 1, 2, 3]
    assert batches[0]["payload"][0].as_buffer().to_pybytes() == payload


@pytest.mark.parametrize("states", ["available", "all", "poisoned"])
def test_header_columns_can_be_all_that_is_read(url: str, states: str) -> None:
    send(url, 2, 3)
    batches = [batch for task in plan(url, columns="", headerColumns="n INT", states=states) for batch in read_task(task)]
    assert [batch.schema.names for batch in batches] == [["n"]] * len(batches)
    assert [n for batch in batches for n in batch["n"].to_pylist()] == ([] if states == "poisoned" else [1] * 6)


def peak_bytes(url: str, sends: int) -> int:
    """Return the memory that reading so many sends of 1000 messages takes at most."""
    batch = encode_sent(hs.Message(payload=b"x" * 100, headers=hs.Headers({"n": n, "s": "web"})) for n in range(1000))
    with hs.connect(url) as client:
        client.create_topic("shop/orders")
        log = open_directory(urlsplit(url).path)
        topic = log.snapshot()["shop"].topics["orders"]
        for _ in range(sends):
            log.append(topic, 1, batch, 1_700_000_000_000_000, bytes(16))
        close_log(log)
    tasks = plan(url, headers="array", headerColumns="s STRING")
    before = pa.total_allocated_bytes()
    most = 0
    tracemalloc.start()
    for task in tasks:
        for _ in read_task(task):
            most = max(most, pa.total_allocated_bytes() - before)
    most += tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


def test_memory_of_a_task_does_not_grow_with_its_messages(tmp_path: Path) -> None:
    few, many = (peak_bytes((tmp_path / str(sends)).as_uri(), sends) for sends in (100, 400))
    assert many < 1.3 * few < 60_000_000
