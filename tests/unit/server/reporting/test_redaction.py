"""What clients are told of an error: topics by their names, and no path of the server's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headstream.core.wire.commands.streams import CreateStream, DeleteStream
from headstream.core.wire.commands.topics import NEVER, SERVER_DEFAULT, Compression, CreateTopic
from headstream.errors import CorruptSendError, HeadstreamError, NotFoundError, StorageError
from headstream.log.log import Log
from headstream.server.reporting.redaction import redact
from tests.support.server.servers import Server


@pytest.fixture(params=["disk", "memory"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    """A log with topic shop/orders in stream 1, and a stream 2 that is gone."""
    server = Server(directory=tmp_path / "it's (a) log" if request.param == "disk" else None)
    root = server.root()
    for number, name in ((1, "shop"), (2, "gone")):
        root.ask(CreateStream(number, name))
        root.ask(CreateTopic(number, 1, 1, Compression.NONE, NEVER, SERVER_DEFAULT, 0, "orders"))
    root.ask(DeleteStream(2))
    yield server.broker.backing.log
    server.broker.close()


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/streams/1/1/12/00000000000000000000.log, byte 60", "shop/orders, partition 12"),
        ("/streams/1/1/1", "shop/orders, partition 1"),
        ("/streams/1/1/offsets/consumer-x", "shop/orders"),
        ("/streams/1/1", "shop/orders"),
        ("/streams/2/2/1/00000000000000000000.index", "the server's log"),
        ("/streams/99/1/1", "the server's log"),
        ("/catalog.sqlite", "the server's log"),
        ("", None),
    ],
)
def test_disclose_names_the_topic_of_a_file(log: Log, path: str, told: str | None) -> None:
    error = StorageError("cannot write to a file", where=f"{log.root}{path}", advice="Free space")
    error.status = 20_003
    shown = redact(error, log)
    assert (type(shown), shown.what, shown.where, shown.advice) == (StorageError, error.what, told, error.advice)
    assert shown.status == 20_003
    assert error.where == f"{log.root}{path}"  # the server's own log is told all of it


def test_disclose_keeps_what_else_an_error_has(log: Log) -> None:
    error = CorruptSendError("bad", from_offset=5, until_offset=7, partition=1, where=f"{log.root}/streams/1/1/1/0.log")
    shown = redact(error, log)
    assert isinstance(shown, CorruptSendError)
    assert (shown.partition, shown.from_offset, shown.until_offset) == (1, 5, 7)


@pytest.mark.parametrize(
    "error", [HeadstreamError("what"), NotFoundError("no topic", where="shop/orders"), StorageError("x", where="body.memory")]
)
def test_disclose_leaves_an_error_without_paths_as_it_is(log: Log, error: HeadstreamError) -> None:
    shown = redact(error, log)
    assert (shown.what, shown.where, shown.advice) == (error.what, error.where, error.advice)


def test_disclose_takes_paths_out_of_texts(log: Log) -> None:
    shown = redact(HeadstreamError(f"cannot open '{log.root}/a/b': no", advice=f"Look at {log.root}/a, then again"), log)
    if log.is_memory:  # a name, and no path
        assert shown.what == "cannot open 'memory/a/b': no"
    else:
        assert str(shown) == "cannot open 'the server's log': no. Look at the server's log, then again"
