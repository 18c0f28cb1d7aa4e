"""Unit tests of headstream.spark.source.server_reader."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headstream.errors import LogError
from headstream.spark.source.options import parse_options
from headstream.spark.source.planning import open_view
from headstream.spark.source.reader import read_task
from headstream.testing.local_server import LocalServer
from tests.unit.spark.source.test_reader import connect, directory, plan, read, send, server, url

__all__ = ["directory", "server", "url"]  # fixtures


def test_a_log_that_was_made_again_is_noticed_by_the_executor(request: pytest.FixtureRequest, url: str, directory: Path) -> None:
    send(url, 1, 10)
    tasks = plan(url)
    server: LocalServer | None = None if url.startswith("file:") else request.getfixturevalue("server")
    if server is not None:
        server.stop()
    shutil.rmtree(directory)
    if server is not None:
        server.start()
    send(url, 2, 10)
    with pytest.raises(LogError, match=r"(was replaced|no longer has the log).*shop/orders partition 1, offsets 0 to 10"):
        read(tasks)


def test_a_server_that_is_started_again_is_waited_for(server: LocalServer) -> None:
    send(server.url, 6, 1000, payload=b"x" * 2000)
    (task,) = plan(server.url)
    offsets: list[int] = []
    server.stop()
    server.start()
    batches = read_task(task)
    for batch in batches:  # the connections of before are closed, and so are, again and again, those of meanwhile
        offsets += batch["offset"].to_pylist()
        server.stop()
        server.start()
    assert offsets == list(range(6000))


def test_a_server_tells_the_offsets_and_identities_that_the_directory_has(server: LocalServer, directory: Path) -> None:
    send(server.url, 1, 10)
    seen = []
    with connect(server.url) as client:
        for change in (client.create_partitions, client.delete_partitions, client.create_partitions):
            change("shop/orders", 1)
            views = [
                open_view(parse_options({"url": url, "subscribe": "shop/orders"})) for url in (server.url, directory.as_uri())
            ]
            told, there = (view.offsets for view in views)
            assert told == there
            seen.append(dict(told.topics))
            for view in views:
                view.close()
    assert seen[0].keys() == seen[2].keys() == {"shop/orders", "shop/orders partition 2"}
    assert seen[1].keys() == {"shop/orders"}
    assert seen[0] != seen[2]  # another partition of the same number
