"""Several processes on one log: killed, interrupted, refused, and reading beside the writer."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headstream as hs
from headstream.core.codec.binary import decode_polled
from headstream.log.segments.follower import PartitionFollower

SEGMENT_BYTES = 64 * 1024
"""Small, so that segments are rolled all the time."""

START = textwrap.dedent(
    f"""
    import random, sys
    import headstream as hs
    log = hs.connect(sys.argv[1], segment_bytes={SEGMENT_BYTES})
    def say(what): print(what, flush=True)
    """
)

KILLED = START + textwrap.dedent(
    """
    number, chance = int(sys.argv[2]), random.Random(int(sys.argv[3]))
    producer = log.producer("shop/orders", linger_ms=1, batch_count=50)
    while True:
        for _ in range(chance.choice([1, 3, 200])):
            producer.send(b"%d" % number + b"." * chance.choice([1, 100, 5000]), partition=number % 2 + 1, headers={"n": number})
            number += 1
        producer.flush()
        say(number)
    """
)

INTERRUPTED = START + textwrap.dedent(
    """
    number = int(sys.argv[2])
    try:
        with log.producer("shop/orders", linger_ms=1, batch_count=20, buffer_bytes=3000) as producer:
            say("ready")
            while True:
                producer.send(b"%d" % number, partition=1)
                number += 1
                if number % 100 == 0:
                    producer.flush()
    except KeyboardInterrupt:
        say(number)
    """
)

WRITER = START + textwrap.dedent(
    """
    with log.producer("shop/orders", batch_count=7) as producer:
        say("ready")
        for number in range(int(sys.argv[2])):
            producer.send(b"%d" % number + b"." * (number % 300), partition=1)
    """
)

CONSUMER = START + textwrap.dedent(
    """
    with log.consumer("shop/orders", group="g") as consumer:
        for message in consumer:
            consumer.commit()
            say(message.offset)
    """
)


@contextmanager
def program(source: str, url: str, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program in a process of its own; it is killed if it is still there in the end."""
    command = [sys.executable, "-c", source, url, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[bytes]) -> str:
    """Return the next line a program says."""
    assert process.stdout is not None
    text = process.stdout.readline()
    if not text:
        assert process.stderr is not None
        raise AssertionError(process.stderr.read().decode())
    return text.decode().strip()


def as_nobody(look: Callable[[], object]) -> str:
    """Return what a look says to a user who owns nothing: the value, or the error."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setuid(65534)
            try:
                text = repr(look())
            except hs.HeadstreamError as error:
                text = f"{type(error).__name__}: {error}"
            os.write(into, text.encode())
        finally:
            os._exit(0)
    os.close(into)
    with os.fdopen(out) as reader:
        text = reader.read()
    os.waitpid(child, 0)
    return text


def numbers(log: hs.Client, partition: int) -> list[int]:
    found, offset = [], 0
    while messages := log.poll("shop/orders", partition, start=offset, count=5000):
        assert all(message.verify() for message in messages)
        assert [message.offset for message in messages] == list(range(offset, offset + len(messages)))
        found += [int((message.payload or b"").rstrip(b".")) for message in messages]
        offset += len(messages)
    return found


@pytest.fixture
def url(tmp_path: Path) -> str:
    with hs.connect((tmp_path / "log").as_uri()) as log:
        log.create_topic("shop/orders", partitions=2)
    return (tmp_path / "log").as_uri()


def check_killed_writers(url: str, rounds: int, seed: int) -> None:
    """Kill a writer so many times, and check after each that what it was told is stored is there, once, in order."""
    chance = random.Random(seed)
    expected: tuple[list[int], list[int]] = ([], [])
    begin = 0
    for number in range(rounds):
        with program(KILLED, url, begin, seed + number) as process:
            for _ in range(chance.randrange(1, 30)):
                acknowledged = int(line(process))
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            acknowledged = max([acknowledged, *(int(text) for text in (process.stdout or []) if text.endswith(b"\n"))])
        with hs.connect(url, segment_bytes=SEGMENT_BYTES) as log:
            for partition in (1, 2):
                known, found = expected[partition - 1], numbers(log, partition)
                new = found[len(known) :]
                assert found[: len(known)] == known
                stored = [n for n in range(begin, acknowledged) if n % 2 + 1 == partition]
                assert new[: len(stored)] == stored
                assert new == list(range(begin + partition - 1, begin + partition - 1 + 2 * len(new), 2))
                expected[partition - 1].extend(new)
            with log.producer("shop/orders") as producer:  # and it can be appended to
                producer.send(b"-1", partition=1)
            expected[0].append(-1)
            begin = max(acknowledged, *(max(part, default=0) + 1 for part in expected))
            begin += begin % 2


@pytest.mark.nightly  # test_killed_writers.py is in the first tier
def test_a_killed_writer_loses_nothing_acknowledged(url: str) -> None:
    check_killed_writers(url, rounds=5, seed=1)


@pytest.mark.soak
def test_a_killed_writer_loses_nothing_acknowledged_many_times(url: str) -> None:
    check_killed_writers(url, rounds=300, seed=random.SystemRandom().randrange(1 << 30))


def test_an_interrupted_producer_stores_each_message_once(url: str) -> None:
    begin = 0
    for attempt in range(4):
        with program(INTERRUPTED, url, begin) as process:
            assert line(process) == "ready"
            with PartitionFollower(f"{url[7:]}/streams/1/1/1") as follower:
                while follower.end_offset < begin + 300 * (attempt + 1):
                    follower.refresh()
            os.kill(process.pid, signal.SIGINT)
            sent = int(line(process))
            assert process.wait(120) == 0
        with hs.connect(url) as log:
            stored = numbers(log, 1)
        assert stored == list(range(len(stored)))
        assert len(stored) in (sent, sent + 1)  # the one it was interrupted in may have gone
        begin = len(stored)


def test_readers_follow_a_writer_in_another_process(url: str) -> None:
    count = 3000
    directory = Path(f"{url[7:]}/streams/1/1/1")
    followed: list[int] = []
    with program(WRITER, url, count) as process, hs.connect(url) as log, PartitionFollower(directory) as follower:
        assert line(process) == "ready"
        with log.consumer("shop/orders", group="g", timeout_ms=120_000) as consumer:
            for expected, message in zip(range(count), consumer, strict=False):
                assert message.payload == b"%d" % expected + b"." * (expected % 300)
                if expected % 10 == 0:
                    begin = follower.end_offset
                    follower.refresh()
                    chunks = list(follower.read(begin))
                    followed += [int((m.payload or b"").rstrip(b".")) for chunk in chunks for m in decode_polled(chunk)]
        assert process.wait(120) == 0
        begin = follower.end_offset
        follower.refresh()
        followed += [int((m.payload or b"").rstrip(b".")) for chunk in follower.read(begin) for m in decode_polled(chunk)]
        assert followed == list(range(count))
        assert log.offsets("shop/orders", "g") == {1: count}
    assert len(list(directory.glob("*.log"))) > 5


def test_a_second_writer_is_refused_and_told_who_the_first_is(url: str) -> None:
    with program(WRITER + "log.close\nsys.stdin.read()", url, 1) as process, hs.connect(url) as log:
        assert line(process) == "ready"
        while not log.topic("shop/orders").messages_count:
            pass
        producer = log.producer("shop/orders", linger_ms=0)
        producer.send(b"x")
        with pytest.raises(hs.LogLockedError, match=f"process {process.pid} is writing to this log"):
            producer.flush()
        with pytest.raises(hs.LogLockedError, match=f"process {process.pid}"):
            log.create_topic("shop/carts")
        assert log.topic("shop/orders").messages_count == 1
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        log.create_topic("shop/carts")  # a dead writer leaves no lock behind


def test_offsets_are_committed_from_another_process_and_survive_its_death(url: str) -> None:
    with hs.connect(url, segment_bytes=SEGMENT_BYTES) as log:
        with log.producer("shop/orders") as producer:
            for number in range(100):
                producer.send(b"%d" % number, partition=1)
        for round_ in range(3):
            with program(CONSUMER, url) as process:
                for expected in range(round_ * 10, round_ * 10 + 10):
                    assert int(line(process)) == expected
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                seen = max([expected, *(int(text) for text in (process.stdout or []) if text.endswith(b"\n"))])
            assert log.offsets("shop/orders", "g")[1] in (seen + 1, seen + 2)  # committed, and not yet said
            with log.consumer("shop/orders", group="g") as consumer:
                consumer.seek(1, round_ * 10 + 9)
                next(consumer)
            assert log.offsets("shop/orders", "g") == {1: round_ * 10 + 10}


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """Lend a directory that other users can reach: a pytest that starts meanwhile takes their permission from its own."""
    with tempfile.TemporaryDirectory(prefix="headstream-test-") as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory


def test_without_permission_a_log_is_refused_or_read(open_directory: Path) -> None:
    root = open_directory / "log"
    url = root.as_uri()
    with hs.connect(url) as log:
        log.create_topic("shop/orders", partitions=2)
        with log.producer("shop/orders") as producer:
            producer.send(b"x", partition=1)

    def poll() -> object:
        with hs.connect(url) as log:
            return [message.payload for message in log.poll("shop/orders")]

    def send() -> object:
        with hs.connect(url) as log, log.producer("shop/orders") as producer:
            producer.send(b"y")
        return "sent"

    for path in root.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    root.chmod(0o555)
    assert as_nobody(poll) == "[b'x']"
    assert "StorageError: cannot open the writer's lock: Permission denied" in as_nobody(send)
    assert "Grant this user the permission" in as_nobody(send)
    root.chmod(0o700 if os.getuid() == 0 else 0o000)
    assert "StorageError: cannot list a directory: Permission denied" in as_nobody(poll)
    for path in [root, *root.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
