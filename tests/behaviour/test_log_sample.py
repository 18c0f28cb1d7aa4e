"""A log of format 1, as it was written when that was the newest: every Headstream opens it, reads it and goes on with it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import headstream as hs
from headstream.log.checks.verification import Verification
from headstream.log.system.files import OsFiles

SAMPLE = Path(__file__).parent.parent / "samples" / "log-format-1"
ALL = ("available", "poisoned")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "log"))


def check_messages(log: hs.Client) -> None:
    """Check all that tools/make_log_sample.py wrote, as far as it does not depend on chance."""
    orders = [message for number in (1, 2) for message in log.poll("shop/orders", number, start=0, count=100, states=ALL)]
    assert all(message.verify() for message in orders)
    by_number = sorted((message.headers["attempt"].value, message.key, message.payload) for message in orders)
    assert by_number == [(number, b"customer %d" % (number % 7), b"order %d " % number + b"." * 200) for number in range(40)]
    (gone,) = log.poll("shop/wide", 1, start=0)
    assert (gone.payload, gone.key, gone.headers["note"].value) == (None, b"gone", "")


def test_a_log_of_format_1_is_read_without_changing_it(root: Path) -> None:
    with hs.connect(root.as_uri()) as log:
        check_messages(log)
    for path in SAMPLE.rglob("*"):
        if path.is_file():
            assert (root / path.relative_to(SAMPLE)).read_bytes() == path.read_bytes(), path
    assert [finding for finding in Verification(str(root), OsFiles()).run() if finding.is_damage] == []


def test_a_log_of_format_1_is_written_to(root: Path) -> None:
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
