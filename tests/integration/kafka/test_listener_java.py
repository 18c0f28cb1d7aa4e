"""The server's listener for Kafka's clients, by the command lines that come with Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headstream.errors import JavaError
from headstream.server.config.kafka_settings import KafkaSettings
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
    with kafka_listener(kafka=KafkaSettings(anonymous_user="iggy")) as running:
        yield running


def _run(
    listener: KafkaListener, directory: Path, name: str, *arguments: str, mechanism: str | None = None, given: str | None = None
) -> str:
    """Run a tool that logs in by a mechanism, or not at all, and return its output."""
    settings = directory / "client.properties"
    settings.write_text("" if mechanism is None else listener.java(mechanism))
    config = () if mechanism is None else ("--command-config", str(settings))
    return run_kafka_tool(
        f"{_TOOLS}.{name}", "--bootstrap-server", listener.bootstrap_servers, *config, *arguments, given=given
    ).stdout


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
    groups = _run(
        listener, tmp_path, "consumer.group.ConsumerGroupCommand", "--describe", "--group", "console", mechanism="PLAIN"
    )
    assert [line.split()[:6] for line in groups.splitlines() if line.startswith("console")] in (
        [["console", "shop.orders", "0", "2", "2", "0"], ["console", "shop.orders", "1", "0", "0", "0"]],
        [["console", "shop.orders", "0", "0", "0", "0"], ["console", "shop.orders", "1", "2", "2", "0"]],
    )


@pytest.mark.nightly
def test_kafkas_verifiable_producer_and_consumer_agree_when_they_use_the_listener(
    listener: KafkaListener, tmp_path: Path
) -> None:
    _run(listener, tmp_path, "TopicCommand", "--create", "--topic", "verified")
    flags = ["--topic", "verified", "--max-messages", str(_RECORDS), "--acks", "-1"]
    sent = _run(listener, tmp_path, "VerifiableProducer", *flags, mechanism="SCRAM-SHA-256")
    assert f'"sent":{_RECORDS},"acked":{_RECORDS}' in sent
    flags = ["--group-id", "verify", "--max-messages", str(_RECORDS), "--reset-policy", "earliest", "--enable-autocommit"]
    read = _run(listener, tmp_path, "VerifiableConsumer", "--topic", "verified", *flags, mechanism="SCRAM-SHA-512")
    consumed = [line for line in read.splitlines() if '"name":"records_consumed"' in line]
    assert sum(int(line.split('"count":')[1].split(",")[0].split("}")[0]) for line in consumed) == _RECORDS
