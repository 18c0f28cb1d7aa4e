"""The server's listener for Kafka's clients in every version of every API: each request is answered in the response's version."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Limits, NewTopic
from headstream.server.kafka.apis import APIS
from headstream.server.kafka.protocol.schema_text import KafkaField
from tests.support.server.kafka_listeners import KafkaListener, kafka_listener
from tests.support.server.kafka_socket import KafkaSocket, encode_request

_TEXTS = {"mechanism": "PLAIN", "client_software_name": "test", "client_software_version": "1.0"}


def _values(fields: tuple[KafkaField, ...], version: int) -> dict[str, Any]:
    """Return a request about the topic shop.orders and the group billing, with one element in each array."""
    return {field.name: _value(field, version) for field in fields if version in field.versions and field.tag is None}


def _value(field: KafkaField, version: int) -> Any:
    one: Any = -1 if field.name == "acks" else 0
    if field.fields:
        one = _values(field.fields, version)
    elif field.kind == "string":
        is_topic = field.name in ("topic", "name", "topics") or field.is_array
        one = _TEXTS.get(field.name, "shop.orders" if is_topic else "billing" if "group" in field.name else "")
    elif field.kind in ("bytes", "records"):
        one = [] if field.kind == "records" else b""
    elif field.kind == "uuid":
        one = uuid.UUID(int=0)
    return [one] if field.is_array else one


@pytest.fixture(scope="module")
def listener() -> Iterator[KafkaListener]:
    with kafka_listener() as found:
        found.broker.topics.create(NewTopic(TopicName("shop", "orders"), 1, Limits.WIDE))
        yield found


@pytest.mark.parametrize(
    ("key", "version"),
    [
        pytest.param(key, version, id=f"{api.name}-{version}")
        for key, api in APIS.items()
        for version in range(api.first_version, api.last_version + 1)
    ],
)
def test_each_version_of_each_request_is_answered(listener: KafkaListener, key: int, version: int) -> None:
    with KafkaSocket(listener) as client:
        client.send(encode_request(key, version, 7, **_values(APIS[key].request.fields, version)))
        assert client.receive(key, version, 7) is not None
