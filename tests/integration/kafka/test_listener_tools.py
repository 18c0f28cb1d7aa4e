"""Programs of Kafka's world beside the listener: Streams, Connect, MirrorMaker 2, and verifiable clients under kills."""

from __future__ import annotations

import json
import subprocess
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Limits, NewTopic
from headstream.errors import JavaError
from headstream.server.config.kafka_settings import KafkaSettings
from headstream.spark.sessions.java import find_java
from headstream.testing import KafkaBroker
from headstream.testing.temporary_server import find_free_ports
from tests.support.kafka_tools import CONNECT, STREAMS, kafka_program, run_kafka_tool
from tests.support.server.kafka_listeners import KafkaListener, kafka_listener
from tests.support.server.server_process import ServerProcess
from tests.support.waiting import wait_until

_LINES = ["a rose is", "a rose is", "a rose"]
_CONVERTER = "org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[KafkaListener]:
    """Return a listener whose clients need no login, as these programs have it by default."""
    try:
        find_java()
    except JavaError as error:
        pytest.skip(str(error))
    with kafka_listener(tmp_path / "log", kafka=KafkaSettings(anonymous_user="iggy")) as running:
        yield running


def _properties(path: Path, **values: object) -> str:
    path.write_text("".join(f"{name.replace('_', '.')}={value}\n" for name, value in values.items()))
    return str(path)


def _while_it_runs(process: subprocess.Popen[bytes], output: Path, is_true: Callable[[], bool], timeout_s: float = 120) -> None:
    def check() -> bool:
        assert process.poll() is None, output.read_text()
        return is_true()

    wait_until(check, timeout_s=timeout_s)


def _read_all(bootstrap_servers: str, topic: str, count: int) -> list[tuple[bytes | None, bytes | None]]:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "reader", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[tuple[bytes | None, bytes | None]] = []

    def has_all() -> bool:
        found.extend((message.key(), message.value()) for message in consumer.consume(100, 0.2))
        return len(found) >= count

    try:
        wait_until(has_all)
    finally:
        consumer.close()
    return found


def _send(bootstrap_servers: str, topic: str, *payloads: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for payload in payloads:
        producer.produce(topic, payload.encode(), headers={"n": b"1"})
    assert producer.flush(30) == 0


@pytest.mark.nightly
def test_kafka_streams_counts_words_by_a_repartition_and_a_changelog_topic(listener: KafkaListener, tmp_path: Path) -> None:
    for name in ("lines", "counts"):
        listener.broker.topics.create(NewTopic(TopicName("shop", name), 2, Limits.WIDE))
    _send(listener.bootstrap_servers, "shop.lines", *_LINES)
    source = str(Path(__file__).parent / "streams" / "WordCount.java")
    output, counts = tmp_path / "output", dict[bytes, int]()

    def run(until: dict[bytes, int]) -> None:
        arguments = (listener.bootstrap_servers, str(tmp_path / "state"), "at_least_once")
        with kafka_program(STREAMS, source, *arguments, output=output) as process:
            _while_it_runs(process, output, lambda: _last_counts(listener, counts) == until)

    run({b"a": 3, b"rose": 3, b"is": 2})
    subprocess.run(["rm", "-r", str(tmp_path / "state")], check=True)  # so that the store is restored from its changelog
    _send(listener.bootstrap_servers, "shop.lines", "is is")
    run({b"a": 3, b"rose": 3, b"is": 4})
    topics = {str(topic.name) for topic in listener.broker.topics.list("kafka")}
    assert {name.rpartition("-")[2] for name in topics} == {"changelog", "repartition"}


def _last_counts(listener: KafkaListener, counts: dict[bytes, int]) -> dict[bytes, int]:
    consumer = Consumer({"bootstrap.servers": listener.bootstrap_servers, "group.id": "counts", "auto.offset.reset": "earliest"})
    consumer.subscribe(["shop.counts"])
    for message in consumer.consume(100, 3):
        counts[message.key() or b""] = int(message.value() or b"-1")
    consumer.close()
    return counts


def _file_connector(kind: str, tmp_path: Path) -> dict[str, object]:
    topics = {"topic": "shop.lines"} if kind == "Source" else {"topics": "shop.lines"}
    place = tmp_path / ("in.txt" if kind == "Source" else "out.txt")
    return {"name": kind, "connector.class": f"FileStream{kind}", "tasks.max": 1, "file": place} | topics


def _worker(listener: KafkaListener, **more: object) -> dict[str, object]:
    return {
        "bootstrap.servers": listener.bootstrap_servers,
        "key.converter": _CONVERTER,
        "value.converter": _CONVERTER,
        "offset.flush.interval.ms": 500,
        "listeners": f"http://127.0.0.1:{find_free_ports()[0]}",
        "plugin.discovery": "service_load",
    } | more


def test_connect_standalone_copies_a_file_to_a_topic_and_from_it_to_another_file(listener: KafkaListener, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in _LINES))
    listener.broker.topics.create(NewTopic(TopicName("shop", "lines"), 1, Limits.WIDE))
    files = [_properties(tmp_path / "worker", **_worker(listener, offset_storage_file_filename=tmp_path / "offsets"))]
    files += [_properties(tmp_path / kind, **_file_connector(kind, tmp_path)) for kind in ("Source", "Sink")]
    output, copy = tmp_path / "output", tmp_path / "out.txt"
    with kafka_program(CONNECT, "org.apache.kafka.connect.cli.ConnectStandalone", *files, output=output) as process:
        _while_it_runs(process, output, lambda: copy.exists() and copy.read_text().splitlines() == _LINES)
    assert [value for _, value in _read_all(listener.bootstrap_servers, "shop.lines", 3)] == [line.encode() for line in _LINES]


@pytest.mark.nightly
def test_connect_distributed_goes_on_where_it_was_when_its_worker_was_killed(listener: KafkaListener, tmp_path: Path) -> None:
    listener.broker.topics.create(NewTopic(TopicName("shop", "lines"), 1, Limits.WIDE))
    stored = {f"{kind}.storage.topic": f"connect-{kind}" for kind in ("config", "offset", "status")}
    stored |= {f"{kind}.storage.replication.factor": "1" for kind in ("config", "offset", "status")}
    worker = _worker(listener, **stored, **{"group.id": "connect"})
    url, output, copy = str(worker["listeners"]), tmp_path / "output", tmp_path / "out.txt"

    def run(lines: list[str]) -> None:
        text = "".join(f"{line}\n" for line in lines)
        (tmp_path / "in.txt").write_text(text)
        config = _properties(tmp_path / "worker", **worker)
        with kafka_program(CONNECT, "org.apache.kafka.connect.cli.ConnectDistributed", config, output=output) as process:
            _while_it_runs(process, output, lambda: _has_connectors(url, tmp_path))
            _while_it_runs(process, output, lambda: copy.exists() and copy.read_text() == text)
            _while_it_runs(process, output, lambda: _reached(url, "Source") == {"position": len(text)})
            _while_it_runs(process, output, lambda: _reached(url, "Sink") == {"kafka_offset": len(lines)})

    run(_LINES)
    run([*_LINES, "more", "lines"])
    values = [value for _, value in _read_all(listener.bootstrap_servers, "shop.lines", 5)]
    assert values == [line.encode() for line in (*_LINES, "more", "lines")]


def _reached(url: str, connector: str) -> object:
    """Return the committed offset of a connector, or None."""
    try:
        with urllib.request.urlopen(f"{url}/connectors/{connector}/offsets", timeout=60) as answer:
            return next((each["offset"] for each in json.load(answer)["offsets"]), None)
    except OSError:
        return None


def _has_connectors(url: str, tmp_path: Path) -> bool:
    """Create the connectors that are not there, and return whether both are."""
    try:
        for kind in ("Source", "Sink"):
            body = json.dumps({name: str(value) for name, value in _file_connector(kind, tmp_path).items()}).encode()
            headers = {"Content-Type": "application/json"}
            urllib.request.urlopen(
                urllib.request.Request(f"{url}/connectors/{kind}/config", body, headers, method="PUT"), timeout=60
            )
    except OSError:
        return False
    return True


@pytest.mark.nightly
@pytest.mark.parametrize("way", ["to", "from"])
def test_mirror_maker_copies_topics_and_settings_when_the_listener_is_its_target_or_its_source(
    listener: KafkaListener, kafka_broker: KafkaBroker, tmp_path: Path, way: str
) -> None:
    topic = f"shop.mirrored-{way}"
    places = {"broker": kafka_broker.bootstrap_servers, "hs": listener.bootstrap_servers}
    source, target = ("broker", "hs") if way == "to" else ("hs", "broker")
    run_kafka_tool(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", places[source], "--create", "--topic", topic,
        "--partitions", "2", "--config", "retention.ms=86400000", "--config", "segment.bytes=1048576",
    )  # fmt: skip
    _send(places[source], topic, *_LINES)
    config = {
        "clusters": "broker, hs",
        **{f"{name}.bootstrap.servers": place for name, place in places.items()},
        f"{source}->{target}.enabled": "true",
        f"{target}->{source}.enabled": "false",
        f"{source}->{target}.topics": topic.replace(".", "\\\\."),
        f"{source}->{target}.groups": "nothing",
        "replication.factor": 1,
        **{f"{kind}.topic.replication.factor": 1 for kind in ("heartbeats", "checkpoints", "offset-syncs")},
        **{f"{kind}.storage.replication.factor": 1 for kind in ("offset", "status", "config")},
        "offset.flush.interval.ms": 1000,
        "dedicated.mode.enable.internal.rest": "false",
    }
    output = tmp_path / "output"
    path = _properties(tmp_path / "mm2.properties", **config)
    with kafka_program(CONNECT, "org.apache.kafka.connect.mirror.MirrorMaker", path, output=output) as process:
        found: list[bytes | None] = []
        reading = threading.Thread(
            target=lambda: found.extend(value for _, value in _read_all(places[target], f"{source}.{topic}", 3)), daemon=True
        )
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": places[target]})
        _while_it_runs(process, output, lambda: f"{source}.{topic}" in admin.list_topics(timeout=20).topics)
        reading.start()
        _while_it_runs(process, output, lambda: not reading.is_alive())
    assert Counter(found) == Counter(line.encode() for line in _LINES)
    told = run_kafka_tool(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", places[target], "--describe", "--topic", f"{source}.{topic}"
    ).stdout
    assert "PartitionCount: 2" in told
    assert "retention.ms=86400000" in told


@pytest.mark.nightly
def test_kafkas_verifiable_consumer_reads_what_was_acknowledged_when_the_server_is_killed_under_the_producer(
    tmp_path: Path,
) -> None:
    address, ran = f"127.0.0.1:{find_free_ports()[0]}", list[list[dict[str, str]]]()
    server = ServerProcess(tmp_path / "log", "--kafka", address, "--kafka-user", "iggy")
    run_kafka_tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", address, "--create", "--topic", "verified")

    def run(name: str, count: int, *arguments: str) -> None:
        places = ("--bootstrap-server", address, "--topic", "verified", "--max-messages", str(count))
        told = run_kafka_tool(f"org.apache.kafka.tools.{name}", *places, *arguments).stdout
        ran.append([json.loads(line) for line in told.splitlines() if line.startswith("{")])

    producing = threading.Thread(target=run, args=("VerifiableProducer", 20_000, "--acks", "-1", "--throughput", "2000"))
    producing.start()
    for _ in range(3):
        producing.join(2.5)
        server.kill()
        server = server.again()
    producing.join(120)
    with server:
        consumer = Consumer({"bootstrap.servers": address, "group.id": "ends"})
        _, end = consumer.get_watermark_offsets(TopicPartition("verified", 0), 30)
        consumer.close()
        run("VerifiableConsumer", end, "--group-id", "verify", "--reset-policy", "earliest", "--enable-autocommit", "--verbose")
    acknowledged = [each["value"] for each in ran[0] if each["name"] == "producer_send_success"]
    consumed = [each["value"] for each in ran[1] if each["name"] == "record_data"]
    assert len(acknowledged) > 10_000
    assert set(acknowledged) <= set(consumed)
    assert len(set(consumed)) == len(consumed) == end
