"""Commands about the server: statistics, clients, a snapshot.

client   client_id u32 | user_id u32 (0 not logged in) | transport u8 | address text32 | groups_count u32
         [| (stream u32 | topic u32 | group u32) ...]      only for a single client
snapshot compression u8 | count u8 | type u8 ...
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Annotated, Any, Final

from headstream.core.codec.buffer import BytesLike, Reader, Writer
from headstream.core.model.header_values import HeaderKind
from headstream.core.wire.codes import Code
from headstream.core.wire.commands.checks import check_count
from headstream.core.wire.fields import fields_of
from headstream.core.wire.records import Command, Record, Records, many, maybe, one
from headstream.core.wire.refusals import refusal
from headstream.core.wire.shapes import (
    F32,
    U8,
    U32,
    U64,
    AbsentU32,
    Json,
    Shape,
    Size,
    Text8,
    Text32,
    TextCode,
    Unsigned,
    invalid_value,
)
from headstream.core.wire.statuses import Status


class TransportKind(enum.IntEnum):
    """The transport of a client."""

    TCP = 1
    QUIC = 2


class SnapshotCompression(enum.IntEnum):
    """The compression of a snapshot's entries."""

    STORED = 1
    DEFLATED = 2
    BZIP2 = 3
    ZSTD = 4
    LZMA = 5
    XZ = 6


class SnapshotType(enum.IntEnum):
    """The parts of a snapshot."""

    FILESYSTEM_OVERVIEW = 1
    PROCESS_LIST = 2
    RESOURCE_USAGE = 3
    TEST = 4
    SERVER_LOGS = 5
    SERVER_CONFIG = 6
    ALL = 100


TYPE: Final = TextCode(SnapshotType, "camel")


class TypesShape(Shape):
    """count u8 | type u8 ..."""

    def push(self, writer: Writer, value: tuple[SnapshotType, ...]) -> None:
        writer.push_u8(len(value))
        for kind in value:
            writer.push_u8(kind)

    def pull(self, reader: Reader, what: str) -> tuple[Any, ...]:
        return tuple(TYPE.pull(reader, "snapshot type") for _ in range(reader.pull_u8(f"the number of {what}")))

    def to_json_value(self, value: tuple[SnapshotType, ...]) -> list[str]:
        return [TYPE.to_json_value(kind) for kind in value]

    def from_json_value(self, json_value: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(json_value, list):
            raise invalid_value(json_value, "a list", where)
        return tuple(TYPE.from_json_value(item, f"{where}[{number}]") for number, item in enumerate(json_value))


class _Bytes(Shape):
    """The bytes of a file, which are the same in every transport."""

    def push(self, writer: Writer, value: BytesLike) -> None:
        writer.push_bytes(value)

    def pull(self, reader: Reader, what: str) -> bytes:
        return reader.pull_bytes(reader.remaining, what)

    def to_json_value(self, value: BytesLike) -> Any:
        raise refusal(Status.INVALID_FORMAT, "a snapshot is an archive, which JSON cannot represent")


@dataclass(frozen=True, slots=True)
class ClientGroup(Record):
    """A group that a client has joined."""

    stream_id: U32
    topic_id: U32
    group_id: U32


@dataclass(frozen=True, slots=True)
class Client(Record):
    """One connected client."""

    client_id: U32
    user_id: AbsentU32
    transport: Annotated[TransportKind, TextCode(TransportKind, "upper")]
    address: Text32
    groups_count: Annotated[U32, Json("consumer_groups_count")]


@dataclass(frozen=True, slots=True)
class ClientDetails(Record):
    """One connected client with its groups."""

    client_id: U32
    user_id: AbsentU32
    transport: Annotated[TransportKind, TextCode(TransportKind, "upper")]
    address: Text32
    groups: Annotated[tuple[ClientGroup, ...], Records(ClientGroup, is_counted=True), Json("consumer_groups")]

    def spell(self) -> dict[str, Any]:
        return Record.spell(self) | {"consumer_groups_count": len(self.groups)}


@dataclass(frozen=True, slots=True)
class CacheMetrics(Record):
    """The cache hits and misses of a partition."""

    stream_id: U32
    topic_id: U32
    partition_id: U32
    hits: U64
    misses: U64
    hit_ratio: F32


class CachesShape(Records):
    """count u32 | metrics ...; in JSON an object with the keys `stream-topic-partition`."""

    def to_json_value(self, value: Any) -> Any:
        json_value = [metrics.spell() for metrics in value]
        keys = ("stream_id", "topic_id", "partition_id")
        return {"-".join(str(item.pop(key)) for key in keys): item for item in json_value}

    def from_json_value(self, json_value: Any, where: str) -> Any:
        if not isinstance(json_value, dict):
            raise invalid_value(json_value, "an object", where)
        found = []
        for name, item in json_value.items():
            parts = name.split("-")
            if len(parts) != 3 or not all(part.isascii() and part.isdecimal() and len(part) < 11 for part in parts):
                raise invalid_value(name, "stream-topic-partition", where)
            if not isinstance(item, dict):
                raise invalid_value(item, "an object", f"{where}.{name}")
            numbers = dict(zip(("stream_id", "topic_id", "partition_id"), map(int, parts), strict=True))
            found.append(CacheMetrics.read(numbers | item, f"{where}.{name}"))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Stats(Record):
    """The statistics of a server; times are in microseconds, CPU usage in percent."""

    process_id: U32
    cpu_usage: F32
    total_cpu_usage: F32
    memory_bytes: Annotated[Size, Json("memory_usage")]
    total_memory_bytes: Annotated[Size, Json("total_memory")]
    available_memory_bytes: Annotated[Size, Json("available_memory")]
    run_time_us: Annotated[U64, Json("run_time")]
    start_time_us: Annotated[U64, Json("start_time")]
    read_bytes: Size
    written_bytes: Size
    messages_size_bytes: Size
    streams_count: U32
    topics_count: U32
    partitions_count: U32
    segments_count: U32
    messages_count: U64
    clients_count: U32
    groups_count: Annotated[U32, Json("consumer_groups_count")]
    hostname: Text32
    os_name: Text32
    os_version: Text32
    kernel_version: Text32
    server_version: Annotated[Text32, Json("iggy_server_version")] = ""
    server_semver: Annotated[U32, Json("iggy_server_semver")] = 0
    caches: Annotated[tuple[CacheMetrics, ...], CachesShape(CacheMetrics, is_counted=True), Json("cache_metrics")] = ()

    threads_count: int = 0
    free_disk_bytes: int = 0
    total_disk_bytes: int = 0

    @classmethod
    def pull(cls, reader: Reader) -> Stats:
        """Read statistics; older servers omit the last three fields."""
        values = []
        for field in fields_of(cls):
            if field.name in ("server_version", "server_semver", "caches") and not reader.remaining:
                break
            values.append(field.shape.pull(reader, field.label))
        return cls(*values)


@dataclass(frozen=True, slots=True)
class GetStats(Command[Stats]):
    """Return statistics."""

    code = Code.STATS
    reply = one(Stats)


@dataclass(frozen=True, slots=True)
class Snapshot(Command[bytes]):
    """Return an archive (ZIP) that describes the server."""

    code = Code.SNAPSHOT
    reply = _Bytes()
    compression: Annotated[SnapshotCompression, TextCode(SnapshotCompression, "camel")]
    types: Annotated[tuple[SnapshotType, ...], TypesShape(), Json("snapshot_types")]

    def validate(self) -> None:
        if SnapshotType.ALL in self.types and len(self.types) > 1:
            raise refusal(Status.INVALID_COMMAND, "the snapshot type `all` excludes the other types")


class _Port(Unsigned):
    """A port, u16."""

    def __init__(self) -> None:
        self.size = 2

    def push(self, writer: Writer, value: int) -> None:
        writer.push_bytes(value.to_bytes(2, "little"))

    def pull(self, reader: Reader, what: str) -> int:
        return int.from_bytes(reader.pull_bytes(2, what), "little")


@dataclass(frozen=True, slots=True)
class ClusterNode(Record):
    """A server; the port of a transport that the server does not offer is 0."""

    name: Text32
    ip: Text32
    tcp_port: Annotated[int, _Port()]
    quic_port: Annotated[int, _Port()] = 0
    http_port: Annotated[int, _Port()] = 0
    websocket_port: Annotated[int, _Port()] = 0
    role: U8 = 0
    status: U8 = 0

    def spell(self) -> dict[str, Any]:
        """Return the server as a JSON object, as the healthy leader of a cluster of one server."""
        ports = {name: getattr(self, f"{name}_port") for name in ("tcp", "quic", "http", "websocket")}
        return {"name": self.name, "ip": self.ip, "endpoints": ports, "role": "leader", "status": "healthy"}


@dataclass(frozen=True, slots=True)
class Cluster(Record):
    """The servers of a cluster: always one server, which is the leader (role 0) and healthy (status 0)."""

    name: Text32
    nodes: Annotated[tuple[ClusterNode, ...], Records(ClusterNode, is_counted=True)]


@dataclass(frozen=True, slots=True)
class GetCluster(Command[Cluster]):
    """Return the cluster; clients of protocol 0.11 request it after each login."""

    code = Code.GET_CLUSTER
    reply = one(Cluster)


class OptionScope(enum.IntEnum):
    """The kinds of objects that have options."""

    TOPIC = 1
    STREAM = 2
    USER = 3


class DefaultShape(Shape):
    """length u32 | bytes; in JSON a list of numbers."""

    def push(self, writer: Writer, value: bytes) -> None:
        writer.push_u32(len(value))
        writer.push_bytes(value)

    def pull(self, reader: Reader, what: str) -> bytes:
        return reader.pull_bytes(reader.pull_u32(f"the length of {what}"), what)

    def to_json_value(self, value: bytes) -> list[int]:
        return list(value)


@dataclass(frozen=True, slots=True)
class OptionDescription(Record):
    """An option. `kind` is the kind of the canonical value and of the default; an empty default means the server's setting."""

    key: Text8
    kind: Annotated[HeaderKind, TextCode(HeaderKind)]
    default_value: Annotated[bytes, DefaultShape()]
    description: Text32


@dataclass(frozen=True, slots=True)
class DescribeOptions(Command[tuple[OptionDescription, ...]]):
    """Return the options with which topics, streams or users can be created."""

    code = Code.DESCRIBE_OPTIONS
    reply = Records(OptionDescription, is_counted=True)
    scope: Annotated[OptionScope, TextCode(OptionScope)]


@dataclass(frozen=True, slots=True)
class GetMe(Command[ClientDetails]):
    """Return the calling client."""

    code = Code.ME
    reply = one(ClientDetails)


@dataclass(frozen=True, slots=True)
class GetClient(Command[ClientDetails | None]):
    """Return a client, or None."""

    code = Code.GET_CLIENT
    reply = maybe(ClientDetails)
    client_id: U32

    def validate(self) -> None:
        check_count(self.client_id, 1, (1 << 32) - 1, Status.INVALID_CLIENT_ID, "a client id")


@dataclass(frozen=True, slots=True)
class ListClients(Command[tuple[Client, ...]]):
    """Return all clients."""

    code = Code.LIST_CLIENTS
    reply = many(Client)
