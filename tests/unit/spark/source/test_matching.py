"""The option `where`, applied to stored bytes by executors or by their server: what is read, passed over, and what fails."""

from __future__ import annotations

import logging
import pickle
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headstream as hs
from headstream.core.wire.codes import Code
from headstream.core.wire.command_classes import COMMANDS
from headstream.errors import HeaderError, InvalidOptionError, LogError, OffsetOutOfRangeError
from headstream.log.segments.follower import PartitionFollower
from headstream.log.upkeep.summaries import Summaries
from headstream.spark.source.options import parse_options
from headstream.spark.source.reader import ReadTask, read_task
from headstream.spark.source.source import HeadstreamReader
from headstream.testing.local_server import LocalServer
from tests.campaigns.broken_links import BrokenLinks
from tests.support.waiting import wait_until


@pytest.fixture(params=["file", "tcp"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the URL of a log in a directory, or of a server."""
    if request.param == "file":
        yield (tmp_path / "log").as_uri()
        return
    with LocalServer(tmp_path / "log") as server:
        yield server.url


def send(url: str, values: list[Any]) -> None:
    with hs.connect(url) as log:
        log.create_topic("shop/orders", if_not_exists=True)
        with log.producer("shop/orders") as producer:
            for value in values:
                producer.send(b"x", headers={"n": value}, partition=1)


def plan(url: str, **options: str) -> list[ReadTask]:
    parsed = parse_options({"url": url, "subscribe": "shop/orders", "headers": "none", **options})
    tasks = [partition.value for partition in HeadstreamReader(parsed).partitions() if partition.value]
    loaded: list[ReadTask] = pickle.loads(pickle.dumps(tasks))
    return loaded


def read(tasks: list[ReadTask]) -> list[int]:
    return [offset for task in tasks for batch in read_task(task) for offset in batch["offset"].to_pylist()]


def test_a_task_reads_the_messages_that_match(url: str) -> None:
    send(url, list(range(30_000)))
    assert read(plan(url, where="n IN (5, 29999) OR n BETWEEN 12000 AND 12002")) == [5, 12_000, 12_001, 12_002, 29_999]
    assert read(plan(url, where="n >= 0")) == list(range(30_000))
    assert read(plan(url, where="n < 0")) == []
    assert read(plan(url, where="_offset >= 10 AND n < 20", endingOffsets='{"shop/orders": {"1": 15}}')) == [10, 11, 12, 13, 14]


def test_a_task_applies_the_filter_to_messages_in_its_states_alone(url: str) -> None:
    send(url, [1, 2, "three", 4, 5, 6])
    with hs.connect(url) as log:
        log.set_state("shop/orders", 1, [2, 4], "poisoned")
    assert read(plan(url, where="n > 1", onFilterError="fail")) == [1, 3, 5]
    assert read(plan(url, where="n > 1 AND _state = 'poisoned'", states="all")) == [4]
    assert read(plan(url, where="n > 1", states="poisoned", onFilterError="deliver")) == [2, 4]


def test_a_message_that_the_filter_cannot_be_applied_to_goes_by_onfiltererror(url: str, caplog: pytest.LogCaptureFixture) -> None:
    send(url, [1, "two", 3, "four"])
    with caplog.at_level(logging.WARNING, "headstream.spark"):
        assert read(plan(url, where="n > 0")) == [0, 2]
    assert "some messages are skipped because this filter cannot be applied to them: n > 0" in caplog.text
    assert read(plan(url, where="n > 0", onFilterError="deliver")) == [0, 1, 2, 3]
    batches = (batch for task in plan(url, where="n > 0", onFilterError="fail") for batch in read_task(task))
    assert next(batches)["offset"].to_pylist() == [0]
    with pytest.raises(HeaderError, match=r"at offset 1: it compares the header 'n', of kind string.*shop/orders partition 1, "):
        next(batches)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"where": "n >="}, "where: the filter is invalid at character 5"),
        ({"where": "n = 1", "onFilterError": "raise"}, "onFilterError must be one of skip, deliver, fail, not raise"),
        ({"onFilterError": "skip"}, "onFilterError requires the option where"),
        ({"where": "_state = 'poisoned'"}, "only available messages are requested"),
    ],
)
def test_an_option_that_cannot_be_used_is_an_error_before_the_read(options: dict[str, str], what: str) -> None:
    with pytest.raises(InvalidOptionError, match=what):
        parse_options({"url": "file:///nowhere", "subscribe": "shop/orders", **options})


@pytest.mark.parametrize("place", ["file", "tcp"])
def test_segments_without_a_match_are_not_read(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Summaries, "interval_s", 0.1)
    with LocalServer(tmp_path / "served", segment_bytes=4096) as server:
        url = server.url if place == "tcp" else (tmp_path / "log").as_uri()
        check_skipping(url, monkeypatch)


def check_skipping(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    size = {"segment_bytes": 4096} if url.startswith("file") else {}
    with hs.connect(url, **size) as log:
        log.create_topic("shop/orders", summary_headers="n")
        for first in range(0, 500, 100):
            with log.producer("shop/orders") as producer:
                for value in range(first, first + 100):
                    producer.send(b"x", headers={"n": value}, partition=1)
        until = time.monotonic() + 60
        while not (found := log.explain_filter("n = 250", "shop/orders").segments) or found.skipped_bytes * 2 < found.size_bytes:
            assert time.monotonic() < until, "the closed segments were not summarized"
            time.sleep(0.05)
    read_bytes = []
    chunks = PartitionFollower.read_chunk

    def count(follower: PartitionFollower, *arguments: int) -> tuple[memoryview, int]:
        chunk, reached = chunks(follower, *arguments)
        read_bytes.append(len(chunk))
        return chunk, reached

    monkeypatch.setattr(PartitionFollower, "read_chunk", count)
    assert read(plan(url, where="n = 250")) == [250]
    of_one = sum(read_bytes)
    assert read(plan(url, where="n >= 0 AND m IS NULL")) == list(range(500))
    assert 0 < of_one < (sum(read_bytes) - of_one) * 0.6


def through(server: LocalServer, links: BrokenLinks) -> str:
    """Return the URL of a server behind a proxy."""
    return server.url.replace(f":{server.tcp_address[1]}", f":{links.port}")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    """Return a server with 30,000 messages of a kilobyte in segments of 4 MiB, n counts them."""
    with LocalServer(tmp_path / "log", segment_bytes=4 << 20) as running, hs.connect(running.url) as log:
        log.create_topic("shop/orders")
        with log.producer("shop/orders") as producer:
            for value in range(30_000):
                producer.send(b"x" * 1000, headers={"n": value}, partition=1)
        yield running


def test_a_server_sends_an_executor_only_what_matches(server: LocalServer) -> None:
    with BrokenLinks(server.tcp_address[1], 0, break_chance=0, longest_delay_s=0) as links:
        url = through(server, links)
        assert read(plan(url, where="n IN (5, 29999)")) == [5, 29_999]
        filtered = links.forwarded_bytes
        assert len(read(plan(url))) == 30_000
        assert links.forwarded_bytes - filtered > 30_000_000
    assert filtered < 20_000


def test_a_server_examines_no_message_behind_the_range(server: LocalServer) -> None:
    def scanned() -> int:
        host, port = server.http_address
        with urllib.request.urlopen(f"http://{host}:{port}/metrics") as answer:
            text = answer.read().decode()
        return int(float(text.partition("\nheadstream_filter_scanned_messages_total ")[2].split()[0]))

    ends = '{"shop/orders": {"1": 1000}}'
    assert read(plan(server.url, where="n >= 990", endingOffsets=ends)) == list(range(990, 1000))
    assert scanned() == 1000


def test_a_server_that_knows_no_filters_sends_everything_and_the_executor_applies_it(
    server: LocalServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delitem(COMMANDS, Code.FILTER_MESSAGES)
    with hs.connect(server.url) as log:
        log.set_state("shop/orders", 1, [20_001], "poisoned")
    with caplog.at_level(logging.WARNING, "headstream.spark"):
        assert read(plan(server.url, where="n BETWEEN 20000 AND 20002")) == [20_000, 20_002]
    assert "shop/orders partition 1, offset 0: the server does not support filters" in caplog.text


def test_messages_that_are_gone_are_missed_although_none_of_them_matches(server: LocalServer) -> None:
    tasks = plan(server.url, where="n = 29999")
    tolerant = plan(server.url, where="n = 29999", failOnDataLoss="false")
    with hs.connect(server.url) as log:
        log.update_topic("shop/orders", retention_bytes=5 << 20)
        wait_until(lambda: log.topic("shop/orders").partitions[0].first_offset, "retention has removed nothing")
    with pytest.raises(OffsetOutOfRangeError, match="offsets 0 to 30000 were requested"):
        read(tasks)
    assert read(tolerant) == [29_999]


def test_a_purged_partition_is_an_error_although_nothing_matches(server: LocalServer) -> None:
    tasks = plan(server.url, where="n = -1")
    with hs.connect(server.url) as log:
        log.purge_topic("shop/orders")
        with log.producer("shop/orders") as producer:
            for value in range(30_000):
                producer.send(b"x", headers={"n": value}, partition=1)
    with pytest.raises(LogError, match="the partition was purged"):
        read(tasks)


def test_the_log_of_the_driver_says_where_the_filter_is_evaluated(url: str, caplog: pytest.LogCaptureFixture) -> None:
    send(url, [1])
    with caplog.at_level(logging.INFO, "headstream.spark"):
        plan(url, where="n = 1")
    place = "the executors" if url.startswith("file") else "the server"
    assert f"the filter is evaluated by {place}, on stored bytes: n = 1" in caplog.text
