"""The server's listener for Kafka's clients, by clients other than librdkafka's: aiokafka, kcat, and killed servers."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Limits, NewTopic
from tests.support.server.kafka_listeners import KafkaListener, kafka_listener

_ORDERS = TopicName("shop", "orders")
_NOT_SERVED = "broker is too old; the broker has already indicated it will not know how to handle the request"
_CONSOLE = [
    "ApiVersions [0]",
    "Metadata [0]",
    "DescribeConfigs [0 0]",
    "DescribeLogDirs [0]",
    "ListGroups [0]",
    "DescribeGroups [0]",
    "OffsetFetch [0 0]",
    "ListOffsets [0]",
    "OffsetCommit [0]",
    "DescribeACLs [54]",
    "ListPartitionReassignments [0]",
    "IncrementalAlterConfigs [0]",
    "DeleteRecords [0]",
    "OffsetDelete [0]",
    "DeleteGroups [69]",
    f"AlterPartitionAssignments {_NOT_SERVED}",
    f"DescribeClientQuotas {_NOT_SERVED}",
    f"DescribeUserSCRAMCredentials {_NOT_SERVED}",
    f"AlterUserSCRAMCredentials {_NOT_SERVED}",
    "DeleteTopics [0]",
]
"""Redpanda Console's requests with the error codes of their answers; 69: the group was deleted with its last offset."""


def _aiokafka(listener: KafkaListener) -> dict[str, Any]:
    return {
        "bootstrap_servers": listener.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "iggy",
        "sasl_plain_password": "iggy",
    }


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_aiokafka_sends_and_reads_in_a_group_when_it_has_its_defaults(codec: str | None) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def run(listener: KafkaListener) -> list[tuple[Any, ...]]:
        headers = [("a", b"1"), ("a", b"2")]
        async with AIOKafkaProducer(**_aiokafka(listener), compression_type=codec, enable_idempotence=True) as producer:
            for n in range(200):
                times = {"timestamp_ms": 1000 + n, "partition": n % 2}
                await producer.send("shop.orders", b"%d" % n * 20, key=b"k", headers=headers, **times)
        consumer = AIOKafkaConsumer("shop.orders", **_aiokafka(listener), group_id="g", auto_offset_reset="earliest")
        async with consumer:
            found = [await asyncio.wait_for(consumer.getone(), 180) for _ in range(200)]
            await consumer.commit()
        return sorted((m.timestamp, m.partition, m.offset, m.key, m.value, tuple(m.headers)) for m in found)

    with kafka_listener() as listener:
        listener.broker.topics.create(NewTopic(_ORDERS, 2, Limits.WIDE))
        assert asyncio.run(run(listener)) == [
            (1000 + n, n % 2, n // 2, b"k", b"%d" % n * 20, (("a", b"1"), ("a", b"2"))) for n in range(200)
        ]


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcat_sends_and_reads_when_it_has_its_defaults() -> None:
    with kafka_listener() as listener:
        listener.broker.topics.create(NewTopic(_ORDERS, 1, Limits.WIDE))
        security = ["-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN"]
        security += ["-X", "sasl.username=iggy", "-X", "sasl.password=iggy"]
        kcat = ["kcat", "-b", listener.bootstrap_servers, *security]
        send = [*kcat, "-P", "-t", "shop.orders", "-K", ":", "-H", "a=1"]
        subprocess.run(send, input=b"k1:v1\nk2:v2\n", check=True, timeout=180)
        read = [*kcat, "-C", "-t", "shop.orders", "-e", "-q", "-f", "%o %k %s %h\n"]
        assert subprocess.run(read, check=True, timeout=180, capture_output=True).stdout == b"0 k1 v1 a=1\n1 k2 v2 a=1\n"
        listed = subprocess.run([*kcat, "-L"], check=True, timeout=180, capture_output=True).stdout
        assert b'topic "shop.orders" with 1 partitions' in listed


@pytest.mark.nightly  # the client is fetched
@pytest.mark.skipif(shutil.which("npm") is None, reason="Node is not installed")
def test_kafkajs_sends_reads_in_a_group_and_resets_its_offsets_when_it_has_its_defaults(tmp_path: Path) -> None:
    install = ["npm", "install", "--prefix", str(tmp_path), "--ignore-scripts", "--no-audit", "--no-fund", "kafkajs@2.2.4"]
    installed = subprocess.run(install, capture_output=True, text=True, timeout=170)
    if installed.returncode:
        pytest.skip("the client cannot be fetched")
    with kafka_listener() as listener:
        listener.broker.topics.create(NewTopic(_ORDERS, 1, Limits.WIDE))
        command = ["node", str(Path(__file__).parent / "kafkajs_client.js"), listener.bootstrap_servers, "shop.orders"]
        environment = os.environ | {"NODE_PATH": str(tmp_path / "node_modules")}
        ran = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.splitlines() == [
            "committed 100",
            "reset to the earliest -1",
            "read again 100 true",
            "set 42",
            "reset to the latest -1",
        ]


@pytest.mark.nightly  # the compilation of the client takes longer than all other tests of the file
@pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed")
@pytest.mark.timeout(1800)
def test_franz_go_sends_reads_in_a_group_and_administers_as_redpanda_console_when_it_has_its_defaults(tmp_path: Path) -> None:
    build = ["go", "build", "-o", str(tmp_path / "listener"), "."]
    built = subprocess.run(build, cwd=Path(__file__).parent / "franz_go", capture_output=True, text=True, timeout=1200)
    if built.returncode and "dial tcp" in built.stderr:
        pytest.skip("the modules of the client cannot be fetched")
    assert not built.returncode, built.stderr
    with kafka_listener() as listener:
        listener.broker.topics.create(NewTopic(_ORDERS, 1, Limits.WIDE))
        command = [str(tmp_path / "listener"), listener.bootstrap_servers, "shop.orders"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.splitlines() == ["read 1000", *_CONSOLE]
