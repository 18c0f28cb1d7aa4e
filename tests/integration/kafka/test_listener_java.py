"""The server's listener for Kafka's clients, by the command lines that come with Kafka."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headstream.errors import JavaError
from headstream.server.config.kafka_settings import KafkaSettings
from headstream.spark.sessions.java import find_java
from headstream.testing import KafkaBroker
from tests.support.kafka_tools import kafka_scripts, run_kafka_tool
from tests.support.server.kafka_listeners import KafkaListener, kafka_listener
from tests.support.waiting import wait_until

_TOOLS = "org.apache.kafka.tools"
_RECORDS = 500
_UNSUPPORTED = "UnsupportedVersionException: The node does not support "
_OWN_ANSWERS = {
    "describeCluster.operations": "[CREATE, DESCRIBE, DESCRIBE_CONFIGS, IDEMPOTENT_WRITE]",
    "describeFeatures": "false",
    "describeTopics": "[0:true11, 1:true11] [ALTER, ALTER_CONFIGS, DELETE, DESCRIBE, DESCRIBE_CONFIGS, READ, WRITE]",
    "incrementalAlterConfigs.broker": "InvalidRequestException: only topic settings can be changed",
    "listOffsets.earliestLocal": f"{_UNSUPPORTED}LIST_OFFSETS with version in range [8,11]. The supported range is [1,7].",
    "listOffsets.latestTiered": f"{_UNSUPPORTED}LIST_OFFSETS with version in range [9,11]. The supported range is [1,7].",
    "listConsumerGroups": "[Emptyfalse]",
    "listGroups": "[Emptyfalse]",
    "describeConsumerGroups.unknown": "1 Dead",
    "deleteConsumerGroups": "GroupIdNotFoundException: The group id does not exist.",
    "describeAcls": "SecurityDisabledException: ACLs are not supported: the server's users have permissions instead",
    "createAcls": f"{_UNSUPPORTED}CREATE_ACLS",
    "deleteAcls": f"{_UNSUPPORTED}DELETE_ACLS",
    "describeClientQuotas": f"{_UNSUPPORTED}DESCRIBE_CLIENT_QUOTAS",
    "alterClientQuotas": f"{_UNSUPPORTED}ALTER_CLIENT_QUOTAS",
    "describeUserScramCredentials": f"{_UNSUPPORTED}DESCRIBE_USER_SCRAM_CREDENTIALS",
    "alterUserScramCredentials": f"{_UNSUPPORTED}ALTER_USER_SCRAM_CREDENTIALS",
    "alterPartitionReassignments": f"{_UNSUPPORTED}ALTER_PARTITION_REASSIGNMENTS",
    "electLeaders": f"{_UNSUPPORTED}ELECT_LEADERS",
    "alterReplicaLogDirs": f"{_UNSUPPORTED}ALTER_REPLICA_LOG_DIRS",
    "describeProducers": f"{_UNSUPPORTED}DESCRIBE_PRODUCERS",
    "listTransactions": f"{_UNSUPPORTED}LIST_TRANSACTIONS",
    "describeMetadataQuorum": f"{_UNSUPPORTED}DESCRIBE_QUORUM",
}
"""The answers to calls of AdminCalls.java that differ from a broker's; docs/kafka-server.md lists what does not work."""


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


@pytest.mark.nightly
def test_web_interfaces_calls_have_a_brokers_answers_but_for_those_that_the_documentation_lists(
    kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    source = str(Path(__file__).parent / "admin" / "AdminCalls.java")
    answers: list[dict[str, str]] = []
    with kafka_listener(tmp_path / "log", kafka=KafkaSettings(anonymous_user="iggy")) as listener:
        for address in (listener.bootstrap_servers, kafka_broker.bootstrap_servers):
            lines = run_kafka_tool(source, address, "shop.admin", "admin").stdout.splitlines()
            answers.append(dict(line.split("\t", 1) for line in lines))
    ours, theirs = answers
    assert len(theirs) >= 45
    assert {name: found for name, found in ours.items() if found != theirs[name]} == _OWN_ANSWERS
    assert ours.keys() == theirs.keys()


@pytest.mark.nightly
def test_the_example_of_the_documentation_works_as_written_on_a_fresh_server(tmp_path: Path) -> None:
    """Only the port and the directory are others, and `headstream` is this environment's."""
    page = Path(__file__).parents[3] / "docs" / "kafka-server.md"
    lines = page.read_text().split("```\n")[1].splitlines()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    places = [line.replace("127.0.0.1:9092", address).replace("/var/lib/shop", str(tmp_path / "shop")) for line in lines]
    server, *commands = [line.removeprefix("$ ") for line in places if line.startswith("$ ")]
    expected = [line for line in places if not line.startswith("$ ")]
    path = f"{tmp_path}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = os.environ | {"PATH": path, "IGGY_TCP_ADDRESS": "127.0.0.1:0", "IGGY_HTTP_ADDRESS": "127.0.0.1:0"}
    with kafka_scripts(tmp_path), subprocess.Popen(["sh", "-c", f"exec {server}"], env=environ) as running:
        try:
            wait_until(lambda: _is_listening(address))
            for command in commands[:-1]:
                subprocess.run(command, shell=True, env=environ, check=True, timeout=120)
            with subprocess.Popen(
                ["sh", "-c", f"exec {commands[-1]}"], env=environ, stdout=subprocess.PIPE, text=True
            ) as reading:
                assert reading.stdout is not None
                try:
                    assert [reading.stdout.readline().rstrip() for _ in expected] == expected == ["paid"]
                finally:
                    reading.send_signal(signal.SIGINT)
        finally:
            running.send_signal(signal.SIGINT)


def _is_listening(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0
