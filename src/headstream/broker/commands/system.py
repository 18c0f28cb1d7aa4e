"""Commands about the server: statistics, the log's identity, connected clients, and the diagnostic archive."""

from __future__ import annotations

import functools
import os
import platform
import shutil
import threading
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from headstream.broker.accounts.sessions import Session
from headstream.broker.cached_value import CachedValue
from headstream.broker.commands.dispatch import CommandRow, Dispatcher
from headstream.broker.commands.snapshot import make_archive
from headstream.core.wire.commands.system import (
    Client,
    ClientDetails,
    ClientGroup,
    Cluster,
    ClusterNode,
    DescribeOptions,
    GetClient,
    GetCluster,
    GetMe,
    GetStats,
    ListClients,
    OptionDescription,
    OptionScope,
    Snapshot,
    Stats,
    TransportKind,
)
from headstream.core.wire.extensions.topic_options import GetIdentity, Identity
from headstream.core.wire.records import Command
from headstream.core.wire.refusals import refusal
from headstream.core.wire.statuses import Status
from headstream.core.wire.vsr.options import TOPIC_OPTIONS

if TYPE_CHECKING:
    import psutil


@functools.cache
def _process() -> psutil.Process:
    import psutil  # a package of the server's extra

    return psutil.Process()


def get_stats(server: Dispatcher, session: Session, command: GetStats) -> Stats:
    """Return statistics."""
    return measure(server)


class _System(NamedTuple):
    """Operating-system figures for this process and the machine."""

    cpu_usage: float
    total_cpu_usage: float
    memory_bytes: int
    total_memory_bytes: int
    available_memory_bytes: int
    start_time_us: int
    read_bytes: int
    written_bytes: int
    os_version: str


_SYSTEM: Final = CachedValue[_System](kept_s=0.2)
"""Reading the figures opens seven files, mostly with the interpreter's lock held: 0.3 ms, too much for frequent requests."""


def _ask_system() -> _System:
    """Return the current figures; processor usage is measured since the last call."""
    import psutil

    process, memory = _process(), psutil.virtual_memory()
    with process.oneshot():
        read_bytes, written_bytes = _traffic(process)
        return _System(
            cpu_usage=process.cpu_percent(),
            total_cpu_usage=psutil.cpu_percent(),
            memory_bytes=process.memory_info().rss,
            total_memory_bytes=memory.total,
            available_memory_bytes=memory.available,
            start_time_us=int(process.create_time() * 1_000_000),
            read_bytes=read_bytes,
            written_bytes=written_bytes,
            os_version=_os_version(),
        )


def measure(server: Dispatcher) -> Stats:
    """Return statistics of a server; processor and memory figures are cached briefly."""
    totals = server.counts.totals(server.lookup.snapshot())
    system = _SYSTEM.get(_ask_system)
    disk = _measure_disk(server.broker.backing.log.root)
    return Stats(
        process_id=os.getpid(),
        cpu_usage=system.cpu_usage,
        total_cpu_usage=system.total_cpu_usage,
        memory_bytes=system.memory_bytes,
        total_memory_bytes=system.total_memory_bytes,
        available_memory_bytes=system.available_memory_bytes,
        run_time_us=max(server.broker.backing.clock_us() - system.start_time_us, 0),
        start_time_us=system.start_time_us,
        read_bytes=system.read_bytes,
        written_bytes=system.written_bytes,
        messages_size_bytes=totals.size_bytes,
        streams_count=totals.streams_count,
        topics_count=totals.topics_count,
        partitions_count=totals.partitions_count,
        segments_count=totals.segments_count,
        messages_count=totals.messages_count,
        clients_count=len(server.sessions.list()),
        groups_count=totals.groups_count,
        hostname=platform.node(),
        os_name=platform.system(),
        os_version=system.os_version,
        kernel_version=platform.release(),
        server_version=server.settings.reported_version,
        server_semver=_number_of(server.settings.reported_version),
        threads_count=threading.active_count(),
        free_disk_bytes=disk[1],
        total_disk_bytes=disk[0],
    )


def _measure_disk(directory: str) -> tuple[int, int]:
    """Return the size and the free space of a directory's disk, bytes; 0 if unknown."""
    try:
        found = shutil.disk_usage(directory)
    except OSError:
        return 0, 0
    return found.total, found.free


def _os_version() -> str:
    try:
        return platform.freedesktop_os_release().get("VERSION_ID") or platform.release()
    except OSError:  # not available on every system
        return platform.release()


def _traffic(process: psutil.Process) -> tuple[int, int]:
    try:
        counters = process.io_counters()
    except (AttributeError, OSError):  # not available on every system, nor to every user
        return 0, 0
    return counters.read_bytes, counters.write_bytes


def _number_of(version: str) -> int:
    major, minor, patch = (int(part) for part in version.split("."))
    return major * 1_000_000 + minor * 1000 + patch


def get_me(server: Dispatcher, session: Session, command: GetMe) -> ClientDetails:
    """Return the requesting client; error (100) if the connection has ended meanwhile."""
    server.rights(session).read_servers()
    if session.transport is None:
        raise refusal(Status.FEATURE_UNAVAILABLE, "a request over HTTP has no connection", advice="Connect over TCP")
    if server.sessions.find(session.client_id) is not session:
        session.is_ended = True
        raise refusal(Status.CLIENT_NOT_FOUND, "the connection was closed", advice="Connect and log in again")
    return _detail(server, session, session.transport)


def get_client(server: Dispatcher, session: Session, command: GetClient) -> ClientDetails | None:
    """Return a client."""
    server.rights(session).read_servers()
    found = server.sessions.find(command.client_id)
    return None if found is None or found.transport is None else _detail(server, found, found.transport)


def list_clients(server: Dispatcher, session: Session, command: ListClients) -> tuple[Client, ...]:
    """Return all clients, ordered by id."""
    server.rights(session).read_servers()
    joined = server.connection_groups.of
    return tuple(
        Client(each.client_id, each.user_id, each.transport, each.address, len(joined(each.client_id)))
        for each in server.sessions.list()
        if each.transport is not None
    )


def _detail(server: Dispatcher, session: Session, transport: TransportKind) -> ClientDetails:
    joined = server.connection_groups.of(session.client_id)
    groups = tuple(ClientGroup(key.stream_id, key.topic_id, key.group_id) for key in joined)
    return ClientDetails(session.client_id, session.user_id, transport, session.address, groups)


def get_snapshot(server: Dispatcher, session: Session, command: Snapshot) -> bytes:
    """Return a diagnostic archive (ZIP) of the server."""
    return make_archive(server.broker.backing.log, command.compression, command.types)


def get_identity(server: Dispatcher, session: Session, command: GetIdentity) -> Identity:
    """Return the log's identity."""
    return Identity(server.broker.identity or "")


def get_cluster(server: Dispatcher, session: Session, command: GetCluster) -> Cluster:
    """Return this server as a cluster of one broker, with the address to which the client has connected."""
    if not session.server_address:
        raise refusal(Status.FEATURE_UNAVAILABLE, "the server has no address for this transport", advice="Use TCP")
    host, _, port = session.server_address.rpartition(":")
    port_field = "tcp_port" if session.transport else "http_port"
    return Cluster("headstream", (ClusterNode("headstream", host.strip("[]"), **{"tcp_port": 0, port_field: int(port)}),))


def describe_options(server: Dispatcher, session: Session, command: DescribeOptions) -> tuple[OptionDescription, ...]:
    """Return the topic options; streams and users have no options."""
    known = TOPIC_OPTIONS if command.scope is OptionScope.TOPIC else {}
    return tuple(OptionDescription(key, each.kind, each.default, each.about) for key, each in known.items())


ROWS: Final[dict[type[Command[Any]], CommandRow]] = {
    GetStats: CommandRow(get_stats, is_slow=True, threads="scans"),
    GetMe: CommandRow(get_me),
    GetClient: CommandRow(get_client),
    ListClients: CommandRow(list_clients),
    Snapshot: CommandRow(get_snapshot, is_slow=True, threads="scans"),
    GetIdentity: CommandRow(get_identity),
    GetCluster: CommandRow(get_cluster, is_quick=True),
    DescribeOptions: CommandRow(describe_options, is_quick=True),
}
