"""Iggy's current Python client, `apache-iggy` 0.9.0, unchanged against the running server, beside older clients."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headstream as hs
from headstream.core.model.constructors import bool_
from tests.support.server.iggy_environments import make_environment
from tests.support.server.server_process import ServerProcess

SCENARIOS = Path(__file__).parent / "scenarios_today.py"
VERSION = "0.9.0"
KINDS = {
    "raw": hs.raw(b"\x00\xff"),
    "string": hs.string("tea"),
    "bool": bool_(True),
    "int8": hs.int8(-8),
    "int16": hs.int16(-16),
    "int32": hs.int32(-32),
    "int64": hs.int64(-64),
    "int128": hs.int128(-(1 << 100)),
    "uint8": hs.uint8(3),
    "uint16": hs.uint16(16),
    "uint32": hs.uint32(32),
    "uint64": hs.uint64((1 << 64) - 1),
    "uint128": hs.uint128(1 << 100),
    "float32": hs.float32(0.5),
    "float64": hs.float64(0.1),
}


@pytest.fixture(scope="session")
def today() -> Path:
    """The interpreter of the client's environment; its tests are left out where it cannot be made, but not in CI."""
    try:
        return make_environment(VERSION, "apache-iggy")
    except (OSError, subprocess.SubprocessError) as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"apache-iggy {VERSION} cannot be installed here: {str(error)[-300:]}")


@pytest.fixture
def stream(request: pytest.FixtureRequest) -> str:
    """A stream of the test's own."""
    return str(request.node.name)[5:45]


@pytest.fixture
def play(today: Path, server: ServerProcess, stream: str) -> Callable[[str], Any]:
    """Return a function that plays a scenario and returns its result."""

    def play(name: str) -> Any:
        command = [str(today), str(SCENARIOS), "{}:{}".format(*server.tcp), name, stream]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert not done.returncode, done.stderr[-2000:]
        return json.loads(done.stdout)

    return play


def test_today_client_administers_streams_topics_and_groups(play: Callable[[str], Any], stream: str) -> None:
    found = play("administration")
    errors = [error.lower() for error in found.pop("errors")]
    for error, word in zip(errors, ("exists", "exists", "option", "not found", "option", "partition"), strict=True):
        assert word in error, errors
    assert found == {
        "compression": ["gzip", "gzip"],
        "expiry_kept": True,
        "group": ["billing", 4 - 1, 0],
        "missing": [None, None],
        "lists": [["europe"], [stream], [0, 1, 2]],
        "has_stats": True,
        "options": 0,
    }


def test_today_client_reads_back_all_kinds_of_headers_and_headstream_reads_them_too(
    play: Callable[[str], Any], server: ServerProcess, stream: str
) -> None:
    found = play("headers")
    typed, plain, more = found["messages"]
    assert found["offsets"] == [0, 2]
    assert [each["payload"] for each in (typed, plain, more)] == ["typed", "plain", "more"]
    assert set(typed["headers"]) == set(KINDS)
    assert typed["headers"]["uint8"] == ["UnsignedInt8", 3]
    assert plain["headers"] == {}
    assert 0 < typed["origin_timestamp"] <= typed["timestamp"]
    with hs.connect("headstream://iggy:iggy@{}:{}".format(*server.tcp)) as log:
        received = log.poll(f"{stream}/eu", partition=1, start="first", count=10)
    assert {key: value for key, value in received[0].headers.items() if key != "hs.timestamp"} == KINDS
    assert received[0].headers["hs.timestamp"] == hs.int64(typed["origin_timestamp"])
    assert str(received[0].id) == typed["id"]


def test_today_client_receives_typed_headers_of_headstream(
    play: Callable[[str], Any], server: ServerProcess, stream: str
) -> None:
    with hs.connect("headstream://iggy:iggy@{}:{}".format(*server.tcp)) as log:
        log.create_topic(f"{stream}/eu", partitions=1)
        with log.producer(f"{stream}/eu") as producer:
            producer.send(b"typed", headers=KINDS, key=b"k")
            producer.send(b"hidden")
            producer.send(b"late")
        log.set_state(f"{stream}/eu", 1, [1], hs.MessageState.POISONED, reason="test")
    typed, late = play("read")
    assert typed["headers"].pop("hs.key") == ["Raw", b"k".hex()]
    assert typed["headers"]["uint8"] == ["UnsignedInt8", 3]
    assert typed["headers"]["int128"] == ["Int128", -(1 << 100)]
    assert set(typed["headers"]) == set(KINDS)
    assert (typed["offset"], late["offset"], late["payload"]) == (0, 2, "late")
    assert typed["origin_timestamp"] == typed["timestamp"]


def test_today_client_polls_from_every_position(play: Callable[[str], Any]) -> None:
    found = play("offsets")
    assert "not found" in found.pop("missing")
    assert found == {
        "pages": [["0", "1", "2", "3"], ["4", "5", "6", "7"], ["8", "9"], []],
        "last": ["8", "9"],
        "from_3": "3",
        "by_time": "0",
        "empty": [],
        "keyed": [1, 1],
    }


def test_today_clients_share_the_partitions_of_a_group(play: Callable[[str], Any]) -> None:
    found = play("group")
    first, second = found["got"]
    assert len(first) == len(second) == 20
    assert sorted([*first, *second]) == sorted(f"{partition}-{n}" for partition in range(4) for n in range(10))
    assert found["left"] == []


def test_today_consumer_of_a_group_receives_every_message(play: Callable[[str], Any]) -> None:
    assert play("consume") == sorted(f"{partition}-{n}" for partition in range(2) for n in range(5))


def test_today_users_have_their_permissions(play: Callable[[str], Any]) -> None:
    assert play("users") == {
        "made": True,
        "errors": [
            "Invalid credentials",
            "Unauthenticated",
            "Unauthorized",
            "Unauthorized",
            "Unauthenticated",
            "Unauthenticated",
        ],
        "polled": [],
        "listed": True,
    }
