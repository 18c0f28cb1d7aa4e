"""Logs that earlier versions wrote, format-1 by 0.1: every later Headstream opens them, reads them and goes on with them."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest
from tools.make_log_sample import CUT, ERASED, USER

import headstream as hs
from headstream.errors import PermissionDeniedError
from headstream.log.checks.verification import Verification
from headstream.log.system.files import OsFiles
from headstream.testing.local_server import LocalServer

SAMPLES = Path(__file__).parent.parent / "samples"
NEWEST = "log-0.3.0"
COMPLETE = ("log-0.2.0", NEWEST)
"""Those made by tools/make_log_sample.py, with everything that their version stored."""
NAMES = ("log-format-1", *COMPLETE)
ALL = ("available", "poisoned")


EMPTY = dict.fromkeys(COMPLETE, ("streams/1/4/1",))
"""Directories of partitions without messages, which git does not keep."""


def copy_sample(sample: Path, root: Path) -> Path:
    """Copy a log, with its empty partitions."""
    shutil.copytree(sample, root)
    for name in EMPTY.get(sample.name, ()):
        (root / name).mkdir(parents=True, exist_ok=True)
    return root


@pytest.fixture(params=NAMES)
def sample(request: pytest.FixtureRequest) -> Path:
    return SAMPLES / str(request.param)


@pytest.fixture
def root(tmp_path: Path, sample: Path) -> Path:
    return copy_sample(sample, tmp_path / "log")


@pytest.fixture(params=COMPLETE)
def complete(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return copy_sample(SAMPLES / str(request.param), tmp_path / "log")


def check_messages(log: hs.Client) -> None:
    """Check the messages of both samples, as far as they do not depend on chance."""
    orders = [message for number in (1, 2) for message in log.poll("shop/orders", number, start=0, count=100, states=ALL)]
    assert all(message.verify() for message in orders)
    by_number = sorted((message.headers["attempt"].value, message.key, message.payload) for message in orders)
    assert by_number == [(number, b"customer %d" % (number % 7), b"order %d " % number + b"." * 200) for number in range(40)]
    (gone,) = log.poll("shop/wide", 1, start=0)
    assert (gone.payload, gone.key, gone.headers["note"].value) == (None, b"gone", "")


def is_whole(root: Path) -> bool:
    return not any(finding.is_damage for finding in Verification(str(root), OsFiles()).run())


def test_a_log_of_an_earlier_version_is_read_without_changing_it(root: Path, sample: Path) -> None:
    with hs.connect(root.as_uri()) as log:
        check_messages(log)
    for path in sample.rglob("*"):
        if path.is_file():
            assert (root / path.relative_to(sample)).read_bytes() == path.read_bytes(), path
    assert is_whole(root)


def test_a_log_of_an_earlier_version_is_written_to(root: Path) -> None:
    with hs.connect(root.as_uri(), segment_bytes=4096) as log:
        with log.producer("shop/orders") as producer:
            producer.send(b"new", key=b"customer 1", headers={"attempt": -1})
        (new,) = [
            message
            for number in (1, 2)
            for message in log.poll("shop/orders", number, start=0, count=100, states=ALL)
            if message.headers["attempt"].value == -1
        ]
        assert (new.payload, new.verify()) == (b"new", True)
        (state,) = log.states("shop/orders", 1)
        assert (state.offset, state.reason, state.by) == (0, "cannot be read", "sample")
        with log.consumer("shop/orders", name="billing") as consumer:
            assert sum(consumer.positions.values()) == 6  # five, and the poisoned one before them
    assert list(Verification(str(root), OsFiles()).run()) == []


def test_the_newest_sample_has_a_file_of_each_kind_that_a_log_has() -> None:
    files = [path for path in (SAMPLES / NEWEST).rglob("*") if path.is_file()]
    assert {path.suffix or path.name for path in files} == {
        ".json", ".sqlite", ".log", ".index", ".summary", "producers", ".offsets", ".deliveries", ".pause", ".start",
    }  # fmt: skip
    heads = [path.read_bytes()[:32] for path in files if path.suffix == ".index"]
    assert {struct.unpack_from("<I", head, 8)[0] for head in heads} == {1, 3, 4}


def test_removed_and_compacted_messages_stay_away(complete: Path) -> None:
    with hs.connect(complete.as_uri()) as log:
        people = log.poll("shop/people", 1, start=0, count=100)
        assert [message.offset for message in people] == [each for each in range(8) if each not in ERASED]
        prices = log.poll("shop/prices", 1, start=0, count=100)
        assert [(message.key, (message.payload or b"")[:8]) for message in prices] == [
            (b"article %d" % (number % 3), b"price %d" % number) for number in (57, 58, 59)
        ]


def test_messages_before_the_log_start_offset_stay_away_and_the_topic_keeps_its_convention(tmp_path: Path) -> None:
    with hs.connect(copy_sample(SAMPLES / NEWEST, tmp_path / "log").as_uri()) as log:
        events = log.poll("shop/events", 1, start="first", count=100)
        assert [(message.offset, message.payload) for message in events] == [(n, b"event %d" % n) for n in range(CUT, 5)]
        assert log.topic("shop/events").kafka_headers == "spring"


def test_what_a_group_has_not_finished_and_its_pause_go_on(complete: Path) -> None:
    with hs.connect(complete.as_uri()) as log:
        found = log.group_deliveries("shop/tasks", "workers")
        assert (found.pause.failed_count, found.pause.attempts_count, found.pause.pauses_count) == (4, 4, 1)
        (counts,) = found.partitions
        assert counts.pending + counts.delayed == 9  # four that failed: their hour may be over
        history = log.message_story("shop/tasks", "workers", 1, 0)
        assert [(attempt.number, attempt.error) for attempt in history.attempts] == [(1, "refused")]
        log.send("shop/tasks", b"task 9")
        assert log.group_deliveries("shop/tasks", "workers").partitions[0].pending + counts.delayed == 10


def test_a_server_goes_on_with_the_users_producers_and_groups(complete: Path) -> None:
    with LocalServer(complete) as server, hs.connect(server.url) as log:
        check_messages(log)
        assert USER in [user.username for user in log.server.users()]
        assert [token.name for token in log.server.tokens()] == ["sample"]
        as_user = server.url.replace("iggy:iggy", f"{USER}:secret-of-the-sample")
        with hs.connect(as_user) as other, pytest.raises(PermissionDeniedError, match="user 2 is not allowed"):
            other.server.me()  # logged in, without rights
        with log.consumer("shop/orders", group="invoices", timeout_ms=0) as consumer:
            assert sum(1 for _ in consumer) == 40 - 6  # the poisoned one is among the six that were committed
        with log.producer("shop/orders") as producer:
            producer.send(b"new", headers={"attempt": -1})
        assert log.topic("shop/orders").messages_count == 41
