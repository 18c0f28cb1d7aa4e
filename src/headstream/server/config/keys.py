"""The keys of a server's configuration: name, accepted values, and effect.

The names are Iggy's, so that Iggy's files work unchanged; only the section [headstream] is new.

    read         converts the value for config.py; raises ValueError
    without      the reason why the key has no effect; the key is accepted, and a warning lists the key
    only         the only supported value; other values are rejected with the reason in `without`
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from headstream.core.model.quantities import parse_duration_us, parse_size_bytes


@dataclass(frozen=True, slots=True)
class Key:
    """One configuration key.

    Args:
        without: The reason why the key has no effect; None if the key has an effect.
        only: The only accepted value, if other values are not supported.
    """

    default: Any
    read: Callable[[Any], Any]
    without: str | None = None
    only: Any = None


def _flag(spelled: Any) -> bool:
    if isinstance(spelled, bool):
        return spelled
    raise ValueError("true or false is required")


def _maybe_flag(spelled: Any) -> bool | None:
    """Convert a flag; `auto` becomes None."""
    if isinstance(spelled, str) and spelled.strip().lower() == "auto":
        return None
    if isinstance(spelled, bool):
        return spelled
    raise ValueError("true, false or auto is required")


def _count(least: int, most: int) -> Callable[[Any], int]:
    def read(spelled: Any) -> int:
        if type(spelled) is not int or not least <= spelled <= most:
            raise ValueError(f"a whole number from {least} to {most} is required")
        return spelled

    return read


def _limit(least: int, most: int) -> Callable[[Any], int | None]:
    """Return a converter for a number; `none` and `unlimited` become None."""
    read_number = _count(least, most)

    def read(spelled: Any) -> int | None:
        is_none = isinstance(spelled, str) and spelled.strip().lower() in ("none", "unlimited")
        return None if is_none else read_number(spelled)

    return read


def _text(spelled: Any) -> str:
    if isinstance(spelled, str):
        return spelled
    raise ValueError("a string is required")


def _texts(spelled: Any) -> tuple[str, ...]:
    if isinstance(spelled, list) and all(isinstance(item, str) for item in spelled):
        return tuple(item for item in spelled if item)
    raise ValueError('a list of strings is required, for example ["a", "b"]')


def _choice(*options: str) -> Callable[[Any], str]:
    def read(spelled: Any) -> str:
        text = _text(spelled)
        if text.lower() not in [option.lower() for option in options]:
            raise ValueError(f"one of {', '.join(options)} is required")
        return next(option for option in options if option.lower() == text.lower())

    return read


def _us(least: int = 0, most: int = (1 << 63) - 1, none: tuple[str, ...] = ()) -> Callable[[Any], int | None]:
    """Return a converter for a duration; the strings in `none` become None."""

    def read(spelled: Any) -> int | None:
        if isinstance(spelled, str) and spelled.strip().lower() in none:
            return None
        found = parse_duration_us(spelled)
        if not least <= found <= most:
            raise ValueError(f"a time from {least / 1_000_000:g} s to {most / 1_000_000:g} s is required, not {spelled!r}")
        return found

    return read


def _bytes(least: int = 0, most: int = (1 << 63) - 1, none: tuple[str, ...] = ()) -> Callable[[Any], int | None]:
    """Return a converter for a size; the strings in `none` become None."""

    def read(spelled: Any) -> int | None:
        if isinstance(spelled, str) and spelled.strip().lower() in none:
            return None
        found = parse_size_bytes(spelled)
        if not least <= found <= most:
            raise ValueError(f"a size from {least} to {most} bytes is required, not {spelled!r}")
        return found

    return read


def _like(default: Any) -> Callable[[Any], Any]:
    """Return a converter for a value without effect, which must still have the expected type."""

    def read(spelled: Any) -> Any:
        if isinstance(spelled, bool) is not isinstance(default, bool) or not isinstance(spelled, (bool, int, float, str)):
            raise ValueError(f"a value such as {default!r} is required")
        return spelled

    return read


_QUIC: Final = "datagrams have 1,200 bytes, and acknowledgements control the sending rate"
_QUIC_STREAMS: Final = "a connection has at most 100 concurrent requests"
_QUIC_WINDOWS: Final = "the receive window is 32 KiB before the login, then 512 KiB"
_QUIC_PINGS: Final = "clients send keep-alives"
_TELEMETRY: Final = "use headstream.metrics_otlp, headstream.tracing and OpenTelemetry's own variables"
_AT_ONCE: Final = "every send is written before it is acknowledged"
_RETENTION: Final = "retention runs continuously"
_CATALOG: Final = "streams, topics and users are stored in a durable database"
_PLACES: Final = "the directory names of a log are fixed"
_STDERR: Final = "the server logs to standard error; redirect the output to a file or a log service"
_PAGES: Final = "the operating system caches the newest messages"
_ARCHIVER: Final = "archiving is not supported; use `headstream backup`"
_DAY_US: Final = 86_400 * 1_000_000
_MINUTES: Final = 60 * 1_000_000


def _ignored(section: str, why: str, **defaults: Any) -> dict[str, Key]:
    return {f"{section}.{name}": Key(default, _like(default), why) for name, default in defaults.items()}


KEYS: Final[dict[str, Key]] = {
    "data_maintenance.archiver.enabled": Key(False, _flag, _ARCHIVER, only=False),
    **_ignored("data_maintenance.archiver", _ARCHIVER, kind="disk"),
    **_ignored("data_maintenance.archiver.disk", _ARCHIVER, path="local_data/archive"),
    **_ignored(
        "data_maintenance.archiver.s3",
        _ARCHIVER,
        key_id="",
        key_secret="",
        bucket="iggy",
        endpoint="",
        region="",
        tmp_upload_dir="",
    ),
    "data_maintenance.messages.archiver_enabled": Key(False, _flag, _ARCHIVER, only=False),
    **_ignored("data_maintenance.messages", _RETENTION, cleaner_enabled=False, interval="1 m"),
    "data_maintenance.state.archiver_enabled": Key(False, _flag, _ARCHIVER, only=False),
    **_ignored("data_maintenance.state", _ARCHIVER, overwrite=True, interval="1 m"),
    "http.enabled": Key(True, _flag),
    "http.address": Key("127.0.0.1:3000", _text),
    "http.max_request_size": Key("2 MB", _bytes(1024, 1 << 30)),
    "http.cors.enabled": Key(True, _flag),
    "http.cors.allowed_methods": Key(["GET", "POST", "PUT", "DELETE"], _texts),
    "http.cors.allowed_origins": Key([], _texts),
    "http.cors.allowed_headers": Key(["content-type"], _texts),
    "http.cors.exposed_headers": Key([""], _texts),
    "http.cors.allow_credentials": Key(False, _flag),
    "http.cors.allow_private_network": Key(False, _flag),
    "http.jwt.algorithm": Key("HS256", _choice("HS256", "HS384", "HS512")),
    "http.jwt.issuer": Key("iggy.apache.org", _text),
    "http.jwt.audience": Key("iggy.apache.org", _text),
    "http.jwt.valid_issuers": Key(["iggy.apache.org"], _texts),
    "http.jwt.valid_audiences": Key(["iggy.apache.org"], _texts),
    "http.jwt.access_token_expiry": Key("1 h", _us(1_000_000)),
    "http.jwt.clock_skew": Key("5 s", _us(0, 60 * _MINUTES)),
    "http.jwt.not_before": Key("0 s", _us()),
    "http.jwt.encoding_secret": Key("", _text),
    "http.jwt.decoding_secret": Key("", _text),
    "http.jwt.use_base64_secret": Key(False, _flag),
    "http.metrics.enabled": Key(True, _flag),
    "http.metrics.endpoint": Key("/metrics", _text),
    "http.tls.enabled": Key(False, _flag),
    "http.tls.cert_file": Key("certs/iggy_cert.pem", _text),
    "http.tls.key_file": Key("certs/iggy_key.pem", _text),
    "tcp.enabled": Key(True, _flag),
    "tcp.address": Key("127.0.0.1:8090", _text),
    "tcp.ipv6": Key(False, _flag),
    "tcp.tls.enabled": Key(False, _flag),
    "tcp.tls.certificate": Key("certs/iggy.pfx", _text),
    "tcp.tls.password": Key("", _text),
    "tcp.socket.override_defaults": Key(False, _flag),
    "tcp.socket.recv_buffer_size": Key("100 KB", _bytes(2048, 1 << 30)),
    "tcp.socket.send_buffer_size": Key("100 KB", _bytes(4096, 1 << 30)),
    "tcp.socket.keepalive": Key(False, _flag),
    "tcp.socket.nodelay": Key(True, _flag, "small responses are always sent immediately"),
    "tcp.socket.linger": Key("0 s", _us(0, 60 * _MINUTES)),
    "quic.enabled": Key(False, _flag),
    "quic.address": Key("127.0.0.1:8080", _text),
    "quic.max_idle_timeout": Key("10 s", _us(1_000_000, _DAY_US)),
    **_ignored("quic", _QUIC_STREAMS, max_concurrent_bidi_streams=10_000),
    **_ignored("quic", _QUIC, datagram_send_buffer_size="100 KB", initial_mtu="8 KB", send_window="100 KB"),
    **_ignored("quic", _QUIC_WINDOWS, receive_window="100 KB"),
    **_ignored("quic", _QUIC_PINGS, keep_alive_interval="5 s"),
    "quic.certificate.self_signed": Key(True, _flag),
    "quic.certificate.cert_file": Key("certs/iggy_cert.pem", _text),
    "quic.certificate.key_file": Key("certs/iggy_key.pem", _text),
    "kafka.enabled": Key(False, _flag),
    "kafka.address": Key("127.0.0.1:9092", _text),
    "kafka.advertised_address": Key("", _text),
    "kafka.default_stream": Key("kafka", _text),
    "kafka.anonymous_user": Key("", _text),
    "kafka.default_partitions": Key(1, _count(1, 1000)),
    "kafka.tls.enabled": Key(False, _flag),
    "kafka.tls.cert_file": Key("certs/kafka_cert.pem", _text),
    "kafka.tls.key_file": Key("certs/kafka_key.pem", _text),
    **_ignored("message_cleaner", _RETENTION, enabled=True, interval="1 m"),
    **_ignored("message_saver", _AT_ONCE, enabled=True, enforce_fsync=True, interval="30 s"),
    "personal_access_token.max_tokens_per_user": Key(100, _count(0, 1_000_000)),
    "personal_access_token.cleaner.enabled": Key(True, _flag),
    "personal_access_token.cleaner.interval": Key("1 m", _us(1_000_000, _DAY_US)),
    "heartbeat.enabled": Key(False, _flag),
    "heartbeat.interval": Key("5 s", _us(100_000, _DAY_US)),
    "telemetry.enabled": Key(False, _flag, _TELEMETRY, only=False),
    **_ignored("telemetry", _TELEMETRY, service_name="iggy"),
    **_ignored("telemetry.logs", _TELEMETRY, transport="grpc", endpoint=""),
    **_ignored("telemetry.traces", _TELEMETRY, transport="grpc", endpoint=""),
    "system.path": Key("local_data", _text),
    **_ignored("system.backup", _PLACES, path="backup"),
    **_ignored("system.backup.compatibility", _PLACES, path="compatibility"),
    **_ignored("system.state", _CATALOG, enforce_fsync=False, max_file_operation_retries=1, retry_delay="1 s"),
    "system.runtime.path": Key("runtime", _text),
    "system.logging.level": Key("info", _choice("trace", "debug", "info", "warn", "warning", "error")),
    **_ignored("system.logging", _STDERR, path="logs", max_size="512 MB", retention="7 days", sysinfo_print_interval="10 s"),
    **_ignored("system.cache", _PAGES, enabled=True, size="4 GB"),
    "system.encryption.enabled": Key(False, _flag, "messages are not encrypted at rest; use an encrypted disk", only=False),
    **_ignored("system.encryption", "messages are not encrypted at rest; use an encrypted disk", key=""),
    **_ignored("system.compression", "messages are stored unchanged", allow_override=False, default_algorithm="none"),
    **_ignored("system.stream", _PLACES, path="streams"),
    **_ignored("system.topic", _PLACES, path="topics"),
    "system.topic.max_size": Key("unlimited", _bytes(1, none=("unlimited",))),
    **_ignored("system.topic", "a topic at its maximum size drops its oldest segments", delete_oldest_segments=False),
    **_ignored("system.partition", _PLACES, path="partitions"),
    "system.partition.enforce_fsync": Key(False, _flag),
    **_ignored("system.partition", "every read verifies checksums", validate_checksum=False),
    **_ignored("system.partition", _AT_ONCE, messages_required_to_save=1000),
    "system.segment.size": Key("256 MiB", _bytes(4096, 1 << 30)),
    "system.segment.message_expiry": Key("none", _us(1, none=("none", "unlimited", "disabled"))),
    **_ignored("system.segment", _AT_ONCE, server_confirmation="wait"),
    "system.segment.archive_expired": Key(False, _flag, _ARCHIVER, only=False),
    **_ignored("system.segment", _PAGES, cache_indexes=True),
    "system.message_deduplication.enabled": Key(False, _flag),
    "system.message_deduplication.max_entries": Key(1000, _count(1, 10_000_000)),
    **_ignored("system.message_deduplication", "the number of remembered ids is limited, not their age", expiry="1 m"),
    **_ignored("system.recovery", _CATALOG, recreate_missing_state=False),
    "headstream.allow_default_password": Key(False, _flag),
    "headstream.allowed_hosts": Key([], _texts),
    "headstream.console": Key("auto", _maybe_flag),
    "headstream.pipelines": Key([], _texts),
    "headstream.schemas": Key("", _text),
    "headstream.metrics_of_groups": Key(False, _flag),
    "headstream.metrics_otlp": Key(False, _flag),
    "headstream.delivery_audit": Key("", _text),
    "headstream.tracing": Key(False, _flag),
    "headstream.max_connections": Key(10_000, _count(1, 1_000_000)),
    "headstream.max_connection_rate": Key(200, _limit(1, 1_000_000)),
    "headstream.max_consumers_per_user": Key(10_000, _count(1, 10_000_000)),
    "headstream.max_frame_size": Key("65 MiB", _bytes(1024, 1 << 30)),
    "headstream.max_unsent_size": Key("256 KiB", _bytes(1024, 1 << 30)),
    "headstream.max_unsent_total": Key("256 MiB", _bytes(1024, 1 << 40)),
    "headstream.memory_budget": Key("auto", _bytes(1 << 20, 1 << 50, none=("auto",))),
    "headstream.request_timeout": Key("30 s", _us(100_000, _DAY_US)),
    "headstream.stall_timeout": Key("60 s", _us(100_000, _DAY_US)),
    "headstream.login_timeout": Key("10 m", _us(100_000, _DAY_US, none=("none", "unlimited", "disabled"))),
    "headstream.hold_empty_polls": Key("0 s", _us(0, 1_000_000)),
    "headstream.drain_timeout": Key("10 s", _us(0, _DAY_US)),
    "headstream.password_rounds": Key(10, _count(4, 16)),
    "headstream.group_access": Key("none", _choice("none", "read", "write")),
    "headstream.log_format": Key("text", _choice("text", "json")),
    "headstream.tcp_key_file": Key("", _text),
    "headstream.root_username": Key("", _text),
    "headstream.root_password": Key("", _text),
}
"""All keys by full name."""

SECRETS: Final = frozenset(
    {
        "data_maintenance.archiver.s3.key_secret",
        "headstream.root_password",
        "http.jwt.decoding_secret",
        "http.jwt.encoding_secret",
        "system.encryption.key",
        "tcp.tls.password",
    }
)
"""Keys with secret values, which are never shown or written."""
