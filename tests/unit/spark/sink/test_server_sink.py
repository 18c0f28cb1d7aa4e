"""What tasks and the driver of a write ask of a server: whole and once, whatever happens to it in between."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import headstream as hs
from headstream.client.transports.remote.address import ServerUrl
from headstream.core.codec.binary import encode_sent
from headstream.core.model.identifiers import TopicName
from headstream.errors import LogError, TopicNotFoundError
from headstream.log.segments.layout import STAGED_NAME
from headstream.log.staged.staging import Manifest, StagedPart
from headstream.spark.connection.log_urls import parse_log
from headstream.spark.sink.server_sink import ServerSink
from headstream.testing.local_server import LocalServer

TOPIC = "shop/orders"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    with LocalServer(tmp_path / "log") as running:
        with hs.connect(running.url) as log:
            log.create_topic(TOPIC)
        yield running


@pytest.fixture
def sink(server: LocalServer) -> ServerSink:
    address = parse_log({"url": server.url})
    assert isinstance(address, ServerUrl)
    return ServerSink(address)


def batch(*payloads: bytes) -> bytes:
    return encode_sent([hs.Message(payload=payload, id=n + 1) for n, payload in enumerate(payloads)])


def manifest(sink: ServerSink, *parts: StagedPart | None) -> Manifest:
    return Manifest("query", 1, sink.read_identity(), {TOPIC: "iggy"}, tuple(part for part in parts if part is not None))


def payloads(server: LocalServer) -> list[bytes | None]:
    with hs.connect(server.url) as log:
        return [message.payload for message in log.poll(TOPIC, 1, start="first", count=100)]


def staged_files(directory: Path) -> list[Path]:
    return [path for path in (directory / STAGED_NAME).rglob("*") if path.is_file()]


def test_a_part_is_whole_when_the_server_is_started_again_while_it_is_staged(
    server: LocalServer, sink: ServerSink, tmp_path: Path
) -> None:
    part = sink.begin_part("query", 1, "one")
    part.add(TOPIC, 1, batch(b"a", b"b"), 2)
    part.add(TOPIC, 1, batch(b"c"), 1)
    server.stop()
    server.start()
    part.add(TOPIC, 1, batch(b"d"), 1)
    other = sink.begin_part("query", 1, "other")  # of an attempt that does not count
    other.add(TOPIC, 1, batch(b"x"), 1)
    other.finish()
    wanted = manifest(sink, part.finish())
    for _ in range(2):
        sink.commit(wanted, 10)
    assert payloads(server) == [b"a", b"b", b"c", b"d"]
    assert staged_files(tmp_path / "log") == []


def test_discarded_parts_leave_no_file_at_the_server(server: LocalServer, sink: ServerSink, tmp_path: Path) -> None:
    failed = sink.begin_part("query", 1, "one")
    for payload in (b"a", b"b"):
        failed.add(TOPIC, 1, batch(payload), 1)
    assert len(staged_files(tmp_path / "log")) == 1
    failed.discard()
    assert staged_files(tmp_path / "log") == []
    assert sink.begin_part("query", 1, "nothing").finish() is None
    part = sink.begin_part("query", 1, "two")
    part.add(TOPIC, 1, batch(b"c"), 1)
    staged = part.finish()
    assert staged is not None
    assert sink.abort("query", 1, [staged])
    assert staged_files(tmp_path / "log") == []
    assert payloads(server) == []


def test_abort_after_a_commit_changes_nothing(server: LocalServer, sink: ServerSink) -> None:
    part = sink.begin_part("query", 1, "one")
    part.add(TOPIC, 1, batch(b"a"), 1)
    wanted = manifest(sink, part.finish())
    sink.commit(wanted, 10)
    assert not sink.abort("query", 1, wanted.parts)
    assert payloads(server) == [b"a"]


def test_a_log_that_was_made_again_takes_nothing_that_was_planned_for_the_old_one(
    server: LocalServer, sink: ServerSink, tmp_path: Path
) -> None:
    wanted = manifest(sink)
    server.stop()
    shutil.rmtree(tmp_path / "log")
    server.start()
    with pytest.raises(LogError, match="deleted and recreated"):
        sink.commit(wanted, 10)
    with pytest.raises(TopicNotFoundError, match=r"Run: headstream topic create shop/orders --url headstream://127"):
        sink.find(TopicName.parse(TOPIC))
