"""Options over Kafka: what they are for Spark's Kafka source and sink, and what is refused by name."""

from __future__ import annotations

import pytest

from headstream.core.model.header_values import HeaderKind
from headstream.errors import InvalidOptionError, InvalidUrlError
from headstream.spark.kafka.options import is_kafka_url, parse_read_options, parse_write_options

_URL = {"url": "kafka://one:9092,[::1]:9093"}


def test_parse_read_options_translates_names_when_topics_are_ours() -> None:
    given = {
        **_URL,
        "SUBSCRIBE": "shop/orders, plain",
        "startingOffsets": '{"shop/orders": {"0": 5, "1": -2}}',
        "kafka.client.id": "me",
        "minPartitions": "4",
    }
    assert parse_read_options(given, streaming=False).source == {
        "kafka.bootstrap.servers": "one:9092,[::1]:9093",
        "kafka.client.id": "me",
        "subscribe": "shop.orders,plain",
        "startingOffsets": '{"shop.orders": {"0": 5, "1": -2}}',
        "minPartitions": "4",
    }
    assigned = parse_read_options({**_URL, "assign": '{"shop/orders": [0, 1]}'}, streaming=True).source
    assert assigned["assign"] == '{"shop.orders": [0, 1]}'
    assert assigned["startingOffsets"] == "earliest"


def test_parse_read_options_takes_topics_of_hpe_data_fabric_as_they_are() -> None:
    options = {**_URL, "subscribe": "/apps/cdc.v1/stream:orders, shop/orders"}
    assert parse_read_options(options, streaming=True).source["subscribe"] == "/apps/cdc.v1/stream:orders,shop.orders"


def test_parse_read_options_logs_in_when_the_url_has_a_user() -> None:
    options = {"url": "kafka://$ConnectionString:a%22b%2F@hub:9093", "subscribePattern": "shop[.].*", "kafka.sasl.mechanism": "X"}
    source = parse_read_options(options, streaming=True).source
    assert source["kafka.bootstrap.servers"] == "hub:9093"
    assert source["kafka.security.protocol"] == "SASL_SSL"
    assert source["kafka.sasl.mechanism"] == "X"
    assert source["kafka.sasl.jaas.config"].endswith('required username="$ConnectionString" password="a\\"b/";')


@pytest.mark.parametrize(
    ("options", "streaming", "text"),
    [
        ({"subscribe": "a/b", "topics": "x"}, False, "unknown option 'topics'"),
        ({"subscribe": "a/b", "maxBytesPerTrigger": "1g"}, True, "unknown option 'maxbytespertrigger'"),
        ({}, False, "the option subscribe is missing"),
        ({"subscribe": "a/b", "assign": "{}"}, False, "subscribe and assign both name topics"),
        ({"subscribe": "a/b,a.b"}, False, "must not contain a duplicate or empty topic"),
        ({"subscribe": "a b"}, False, "subscribe: 'a b' is not a valid topic name in Kafka"),
        ({"subscribe": "a/b", "endingOffsets": "latest"}, True, "endingOffsets is supported only in batch reads"),
        ({"subscribe": "a/b", "maxOffsetsPerTrigger": "5"}, False, "maxOffsetsPerTrigger is supported only in streams"),
        ({"subscribe": "a/b", "startingOffsets": '{"a/b": '}, False, "startingOffsets cannot be read"),
        ({"subscribe": "a/b", "headers": "list"}, False, "headers must be one of"),
        ({"subscribe": "a/b", "states": "dead"}, False, "states: 'dead' is not a message state"),
    ],
)
def test_parse_read_options_refuses_by_name_what_cannot_be(options: dict[str, str], streaming: bool, text: str) -> None:
    with pytest.raises(InvalidOptionError, match=text):
        parse_read_options({**_URL, **options}, streaming=streaming)


@pytest.mark.parametrize(
    "url", ["kafka://host", "kafka://", "kafka://h:9092/topic", "kafka://h:9092?x=1", "kafka://a:1,b", "kafka:x"]
)
def test_parse_read_options_refuses_a_url_that_names_no_cluster(url: str) -> None:
    with pytest.raises(InvalidUrlError, match=r"must name a Kafka cluster|must not have a path|must contain only"):
        parse_read_options({"url": url, "subscribe": "a/b"}, streaming=False)


def test_parse_read_options_keeps_a_password_out_of_its_error() -> None:
    with pytest.raises(InvalidUrlError) as caught:
        parse_read_options({"url": "kafka://me:secret@host", "subscribe": "a/b"}, streaming=False)
    assert "secret" not in str(caught.value)


def test_parse_write_options_translates_and_refuses() -> None:
    parsed = parse_write_options({**_URL, "topic": "shop/orders", "headerColumns": "a, b uint8", "checkpointLocation": "/c"})
    assert (parsed.topic, parsed.header_columns) == ("shop.orders", (("a", None), ("b", HeaderKind.UINT8)))
    assert parsed.sink == {"kafka.bootstrap.servers": "one:9092,[::1]:9093", "checkpointLocation": "/c"}
    with pytest.raises(InvalidOptionError, match="headerColumns"):
        parse_write_options({**_URL, "headerColumns": "a,a"})
    with pytest.raises(InvalidOptionError, match="unknown option 'subscribe'"):
        parse_write_options({**_URL, "subscribe": "a/b"})


def test_is_kafka_url_looks_at_url_and_path() -> None:
    assert is_kafka_url({"URL": "kafka://h:1"})
    assert is_kafka_url({"path": "Kafka://h:1"})
    assert not is_kafka_url({"url": "file:///x"})
    assert not is_kafka_url({})
