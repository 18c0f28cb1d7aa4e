"""Workers over a real server that is killed: every message is acknowledged once, and given up once, whatever is interrupted."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import pytest

import headstream as hs
from tests.campaigns.killed_servers import KilledServer
from tests.support.waiting import wait_until

TOPIC, DEAD = "shop/jobs", "shop/dead"
COUNT = 300
END_S = 300.0
"""Longer than any history takes."""


class _Workers:
    """Threads that lease messages, through every failure, until all are done."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.seen: set[bytes] = set()
        self.acknowledged: Counter[bytes] = Counter()
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=self._work, daemon=True) for _ in range(3)]
        for thread in self.threads:
            thread.start()

    def _work(self) -> None:
        while not self.is_over.is_set():
            try:
                with hs.connect(self._url) as log:
                    self._read(log)
            except hs.HeadstreamError:
                self.is_over.wait(0.02)

    def _read(self, log: hs.Client) -> None:
        retry = hs.Retry(None, delay="0s", max_delay="0s")
        consumer = log.consumer(TOPIC, group="workers", mode="shared", lease="10s", on_error=retry, dead_letter=DEAD)
        while not self.is_over.is_set():
            for message in consumer.poll(5, timeout_ms=50):
                payload = message.payload or b""
                self.seen.add(payload)
                try:
                    if int(payload) % 50 == 7:
                        consumer.reject(message, reason="unwanted")
                    else:
                        consumer.ack(message)
                        self.acknowledged[payload] += 1
                except hs.LeaseLostError:
                    continue


@pytest.mark.parametrize("kills", [3])
def test_workers_finish_each_message_once_through_kills_of_the_server(tmp_path: Path, kills: int) -> None:
    server = KilledServer(tmp_path / "log")
    try:
        url = f"headstream://iggy:iggy@127.0.0.1:{server.tcp_port}?timeout_ms=2000"
        with hs.connect(url) as log:
            log.create_topic(TOPIC, partitions=2)
            log.create_topic(DEAD)
            with log.producer(TOPIC) as producer:
                for number in range(COUNT):
                    producer.send(b"%d" % number)
        workers = _Workers(url)
        for number in range(kills):
            wanted = COUNT * (number + 1) // (kills + 2)
            wait_until(lambda wanted=wanted: workers.acknowledged.total() >= wanted)  # type: ignore[misc]
            server.kill()
            server.start()
        with hs.connect(url) as log:
            ends = {part.number: part.end_offset for part in log.topic(TOPIC).partitions}
            wait_until(lambda: log.offsets(TOPIC, "workers") == ends)
            workers.is_over.set()
            for thread in workers.threads:
                thread.join(END_S)
            letters = Counter(letter.payload for letter in log.poll(DEAD, count=COUNT))
        assert letters == Counter(b"%d" % number for number in range(7, COUNT, 50))
        assert workers.seen == {b"%d" % number for number in range(COUNT)}
        assert set(workers.acknowledged.values()) == {1}
        assert not workers.acknowledged.keys() & letters.keys()
    finally:
        server.kill()
