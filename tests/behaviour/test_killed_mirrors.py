"""Mirrors that are killed at work, again and again, and servers that are killed under them: each message once, in order."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

import headstream as hs
from headstream.testing.killed_servers import KilledServer
from tests.support.killed_jobs import Job

TOPIC = "shop/orders"
COUNT = 60_000
PARTITIONS = 3
KILLS = 6
POISONED = (7, 9_000, 19_999)
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 21))]


def fill(source: hs.Client) -> None:
    source.create_topic(TOPIC, partitions=PARTITIONS)
    with source.producer(TOPIC, batch_count=500) as producer:
        for number in range(COUNT):
            partition = 1 + number % PARTITIONS
            producer.send(b"%d" % number, key=b"k", headers={"n": number}, id=number + 1, partition=partition)
    for partition in range(1, PARTITIONS + 1):
        source.set_state(TOPIC, partition, POISONED, "poisoned")


def check(target: hs.Client) -> None:
    """Each message is there once, each partition in order, in its state."""
    for partition in range(1, PARTITIONS + 1):
        numbers = list[int]()
        poisoned = list[int]()
        with target.consumer(TOPIC, partitions=[partition], states=None, timeout_ms=0) as consumer:
            for message in consumer:
                numbers.append(int(message.payload or b""))
                assert message.id == numbers[-1] + 1
                if message.state == hs.MessageState.POISONED:
                    poisoned.append(len(numbers) - 1)
        assert numbers == list(range(partition - 1, COUNT, PARTITIONS))
        assert poisoned == list(POISONED)


def stored(url: str) -> int:
    """Return how many messages the destination has."""
    with hs.connect(url) as log:
        try:
            return sum(partition.end_offset for partition in log.topic(TOPIC).partitions)
        except hs.NotFoundError:
            return 0


def command(source: str, target: str) -> list[str]:
    return [sys.executable, "-m", "headstream.cli", "mirror", source, target, "--once", "--output", "json"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_mirror_that_is_killed_again_and_again_copies_each_message_once(tmp_path: Path, seed: int) -> None:
    randomness = random.Random(seed)
    source, target = ((tmp_path / name).as_uri() for name in ("source", "target"))
    with hs.connect(source) as log:
        fill(log)
    kills = 0
    for _ in range(KILLS):
        before = stored(target)
        if before >= COUNT * 0.8:
            break
        Job(command(source, target), tmp_path).kill_at_work(
            lambda: stored(target), randomness.randrange(1, COUNT // 10), randomness.choice((0, 0, 0.05))
        )
        kills += 1
    assert kills >= 2
    Job(command(source, target), tmp_path).finish()
    with hs.connect(target) as log:
        check(log)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_mirror_and_its_destination_that_are_killed_lose_and_repeat_nothing(tmp_path: Path, seed: int) -> None:
    randomness = random.Random(seed)
    source = (tmp_path / "source").as_uri()
    with hs.connect(source) as log:
        fill(log)
    server = KilledServer(tmp_path / "target")
    target = f"headstream://iggy:iggy@127.0.0.1:{server.tcp_port}?timeout_ms=2000"
    try:
        for round_number in range(KILLS):
            if stored(target) >= COUNT * 0.8:
                break
            job = Job(command(source, target), tmp_path)
            job.kill_at_work(lambda: stored(target), randomness.randrange(1, COUNT // 10), randomness.choice((0, 0, 0.05)))
            if round_number % 2:
                server.kill()
                server.start()
        job = Job(command(source, target), tmp_path)
        server.kill()  # while it works: it waits for the server, and continues
        server.start()
        job.finish()
        with hs.connect(target) as log:
            check(log)
    finally:
        server.kill()
