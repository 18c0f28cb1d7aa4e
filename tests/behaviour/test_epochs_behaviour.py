"""Batches that are staged on a server and committed together, once, whatever is sent again; and how ranges are measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import headstream as hs
from headstream.client.transports.remote.address import parse_address
from headstream.client.transports.remote.caller import Caller
from headstream.client.transports.remote.transport import connector_of
from headstream.core.codec.binary import encode_sent
from headstream.core.wire.extensions.epochs import CommitEpoch, GetEpoch, StageBatch, StagedBatch, UnstageParts
from headstream.core.wire.extensions.messages import AppendMessages, MeasureRange
from headstream.errors import InvalidInputError
from headstream.log.segments.layout import STAGED_NAME
from headstream.testing.local_server import LocalServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    with LocalServer(tmp_path / "log") as running:
        yield running


@pytest.fixture
def log(server: LocalServer) -> Iterator[hs.Client]:
    with hs.connect(server.url) as client:
        client.create_topic("shop/orders")
        yield client


@pytest.fixture(params=["tcp", "http"])
def caller(request: pytest.FixtureRequest, server: LocalServer, log: hs.Client) -> Iterator[Caller]:
    address = parse_address(urlsplit(server.url if request.param == "tcp" else server.http_url), {})
    caller = Caller(address, connector_of(address))
    yield caller
    caller.close()


def stage(caller: Caller, payload: bytes, position: int = 0, part: str = "part") -> StagedBatch:
    sent = encode_sent([hs.Message(payload=payload, id=len(payload))])
    return caller.call(StageBatch("query", 1, part, position, "shop", "orders", 1, True, sent))


def payloads(log: hs.Client) -> list[bytes | None]:
    return [message.payload for message in log.poll("shop/orders", 1, start="first", count=100)]


def test_a_batch_that_is_staged_again_lies_in_its_own_place_once(caller: Caller, log: hs.Client) -> None:
    first = stage(caller, b"a")
    stage(caller, b"bb", first.size_bytes)
    again = stage(caller, b"bb", first.size_bytes)
    third = stage(caller, b"ccc", first.size_bytes + again.size_bytes)
    with pytest.raises(InvalidInputError, match="the file ends before byte 1000000"):
        stage(caller, b"d", 1_000_000)
    for _ in range(2):
        assert caller.call(CommitEpoch("query", 1, (first, again, third))).epoch == 1
    assert payloads(log) == [b"a", b"bb", b"ccc"]


def test_parts_that_are_taken_back_leave_nothing_and_what_is_committed_stays(
    caller: Caller, log: hs.Client, tmp_path: Path
) -> None:
    one, other = stage(caller, b"a", part="one"), stage(caller, b"b", part="other")
    caller.call(UnstageParts("query", 1, (one,)))
    staged = tmp_path / "log" / STAGED_NAME
    assert [path.stem for path in staged.rglob("*.batches")] == ["other"]
    caller.call(UnstageParts("query", 1, (one, other)))
    assert list(staged.iterdir()) == []
    with pytest.raises(InvalidInputError, match="is not a valid part name"):
        caller.call(UnstageParts("query", 1, (replace(one, part="../../catalog"),)))
    assert caller.call(GetEpoch("query")) is None
    receipt = stage(caller, b"c")
    caller.call(CommitEpoch("query", 1, (receipt,)))
    caller.call(UnstageParts("query", 1, (receipt,)))
    assert payloads(log) == [b"c"]


def test_a_range_is_measured_in_bytes_and_in_whole_sends(caller: Caller, log: hs.Client) -> None:
    batch = encode_sent([hs.Message(payload=b"x" * 100)] * 10)
    for _ in range(4):
        caller.call(AppendMessages("shop", "orders", 1, batch))
    size = log.topic("shop/orders").partitions[0].size_bytes

    def measure(from_offset: int, until_offset: int, size_bytes: int = 0) -> tuple[int, int]:
        found = caller.call(MeasureRange("shop", "orders", 1, from_offset, until_offset, size_bytes))
        return found.size_bytes, found.reached_offset

    assert measure(0, 40, size) == (size, 40)
    assert measure(10, 20, size // 2) == (size // 4, 30)
    assert measure(0, 10) == (size // 4, 10)  # the first send, whatever its size
    assert measure(40, 50, 100) == (0, 40)
