"""Mirrors that are killed at work, again and again, and servers that are killed under them: each message once, in order."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import headstream as hs
from tests.campaigns.killed_servers import KilledServer
from tests.support.killed_jobs import Job
from tests.support.mirrors import COUNT, KILLS, check, command, fill, stored
from tests.support.waiting import wait_until


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 21))])
def test_a_mirror_and_its_destination_that_are_killed_lose_and_repeat_nothing(tmp_path: Path, seed: int) -> None:
    randomness = random.Random(seed)
    source = (tmp_path / "source").as_uri()
    with hs.connect(source) as log:
        fill(log)
    server = KilledServer(tmp_path / "target")
    target = f"headstream://iggy:iggy@127.0.0.1:{server.tcp_port}?timeout_ms=2000"
    try:
        for round_number in range(KILLS if seed > 1 else 3):
            if stored(target) >= COUNT * 0.8:
                break
            job = Job(command(source, target), tmp_path)
            job.kill_at_work(lambda: stored(target), randomness.randrange(1, COUNT // 10), randomness.choice((0, 0, 0.05)))
            if round_number % 2:
                server.kill()
                server.start()
        before = stored(target)
        job = Job(command(source, target), tmp_path)
        wait_until(lambda: job.has_ended or stored(target) > before, "the mirror copies nothing", 300)
        server.kill()  # while it works: it waits for the server, and continues; a first connection is not tried again
        server.start()
        job.finish()
        with hs.connect(target) as log:
            check(log)
    finally:
        server.kill()
