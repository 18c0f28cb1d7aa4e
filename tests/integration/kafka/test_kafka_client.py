"""kafka:// behind the client's API: what is Kafka's own, what is refused, and errors. The rest is in tests/behaviour."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

import headstream as hs
from headstream.cli.main import cli
from headstream.client.transports.kafka.sender import _EnqueuedBatch
from headstream.core.codec.kafka.murmur2 import kafka_partition_of
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Limits, NewTopic
from tests.support.kafka_cluster import empty_cluster, killed_broker, shared_broker
from tests.support.server.certificates import write_certificate
from tests.support.server.kafka_listeners import kafka_listener

_NOWHERE = "kafka://127.0.0.1:9"


@pytest.fixture
def url() -> Iterator[str]:
    with empty_cluster() as url:
        yield url


@pytest.fixture
def log(url: str) -> Iterator[hs.Client]:
    with hs.connect(url) as log:
        log.create_topic("shop/orders", partitions=3)
        yield log


def plain() -> dict[str, Any]:
    return {"bootstrap.servers": shared_broker().bootstrap_servers}


# -- records and names -----------------------------------------------------------------------------------------------


def test_records_of_another_producer_have_raw_headers_and_its_time(log: hs.Client) -> None:
    producer = Producer(plain())
    headers: list[tuple[str, str | bytes | None]] = [("n", b"3"), ("n", b"4"), ("nothing", None)]
    producer.produce("shop.orders", None, b"k", 1, timestamp=1_700_000_000_123, headers=headers)
    assert producer.flush(60) == 0
    (message,) = log.poll("shop/orders")
    assert (message.payload, message.key, message.partition, message.timestamp) == (None, b"k", 1, 1_700_000_000_123_000)
    assert list(message.headers.items()) == [("n", hs.raw(b"3")), ("n", hs.raw(b"4")), ("nothing", hs.null())]


def test_another_consumer_reads_our_headers_as_text_and_the_senders_time(log: hs.Client) -> None:
    headers = hs.Headers([("hs.timestamp", 1_700_000_000_123_000), ("attempt", hs.uint8(3)), ("source", "web")])
    log.send("shop/orders", b"x", key=b"k", headers=headers, id=7, partition=2)
    consumer = Consumer({**plain(), "group.id": "other"})
    consumer.assign([TopicPartition("shop.orders", 2, 0)])
    record = consumer.poll(60)
    assert record is not None
    assert record.timestamp()[1] == 1_700_000_000_123
    assert record.headers() == [
        ("attempt", b"3"),
        ("source", b"web"),
        ("hs.kinds", b"attempt=uint8&source=string"),
        ("hs.id", b"07000000-0000-0000-0000-000000000000"),
    ]
    consumer.close()
    (message,) = log.poll("shop/orders", 2)
    assert (message.timestamp, message.id) == (1_700_000_000_123_000, 7)
    assert message.headers == hs.Headers({"attempt": hs.uint8(3), "source": "web"})


def test_keys_go_where_librdkafkas_partitioner_for_java_sends_them(log: hs.Client) -> None:
    keys = [b"%d" % number * (1 + number % 7) for number in range(60)]
    producer, places = Producer({**plain(), "partitioner": "murmur2_random"}), dict[bytes | None, int | None]()
    for key in keys:
        producer.produce(
            "shop.orders", b"x", key, on_delivery=lambda _, record: places.update({record.key(): record.partition()})
        )
    assert producer.flush(60) == 0
    assert places == {key: kafka_partition_of(key, 3) for key in keys}
    with log.producer("shop/orders") as ours:
        assert {key: ours.send(b"x", key=key).partition for key in keys} == places


def test_names_without_a_stream_are_in_the_stream_kafka(url: str, log: hs.Client) -> None:
    log.create_topic("plain")
    assert [topic.full_name for topic in log.topics()] == ["kafka/plain", "shop/orders"]
    assert log.send("plain", b"x").partition == 0
    assert [message.topic for message in log.poll("kafka/plain")] == ["kafka/plain"]
    assert [stream.name for stream in log.streams()] == ["kafka", "shop"]
    with hs.connect(url, default_stream="main") as other:
        assert [message.topic for message in other.poll("plain")] == ["main/plain"]
    with pytest.raises(hs.InvalidInputError, match="'shop/a b' is not a valid topic name in Kafka"):
        log.create_topic("shop/a b")


def test_receipts_are_exact_when_another_producer_sends_in_between(log: hs.Client) -> None:
    other = Producer(plain())
    with log.producer("shop/orders", batch_count=20) as producer:
        receipts = []
        for number in range(400):
            receipts.append(producer.send(b"%d" % number, partition=0))
            other.produce("shop.orders", b"other", partition=0)
            other.poll(0)
        producer.flush()
    assert other.flush(60) == 0
    stored = {message.offset: message for message in log.poll("shop/orders", 0, count=10_000)}
    assert len(stored) == 800
    for number, receipt in enumerate(receipts):
        assert receipt.offset is not None
        assert (stored[receipt.offset].payload, stored[receipt.offset].timestamp) == (b"%d" % number, receipt.timestamp)


def test_send_says_that_the_topic_is_gone_when_librdkafka_forgets_its_partitions_first(
    log: hs.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It depends on moments which of two codes librdkafka reports for a deleted topic; here it is the rarer one."""
    settle = _EnqueuedBatch.record_outcome

    def forget(enqueued: _EnqueuedBatch, number: int, error: Any, record: Any) -> None:
        settle(enqueued, number, error and KafkaError(KafkaError._DESTROY), record)  # type: ignore[attr-defined,unused-ignore]

    monkeypatch.setattr(_EnqueuedBatch, "record_outcome", forget)
    with log.producer("shop/orders", linger_ms=60_000) as producer:
        log.delete_topic("shop/orders")
        lost = producer.send(b"lost", partition=0)
        with pytest.raises(hs.TopicNotFoundError):
            lost.result()


# -- topics ----------------------------------------------------------------------------------------------------------


def test_options_of_a_topic_are_kafkas_settings(log: hs.Client) -> None:
    log.create_topic("shop/kept", partitions=2, retention_us=60_000_500, retention_bytes=1001, fsync="always")
    made = log.topic("shop/kept")
    assert (made.retention_us, made.retention_bytes, made.fsync, made.limits) == (60_001_000, 1002, "always", "wide")
    changed = log.update_topic("shop/kept", retention_us=None, compaction_delay_us=5_000_000)
    assert (changed.retention_us, changed.retention_bytes, changed.compaction_delay_us) == (None, 1002, 5_000_000)
    with pytest.raises(hs.LimitError, match="has no key"):
        log.send("shop/kept", b"x")
    assert log.update_topic("shop/kept", compaction_delay_us=None).compaction_delay_us is None
    with pytest.raises(hs.AlreadyExistsError, match="'shop/kept' already exists"):
        log.create_topic("shop/kept")
    assert log.create_topic("shop/kept", if_not_exists=True).full_name == "shop/kept"


def test_a_purge_removes_messages_and_offsets_go_on(log: hs.Client) -> None:
    for number in range(5):
        log.send("shop/orders", b"%d" % number, partition=0)
    log.purge_topic("shop/orders")
    topic = log.topic("shop/orders")
    assert (topic.messages_count, topic.partitions[0].first_offset) == (0, 5)
    log.send("shop/orders", b"new", partition=0)
    with log.consumer("shop/orders", partitions=[0], start=2, timeout_ms=0) as consumer:
        assert [(message.offset, message.payload) for message in consumer] == [(5, b"new")]


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (lambda log: log.set_state("shop/orders", 0, 0, "poisoned"), "cannot change a stored message"),
        (lambda log: log.states("shop/orders", 0), "does not list messages by state"),
        (lambda log: log.create_topic("shop/once", deduplication_count=5), "does not deduplicate by message id"),
        (lambda log: log.update_topic("shop/orders", deduplication_count=5), "does not deduplicate by message id"),
        (lambda log: log.rename_topic("shop/orders", "bills"), "cannot rename a topic"),
        (lambda log: log.rename_stream("shop", "store"), "cannot rename a stream"),
        (lambda log: log.create_stream("empty"), "no streams without topics"),
        (lambda log: log.delete_partitions("shop/orders"), "cannot delete partitions"),
        (lambda log: log.server.users(), "cannot administer the users, tokens and connections"),
    ],
)
def test_what_kafka_cannot_do_is_refused_by_name(log: hs.Client, act: Callable[[hs.Client], object], text: str) -> None:
    with pytest.raises(hs.UnsupportedError, match=text):
        act(log)


def test_offsets_of_a_group_with_offsets_elsewhere_are_not_deleted(log: hs.Client) -> None:
    log.create_topic("shop/carts")
    for topic in ("shop/orders", "shop/carts"):
        log.seek_group(topic, "billing", 0)
    with pytest.raises(hs.UnsupportedError, match=r"offsets in other topics \(shop\.carts\)"):
        log.delete_group("shop/orders", "billing")
    log.delete_topic("shop/carts")


def drain(consumer: hs.Consumer, count: int) -> list[tuple[int, int]]:
    """Poll and commit until so many messages have come, and return their places."""
    found: list[tuple[int, int]] = []
    until_s = time.monotonic() + 120
    while len(found) < count and time.monotonic() < until_s:
        found += [(message.partition, message.offset) for message in consumer.poll(100, timeout_ms=500)]
        consumer.commit()
    return found


def test_a_partition_moves_when_the_message_in_hand_is_committed_and_comes_to_nobody_again(log: hs.Client) -> None:
    told: list[tuple[str, frozenset[int]]] = []
    for number in range(9):
        log.send("shop/orders", b"%d" % number, partition=number % 3)
    one = log.consumer("shop/orders", group="g", on_revoked=lambda topic, partitions: told.append(("-", partitions)))
    assert sorted(one.positions) == [0, 1, 2]
    held = one.poll(9, timeout_ms=10_000)
    held += one.poll(9 - len(held), timeout_ms=10_000) if len(held) < 9 else []
    assert len(held) == 9
    with log.consumer("shop/orders", group="g") as two:
        assert two.positions == {}  # all is in hand: nothing can be given away
        one.commit()
        until_s = time.monotonic() + 60
        while not two.positions and time.monotonic() < until_s:
            one.poll(1, timeout_ms=100)
            two.poll(1, timeout_ms=100)
        assert len(two.positions) == 1
        assert told[0] == ("-", frozenset(two.positions))
        moved = next(iter(two.positions))
        log.send("shop/orders", b"new", partition=moved)
        assert drain(two, 1) == [(moved, 3)]
    one.close()
    assert log.offsets("shop/orders", "g") == {number: 4 if number == moved else 3 for number in range(3)}


def test_groups_are_shown_and_not_changed_under_their_members(log: hs.Client) -> None:
    for number in range(9):
        log.send("shop/orders", b"%d" % number, partition=number % 3)
    with log.consumer("shop/orders", group="g") as consumer:
        assert len(drain(consumer, 9)) == 9
        found = log.group("shop/orders", "g")
        assert ([member.partitions for member in found.members], found.lag) == ([(0, 1, 2)], 0)
        for change in (lambda: log.seek_group("shop/orders", "g", 0), lambda: log.delete_group("shop/orders", "g")):
            with pytest.raises(hs.GroupInUseError, match="has active members"):
                change()
    assert log.seek_group("shop/orders", "g", 1).lag == 6
    with pytest.raises(hs.OffsetOutOfRangeError, match="offset 9 is not in partition 0"):
        log.seek_group("shop/orders", "g", 9)
    log.delete_group("shop/orders", "g")
    with pytest.raises(hs.GroupNotFoundError):
        log.group("shop/orders", "g")


# -- failures ----------------------------------------------------------------------------------------------------------


def test_connect_tells_that_no_broker_is_there() -> None:
    began_s = time.monotonic()
    with pytest.raises(hs.ServerUnreachableError, match=r"the Kafka cluster cannot be reached.*kafka://127\.0\.0\.1:9"):
        hs.connect(_NOWHERE, connect_timeout_ms=500)
    assert time.monotonic() - began_s < 30


def test_connect_names_a_setting_that_librdkafka_does_not_know() -> None:
    with pytest.raises(hs.InvalidOptionError, match=r'No such configuration property: "no\.such"'):
        hs.connect(_NOWHERE, **{"kafka.no.such": "1"})


def test_messages_fail_with_their_error_when_the_broker_is_away_and_are_stored_when_it_is_back(log: hs.Client) -> None:
    with log.producer("shop/orders", delivery_timeout_ms=10_000) as producer:
        first = producer.send_and_wait(b"before", partition=0)
        with killed_broker():
            lost = producer.send(b"lost", key=b"k", headers={"n": 1})
            with pytest.raises(hs.ServerUnreachableError) as caught:
                producer.flush()
            (message,) = caught.value.messages
            assert (message.payload, message.key, message.headers.to_dict()) == (b"lost", b"k", {"n": 1})
            assert lost.error is caught.value
    with log.producer("shop/orders") as producer:
        producer.send(b"after", partition=0)
    assert (first.offset, [message.payload for message in log.poll("shop/orders", 0)][-1]) == (0, b"after")


def test_a_message_beyond_the_topics_limit_is_refused_and_the_producer_goes_on(log: hs.Client) -> None:
    with log.producer("shop/orders") as producer:
        with pytest.raises(hs.LimitError, match="Raise the topic's max"):
            producer.send_and_wait(bytes(21_000_000), partition=0)
        assert producer.send_and_wait(b"small", partition=0).offset == 0


# -- security: our own server's listener -----------------------------------------------------------------------------


def test_a_server_with_sasl_and_tls_is_used_like_a_broker(tmp_path: Path) -> None:
    files = write_certificate(tmp_path, "127.0.0.1")
    settings = {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": str(files.certificate)}
    with kafka_listener(kafka_tls=files) as listener:
        listener.broker.topics.create(NewTopic(TopicName("shop", "orders"), 2, Limits.WIDE))
        address = listener.bootstrap_servers
        with hs.connect(f"kafka://iggy:iggy@{address}", **settings) as log:
            log.create_topic("shop/carts", partitions=3)
            with log.producer("shop/orders") as producer:
                receipts = [producer.send(b"%d" % number, partition=number % 2, headers={"n": number}) for number in range(20)]
                producer.flush()
            assert [receipt.offset for receipt in receipts] == [number // 2 for number in range(20)]
            with log.consumer("shop/orders", group="billing", timeout_ms=0) as consumer:
                assert sorted(message.headers["n"].to_int() for message in consumer) == list(range(20))
            assert log.offsets("shop/orders", "billing") == {0: 10, 1: 10}
            assert log.group("shop/orders", "billing").lag == 0
            assert [topic.full_name for topic in log.topics()] == ["shop/carts", "shop/orders"]
            log.delete_topic("shop/carts")
        with pytest.raises(hs.AuthenticationError, match="the login was refused"):
            hs.connect(f"kafka://iggy:wrong@{address}", **settings)
        with pytest.raises(hs.ServerUnreachableError):
            hs.connect(f"kafka://iggy:iggy@{address}", connect_timeout_ms=1000)  # the certificate is not trusted


# -- the command line ------------------------------------------------------------------------------------------------


def run(url: str, *arguments: str, code: int = 0) -> str:
    ran = CliRunner().invoke(cli, [*arguments, "--url", url])
    assert ran.exit_code == code, ran.output
    return ran.output


def test_the_command_line_works_over_kafka(url: str, tmp_path: Path) -> None:
    run(url, "topic", "create", "shop/orders", "--partitions", "2")
    sent = json.loads(run(url, "send", "shop/orders", "paid", "--key", "42", "--header", "n=uint8:3", "--output", "json"))
    assert sent["partition"] == kafka_partition_of(b"42", 2)
    run(url, "send", "shop/orders", "more", "--partition", "0")
    assert "n=uint8:3" in run(url, "poll", "shop/orders", "--offset", "first")
    assert "more" in run(url, "poll", "shop/orders", "--partition", "0", "--offset", "last", "--count", "1")
    assert "paid" in run(url, "tail", "shop/orders", "--last", "2", "--count", "2")
    assert json.loads(run(url, "stats", "--output", "json"))["messages_count"] == 2
    run(url, "group", "seek", "shop/orders", "billing", "first")
    assert "billing" in run(url, "group", "list", "shop/orders")
    assert "shop/orders" in run(url, "topic", "list")
    exported = tmp_path / "orders.jsonl"
    run(url, "export", "shop/orders", "--file", str(exported))
    lines = [json.loads(line) for line in exported.read_text().splitlines()]
    assert {line["partition"] for line in lines} <= {0, 1}
    copied = tmp_path / "copy.jsonl"
    copied.write_text("".join(json.dumps({**line, "topic": "shop/copy", "partition": 3}) + "\n" for line in lines))
    assert "2" in run(url, "import", str(copied))
    with hs.connect(url) as log:
        assert len(log.topic("shop/copy").partitions) == 4
        assert {message.key for message in log.poll("shop/copy", 3)} == {b"42", None}
        times = {line["timestamp_us"] for line in lines}
        assert {message.timestamp for message in log.poll("shop/copy", 3)} == times
    assert "cannot rename" in run(url, "topic", "update", "shop/orders", "--name", "bills", code=1)
