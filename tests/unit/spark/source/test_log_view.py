"""What the driver knows of a log: the same of a directory as of the server that has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headstream as hs
from headstream.log.catalog.records import TopicRecord
from headstream.spark.connection.log_urls import parse_log
from headstream.spark.source import directory_view, log_view, offsets, server_view
from headstream.spark.source.subscription import parse_subscription
from headstream.testing.local_server import LocalServer

_TOPIC = "shop/orders"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    with LocalServer(tmp_path / "log") as running:
        with hs.connect(running.url) as log:
            log.create_topic(_TOPIC, partitions=3)
        yield running


def _views(server: LocalServer, directory: Path) -> Iterator[log_view.LogView]:
    address = parse_log({"url": server.url})
    assert not isinstance(address, str)
    subscription = parse_subscription({"subscribe": _TOPIC})
    for view in (server_view.ServerView(address, subscription), directory_view.DirectoryView(str(directory), subscription)):
        yield view
        view.close()


def test_last_time_is_that_of_a_partitions_newest_message_whatever_its_state(server: LocalServer, tmp_path: Path) -> None:
    for view in _views(server, tmp_path / "log"):
        assert [view.last_time(offsets.TopicPartition(_TOPIC, partition)) for partition in (1, 2, 3)] == [None, None, None]
    with hs.connect(server.url) as log:
        for number in range(3):
            log.send(_TOPIC, b"%d" % number, partition=1)
            log.send(_TOPIC, b"%d" % number, partition=2)
        log.set_state(_TOPIC, 2, [2], "poisoned")
        newest = {partition: log.poll(_TOPIC, partition, start="first", count=9, states=None) for partition in (1, 2)}
    for view in _views(server, tmp_path / "log"):
        for partition, messages in newest.items():
            times = [message.timestamp for message in messages]
            assert len(times) == 3
            assert view.last_time(offsets.TopicPartition(_TOPIC, partition)) == times[-1] == max(times)
        assert view.last_time(offsets.TopicPartition(_TOPIC, 3)) is None


@pytest.mark.parametrize("pattern", ["shop/.*", "shop/orders"])
def test_a_directory_view_of_a_pattern_goes_on_when_a_topic_is_deleted_while_it_looks(
    pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_all = directory_view.DirectoryView._find_all

    def delete_after(self: directory_view.DirectoryView) -> list[TopicRecord]:
        found = find_all(self)
        if is_armed:
            is_armed.clear()
            log.delete_topic("shop/carts")
        return found

    is_armed: list[bool] = []
    monkeypatch.setattr(directory_view.DirectoryView, "_find_all", delete_after)
    with hs.connect((tmp_path / "log").as_uri()) as log:
        log.create_topic(_TOPIC)
        log.create_topic("shop/carts")
        view = directory_view.DirectoryView(str(tmp_path / "log"), parse_subscription({"subscribepattern": pattern}))
        is_armed.append(True)
        view.refresh()
        assert (is_armed, list(view.topics)) == ([], [_TOPIC])
        view.close()
