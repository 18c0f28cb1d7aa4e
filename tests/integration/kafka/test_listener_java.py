"""The server's listener for Kafka's clients, by the command lines that come with Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headstream.errors import JavaError
from headstream.spark.sessions.java import find_java
from tests.support.kafka_tools import run_kafka_tool
from tests.support.server.kafka_listeners import KafkaListener, kafka_listener

_TOOLS = "org.apache.kafka.tools"
_RECORDS = 500


@pytest.fixture(scope="module")
def listener() -> Iterator[KafkaListener]:
    try:
        find_java()
    except JavaError as error:
        pytest.skip(str(error))
    with kafka_listener() as running:
        yield running


def _run(listener: KafkaListener, directory: Path, name: str, *arguments: str, given: str | None = None) -> str:
    settings = directory / "client.properties"
    settings.write_text(listener.java())
    places = ("--bootstrap-server", listener.bootstrap_servers, "--command-config", str(settings))
    return run_kafka_tool(f"{_TOOLS}.{name}", *places, *arguments, given=given).stdout


def test_kafkas_own_tools_work_when_they_are_given_the_listener(listener: KafkaListener, tmp_path: Path) -> None:
    _run(listener, tmp_path, "TopicCommand", "--create", "--topic", "shop.orders", "--partitions", "2")
    assert "PartitionCount: 2" in _run(listener, tmp_path, "TopicCommand", "--describe", "--topic", "shop.orders")
    reader = ["--reader-property", "parse.key=true", "--reader-property", "parse.headers=true"]
    reader += ["--reader-property", "null.marker=NULL"]
    _run(listener, tmp_path, "ConsoleProducer", "--topic", "shop.orders", *reader, given="a:1,b:2\tk1\tv1\nx:y\tk1\tNULL\n")
    shown = ["--formatter-property", "print.key=true", "--formatter-property", "print.headers=true"]
    limits = ["--from-beginning", "--max-messages", "2", "--timeout-ms", "60000", "--group", "console"]
    read = _run(listener, tmp_path, "consumer.ConsoleConsumer", "--topic", "shop.orders", *shown, *limits)
    assert read.splitlines() == ["a:1,b:2\tk1\tv1", "x:y\tk1\tnull"]
    groups = _run(listener, tmp_path, "consumer.group.ConsumerGroupCommand", "--describe", "--group", "console")
    assert [line.split()[:6] for line in groups.splitlines() if line.startswith("console")] in (
        [["console", "shop.orders", "0", "2", "2", "0"], ["console", "shop.orders", "1", "0", "0", "0"]],
        [["console", "shop.orders", "0", "0", "0", "0"], ["console", "shop.orders", "1", "2", "2", "0"]],
    )


@pytest.mark.nightly
def test_kafkas_verifiable_producer_and_consumer_agree_when_they_use_the_listener(
    listener: KafkaListener, tmp_path: Path
) -> None:
    _run(listener, tmp_path, "TopicCommand", "--create", "--topic", "verified", "--partitions", "1")
    sent = _run(listener, tmp_path, "VerifiableProducer", "--topic", "verified", "--max-messages", str(_RECORDS), "--acks", "-1")
    assert f'"sent":{_RECORDS},"acked":{_RECORDS}' in sent
    flags = ["--group-id", "verify", "--max-messages", str(_RECORDS), "--reset-policy", "earliest", "--enable-autocommit"]
    read = _run(listener, tmp_path, "VerifiableConsumer", "--topic", "verified", *flags)
    consumed = [line for line in read.splitlines() if '"name":"records_consumed"' in line]
    assert sum(int(line.split('"count":')[1].split(",")[0].split("}")[0]) for line in consumed) == _RECORDS
