"""A writer that does everything at once is killed at any moment: all that it was told is done is there, once, in order."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

import headstream as hs
from headstream.log.checks.verification import Verification
from headstream.log.opening import close_log, open_directory
from headstream.log.system.files import OsFiles
from tests.support.log.busy_writer import KEYS, ORDERS, SEGMENT_BYTES, make_topics

ROOT = Path(__file__).resolve().parents[2]
STRIDE = 1_000_000
"""How far apart two writers begin to count: what one has written tells which of them it was."""

Said = dict[str, list[list[int]]]


def run_and_kill(url: str, begin: int, states_from: int, wait_s: float) -> Said:
    """Run a writer for a while, kill it, and return what it said, by the first word."""
    command = [sys.executable, "-m", "tests.support.log.busy_writer", url, str(begin), str(states_from)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.read(1)  # it is at work
        os.set_blocking(process.stdout.fileno(), False)
        text, until = first, time.monotonic() + wait_s
        while process.poll() is None and time.monotonic() < until:
            text += process.stdout.read() or b""
            time.sleep(0.01)
        assert process.poll() is None, process.stderr.read().decode()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        text += process.stdout.read() or b""
    said: Said = defaultdict(list)
    for line in text.decode().rpartition("\n")[0].splitlines():
        word, *numbers = line.split()
        said[word].append([int(number) for number in numbers])
    return said


def take_in_commits(url: str) -> None:
    """Have all appended that was committed and not begun yet: else that is done in the background, partition after partition."""
    log = open_directory(url.removeprefix("file://"))
    try:
        log.commits.append_submitted()
    finally:
        close_log(log)


def find_damage(url: str) -> list[str]:
    verification = Verification(url.removeprefix("file://"), OsFiles())
    return [f"{finding.path}: {finding.what}" for finding in verification.run() if finding.is_damage]


def messages_of(log: hs.Client, topic: str, partition: int = 1) -> list[hs.Message]:
    """Return all messages of a partition, in any state, checked."""
    found: list[hs.Message] = []
    offset = log.topic(topic).partitions[partition - 1].first_offset
    while messages := log.poll(topic, partition, start=offset, count=5000, states=None):
        assert all(message.verify() for message in messages)
        found += messages
        offset = (messages[-1].offset or 0) + 1
    return found


def numbers_of(messages: list[hs.Message], prefix: bytes = b"") -> list[int]:
    payloads = [message.payload or b"" for message in messages]
    return [int(payload.removeprefix(prefix).rstrip(b".")) for payload in payloads if payload.startswith(prefix)]


def check_runs(numbers: list[int]) -> None:
    """Check that each writer's numbers follow each other, and the writers too: each once, in order, none left out."""
    for before, number in itertools.pairwise(numbers):
        assert number == before + 1 or (number % STRIDE == 0 and number > before), (before, number)


class Campaign:
    """What is known of a log over many writers' lives and deaths."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.epochs: set[int] = set()
        self.orders: dict[int, list[int]] = {1: [], 2: []}
        self.once: list[int] = []
        self.states: dict[int, int] = {}
        with hs.connect(url, segment_bytes=SEGMENT_BYTES) as log:
            make_topics(log)

    def go_on(self, begin: int, wait_s: float) -> Said:
        said = run_and_kill(self.url, begin, max(self.states, default=-1) + 1, wait_s)
        assert not find_damage(self.url)
        with hs.connect(self.url, segment_bytes=SEGMENT_BYTES) as log:
            log.update_topic("shop/short", retention_bytes=100_000)  # it opens for writing, and finishes what was begun
            take_in_commits(self.url)
            self._check_orders(log, said)
            self._check_states(log, said)
            self._check_once(log, said)
            self._check_keyed(log, said)
            self._check_short(log, said)
            self._check_administration(log, said)
            offsets = log.offsets(ORDERS, "g")
            for partition, offset in said["committed"]:
                assert offset <= offsets[partition] <= log.topic(ORDERS).partitions[partition - 1].end_offset
        assert not find_damage(self.url)
        return said

    def _check_orders(self, log: hs.Client, said: Said) -> None:
        self.epochs |= {epoch for (epoch,) in said["staged"]}
        epochs = []
        for partition in (1, 2):
            found = messages_of(log, ORDERS, partition)
            assert [message.offset for message in found] == list(range(len(found)))
            numbers = numbers_of(found, b"s")
            assert numbers[: len(self.orders[partition])] == self.orders[partition]
            check_runs(numbers)
            assert max((n for p, n in said["sent"] if p == partition), default=0) <= max(numbers, default=0)
            self.orders[partition] = numbers
            epochs.append(numbers_of(found, b"e"))
            assert epochs[-1] == sorted(set(epochs[-1]))
        assert epochs[0] == epochs[1], "a staged commit is present in part"
        assert self.epochs <= set(epochs[0])

    def _check_states(self, log: hs.Client, said: Said) -> None:
        recorded = {change.offset: int(change.reason) for change in log.states(ORDERS, 1)}
        shown = {message.offset for message in messages_of(log, ORDERS) if message.state != hs.MessageState.AVAILABLE}
        for offset, number in said["state"]:
            self.states[offset] = number
        assert shown == set(recorded)
        assert {offset: recorded.get(offset) for offset in self.states} == self.states
        self.states = recorded

    def _check_once(self, log: hs.Client, said: Said) -> None:
        numbers = numbers_of(messages_of(log, "shop/once"))
        assert numbers[: len(self.once)] == self.once
        assert len(set(numbers)) == len(numbers), "a repeat was stored"
        assert {number for (number,) in said["once"]} <= set(numbers)
        self.once = numbers

    def _check_keyed(self, log: hs.Client, said: Said) -> None:
        numbers = numbers_of(messages_of(log, "shop/keyed"))
        assert numbers == sorted(set(numbers))
        for key in range(KEYS):
            stored = max((number for (number,) in said["keyed"] if number % KEYS == key), default=0)
            assert stored <= max((number for number in numbers if number % KEYS == key), default=0)

    def _check_short(self, log: hs.Client, said: Said) -> None:
        found = messages_of(log, "shop/short")
        first = found[0].offset or 0 if found else 0
        assert [message.offset for message in found] == list(range(first, first + len(found)))
        numbers = numbers_of(found)
        check_runs(numbers)
        assert max((number for (number,) in said["short"]), default=0) <= max(numbers, default=0)

    def _check_administration(self, log: hs.Client, said: Said) -> None:
        """Check that the last topic is where the last word, or the next that was not said any more, leaves it."""
        steps = sorted((number, at) for at, word in enumerate(("made", "filled", "purged", "gone")) for (number,) in said[word])
        counts = {topic.name: topic.messages_count for topic in log.topics("tmp")}
        if steps:
            number, at = steps[-1]
            name = f"t{number}"
            assert counts.get(name) in ((0, 1), (1, 0), (0, None), (None,))[at], (name, at, counts)
            counts.pop(name, None)
            if at == 3:
                counts.pop(f"t{number + 1}", None)
        elif counts:
            assert len(counts) == 1
            counts.clear()
        assert not counts
        for topic in log.topics("tmp"):
            log.delete_topic(f"tmp/{topic.name}")


WORDS = {"sent", "staged", "once", "keyed", "short", "state", "committed", "made", "filled", "purged", "gone"}


def kill_writers(url: str, rounds: int, seed: int) -> None:
    chance, campaign, heard = random.Random(seed), Campaign(url), set[str]()
    for number in itertools.count(1):
        heard |= set(campaign.go_on(number * STRIDE, chance.uniform(0.05, 1.2)))
        if number >= rounds and heard == WORDS:
            break
        assert number < rounds + 30, f"not everything was going on: {WORDS - heard} never was"


def test_nothing_acknowledged_is_lost_when_a_writer_that_does_everything_is_killed(tmp_path: Path) -> None:
    kill_writers((tmp_path / "log").as_uri(), rounds=5, seed=7)


@pytest.mark.soak
def test_nothing_acknowledged_is_lost_in_hundreds_of_kills(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    for number in range(30):  # each in a log of its own, for what is checked grows with it
        kill_writers((tmp_path / str(number)).as_uri(), rounds=10, seed=seed + number)
