"""What user interfaces ask the listener about its disk and its replicas."""

from __future__ import annotations

from pathlib import Path

from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Limits, NewTopic
from headstream.server.kafka.apis import APIS
from tests.support.messages.batches import sent
from tests.support.server.kafka_listeners import kafka_listener
from tests.support.server.kafka_socket import KafkaSocket

_KEYS = {api.name: key for key, api in APIS.items()}
_ORDERS = TopicName("shop", "orders")


def test_log_dirs_are_the_logs_directory_with_each_partitions_bytes_when_the_user_may_read_the_server(tmp_path: Path) -> None:
    with kafka_listener(tmp_path) as listener, KafkaSocket(listener) as client:
        listener.broker.topics.create(NewTopic(_ORDERS, 2, Limits.WIDE))
        listener.broker.topics.create(NewTopic(TopicName("shop", "other"), 1, Limits.WIDE))
        listener.broker.messages.send(_ORDERS, 2, sent(b"x" * 1000))
        ask = _KEYS["describe_log_dirs"]
        (found,) = client.ask(ask, 4, topics=[{"topic": "shop.orders", "partitions": [0, 1, 7]}])["results"]
        (topic,) = found["topics"]
        assert (found["log_dir"], topic["name"]) == (str(tmp_path), "shop.orders")
        assert [part["partition_index"] for part in topic["partitions"]] == [0, 1]
        assert topic["partitions"][0]["partition_size"] == 0 < 1000 <= topic["partitions"][1]["partition_size"] < 1100
        assert 0 < found["usable_bytes"] < found["total_bytes"]
        assert len(client.ask(ask, 1, topics=None)["results"][0]["topics"]) == 2
        users = listener.running.server.dispatcher.users
        users.create("nobody", "nobody", is_active=True, permissions=None, now_us=1)
        session = next(each for each in listener.running.server.dispatcher.sessions.list() if each.user_id)
        session.user_id = users.get("nobody").id
        assert client.ask(ask, 4, topics=None)["error_code"] == 31


def test_no_partition_is_reassigned_since_there_is_one_broker() -> None:
    with kafka_listener() as listener, KafkaSocket(listener) as client:
        answer = client.ask(_KEYS["list_partition_reassignments"], 0, timeout_ms=1000, topics=None)
        assert (answer["error_code"], answer["topics"]) == (0, [])
