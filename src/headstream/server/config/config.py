"""ServerConfig: all settings of a server, validated together before any file or socket is opened."""

from __future__ import annotations

import base64
import binascii
import math
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from headstream.broker.settings import ServerSettings
from headstream.core.model.identifiers import TopicName, check_name
from headstream.core.model.local_paths import find_path_problem
from headstream.core.model.topology import Fsync
from headstream.core.wire.commands.users import check_password, check_username
from headstream.errors import InvalidInputError, InvalidOptionError, StorageError
from headstream.server.config.file import GivenValue, read_file, read_variables, unknown
from headstream.server.config.http_settings import CorsSettings, HttpSettings, TokenSettings
from headstream.server.config.kafka_settings import KafkaSettings
from headstream.server.config.keys import KEYS, SECRETS
from headstream.server.config.tcp_settings import ConnectionLimits, TcpSettings
from headstream.server.network.addresses import Address
from headstream.server.network.admission import CONNECTION_RATE
from headstream.server.network.sockets import SocketOptions
from headstream.server.network.tls import TlsFiles
from headstream.server.reporting.logs import LogForm

# Environment files (`.env`): NAME=VALUE lines, as in a shell script.
#
#     IGGY_TCP_ADDRESS=127.0.0.1:8090            # text after a blank and # is a comment
#     export HEADSTREAM_DRAIN_TIMEOUT="5 s"      \n \" \\ \$ work as in a shell, $NAME and ${NAME} expand
#     IGGY_ROOT_PASSWORD='as it $tands'          taken literally
#
# A quoted value can span several lines. Other programs often share such a file: a line of another form is ignored, unless it
# begins with one of Headstream's prefixes.

_ASSIGNMENT: Final = re.compile(
    r"""[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][\w.]*)[ \t]*=[ \t]*
    (?:'(?P<literal>[^']*)'|"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>(?:[^\s'"\#][^\r\n]*?)?))
    (?:[ \t]+\#[^\r\n]*|[ \t]*)(?:\r?\n|\Z)""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_OURS: Final = re.compile(r"[ \t]*(?:export[ \t]+)?(?:IGGY|HEADSTREAM)_")
_MEANING: Final = re.compile(r"\\(?P<escaped>[\\\"'$ n])|\$\{(?P<braced>\w+)\}|\$(?P<named>\w+)", re.ASCII)


def read_env_file(path: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an environment file.

    Args:
        environ: The environment variables; `$NAME` is looked up in these variables first, then in earlier lines of the file.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidOptionError("the .env file must be UTF-8", where=str(path)) from None
    except OSError as error:
        raise StorageError(f"the .env file cannot be read: {error.strerror}", where=str(path)) from error
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        match = _ASSIGNMENT.match(text, at)
        if match is not None:
            found[match["name"]] = _value_of(match, {**found, **environ})
            at = match.end()
            continue
        if _OURS.match(text, at):
            line = text.count("\n", 0, at) + 1
            raise InvalidOptionError(
                f"line {line} must be NAME=VALUE",
                where=str(path),
                advice="Close the quotes, and quote values that contain quotes or spaces",
            )
        at = (text.find("\n", at) + 1) or len(text)
    return found


def _value_of(match: re.Match[str], variables: Mapping[str, str]) -> str:
    if match["literal"] is not None:
        return match["literal"]

    def mean(part: re.Match[str]) -> str:
        if part["escaped"] is not None:
            return part["escaped"].replace("n", "\n")
        return variables.get(part["braced"] or part["named"], "")

    return _MEANING.sub(mean, match["plain"] if match["quoted"] is None else match["quoted"])


PUBLISHED_SECRETS: Final = frozenset({"top_secret$iggy123$_jwt_HS256_key#!", "top_secret$iggy.rs$_jwt_HS256_key#!"})
"""Default signing secrets of Iggy's server, which are public and therefore insecure."""

_SECOND_US: Final = 1_000_000
_LEVELS: Final = {"trace": "debug", "warn": "warning"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """All settings of a server.

    Args:
        data: The directory of the log; None keeps the log in memory.
        tcp_address: Address for TCP; None disables it.
        http_address: Address for HTTP; None disables it.
        quic_address: Address for QUIC; None disables it.
        quic_files: Certificate and key for QUIC; None generates a certificate for localhost and stores it beside the log.
        quic_idle_s: Idle timeout of a QUIC connection, seconds.
        kafka_address: Address for Kafka clients; None disables it.
        kafka_tls: Certificate and key for Kafka clients; None disables encryption.
        kafka: Kafka listener settings.
        tcp_tls: Certificate and key for TCP; None disables encryption.
        http_tls: Certificate and key for HTTP; None disables encryption.
        tcp: TCP settings.
        http: HTTP settings.
        tokens: Access token settings.
        has_secret: Whether the secret for access tokens is configured; if not, the secret stored beside the log is used.
        settings: Broker settings.
        connection_rate: Maximum new connections per second from one address; None: no limit.
        memory_budget_bytes: Limit for buffered requests and responses of all clients, bytes; None: a quarter of the memory.
        segment_bytes: Size at which a new segment is started, bytes.
        group_access: Access of the directory's operating-system group to the files of a new log: none, read or write.
        delivery_audit: Topic for audit rows of delivery transitions; None disables the audit.
        tracing: Whether appends of traced messages are recorded as OpenTelemetry spans.
        metrics_otlp: Whether metrics are sent to an OpenTelemetry collector.
        runtime: The directory, within `data`, for files that describe the running server.
        pipelines: Checkpoints of the Replicate pipelines that the console shows: directories, or URIs of object stores.
        schemas: URL of a schema registry, or schema directory, with which the console decodes Avro; empty if not used.
        allow_default_password: Whether to serve other machines even if the root user has the default password.
        token_sweep_s: Interval for removing expired tokens, seconds; None disables the removal.
        drain_s: Timeout for a graceful stop, seconds.
        log_level: debug, info, warning or error.
        log_form: Format of log lines.
        values: All settings, in the form of a configuration file.
        warnings: Accepted settings that have no effect.
        read_from: The files from which the settings were read.
        is_fresh: Whether to remove an existing log in `data` first.
    """

    data: str | None = None
    tcp_address: Address | None = field(default_factory=lambda: Address("127.0.0.1", 8090))
    http_address: Address | None = field(default_factory=lambda: Address("127.0.0.1", 3000))
    quic_address: Address | None = None
    quic_files: TlsFiles | None = None
    quic_idle_s: float = 10.0
    kafka_address: Address | None = None
    kafka_tls: TlsFiles | None = None
    kafka: KafkaSettings = field(default_factory=KafkaSettings)
    tcp_tls: TlsFiles | None = None
    http_tls: TlsFiles | None = None
    tcp: TcpSettings = field(default_factory=TcpSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    tokens: TokenSettings = field(default_factory=lambda: TokenSettings(secret=os.urandom(64)))
    has_secret: bool = False
    settings: ServerSettings = field(default_factory=ServerSettings)
    connection_rate: int | None = CONNECTION_RATE
    memory_budget_bytes: int | None = None
    segment_bytes: int | None = None
    group_access: str = "none"
    delivery_audit: TopicName | None = None
    tracing: bool = False
    metrics_otlp: bool = False
    runtime: str = "runtime"
    pipelines: tuple[str, ...] = ()
    schemas: str = ""
    allow_default_password: bool = False
    token_sweep_s: float | None = 60.0
    drain_s: float = 10.0
    log_level: str = "info"
    log_form: LogForm = "text"
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    warnings: tuple[str, ...] = ()
    read_from: tuple[Path, ...] = ()
    is_fresh: bool = False


def load_config(
    path: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    options: Mapping[str, Any] | None = None,
    *,
    is_fresh: bool = False,
) -> ServerConfig:
    """Return the configuration of a server.

    Args:
        path: The configuration file; None uses the file that HEADSTREAM_CONFIG_PATH or IGGY_CONFIG_PATH names, if set.
        environ: The environment variables. HEADSTREAM_ENV_PATH or IGGY_ENV_PATH names a file with additional variables; the
            default is `.env` in the working directory, if it exists.
        options: Keys and values from the command line, which override all other sources.
        is_fresh: Whether to remove an existing log first.

    Raises:
        InvalidOptionError: settings are unknown, invalid or unsupported; the error lists all of these settings.
        StorageError: a file cannot be read.
    """
    env_path = _path_in(environ, "ENV") or (Path(".env") if Path(".env").is_file() else None)
    variables = {} if env_path is None else read_env_file(env_path, environ)
    path = path or _path_in(environ, "CONFIG") or _path_in(variables, "CONFIG")
    given = [] if path is None else read_file(path)
    given += [each._replace(where=f"{env_path}: {each.where}") for each in read_variables(variables)]
    given += read_variables(environ)
    given += [GivenValue(key, value, "the command line") for key, value in (options or {}).items()]
    if is_fresh and not any(each.key == "system.path" for each in given):
        raise InvalidOptionError("--fresh requires an explicit directory", advice="Set --data DIR, or omit --fresh")
    read_from = tuple(each for each in (path, env_path) if each is not None)
    return replace(_Loader(given).load(), read_from=read_from, is_fresh=is_fresh)


def _path_in(variables: Mapping[str, str], kind: str) -> Path | None:
    """Return the path in an environment variable, or None if not set."""
    named = variables.get(f"HEADSTREAM_{kind}_PATH") or variables.get(f"IGGY_{kind}_PATH")
    return Path(named) if named else None


class _Loader:
    """Builds a configuration from all sources; reports all problems together."""

    def __init__(self, given: Iterable[GivenValue]) -> None:
        self._problems: list[str] = []
        self._spelled: dict[str, Any] = {key: entry.default for key, entry in KEYS.items()}
        self._where: dict[str, str] = {}
        self._values: dict[str, Any] = {}
        for each in given:
            if each.key in KEYS:
                self._spelled[each.key] = each.value
                self._where[each.key] = each.where
            else:
                self._problems.append(f"{each.where}: {unknown(each)}")

    def load(self) -> ServerConfig:
        idle: defaultdict[str, list[str]] = defaultdict(list)
        for key, entry in KEYS.items():
            try:
                self._values[key] = entry.read(self._spelled[key])
            except ValueError as error:
                what = "invalid value" if key in SECRETS else str(error)
                self._problems.append(f"{self._where.get(key, key)}: {what}")
                continue
            if entry.only is not None and self._values[key] != entry.only:
                self._problems.append(f"{self._where.get(key, key)}: unsupported: {entry.without}")
            elif entry.without is not None and entry.only is None and key in self._where:
                idle[entry.without].append(key)
        if not self._problems:
            try:
                return self._build(tuple(f"{', '.join(keys)}: ignored: {why}" for why, keys in idle.items()))
            except InvalidInputError as error:
                self._problems.append(f"{error.where}: {error.what}" if error.where else error.what)
        raise self._refusal()

    def _refusal(self) -> InvalidOptionError:
        count = len(self._problems)
        what = self._problems[0] if count == 1 else "".join(f"\n  {problem}" for problem in self._problems)
        return InvalidOptionError(f"invalid configuration: {what}")

    def _build(self, warnings: tuple[str, ...]) -> ServerConfig:
        value, seconds = self._values, self._seconds
        level = value["system.logging.level"]
        cleaning = "personal_access_token.cleaner"
        return ServerConfig(
            data=self._data(),
            tcp_address=self._address("tcp"),
            http_address=self._address("http"),
            quic_address=self._address("quic"),
            quic_files=None
            if value["quic.certificate.self_signed"]
            else TlsFiles(certificate=Path(value["quic.certificate.cert_file"]), key=Path(value["quic.certificate.key_file"])),
            quic_idle_s=seconds("quic.max_idle_timeout"),
            kafka_address=self._address("kafka"),
            kafka_tls=TlsFiles(certificate=Path(value["kafka.tls.cert_file"]), key=Path(value["kafka.tls.key_file"]))
            if value["kafka.tls.enabled"]
            else None,
            kafka=self._kafka(),
            tcp_tls=TlsFiles(
                certificate=Path(value["tcp.tls.certificate"]),
                key=Path(value["headstream.tcp_key_file"]) if value["headstream.tcp_key_file"] else None,
                password=value["tcp.tls.password"],
            )
            if value["tcp.tls.enabled"]
            else None,
            http_tls=TlsFiles(certificate=Path(value["http.tls.cert_file"]), key=Path(value["http.tls.key_file"]))
            if value["http.tls.enabled"]
            else None,
            tcp=self._tcp(),
            http=self._http(),
            tokens=self._tokens(),
            has_secret=bool(value["http.jwt.encoding_secret"] or value["http.jwt.decoding_secret"]),
            settings=self._settings(),
            connection_rate=value["headstream.max_connection_rate"],
            memory_budget_bytes=value["headstream.memory_budget"],
            segment_bytes=value["system.segment.size"],
            group_access=value["headstream.group_access"],
            delivery_audit=self._topic("headstream.delivery_audit"),
            tracing=value["headstream.tracing"],
            metrics_otlp=value["headstream.metrics_otlp"],
            runtime=self._runtime(),
            pipelines=value["headstream.pipelines"],
            schemas=value["headstream.schemas"],
            allow_default_password=value["headstream.allow_default_password"],
            token_sweep_s=seconds(f"{cleaning}.interval") if value[f"{cleaning}.enabled"] else None,
            drain_s=seconds("headstream.drain_timeout"),
            log_level=_LEVELS.get(level, level),
            log_form=value["headstream.log_format"],
            values=self._spelled,
            warnings=warnings,
        )

    def _seconds(self, key: str) -> float:
        value = self._values[key]
        return math.inf if value is None else float(value) / _SECOND_US

    def _data(self) -> str | None:
        path: str | None = self._values["system.path"]
        problem = None if path is None else find_path_problem(path)
        if problem is not None:
            raise InvalidOptionError(problem[0], where="system.path", advice=problem[1])
        return path

    def _topic(self, key: str) -> TopicName | None:
        try:
            return TopicName.parse(self._values[key]) if self._values[key] else None
        except InvalidInputError as error:
            raise InvalidOptionError(error.what, where=key, advice=error.advice) from None

    def _address(self, transport: str) -> Address | None:
        if not self._values[f"{transport}.enabled"]:
            return None
        address = Address.parse(self._values[f"{transport}.address"], f"{transport}.address")
        if transport == "tcp" and self._values["tcp.ipv6"] and ":" not in address.host:
            raise InvalidOptionError("tcp.ipv6 is true, but the address is not an IPv6 address", where="tcp.address")
        return address

    def _runtime(self) -> str:
        name: str = self._values["system.runtime.path"]
        if not name or "/" in name or name.startswith("."):
            raise InvalidOptionError("the name of a directory, without a path, is required", where="system.runtime.path")
        return name

    def _tcp(self) -> TcpSettings:
        value = self._values
        options = SocketOptions(
            receive_bytes=value["tcp.socket.recv_buffer_size"],
            send_bytes=value["tcp.socket.send_buffer_size"],
            keepalive=value["tcp.socket.keepalive"],
            linger_s=value["tcp.socket.linger"] // _SECOND_US,
        )
        return TcpSettings(
            max_connections=value["headstream.max_connections"],
            limits=self._limits(),
            unsent_bytes=value["headstream.max_unsent_total"],
            socket=options if value["tcp.socket.override_defaults"] else None,
        )

    def _limits(self) -> ConnectionLimits:
        value = self._values
        return ConnectionLimits(
            frame_bytes=value["headstream.max_frame_size"],
            unsent_bytes=value["headstream.max_unsent_size"],
            frame_s=self._seconds("headstream.request_timeout"),
            stall_s=self._seconds("headstream.stall_timeout"),
            login_s=self._seconds("headstream.login_timeout"),
            hold_s=self._seconds("headstream.hold_empty_polls"),
        )

    def _kafka(self) -> KafkaSettings:
        value = self._values
        advertised = value["kafka.advertised_address"]
        return KafkaSettings(
            default_stream=check_name(value["kafka.default_stream"], "stream"),
            default_partitions=value["kafka.default_partitions"],
            advertised=Address.parse(advertised, "kafka.advertised_address") if advertised else None,
            anonymous_user=value["kafka.anonymous_user"] or None,
            max_connections=value["headstream.max_connections"],
            limits=self._limits(),
        )

    def _http(self) -> HttpSettings:
        value = self._values
        cors = CorsSettings(
            allowed_origins=value["http.cors.allowed_origins"],
            allowed_methods=value["http.cors.allowed_methods"],
            allowed_headers=value["http.cors.allowed_headers"],
            exposed_headers=value["http.cors.exposed_headers"],
            allow_credentials=value["http.cors.allow_credentials"],
            allow_private_network=value["http.cors.allow_private_network"],
        )
        endpoint = value["http.metrics.endpoint"]
        if not endpoint.startswith("/"):
            raise InvalidOptionError("a path that begins with / is required", where="http.metrics.endpoint")
        return HttpSettings(
            max_body_bytes=value["http.max_request_size"],
            max_binary_bytes=value["headstream.max_frame_size"],
            max_connections=value["headstream.max_connections"],
            drain_s=self._seconds("headstream.drain_timeout"),
            metrics_of_groups=value["headstream.metrics_of_groups"],
            metrics_path=endpoint if value["http.metrics.enabled"] else None,
            cors=cors if value["http.cors.enabled"] else None,
            console=self._console(),
            allowed_hosts=tuple(name.lower() for name in value["headstream.allowed_hosts"]),
        )

    def _console(self) -> bool:
        """Return whether to serve the console; by default, only if no other machine can reach the HTTP address."""
        given: bool | None = self._values["headstream.console"]
        address = self._address("http")
        return given if given is not None else address is None or address.is_loopback

    def _tokens(self) -> TokenSettings:
        value = self._values
        secret, other = value["http.jwt.encoding_secret"], value["http.jwt.decoding_secret"]
        if secret and other and secret != other:
            raise InvalidOptionError("encoding_secret and decoding_secret must be equal for HS256 to HS512", where="http.jwt")
        text = secret or other
        data = text.encode()
        if text and value["http.jwt.use_base64_secret"]:
            try:
                data = base64.b64decode(text, validate=True)
            except binascii.Error:
                raise InvalidOptionError("the secret must be base64", where="http.jwt.encoding_secret") from None
        return TokenSettings(
            secret=data or os.urandom(64),
            algorithm=value["http.jwt.algorithm"],
            issuer=value["http.jwt.issuer"],
            audience=value["http.jwt.audience"],
            valid_issuers=value["http.jwt.valid_issuers"],
            valid_audiences=value["http.jwt.valid_audiences"],
            expiry_s=value["http.jwt.access_token_expiry"] // _SECOND_US,
            not_before_s=value["http.jwt.not_before"] // _SECOND_US,
            clock_skew_s=value["http.jwt.clock_skew"] // _SECOND_US,
        )

    def _settings(self) -> ServerSettings:
        value = self._values
        name, password = value["headstream.root_username"], value["headstream.root_password"]
        if bool(name) != bool(password):
            raise InvalidOptionError("the root user's name and password must be set together", where="root_username")
        given = {}
        if name:
            check_username(name)
            check_password(password)
            given = {"root_username": name, "root_password": password}
        largest, segment = value["system.topic.max_size"], value["system.segment.size"]
        if largest is not None and largest < segment:
            raise InvalidOptionError("the size must be at least system.segment.size", where="system.topic.max_size")
        repeats = "system.message_deduplication"
        return ServerSettings(
            **given,
            most_tokens=value["personal_access_token.max_tokens_per_user"],
            most_consumers=value["headstream.max_consumers_per_user"],
            heartbeat_us=value["heartbeat.interval"] if value["heartbeat.enabled"] else None,
            message_expiry_us=value["system.segment.message_expiry"],
            max_topic_bytes=largest,
            fsync=Fsync.ALWAYS if value["system.partition.enforce_fsync"] else Fsync.INTERVAL,
            deduplication_count=value[f"{repeats}.max_entries"] if value[f"{repeats}.enabled"] else None,
            password_rounds=value["headstream.password_rounds"],
        )
