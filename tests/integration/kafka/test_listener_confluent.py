"""The server's listener for Kafka's clients, by librdkafka."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined,unused-ignore]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
)
from confluent_kafka.admin import NewTopic as KafkaNewTopic  # type: ignore[attr-defined,unused-ignore]

import headstream as hs
from headstream.core.codec.kafka import decode_record, encode_record
from headstream.core.model.identifiers import TopicName
from headstream.core.model.polling import OffsetOwner
from headstream.core.model.topology import Limits, NewTopic
from headstream.server.kafka.handlers.compression import decompress
from tests.support.server.certificates import write_certificate
from tests.support.server.kafka_listeners import KafkaListener, kafka_listener

_ORDERS = TopicName("shop", "orders")
_CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.fixture
def listener() -> Iterator[KafkaListener]:
    with kafka_listener() as running:
        running.broker.topics.create(NewTopic(_ORDERS, 3, Limits.WIDE))
        yield running


def _admin(listener: KafkaListener, **more: Any) -> AdminClient:
    return AdminClient(listener.confluent(**more))


def _produce(listener: KafkaListener, *records: dict[str, Any], **settings: Any) -> list[Message]:
    """Send records to partition 0 of shop.orders, and return what was delivered."""
    delivered: list[Message] = []
    producer = Producer(listener.confluent(**settings))
    for record in records:
        producer.produce("shop.orders", partition=0, on_delivery=lambda error, message: delivered.append(message), **record)
    assert producer.flush(30) == 0
    return delivered


def _consume(
    listener: KafkaListener, count: int, *, offset: int = 0, topic: str = "shop.orders", **settings: Any
) -> list[Message]:
    consumer = Consumer(listener.confluent(group_id="reader", enable_auto_commit=False, **settings))
    consumer.assign([TopicPartition(topic, 0, offset)])
    found: list[Message] = []
    until_s = time.monotonic() + 30
    while len(found) < count and time.monotonic() < until_s:
        found += consumer.consume(count, 0.2)
    consumer.close()
    assert [message.error() for message in found] == [None] * count
    return found


def _poll_until_assigned(member: Consumer, count: int) -> None:
    """Poll a member until it has `count` partitions: `close()` of librdkafka hangs beside an unread rebalance."""
    until_s = time.monotonic() + 60
    while len(member.assignment()) < count and time.monotonic() < until_s:
        member.poll(0.1)
    assert len(member.assignment()) == count


def _error(message: Message) -> str | None:
    error = message.error()
    return None if error is None else error.name()


# -- topics -----------------------------------------------------------------------------------------------------


def test_topics_are_made_changed_and_deleted_when_an_admin_client_asks(listener: KafkaListener) -> None:
    admin = _admin(listener)
    wanted = [KafkaNewTopic("shop.made", 2, 1, config={"cleanup.policy": "compact"}), KafkaNewTopic("plain", 1, 1)]
    for future in admin.create_topics(wanted).values():
        future.result()
    assert {name: len(topic.partitions) for name, topic in admin.list_topics(timeout=60).topics.items()} == {
        "shop.orders": 3,
        "shop.made": 2,
        "plain": 1,
    }
    made = listener.broker.topics.get(TopicName("shop", "made"))
    assert (made.limits, made.compaction_delay_us) == (Limits.WIDE, 86_400_000_000)
    assert listener.broker.topics.get(TopicName("kafka", "plain")).limits is Limits.WIDE
    admin.create_partitions([NewPartitions("shop.made", 5)])["shop.made"].result()
    assert len(listener.broker.topics.get(TopicName("shop", "made")).partitions) == 5
    admin.delete_topics(["plain"])["plain"].result()
    assert "plain" not in admin.list_topics(timeout=60).topics


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (KafkaNewTopic("shop.orders", 1, 1), "TOPIC_ALREADY_EXISTS"),
        (KafkaNewTopic("shop.two", 1, 2), "INVALID_REPLICATION_FACTOR"),
        (KafkaNewTopic("shop.many", 1001, 1), "INVALID_PARTITIONS"),
        (KafkaNewTopic("shop.odd", 1, 1, config={"unclean.thing": "1"}), "INVALID_CONFIG"),
        (KafkaNewTopic("shop/odd", 1, 1), "TOPIC_EXCEPTION"),
        (KafkaNewTopic("..", 1, 1), "TOPIC_EXCEPTION"),
    ],
)
def test_topics_are_refused_by_kafkas_own_errors_when_they_cannot_be(
    listener: KafkaListener, topic: KafkaNewTopic, error: str
) -> None:
    admin = _admin(listener)
    with pytest.raises(KafkaException) as caught:
        next(iter(admin.create_topics([topic]).values())).result()
    assert error in caught.value.args[0].name()


def test_settings_are_told_and_changed_when_an_admin_client_asks(listener: KafkaListener) -> None:
    admin = _admin(listener)
    change = ConfigEntry("retention.ms", "60000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "shop.orders", incremental_configs=[change])
    admin.incremental_alter_configs([resource])[resource].result()
    assert listener.broker.topics.get(_ORDERS).retention_us == 60_000_000
    told = admin.describe_configs([resource])[resource].result()
    assert (told["retention.ms"].value, told["cleanup.policy"].value) == ("60000", "delete")
    assert told["max.message.bytes"].is_read_only
    own = {name for name, entry in told.items() if not entry.is_default}
    assert own == {"retention.ms"}  # MirrorMaker 2 gives these to its copy, where headstream.kafka.headers is refused


def test_cluster_is_one_broker_when_it_is_described(listener: KafkaListener) -> None:
    admin = _admin(listener)
    cluster = admin.describe_cluster(include_authorized_operations=True).result()
    operations = {operation.name for operation in cluster.authorized_operations or []}
    assert operations == {"CREATE", "DESCRIBE", "DESCRIBE_CONFIGS", "IDEMPOTENT_WRITE"}
    assert cluster.cluster_id == listener.broker.identity
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [listener.bootstrap_servers]


# -- records ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", _CODECS)
def test_records_come_back_as_they_were_when_they_were_compressed(listener: KafkaListener, codec: str) -> None:
    records: list[dict[str, Any]] = [
        {"value": b"paid" * 200, "key": b"k", "headers": [("a", b"1"), ("a", b"2"), ("n", None)], "timestamp": 1_700_000_000_123},
        {"value": None, "key": b"", "timestamp": 1_700_000_000_000},
        {"value": b"", "timestamp": 1_700_000_000_001},
    ]
    _produce(listener, *records, compression_type=codec, linger_ms=100)
    found = _consume(listener, 3)
    assert [(m.key(), m.value(), m.headers(), m.timestamp()[1]) for m in found] == [
        (record.get("key"), record["value"], record.get("headers"), record["timestamp"]) for record in records
    ]
    assert [message.offset() for message in found] == [0, 1, 2]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_are_stored_when_a_producer_waits_for_more_or_less(listener: KafkaListener, acks: str) -> None:
    _produce(listener, *({"value": b"%d" % n} for n in range(50)), acks=acks)
    assert [message.value() for message in _consume(listener, 50)] == [b"%d" % n for n in range(50)]


def test_typed_headers_pass_both_ways_when_one_side_is_our_own_client(listener: KafkaListener) -> None:
    pairs = [("attempt", hs.uint8(3)), ("source", "web"), ("source", "app"), ("big", hs.uint128(2**128 - 1)), ("n", None)]
    headers = hs.Headers(pairs)
    record = encode_record(hs.Message(payload=b"paid", key=b"42", headers=headers, timestamp=1_700_000_000_000_000))
    sent = {"value": record.value, "key": record.key, "headers": list(record.headers), "timestamp": record.timestamp_ms}
    _produce(listener, sent)
    with hs.connect(f"headstream://iggy:iggy@{listener.running.address}") as log:
        message = next(iter(log.poll("shop/orders", 1, start="first", count=1)))
        assert (message.payload, message.key) == (b"paid", b"42")
        assert message.headers == hs.Headers([("hs.timestamp", 1_700_000_000_000_000), *headers.items()])
        with log.producer("shop/orders") as producer:
            producer.send(b"back", key=b"7", partition=1, headers=headers)
    returned = _consume(listener, 2)
    assert (returned[0].headers(), returned[0].timestamp()[1]) == (list(record.headers), 1_700_000_000_000)
    assert decode_record(returned[1]).headers == headers


def test_records_of_a_hundred_headers_come_back_when_the_kernels_leave_them(listener: KafkaListener) -> None:
    headers = [(f"h{n}", b"%d" % n) for n in range(100)]
    _produce(listener, {"value": b"a", "headers": headers, "timestamp": 5}, {"value": b"b", "timestamp": 6})
    found = _consume(listener, 2)
    assert [(m.value(), m.headers(), m.timestamp()[1]) for m in found] == [(b"a", headers, 5), (b"b", None, 6)]


def test_a_record_is_refused_when_it_has_a_reserved_header_or_its_topic_does_not_take_it(listener: KafkaListener) -> None:
    listener.broker.topics.create(NewTopic(TopicName("shop", "narrow"), 1, Limits.IGGY))
    errors: list[str] = []

    def note(error: Any, message: Message) -> None:
        errors.append(error.name())

    narrow: list[tuple[str, Any]] = [("shop.orders", {"headers": {"hs.key": b"x"}}), ("shop.narrow", {})]
    producer = Producer(listener.confluent(enable_idempotence=False))
    for topic, more in narrow:
        producer.produce(topic, value=None, partition=0, on_delivery=note, **more)
    producer.flush(30)
    assert errors == ["INVALID_RECORD", "INVALID_RECORD"]


def test_messages_that_are_not_available_are_passed_over_when_a_client_reads(listener: KafkaListener) -> None:
    _produce(listener, *({"value": b"%d" % n} for n in range(10)))
    listener.broker.messages.set_state(_ORDERS, 1, [2, 3, 8, 9], hs.MessageState.POISONED)
    consumer = Consumer(listener.confluent(group_id="reader", enable_partition_eof=True))
    consumer.assign([TopicPartition("shop.orders", 0, 0)])
    found: list[Message] = []
    until_s = time.monotonic() + 60
    while time.monotonic() < until_s and (not found or found[-1].error() is None):
        found += consumer.consume(20, 0.2)
    assert [message.offset() for message in found] == [0, 1, 4, 5, 6, 7, 10]
    assert _error(found[-1]) == "_PARTITION_EOF"
    assert consumer.position([TopicPartition("shop.orders", 0)])[0].offset in (8, 10)
    consumer.close()


def test_a_fetch_waits_when_there_is_nothing_yet(listener: KafkaListener) -> None:
    consumer = Consumer(listener.confluent(group_id="reader", fetch_wait_max_ms=40_000))
    consumer.assign([TopicPartition("shop.orders", 0, 0)])
    assert consumer.poll(0.5) is None
    _produce(listener, {"value": b"late"})
    began_s = time.monotonic()
    message = consumer.poll(60)
    assert message is not None
    assert message.value() == b"late"
    assert time.monotonic() - began_s < 30, "it has waited to the end"
    consumer.close()


def test_a_big_message_comes_when_it_is_beyond_every_limit_of_a_fetch(listener: KafkaListener) -> None:
    _produce(listener, {"value": bytes(3_000_000)}, {"value": b"next"}, message_max_bytes=5_000_000)
    found = _consume(listener, 2, max_partition_fetch_bytes=1_000, fetch_max_bytes=10_000, message_max_bytes=1_000)
    assert [len(message.value() or b"") for message in found] == [3_000_000, 4]


def test_offsets_are_found_by_place_and_time_when_a_client_asks(listener: KafkaListener) -> None:
    _produce(listener, {"value": b"1"}, {"value": b"2"})
    newest_ms = int(time.time() * 1000) + 60_000
    consumer = Consumer(listener.confluent(group_id="reader"))
    assert consumer.get_watermark_offsets(TopicPartition("shop.orders", 0), timeout=60) == (0, 2)
    times = [TopicPartition("shop.orders", 0, 1_000), TopicPartition("shop.orders", 1, newest_ms)]
    assert [found.offset for found in consumer.offsets_for_times(times, timeout=60)] == [0, -1]
    consumer.close()


def test_a_client_is_told_when_its_offset_is_not_there(listener: KafkaListener) -> None:
    _produce(listener, {"value": b"1"})
    consumer = Consumer(listener.confluent(group_id="reader", auto_offset_reset="error"))
    consumer.assign([TopicPartition("shop.orders", 0, 77)])
    message = consumer.poll(20)
    assert message is not None
    assert _error(message) == "_AUTO_OFFSET_RESET"
    consumer.close()


# -- groups -----------------------------------------------------------------------------------------------------


def test_members_of_a_group_divide_partitions_when_both_read(listener: KafkaListener) -> None:
    producer = Producer(listener.confluent())
    for n in range(300):
        producer.produce("shop.orders", b"%d" % n, partition=n % 3)
    assert producer.flush(30) == 0
    members = [
        Consumer(listener.confluent(group_id="g", auto_offset_reset="earliest", enable_auto_commit=False)) for _ in range(2)
    ]
    found: list[tuple[int | None, int | None]] = []
    for member in members:
        member.subscribe(["shop.orders"])
    until_s = time.monotonic() + 60
    while len(found) < 300 and time.monotonic() < until_s:
        for member in members:
            found += [(message.partition(), message.offset()) for message in member.consume(100, 0.1)]
    assert sorted(found) == [(partition, offset) for partition in range(3) for offset in range(100)]
    assert sorted(len(member.assignment()) for member in members) == [1, 2]
    for member in members:
        member.commit(asynchronous=False)
    admin = _admin(listener)
    described = admin.describe_consumer_groups(["g"])["g"].result()
    assert (described.state.name, len(described.members)) == ("STABLE", 2)
    members[0].close()
    _poll_until_assigned(members[1], 3)
    members[1].close()
    assert listener.broker.offsets.committed(_ORDERS, OffsetOwner.group("g")) == {1: 100, 2: 100, 3: 100}


def test_a_group_goes_on_where_our_own_client_committed_when_it_has_its_name(listener: KafkaListener) -> None:
    _produce(listener, *({"value": b"%d" % n} for n in range(10)))
    listener.broker.offsets.commit(_ORDERS, OffsetOwner.group("shared"), {1: 7})
    consumer = Consumer(listener.confluent(group_id="shared", auto_offset_reset="earliest"))
    consumer.subscribe(["shop.orders"])
    message = consumer.poll(30)
    assert message is not None
    assert message.offset() == 7
    consumer.close()
    admin = _admin(listener)
    assert [group.group_id for group in admin.list_consumer_groups().result().valid] == ["shared"]
    stored = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions("shared")])["shared"].result()
    assert [(each.topic, each.partition, each.offset) for each in stored.topic_partitions] == [("shop.orders", 0, 8)]
    admin.delete_consumer_groups(["shared"])["shared"].result()
    assert listener.broker.offsets.committed(_ORDERS, OffsetOwner.group("shared")) == {}


def test_a_partition_goes_to_another_member_when_one_goes_without_a_word(listener: KafkaListener) -> None:
    settings: dict[str, Any] = {
        "group_id": "g",
        "session_timeout_ms": 1500,
        "heartbeat_interval_ms": 300,
        "auto_offset_reset": "earliest",
    }
    first = Consumer(listener.confluent(**settings, max_poll_interval_ms=2000))
    first.subscribe(["shop.orders"])
    _poll_until_assigned(first, 3)
    second = Consumer(listener.confluent(**settings))
    second.subscribe(["shop.orders"])
    _poll_until_assigned(second, 3)
    second.close()
    _poll_until_assigned(first, 3)
    first.close()


# -- producers, users -------------------------------------------------------------------------------------------


def test_a_producer_of_transactions_is_refused_when_it_begins(listener: KafkaListener) -> None:
    producer = Producer(listener.confluent(transactional_id="t"))
    with pytest.raises(KafkaException):
        producer.init_transactions(5)


def test_a_client_is_refused_when_its_password_is_wrong_or_it_has_none(listener: KafkaListener) -> None:
    with pytest.raises(KafkaException):
        _admin(listener, password="wrong").list_topics(timeout=2)
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": listener.bootstrap_servers, "log_level": 2}).list_topics(timeout=2)


def test_records_outlive_the_server_when_its_log_is_in_a_directory(tmp_path: Path) -> None:
    with kafka_listener(tmp_path) as listener:
        listener.broker.topics.create(NewTopic(_ORDERS, 1, Limits.WIDE))
        _produce(listener, {"value": b"kept", "key": b"k"}, enable_idempotence=True)
    with kafka_listener(tmp_path) as listener:
        assert [(message.key(), message.value()) for message in _consume(listener, 1)] == [(b"k", b"kept")]


def test_a_client_reads_and_sends_over_tls_when_the_listener_has_a_certificate(tmp_path: Path) -> None:
    files = write_certificate(tmp_path, "127.0.0.1")
    with kafka_listener(kafka_tls=files) as listener:
        listener.broker.topics.create(NewTopic(_ORDERS, 1, Limits.WIDE))
        secure: dict[str, Any] = {"security_protocol": "SASL_SSL", "ssl_ca_location": str(files.certificate)}
        _produce(listener, {"value": b"secret"}, **secure)
        assert [message.value() for message in _consume(listener, 1, **secure)] == [b"secret"]


def test_a_user_sees_and_does_what_it_has_a_right_to_when_it_is_not_root(listener: KafkaListener) -> None:
    listener.broker.topics.create(NewTopic(TopicName("bank", "accounts"), 1, Limits.WIDE))
    orders = listener.running.server.dispatcher.lookup.topic("shop", "orders")
    reading = hs.TopicPermissions(poll_messages=True)
    granted = hs.Permissions(streams={orders.stream.id: hs.StreamPermissions(topics={orders.topic.id: reading})})
    listener.running.server.dispatcher.users.create("reader", "secret", is_active=True, permissions=granted, now_us=1)
    _produce(listener, {"value": b"paid"})
    as_reader: dict[str, Any] = {"user": "reader", "password": "secret"}
    admin = _admin(listener, **as_reader)
    assert list(admin.list_topics(timeout=60).topics) == ["shop.orders"]
    assert [message.value() for message in _consume(listener, 1, **as_reader)] == [b"paid"]
    errors: list[str] = []

    def note(error: Any, message: Message) -> None:
        errors.append(error.name())

    producer = Producer(listener.confluent(**as_reader, enable_idempotence=False))
    for topic in ("shop.orders", "bank.accounts"):
        producer.produce(topic, b"no", partition=0, on_delivery=note)
    producer.flush(30)
    assert errors == ["TOPIC_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED"]
    with pytest.raises(KafkaException, match="AUTHORIZATION"):
        admin.create_topics([KafkaNewTopic("shop.mine", 1, 1)])["shop.mine"].result()


@pytest.mark.parametrize("codec", _CODECS[1:])
def test_decompressed_batches_are_charged_to_the_memory_budget_while_they_are_stored(
    listener: KafkaListener, monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    server = listener.running.server
    assert server._tcp is not None
    budget, held = server._tcp.budget, list[tuple[int, int]]()

    def observed(codec: int, data: memoryview, most_bytes: int) -> bytes | memoryview:
        plain = decompress(codec, data, most_bytes)
        held.append((len(plain), budget.held_bytes))
        return plain

    monkeypatch.setattr("headstream.server.kafka.handlers.record_batches.decompress", observed)
    payload = bytes(1_500_000)
    delivered = _produce(listener, {"value": payload}, compression_type=codec, message_max_bytes=4_000_000)
    assert [message.error() for message in delivered] == [None]
    assert [size > len(payload) and held_bytes >= size for size, held_bytes in held] == [True]
    assert _consume(listener, 1, fetch_message_max_bytes=4_000_000)[0].value() == payload
