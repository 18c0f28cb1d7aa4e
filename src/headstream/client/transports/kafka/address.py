"""Address and login of a Kafka cluster: a URL and settings, with the setting names of Kafka's Java clients.

kafka://host:9092,other:9092            no login
kafka://user:password@host:9093         SASL PLAIN over TLS, unless settings override it
kafka://host:9093?kafka.security.protocol=SSL        any setting of Kafka's clients, as kafka.*
kafka://host:9092?default_stream=main   an option of connect(), like kafka_headers=spring

Settings passed to connect() override settings of the URL. Spark passes the settings to Java unchanged. Settings that have other
names in librdkafka are translated; librdkafka's own settings can also be passed as kafka.*.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote

from headstream.client.transports.remote.address import PASSWORD_VARIABLE, USERNAME_VARIABLE, restore_slashes
from headstream.core.codec.kafka.topic_names import DEFAULT_STREAM
from headstream.core.model.topology import KafkaHeaders, check_kafka_headers
from headstream.errors import InvalidOptionError, InvalidUrlError

KAFKA_OPTIONS: Final = ("default_stream", "kafka_headers", "connect_timeout_ms", "timeout_ms")
_PREFIX: Final = "kafka."
_LONGEST_MS: Final = 3_600_000
_HOSTS: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:,/]+):\d{1,5}(,(\[[0-9a-fA-F:.]+\]|[^\s:,/]+):\d{1,5})*")
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_LOGIN: Final = re.compile(r"\b(username|password)\s*=\s*(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([^\s;]+))")
_FIXED: Final = frozenset({
    "acks", "auto.offset.reset", "enable.auto.commit", "enable.auto.offset.store", "enable.idempotence", "enable.partition.eof",
    "group.id", "group.protocol", "max.poll.interval.ms", "session.timeout.ms", "message.timeout.ms", "delivery.timeout.ms",
    "transactional.id", "key.serializer", "value.serializer", "key.deserializer", "value.deserializer",
})  # fmt: skip
"""Settings that Headstream's client sets itself, because it commits after processing and stores each message once."""


@dataclass(frozen=True, slots=True)
class KafkaAddress:
    """Address and settings of a cluster.

    Args:
        hosts: `host:port`, separated by commas.
        default_stream: The stream of topics whose names have no dot.
        connect_timeout_ms: Timeout of the first connection.
        timeout_ms: Timeout of a request, including retries.
        kafka_headers: Header convention. None: encode with Headstream's convention, decode with the record's convention.
    """

    hosts: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    default_stream: str = DEFAULT_STREAM
    connect_timeout_ms: int = 10_000
    timeout_ms: int = 30_000
    kafka_headers: KafkaHeaders | None = None

    def __post_init__(self) -> None:
        check_kafka_headers(self.kafka_headers)
        for name in ("connect_timeout_ms", "timeout_ms"):
            value = getattr(self, name)
            if not isinstance(value, int) or not 1 <= value <= _LONGEST_MS:
                raise InvalidOptionError(f"{name} must be 1 to {_LONGEST_MS} ms, not {value!r}")

    @property
    def place(self) -> str:
        """The address without credentials, for errors."""
        return f"kafka://{self.hosts}"


def split_kafka_url(parts: SplitResult) -> tuple[str, str | None, str | None, dict[str, str]]:
    """Return hosts, user, password and query options of a kafka:// URL; InvalidUrlError (without the password) if invalid."""
    parts = restore_slashes(parts)
    users, at, hosts = parts.netloc.rpartition("@")
    if not _HOSTS.fullmatch(hosts):
        raise InvalidUrlError("the URL must name a Kafka cluster", where=f"kafka://{hosts}", advice="Write kafka://host:9092")
    if parts.path.strip("/") or parts.fragment:
        raise InvalidUrlError(
            "a Kafka URL must not have a path or a fragment",
            where=f"kafka://{hosts}",
            advice="Pass topics in the option subscribe or topic, or to the methods of the client",
        )
    user, _, password = (unquote(part) for part in users.partition(":"))
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    return hosts, user if at else None, password if at else None, query


def java_settings(parts: SplitResult, given: Mapping[str, str]) -> dict[str, str]:
    """Return a URL's settings (`kafka.*`, Java names), overridden by given settings; InvalidUrlError if invalid."""
    hosts, user, password, query = split_kafka_url(parts)
    for name in query:
        if not name.startswith(_PREFIX):
            raise InvalidUrlError(
                "the query of a Kafka URL must contain only kafka.* settings",
                where=f"kafka://{hosts}",
                advice="Pass other options by name",
            )
    settings = {"kafka.bootstrap.servers": hosts}
    if user is not None:
        login = f"{_PLAIN} required username={_quoted(user)} password={_quoted(password or '')};"
        settings |= {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": login}
    return settings | {name: value for name, value in query.items() if name.startswith(_PREFIX)} | dict(given)


def parse_kafka_address(
    parts: SplitResult, given: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> KafkaAddress:
    """Return the address for a URL, completed with options and environment variables.

    HEADSTREAM_PASSWORD is used if the password is missing, and HEADSTREAM_USERNAME if user and password are missing.

    Args:
        given: Options of connect(): names in KAFKA_OPTIONS, and settings as kafka.*.

    Raises:
        InvalidOptionError: an option is unknown, out of range, or set by the client itself.
    """
    hosts, user, password, query = split_kafka_url(parts)
    said: dict[str, Any] = {**query, **given}
    settings = {name.removeprefix(_PREFIX): _text(value) for name, value in said.items() if name.startswith(_PREFIX)}
    options = {name: value for name, value in said.items() if not name.startswith(_PREFIX)}
    for name in options:
        if name not in KAFKA_OPTIONS:
            raise InvalidOptionError(
                f"connect() has no option {name!r} for Kafka",
                advice=f"Use one of {', '.join(KAFKA_OPTIONS)}, or a Kafka setting as kafka.*",
            )
    for name in settings:
        if name in _FIXED:
            raise InvalidOptionError(f"the client itself sets kafka.{name}", advice=f"Omit kafka.{name}; see docs/kafka.md")
    for name in ("connect_timeout_ms", "timeout_ms"):
        text = options.get(name)
        if isinstance(text, str):
            options[name] = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else text
    made = _translate(settings)
    if user is not None:
        made = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": user, **made}
        made.setdefault("sasl.password", password or environment.get(PASSWORD_VARIABLE, ""))
    elif made.get("security.protocol", "").upper().startswith("SASL") and "sasl.username" not in made:
        username, secret = environment.get(USERNAME_VARIABLE), environment.get(PASSWORD_VARIABLE)
        if username and secret:
            made |= {"sasl.username": username, "sasl.password": secret}
    return KafkaAddress(made.pop("bootstrap.servers", hosts), made, **options)


def _translate(settings: Mapping[str, str]) -> dict[str, str]:
    """Translate settings of Java clients to librdkafka's names; librdkafka's own names are unchanged."""
    made = dict(settings)
    login = made.pop("sasl.jaas.config", None)
    if login is not None:
        found = {name: _unquoted(double, single, bare) for name, double, single, bare in _LOGIN.findall(login)}
        if "PlainLoginModule" not in login and "ScramLoginModule" not in login:
            raise InvalidOptionError(
                "kafka.sasl.jaas.config names a login module that librdkafka does not support",
                advice="Use PlainLoginModule, ScramLoginModule, or settings of librdkafka, such as kafka.sasl.oauthbearer.method",
            )
        made |= {f"sasl.{name}": value for name, value in found.items()}
    trust, key = made.pop("ssl.truststore.type", "JKS").upper(), made.pop("ssl.keystore.type", "").upper()
    if "ssl.truststore.location" in made:
        if trust != "PEM":
            raise InvalidOptionError(
                f"kafka.ssl.truststore.location is a store of type {trust}, which librdkafka cannot read",
                advice="Export its certificates as PEM, and set kafka.ssl.truststore.type=PEM",
            )
        made["ssl.ca.location"] = made.pop("ssl.truststore.location")
    made.pop("ssl.truststore.password", None)
    if key == "PEM" and "ssl.keystore.location" in made:
        made["ssl.certificate.location"] = made["ssl.key.location"] = made.pop("ssl.keystore.location")
    for java, ours in (
        ("ssl.truststore.certificates", "ssl.ca.pem"),
        ("ssl.keystore.certificate.chain", "ssl.certificate.pem"),
        ("ssl.keystore.key", "ssl.key.pem"),
    ):
        if java in made:
            made[ours] = made.pop(java)
    if made.get("ssl.endpoint.identification.algorithm") == "":
        made["ssl.endpoint.identification.algorithm"] = "none"
    return made


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _unquoted(double: str, single: str, bare: str) -> str:
    return re.sub(r"\\(.)", r"\1", double) if double else single or bare
