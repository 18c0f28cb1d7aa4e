"""The same requests to a listener and to a real broker: the answers are equal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Limits, NewTopic
from headstream.server.kafka.apis import APIS, FETCH, PRODUCE
from headstream.testing import KafkaBroker
from tests.support.messages.kafka_records import Record, make_batch, make_records
from tests.support.server.kafka_listeners import KafkaListener, kafka_listener
from tests.support.server.kafka_socket import KafkaSocket
from tests.support.waiting import wait_until

_KEYS = {api.name: key for key, api in APIS.items()}
_FIRST, _END = -2, -1


@pytest.fixture(scope="module")
def listener() -> Iterator[KafkaListener]:
    with kafka_listener() as found:
        yield found


Story = Callable[[KafkaSocket, dict[str, Any], str], Any]


@pytest.fixture
def compare(listener: KafkaListener, kafka_broker: KafkaBroker, request: pytest.FixtureRequest) -> Callable[[Story], Any]:
    """Return a function that plays a story with a new topic on both, compares what they answered, and returns it."""

    def play(story: Story) -> Any:
        topic = f"beside.{request.node.name[:40]}"
        listener.broker.topics.create(NewTopic(TopicName(*topic.split(".")), 1, Limits.WIDE))
        kafka_broker.create_topic(topic, partitions=1)
        answers = []
        for place, settings in (
            (listener, listener.confluent()),
            (kafka_broker.bootstrap_servers, {"bootstrap.servers": kafka_broker.bootstrap_servers}),
        ):
            with KafkaSocket(place) as kafka:
                answers.append(story(kafka, settings, topic))
        assert answers[0] == answers[1]
        return answers[0]

    return play


def _fill(settings: dict[str, Any], topic: str, count: int) -> None:
    producer = Producer(settings)
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
    assert not producer.flush(30)


def _partition(reply: dict[str, Any], of: str = "topics", partitions: str = "partitions") -> dict[str, Any]:
    found: dict[str, Any] = reply[of][0][partitions][0]
    return found


def _delete(kafka: KafkaSocket, topic: str, offset: int) -> tuple[int, int]:
    topics = [{"name": topic, "partitions": [{"partition_index": 0, "offset": offset}]}]
    found = _partition(kafka.ask(_KEYS["delete_records"], 1, topics=topics, timeout_ms=30_000))
    return found["error_code"], found["low_watermark"]


def _offset(kafka: KafkaSocket, topic: str, time: int) -> int:
    topics = [{"name": topic, "partitions": [{"partition_index": 0, "timestamp": time}]}]
    offset: int = _partition(kafka.ask(_KEYS["list_offsets"], 1, replica_id=-1, topics=topics))["offset"]
    return offset


def _fetch(kafka: KafkaSocket, topic: str, offset: int) -> tuple[int, int, int]:
    partitions = [{"partition": 0, "fetch_offset": offset, "log_start_offset": -1, "partition_max_bytes": 1 << 20}]
    topics = [{"topic": topic, "partitions": partitions}]
    limits = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, "isolation_level": 0}
    found = _partition(kafka.ask(FETCH, 5, **limits, topics=topics), "responses")
    return found["error_code"], found["log_start_offset"], found["high_watermark"]


def _produce(kafka: KafkaSocket, topic: str, batch: bytes) -> tuple[int, int, int]:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": [batch]}]}]
    reply = kafka.ask(PRODUCE, 8, transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=data)
    found = _partition(reply, "responses", "partition_responses")
    return found["error_code"], found["base_offset"], found["log_start_offset"]


def test_deleted_records_move_the_log_start_offset_of_every_answer(compare: Callable[[Story], Any]) -> None:
    def story(kafka: KafkaSocket, settings: dict[str, Any], topic: str) -> Any:
        _fill(settings, topic, 100)
        answers: list[tuple[Any, ...]] = []
        for offset in (0, 40, 10, 101, -2, 41, -1, 99):
            answers.append((offset, _delete(kafka, topic, offset), _offset(kafka, topic, _FIRST), _offset(kafka, topic, _END)))
            answers += [_fetch(kafka, topic, each) for each in (0, 39, 40, 100)]
        return answers, _produce(kafka, topic, make_batch(make_records([Record()]), 1))

    answers, produced = compare(story)
    assert [answer[2] for answer in answers if len(answer) == 4] == [0, 40, 40, 40, 40, 41, 100, 100]
    assert produced == (0, 100, 100)


def test_a_partition_of_which_all_is_deleted_while_it_is_empty_begins_at_its_end(compare: Callable[[Story], Any]) -> None:
    def story(kafka: KafkaSocket, settings: dict[str, Any], topic: str) -> Any:
        empty = _delete(kafka, topic, -1), _delete(kafka, topic, 0), _offset(kafka, topic, _FIRST)
        _fill(settings, topic, 3)
        return empty, _delete(kafka, topic, -1), _delete(kafka, topic, 3), _delete(kafka, topic, 0), _offset(kafka, topic, _FIRST)

    assert compare(story)[1:] == ((0, 3), (0, 3), (0, 3), 3)


def test_a_fetch_with_an_error_of_one_partition_is_answered_with_the_records_of_the_others(
    compare: Callable[[Story], Any],
) -> None:
    def story(kafka: KafkaSocket, settings: dict[str, Any], topic: str) -> Any:
        _fill(settings, topic, 3)
        wanted = {"fetch_offset": 0, "log_start_offset": -1, "partition_max_bytes": 1 << 20}
        limits = {"max_wait_ms": 100, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 0}
        answers = []
        for others in ([(topic, 7)], [("beside.no-such-topic", 0)], [(topic, 7), ("beside.no-such-topic", 0)]):
            places: dict[str, list[dict[str, int]]] = {topic: [wanted | {"partition": 0}]}
            for name, partition in others:
                places.setdefault(name, []).append(wanted | {"partition": partition})
            topics = [{"topic": name, "partitions": partitions} for name, partitions in places.items()]
            for found in kafka.ask(FETCH, 5, **limits, topics=topics)["responses"]:
                for part in found["partitions"]:
                    is_read = bool(part["records"])
                    answers.append((found["topic"], part["partition_index"], part["error_code"], part["high_watermark"], is_read))
        return sorted(answers)

    answers = compare(story)
    assert {answer[2:] for answer in answers} == {(0, 3, True), (3, -1, False)}
    assert len(answers) == 7


def test_records_before_1970_keep_their_time(compare: Callable[[Story], Any]) -> None:
    def story(kafka: KafkaSocket, settings: dict[str, Any], topic: str) -> Any:
        records = [Record(value=b"%d" % delta, time_delta=delta) for delta in (0, 4998, 4999, 5000, 5001, -(1 << 40), 1 << 40)]
        assert _produce(kafka, topic, make_batch(make_records([*records[:2], *records[3:]]), 6, base_ms=-5000))[0] == 0
        group = {"group.id": "times", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        consumer = Consumer(settings | group)
        consumer.assign([TopicPartition(topic, 0, 0)])
        try:
            found = consumer.consume(6, 30)
            return [(message.value(), message.timestamp()) for message in found]
        finally:
            consumer.close()

    times = [time for _, (_, time) in compare(story)]
    assert times == [-5000, -2, 0, 1, -5000 - (1 << 40), -5000 + (1 << 40)]


def _commit(kafka: KafkaSocket, topic: str, offset: int) -> int:
    kafka.ask(_KEYS["find_coordinator"], 1, key="reset", key_type=0)
    partitions = [{"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}]
    group = {"group_id": "reset", "generation_id_or_member_epoch": -1, "member_id": "", "retention_time_ms": -1}
    fault: int = _partition(kafka.ask(_KEYS["offset_commit"], 2, **group, topics=[{"name": topic, "partitions": partitions}]))[
        "error_code"
    ]
    return fault


def test_an_offset_below_0_is_accepted_and_is_none_for_the_group(compare: Callable[[Story], Any]) -> None:
    def story(kafka: KafkaSocket, settings: dict[str, Any], topic: str) -> Any:
        answers = []
        wait_until(lambda: _commit(kafka, topic, 3) == 0)  # a broker makes the topic of the offsets at the first request
        for offset in (-1, -2, 5, -1, 5, -2, -7):
            fault = _commit(kafka, topic, offset)
            topics = [{"name": topic, "partition_indexes": [0]}]
            found = _partition(kafka.ask(_KEYS["offset_fetch"], 5, group_id="reset", topics=topics))
            answers.append((fault, found["error_code"], max(found["committed_offset"], -1)))
        return answers

    assert compare(story) == [(0, 0, -1), (0, 0, -1), (0, 0, 5), (0, 0, -1), (0, 0, 5), (0, 0, -1), (0, 0, -1)]


def test_there_are_no_access_control_lists_without_an_authorizer(compare: Callable[[Story], Any]) -> None:
    def story(kafka: KafkaSocket, settings: dict[str, Any], topic: str) -> Any:
        every = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
        found = kafka.ask(_KEYS["describe_acls"], 2, **every)
        return found["error_code"], found["resources"]

    assert compare(story) == (54, [])


def test_groups_are_listed_with_all_their_offsets_as_mirror_maker_loads_them(compare: Callable[[Story], Any]) -> None:
    def story(kafka: KafkaSocket, settings: dict[str, Any], topic: str) -> Any:
        wait_until(lambda: _commit(kafka, topic, 5) == 0)
        groups = kafka.ask(_KEYS["list_groups"], 4, states_filter=[])["groups"]
        found = kafka.ask(_KEYS["offset_fetch"], 8, groups=[{"group_id": "reset", "topics": None}], require_stable=False)[
            "groups"
        ]
        partitions = [each for name in found[0]["topics"] if name["name"] == topic for each in name["partitions"]]
        listed = [
            (each["group_state"], each["protocol_type"] in ("", "consumer")) for each in groups if each["group_id"] == "reset"
        ]
        return listed, found[0]["error_code"], [(each["error_code"], each["committed_offset"]) for each in partitions]

    assert compare(story) == ([("Empty", True)], 0, [(0, 5)])
