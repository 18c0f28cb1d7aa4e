"""Killed servers under idempotent producers of Kafka's clients: each record once, and in order."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

import headstream as hs
from headstream.testing.temporary_server import find_free_ports
from tests.support.server.server_process import ServerProcess

_KILLS = 4
_RECORDS = 6_000
_PARTITIONS = 2


@pytest.mark.parametrize("seed", [1])
def test_each_record_is_there_once_and_in_order_when_servers_are_killed_under_a_producer(tmp_path: Path, seed: int) -> None:
    chance, port = random.Random(seed), find_free_ports()[0]
    server = ServerProcess(tmp_path / "log", "--kafka", f"127.0.0.1:{port}")
    url = f"headstream://iggy:iggy@127.0.0.1:{server.tcp[1]}"
    with hs.connect(url) as log:
        log.create_topic("shop/orders", partitions=_PARTITIONS, limits="wide")
    refused: list[str] = []

    def note(error: object, message: object) -> None:
        if error is not None:
            refused.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "iggy",
            "sasl.password": "iggy",
            "enable.idempotence": True,
            "linger.ms": 1,
            "batch.num.messages": 20,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.ms": 50,
            "log_level": 0,
        }
    )
    kills = sorted(chance.sample(range(_RECORDS // 20, _RECORDS), _KILLS))
    for number in range(_RECORDS):
        if kills and number == kills[0]:
            kills.pop(0)
            producer.poll(chance.random() / 50)
            server.kill()
            server = server.again()
        payload = b"%d" % (number // _PARTITIONS)
        producer.produce("shop.orders", payload, partition=number % _PARTITIONS, on_delivery=note)
        producer.poll(0)
        if number % 50 == 0:
            time.sleep(0.001)
    assert producer.flush(120) == 0
    assert refused == []
    with server, hs.connect(url) as log:
        for partition in range(1, _PARTITIONS + 1):
            found: list[int] = []
            while messages := list(log.poll("shop/orders", partition, start=len(found), count=1000)):
                found += [int(message.payload or b"-1") for message in messages]
            assert found == list(range(_RECORDS // _PARTITIONS))
