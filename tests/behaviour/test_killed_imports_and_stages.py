"""An import, and what a Spark sink's tasks and driver do at a server, while they and the server are killed: each message once."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headstream as hs
from tests.campaigns.killed_servers import KilledServer
from tests.support.waiting import wait_until

TOPIC = "shop/orders"
PARTITIONS = 2
LINES = 60_000
"""Twelve chunks of an import: kills hit it in, before and between them, and before it ends, however fast the machine is."""
EPOCHS_A_ROUND = 8
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 21))]
END_S = 120.0

STAGES = textwrap.dedent(
    """
    import sys
    from urllib.parse import urlsplit
    from headstream.client.transports.remote.address import parse_address
    from headstream.core.codec.binary import encode_sent
    from headstream.log.staged.staging import Manifest
    from headstream.core.model.message import Message
    from headstream.spark.sink.server_sink import ServerSink

    sink = ServerSink(parse_address(urlsplit(sys.argv[1]), {}))
    for epoch in range(int(sys.argv[2]), 1_000_000):
        parts = []
        for task in range(2):
            part = sink.begin_part("writer", epoch, f"part-{task}")
            for batch in range(3):
                sent = encode_sent([Message(payload=b"%d:%d:%d:%d" % (epoch, task, batch, at)) for at in range(50)])
                part.add("shop/orders", task + 1, sent, 50)
            parts.append(part.finish())
        sink.commit(Manifest("writer", epoch, sink.read_identity(), {"shop/orders": "iggy"}, tuple(parts)), 60.0)
        print(epoch, flush=True)
    """
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[KilledServer]:
    server = KilledServer(tmp_path / "log")
    try:
        with hs.connect(url_of(server)) as log:
            log.create_topic(TOPIC, partitions=PARTITIONS)
        yield server
    finally:
        server.kill()


def url_of(server: KilledServer) -> str:
    return f"headstream://iggy:iggy@127.0.0.1:{server.tcp_port}?timeout_ms=2000"


def restart(server: KilledServer, down_s: float) -> None:
    server.kill()
    time.sleep(down_s)
    server.start()


def stored(server: KilledServer) -> list[list[bytes]]:
    """Return the payloads of each partition."""
    with hs.connect(url_of(server)) as log:
        return [
            [message.payload or b"" for message in log.poll(TOPIC, number, start=0, count=1_000_000)]
            for number in range(1, PARTITIONS + 1)
        ]


def wait_for(is_so: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Wait until something is so, or the process has ended by itself."""
    wait_until(lambda: process.poll() is not None or is_so(), "the process makes no progress", END_S)


@pytest.mark.parametrize("seed", SEEDS)
def test_import_stores_each_line_once_when_it_and_the_server_are_killed(server: KilledServer, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    file = tmp_path / "orders.jsonl"
    file.write_text("".join(json.dumps({"topic": TOPIC, "payload": "AAAA", "id": n + 1}) + "\n" for n in range(LINES)))
    progress = tmp_path / "orders.jsonl.progress"
    command = [sys.executable, "-m", "headstream.cli", "import", str(file), "--url", url_of(server), "--output", "json"]

    def place() -> bytes:
        return progress.read_bytes() if progress.exists() else b""

    kills = 0
    for round_number in range(4):
        before = place()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            wait_for(lambda before=before: place() != before, process)  # type: ignore[misc]
            time.sleep(chance.random() * 0.03)
            if round_number % 2:
                restart(server, chance.random() * 0.2)
                time.sleep(chance.random() * 0.06)
            kills += process.poll() is None
            process.kill()
    assert kills >= 2, "the kills came too late"
    before = place()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_for(lambda: place() != before, process)  # a first connection is not tried again
        time.sleep(chance.random() * 0.03)
        restart(server, chance.random() * 0.2)
        told, faults = process.communicate(timeout=END_S)
    assert process.returncode == 0, faults.decode()
    assert json.loads(told)["lines"] == LINES
    with hs.connect(url_of(server)) as log:
        numbers = [
            [message.id for message in log.poll(TOPIC, number, start=0, count=LINES)] for number in range(1, PARTITIONS + 1)
        ]
    assert sorted(number for some in numbers for number in some) == list(range(1, LINES + 1))
    assert all(some == sorted(some) for some in numbers)


@pytest.mark.parametrize("seed", SEEDS)
def test_staged_epochs_are_stored_once_and_whole_when_sink_and_server_are_killed(
    server: KilledServer, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    said = tmp_path / "said"
    done = -1
    for round_number in range(4):
        with (
            said.open("wb") as output,
            subprocess.Popen([sys.executable, "-c", STAGES, url_of(server), str(done + 1)], stdout=output) as process,
        ):
            wait_for(lambda: bool(said.read_bytes()), process)
            if round_number:
                time.sleep(chance.random() * 0.1)
                restart(server, chance.random() * 0.2)
            count = len(said.read_bytes().splitlines())
            wait_for(lambda count=count: len(said.read_bytes().splitlines()) >= count + EPOCHS_A_ROUND, process)  # type: ignore[misc]
            time.sleep(chance.random() * 0.02)
            assert process.poll() is None, "the sink has given up"
            process.kill()
        done = int(said.read_bytes().rpartition(b"\n")[0].splitlines()[-1])
    found = stored(server)
    last = max(int(payload.partition(b":")[0]) for some in found for payload in some)
    assert done <= last <= done + 1  # an epoch that was committed as the sink was killed may not have been told
    for task, some in enumerate(found):
        assert some == [
            b"%d:%d:%d:%d" % (epoch, task, batch, at) for epoch in range(last + 1) for batch in range(3) for at in range(50)
        ]
