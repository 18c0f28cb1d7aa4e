"""Messages marked for deletion are gone at once for every reader, whatever it reads with, and no reader stands still at one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, TopicPartition

import headstream as hs
from headstream.cli.main import cli
from headstream.client.transports.remote.address import parse_address
from headstream.client.transports.remote.caller import Caller
from headstream.client.transports.remote.transport import connector_of
from headstream.core.codec.binary import decode_polled
from headstream.core.model.polling import ConsumerKind, PollingKind
from headstream.core.model.urls import split_url
from headstream.core.wire.commands.messages import PollMessages
from headstream.core.wire.commands.offsets import ConsumerRef
from headstream.mirror import Mirror, MirrorOptions
from headstream.server.network.addresses import Address
from headstream.spark.source.options import parse_options
from headstream.spark.source.reader import read_task
from headstream.spark.source.source import HeadstreamReader
from tests.support.cli_inputs import run
from tests.support.server.kafka_listeners import KafkaListener, kafka_listener

TOPIC = "shop/orders"
COUNT = 8
MARKED = (0, 3, 4, 7)
"""The first message, two that follow each other, and the last one."""
LEFT = [1, 2, 5, 6]


@dataclass
class Served:
    """A log behind a server with every listener, and in its directory."""

    listener: KafkaListener
    urls: dict[str, str]
    connected: dict[str, hs.Client]

    def connect(self, kind: str) -> hs.Client:
        if kind not in self.connected:
            self.connected[kind] = hs.connect(self.urls[kind])
        return self.connected[kind]


def fill(log: hs.Client, topic: str) -> None:
    log.create_topic(topic)
    for number in range(COUNT):
        log.send(topic, b"%d" % number, key=b"%d" % number, headers={"n": number})


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Return a log of which some messages were marked after its readers had connected."""
    directory, local = tmp_path_factory.mktemp("marked") / "log", Address("127.0.0.1", 0)
    with kafka_listener(directory, http_address=local, quic_address=local) as listener:
        server = listener.running.server
        urls = {
            "file": directory.as_uri(),
            "tcp": f"headstream://iggy:iggy@{server.tcp_address}",
            "http": f"http://iggy:iggy@{server.http_address}",
            "quic": f"quic://iggy:iggy@{server.quic_address}?tls_verify=false",
        }
        there = Served(listener, urls, {})
        log = there.connect("tcp")
        fill(log, TOPIC)
        for kind in urls:
            assert len(there.connect(kind).poll(TOPIC, start="first", count=100)) == COUNT  # fast paths and caches know them
        log.set_state(TOPIC, 1, MARKED, "marked_for_deletion", reason="a test")
        yield there
        for client in there.connected.values():
            client.close()


def offsets(messages: Any) -> list[int]:
    return [message.offset for message in messages]


def consume(log: hs.Client, group: str, **options: Any) -> list[int]:
    """Return what a group gets, and check that it has passed the marked messages."""
    found: list[int] = []
    with log.consumer(TOPIC, group=group, timeout_ms=0, **options) as consumer:
        for message in consumer:
            found.append(message.offset)
    (partition,) = log.group(TOPIC, group).partitions
    assert partition.committed == COUNT, f"the group stands at {partition.committed}"
    return found


def resume(log: hs.Client, kind: str) -> list[int]:
    """Return what two consumers get, each of which reads two messages."""
    found: list[int] = []
    for _ in range(2):
        with log.consumer(TOPIC, group=f"resume-{kind}", timeout_ms=0) as consumer:
            found += [next(consumer).offset, next(consumer).offset]
    return found


RETRY = hs.Retry(attempts=2, delay="1ms")
CLIENTS: dict[str, Callable[[hs.Client, str], list[int]]] = {
    "poll": lambda log, kind: offsets(log.poll(TOPIC, start="first", count=100)),
    "poll one by one": lambda log, kind: [
        message.offset for start in range(COUNT) for message in log.poll(TOPIC, 1, start=start, count=1)[:1]
    ],
    "poll where": lambda log, kind: offsets(log.poll(TOPIC, start="first", count=100, where="n >= 0")),
    "poll the last": lambda log, kind: offsets(log.poll(TOPIC, start="last", count=COUNT)),
    "consumer": lambda log, kind: consume(log, f"plain-{kind}"),
    "consumer where": lambda log, kind: consume(log, f"where-{kind}", where="n >= 0"),
    "consumer that resumes": resume,
    "retry": lambda log, kind: consume(log, f"retry-{kind}", on_error=RETRY, dead_letter=f"shop/dead-{kind}"),
    "shared": lambda log, kind: consume(log, f"shared-{kind}", mode="shared"),
    "shared by key": lambda log, kind: consume(
        log, f"key-{kind}", mode="shared", on_error=hs.Retry(order="key"), dead_letter=f"shop/dead-{kind}"
    ),
}


@pytest.mark.parametrize("kind", ["file", "tcp", "http", "quic"])
@pytest.mark.parametrize("reader", CLIENTS)
def test_a_client_gets_no_marked_message(served: Served, kind: str, reader: str) -> None:
    expected = [1, 1, 2, 5, 5, 5, 6] if reader == "poll one by one" else LEFT
    assert CLIENTS[reader](served.connect(kind), kind) == expected


@pytest.mark.parametrize("kind", ["tcp", "http"])
def test_iggys_poll_returns_no_marked_message(served: Served, kind: str) -> None:
    address = parse_address(split_url(served.urls[kind]), {})
    caller = Caller(address, connector_of(address))
    try:
        who = ConsumerRef(ConsumerKind.CONSUMER, 77)
        found = caller.call(PollMessages(who, "shop", "orders", 1, PollingKind.OFFSET, 0, 100, False))
        assert offsets(decode_polled(found.messages)) == LEFT
    finally:
        caller.close()


def test_kafkas_fetch_returns_no_marked_message_and_its_offsets_are_right(served: Served) -> None:
    log = served.connect("tcp")
    fill(log, "shop/fetched")
    log.set_state("shop/fetched", 1, MARKED, "marked_for_deletion")
    consumer = Consumer(served.listener.confluent(group_id="kafka", enable_auto_commit=False, auto_offset_reset="earliest"))
    place = TopicPartition("shop.fetched", 0, 0)
    found: list[tuple[int | None, bytes | None]] = []
    try:
        consumer.assign([place])

        def take(count: int) -> None:
            until = time.monotonic() + 60
            while len(found) < count:
                assert time.monotonic() < until, f"it has {found}"
                message = consumer.poll(0.1)
                if message is not None:
                    assert message.error() is None
                    found.append((message.offset(), message.value()))

        take(len(LEFT))
        log.send("shop/fetched", b"8")
        take(len(LEFT) + 1)
        assert found == [(offset, b"%d" % offset) for offset in [*LEFT, COUNT]]
        assert consumer.get_watermark_offsets(place) == (0, COUNT + 1)
        consumer.commit(asynchronous=False)
        assert log.offsets("shop/fetched", "kafka") == {1: COUNT + 1}
    finally:
        consumer.close()


@pytest.mark.parametrize("kind", ["file", "tcp"])
@pytest.mark.parametrize("options", [{}, {"where": "n >= 0"}], ids=["all", "where"])
def test_sparks_executors_get_no_marked_message(served: Served, kind: str, options: dict[str, str]) -> None:
    parsed = parse_options({"url": served.urls[kind], "subscribe": TOPIC, "headers": "none", **options})
    tasks = [partition.value for partition in HeadstreamReader(parsed).partitions()]
    assert [offset for task in tasks for batch in read_task(task) for offset in batch["offset"].to_pylist()] == LEFT


@pytest.mark.parametrize("kind", ["file", "http"])
@pytest.mark.parametrize("command", ["poll", "tail", "export"])
def test_the_command_line_shows_no_marked_message(served: Served, kind: str, command: str) -> None:
    options = {
        "poll": ["--offset", "first", "--count", "100", "--output", "jsonl"],
        "tail": ["--from", "first", "--count", str(len(LEFT)), "--output", "jsonl"],
        "export": [],
    }
    ran = run(command, TOPIC, *options[command], "--url", served.urls[kind])
    assert [json.loads(line)["offset"] for line in ran.stdout.decode().splitlines()] == LEFT


@pytest.mark.parametrize("states", ["keep", "available"])
def test_a_mirror_copies_no_marked_message(served: Served, states: Any) -> None:
    with hs.connect(f"memory://{states}") as target:
        Mirror(served.connect("tcp"), target, MirrorOptions(once=True, states=states, topics=(TOPIC,))).run()
        assert [message.payload for message in target.poll(TOPIC, count=100, states=None)] == [b"%d" % each for each in LEFT]


def test_a_reader_that_asks_for_the_state_sees_them(served: Served) -> None:
    found = served.connect("tcp").poll(TOPIC, start="first", count=100, states=["marked_for_deletion"])
    assert offsets(found) == list(MARKED)
    ran = CliRunner().invoke(
        cli, ["poll", TOPIC, "--offset", "first", "--states", "all", "--count", "100", "--url", served.urls["tcp"]]
    )
    assert ran.exit_code == 0
    assert ran.output.count("marked_for_deletion") == len(MARKED)
