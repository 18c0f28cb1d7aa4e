"""Mirrors into a real Kafka cluster and out of it, killed at work: each message once, in order, with its typed headers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import headstream as hs
from tests.support.kafka_cluster import empty_cluster
from tests.support.killed_jobs import Job
from tests.support.mirrors import COUNT, KILLS, TOPIC, check, command, fill, stored


@pytest.fixture
def url() -> Iterator[str]:
    with empty_cluster() as url:
        yield url


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 11))])
def test_a_mirror_into_kafka_that_is_killed_copies_each_message_once_and_back(tmp_path: Path, url: str, seed: int) -> None:
    randomness = random.Random(seed)
    source, again = ((tmp_path / name).as_uri() for name in ("source", "again"))
    with hs.connect(source) as log:
        fill(log, poisoned=())
    kills = 0
    for _ in range(KILLS if seed > 1 else 3):
        if stored(url) >= COUNT * 0.8:
            break
        job = Job(command(source, url, "--states", "available"), tmp_path)
        job.kill_at_work(lambda: stored(url), randomness.randrange(1, COUNT // 10), randomness.choice((0, 0, 0.05)))
        kills += 1
    assert kills >= 2
    Job(command(source, url, "--states", "available"), tmp_path).finish()
    with hs.connect(url) as log:
        check(log, poisoned=())
    Job(command(url, again, "--topics", TOPIC, "--source-name", "kafka"), tmp_path).kill_at_work(lambda: stored(again), 5_000, 0)
    Job(command(url, again, "--topics", TOPIC, "--source-name", "kafka"), tmp_path).finish()
    with hs.connect(again) as log:
        check(log, poisoned=())
