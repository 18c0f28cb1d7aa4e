"""A server with a listener for Kafka's clients inside a test, and the settings by which clients log in there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headstream.broker.broker import Broker
from headstream.server.network.addresses import Address
from tests.support.server.served import Running, config_of, serving

_FREE = Address("127.0.0.1", 0)


@dataclass(frozen=True)
class KafkaListener:
    """A server that serves Kafka's clients."""

    running: Running

    @property
    def bootstrap_servers(self) -> str:
        return str(self.running.server.kafka_address)

    @property
    def broker(self) -> Broker:
        return self.running.server.dispatcher.broker

    def confluent(self, user: str = "iggy", password: str = "iggy", **more: Any) -> dict[str, Any]:
        """Return the settings of confluent-kafka; underscores of names are dots."""
        return {
            "bootstrap.servers": self.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": password,
            "log_level": 2,
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def java(self, mechanism: str = "PLAIN") -> str:
        """Return the settings of Java's clients, a line each."""
        package = "org.apache.kafka.common.security"
        module = f"{package}.plain.PlainLoginModule" if mechanism == "PLAIN" else f"{package}.scram.ScramLoginModule"
        return (
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
            f'sasl.jaas.config={module} required username="iggy" password="iggy";\n'
        )


@contextmanager
def kafka_listener(directory: Path | None = None, **given: Any) -> Iterator[KafkaListener]:
    """Run a server with a listener for Kafka's clients as long as the body does."""
    config = config_of(kafka_address=_FREE, data=None if directory is None else str(directory), **given)
    with serving(config) as running:
        yield KafkaListener(running)
