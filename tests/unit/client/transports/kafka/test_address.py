"""Kafka's URLs and settings."""

from __future__ import annotations

from typing import Any

import pytest

import headstream as hs
from headstream.client.transports.kafka.address import KafkaAddress, java_settings, parse_kafka_address
from headstream.core.codec.kafka import KafkaTopicNames
from headstream.core.model.identifiers import TopicName
from headstream.core.model.urls import split_url

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def parse(url: str, environment: dict[str, str] | None = None, **options: Any) -> KafkaAddress:
    return parse_kafka_address(split_url(url), options, environment or {})


def test_a_url_without_credentials_is_its_brokers() -> None:
    address = parse("kafka://one:9092,[::1]:9093")
    assert (address.hosts, dict(address.settings)) == ("one:9092,[::1]:9093", {})


def test_credentials_mean_sasl_plain_over_tls_unless_settings_say_otherwise() -> None:
    address = parse("kafka://ann:p%40ss/word@host:9093")
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "ann", "sasl.password": "p@ss/word"}
    assert dict(address.settings) == {"security.protocol": "SASL_SSL", **login}
    assert address.place == "kafka://host:9093"
    assert "word" not in repr(address)
    plain = parse("kafka://ann:secret@host:9093?kafka.security.protocol=SASL_PLAINTEXT")
    assert plain.settings["security.protocol"] == "SASL_PLAINTEXT"


def test_options_of_the_call_override_those_of_the_url() -> None:
    given: dict[str, Any] = {"kafka.client.id": "call", "default_stream": "main"}
    address = parse("kafka://host:9092?kafka.client.id=url&timeout_ms=500", **given)
    assert (address.settings["client.id"], address.default_stream, address.timeout_ms) == ("call", "main", 500)


def test_a_password_comes_from_the_environment_when_the_url_has_none() -> None:
    environment = {"HEADSTREAM_USERNAME": "bob", "HEADSTREAM_PASSWORD": "secret"}
    assert parse("kafka://ann@host:9093", environment).settings["sasl.password"] == "secret"
    asked = parse("kafka://host:9093?kafka.security.protocol=SASL_SSL", environment)
    assert (asked.settings["sasl.username"], asked.settings["sasl.password"]) == ("bob", "secret")
    assert "sasl.username" not in parse("kafka://host:9092", environment).settings


def test_javas_names_become_librdkafkas() -> None:
    settings: dict[str, Any] = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": 'x.ScramLoginModule required username="a\\"nn" password=secret;',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": "/ca.pem",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.location": "/client.pem",
        "kafka.ssl.endpoint.identification.algorithm": "",
    }
    assert dict(parse("kafka://host:9093", **settings).settings) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": 'a"nn',
        "sasl.password": "secret",
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/client.pem",
        "ssl.key.location": "/client.pem",
        "ssl.endpoint.identification.algorithm": "none",
    }


def test_java_settings_are_what_sparks_source_takes() -> None:
    url = split_url("kafka://ann:secret@host:9093?kafka.ssl.truststore.type=PEM")
    assert java_settings(url, {"kafka.client.id": "x"}) == {
        "kafka.bootstrap.servers": "host:9093",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{_PLAIN} required username="ann" password="secret";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.client.id": "x",
    }
    with pytest.raises(hs.InvalidUrlError, match="must contain only"):
        java_settings(split_url("kafka://host:9093?timeout_ms=5"), {})


@pytest.mark.parametrize(
    ("url", "options", "text"),
    [
        ("kafka://host", {}, "must name a Kafka cluster"),
        ("kafka://ann:secret@host", {}, "must name a Kafka cluster"),
        ("kafka://host:9092/topic", {}, "a Kafka URL must not have a path"),
        ("kafka://host:9092", {"tls": True}, "no option 'tls' for Kafka"),
        ("kafka://host:9092?timeout_ms=soon", {}, "timeout_ms must be 1 to 3600000 ms, not 'soon'"),
        (
            "kafka://host:9092",
            {"kafka.enable.idempotence": "false"},
            r"the client itself sets kafka\.enable\.idempotence. Omit kafka\.enable\.idempotence",
        ),
        ("kafka://host:9092", {"kafka.ssl.truststore.location": "/a.jks"}, "a store of type JKS, which librdkafka cannot read"),
        ("kafka://host:9092", {"kafka.sasl.jaas.config": "x.Krb5LoginModule required;"}, "a login module"),
    ],
)
def test_parse_refuses_invalid_kafka_addresses_without_showing_the_password(url: str, options: dict[str, Any], text: str) -> None:
    with pytest.raises(hs.InvalidInputError, match=text) as caught:
        parse(url, **options)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("kafka", "ours"),
    [("shop.orders", "shop/orders"), ("shop.orders.eu", "shop/orders.eu"), ("orders", "kafka/orders"), (".x", "kafka/.x")],
)
def test_kafka_topic_names_map_to_topic_names_and_back(kafka: str, ours: str) -> None:
    names = KafkaTopicNames()
    assert str(names.topic_name(kafka)) == ours
    assert names.kafka_name(TopicName.parse(ours)) == kafka


def test_a_name_that_does_not_lead_back_is_refused() -> None:
    names = KafkaTopicNames()
    assert names.find_kafka_name(TopicName("shop", "a b")) is None
    with pytest.raises(hs.InvalidInputError, match="'shop/a b' is not a valid topic name in Kafka"):
        names.kafka_name(TopicName("shop", "a b"))
    with pytest.raises(hs.InvalidInputError, match="a stream name must not contain a dot"):
        KafkaTopicNames("a.b")
