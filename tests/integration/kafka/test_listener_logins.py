"""How Kafka's clients log in to the listener: by SCRAM, and without a login where a setting names a user."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient  # type: ignore[attr-defined,unused-ignore]

from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Limits, NewTopic
from headstream.core.wire.commands.permissions import Permissions, StreamPermissions
from headstream.errors import InvalidOptionError
from headstream.log.catalog import accounts
from headstream.server.config.kafka_settings import KafkaSettings
from headstream.server.kafka.apis import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from headstream.server.network.addresses import Address
from tests.support.server.kafka_listeners import KafkaListener, kafka_listener
from tests.support.server.kafka_socket import KafkaSocket
from tests.support.server.served import config_of, serving

_METADATA = 3
_READ_ALL = Permissions(streams={1: StreamPermissions(read_stream=True, read_topics=True)})


@pytest.fixture(scope="module")
def listener() -> Iterator[KafkaListener]:
    with kafka_listener(kafka=KafkaSettings(anonymous_user="guest")) as running:
        for stream in ("shop", "other"):
            running.broker.topics.create(NewTopic(TopicName(stream, "orders"), 1, Limits.WIDE))
        users = running.running.server.dispatcher.users
        users.create("alice", "wonder,land=", is_active=True, permissions=_READ_ALL, now_us=1)
        users.create("guest", "guestguest", is_active=True, permissions=_READ_ALL, now_us=1)
        yield running


def _topics(listener: KafkaListener, user: str = "alice", password: str = "wonder,land=", **more: str) -> set[str]:
    admin = AdminClient(listener.confluent(user, password, **more))
    return set(admin.list_topics(timeout=20).topics)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_librdkafka_acts_as_its_user_when_it_logs_in_by_each_mechanism(listener: KafkaListener, mechanism: str) -> None:
    assert _topics(listener, sasl_mechanism=mechanism) == {"shop.orders"}


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_aiokafka_acts_as_its_user_when_it_logs_in_by_scram(listener: KafkaListener, mechanism: str) -> None:
    from aiokafka.admin import AIOKafkaAdminClient

    async def run() -> list[str]:
        admin = AIOKafkaAdminClient(
            bootstrap_servers=listener.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="alice",
            sasl_plain_password="wonder,land=",
        )
        await admin.start()
        try:
            return list(await admin.list_topics())
        finally:
            await admin.close()

    assert asyncio.run(run()) == ["shop.orders"]


def _first_answer(listener: KafkaListener, name: str, version: int = 1) -> bytes:
    with KafkaSocket(listener.bootstrap_servers) as client:
        assert client.ask(SASL_HANDSHAKE, version, mechanism="SCRAM-SHA-256")["error_code"] == 0
        answer = client.ask(SASL_AUTHENTICATE, 1, auth_bytes=f"n,,n={name},r=abc".encode())
        assert answer["error_code"] == 0
        last = b"c=biws,r=" + answer["auth_bytes"].split(b",")[0][2:] + b",p=" + b"AAAA" * 10 + b"AAA="
        refused = client.ask(SASL_AUTHENTICATE, 1, auth_bytes=last)
        assert (refused["error_code"], refused["auth_bytes"]) == (58, b"")
        assert "wrong user or password, or" in refused["error_message"]
        return bytes(answer["auth_bytes"].split(b",", 1)[1])


def test_scram_does_not_tell_which_users_exist_when_the_password_is_wrong(listener: KafkaListener) -> None:
    assert _first_answer(listener, "nobody") == _first_answer(listener, "nobody")
    assert _first_answer(listener, "nobody") != _first_answer(listener, "somebody")
    assert len(_first_answer(listener, "alice")) == len(_first_answer(listener, "nobody"))


def test_user_from_before_scram_can_use_it_when_it_has_logged_in_with_its_password(tmp_path: Path) -> None:
    with serving(config_of(data=str(tmp_path))) as running:
        assert running.server.dispatcher.users.get("iggy").record.scram is None
    with kafka_listener(tmp_path) as listener:
        users = listener.running.server.dispatcher.users
        assert users.get("iggy").record.scram is None
        assert _topics(listener, "iggy", "iggy") == set()
        assert _topics(listener, "iggy", "iggy", sasl_mechanism="SCRAM-SHA-512") == set()
        stored = accounts.list_users(listener.running.server.dispatcher.catalog)[0].scram
        assert stored == users.get("iggy").record.scram
    with serving(config_of(data=str(tmp_path))) as running:
        users = running.server.dispatcher.users
        assert users.change_password("iggy", "iggy", "other").record.scram is None  # it is not that of the old password


def test_client_without_a_login_acts_as_the_user_of_the_setting_with_its_permissions(listener: KafkaListener) -> None:
    admin = AdminClient({"bootstrap.servers": listener.bootstrap_servers})
    assert set(admin.list_topics(timeout=20).topics) == {"shop.orders"}
    users = listener.running.server.dispatcher.users
    users.update("guest", is_active=False)
    with KafkaSocket(listener.bootstrap_servers) as client, pytest.raises(AssertionError, match="closed the connection"):
        client.ask(_METADATA, 1, topics=None)
    users.update("guest", is_active=True)


def test_log_says_once_what_a_client_has_to_set_when_it_does_not_log_in(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "headstream.server"), kafka_listener() as listener:
        for _ in range(3):
            with KafkaSocket(listener.bootstrap_servers) as client:
                assert client.ask(API_VERSIONS, 0)["error_code"] == 0
                with pytest.raises(AssertionError, match="closed the connection"):
                    client.ask(_METADATA, 1, topics=None)
    (record,) = [each for each in caplog.records if each.getMessage().startswith("closed")]
    assert "security.protocol=SASL_PLAINTEXT" in record.fields["advice"]  # type: ignore[attr-defined]


def test_server_does_not_start_when_root_would_be_the_user_of_other_machines(tmp_path: Path) -> None:
    config = config_of(kafka_address=Address("0.0.0.0", 0), allow_default_password=True)
    with (
        pytest.raises(InvalidOptionError, match="'iggy' is the root user"),
        serving(replace(config, kafka=KafkaSettings(anonymous_user="iggy"))),
    ):
        pass
