"""The server as a whole: its statistics, who is connected, and an archive that tells about it."""

from __future__ import annotations

import functools
import os
import platform
from typing import TYPE_CHECKING, Any, Final

from headstream.broker.commands.dispatch import Dispatcher, Handler
from headstream.broker.commands.snapshot import make_archive
from headstream.broker.sessions import Session
from headstream.wire.commands.system import (
    Client,
    ClientDetails,
    ClientGroup,
    GetClient,
    GetMe,
    GetStats,
    ListClients,
    Snapshot,
    Stats,
    TransportKind,
)
from headstream.wire.records import Command
from headstream.wire.refusals import refusal
from headstream.wire.statuses import Status

if TYPE_CHECKING:
    import psutil

__all__ = ["HANDLERS", "measure"]


@functools.cache
def _process() -> psutil.Process:
    import psutil  # it comes with the server's extra, and only statistics need it

    return psutil.Process()


def get_stats(server: Dispatcher, session: Session, command: GetStats) -> Stats:
    """Return statistics."""
    return measure(server)


def measure(server: Dispatcher) -> Stats:
    """Return statistics of a server; processor usage is since the last call."""
    import psutil

    totals = server.counts.totals(server.places.snapshot())
    process, memory = _process(), psutil.virtual_memory()
    with process.oneshot():
        read_bytes, written_bytes = _traffic(process)
        start_us = int(process.create_time() * 1_000_000)
        return Stats(
            process_id=os.getpid(),
            cpu_usage=process.cpu_percent(),
            total_cpu_usage=psutil.cpu_percent(),
            memory_bytes=process.memory_info().rss,
            total_memory_bytes=memory.total,
            available_memory_bytes=memory.available,
            run_time_us=max(server.broker.backing.clock_us() - start_us, 0),
            start_time_us=start_us,
            read_bytes=read_bytes,
            written_bytes=written_bytes,
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
            os_version=_os_version(),
            kernel_version=platform.release(),
            server_version=server.settings.reported_version,
            server_semver=_number_of(server.settings.reported_version),
        )


def _os_version() -> str:
    try:
        return platform.freedesktop_os_release().get("VERSION_ID") or platform.release()
    except OSError:  # not every system says so
        return platform.release()


def _traffic(process: psutil.Process) -> tuple[int, int]:
    try:
        counters = process.io_counters()
    except (AttributeError, OSError):  # not told on every system, nor to everybody
        return 0, 0
    return counters.read_bytes, counters.write_bytes


def _number_of(version: str) -> int:
    major, minor, patch = (int(part) for part in version.split("."))
    return major * 1_000_000 + minor * 1000 + patch


def get_me(server: Dispatcher, session: Session, command: GetMe) -> ClientDetails:
    """Return the client that asks; the connection ends where it has been ended in between (100)."""
    server.rights(session).read_servers()
    if session.transport is None:
        raise refusal(Status.FEATURE_UNAVAILABLE, "a request over HTTP is no client", advice="Connect over TCP")
    if server.sessions.find(session.client_id) is not session:
        session.is_ended = True
        raise refusal(Status.CLIENT_NOT_FOUND, "this connection has been ended", advice="Connect and log in again")
    return _detail(server, session, session.transport)


def get_client(server: Dispatcher, session: Session, command: GetClient) -> ClientDetails | None:
    """Return a client."""
    server.rights(session).read_servers()
    found = server.sessions.find(command.client_id)
    return None if found is None or found.transport is None else _detail(server, found, found.transport)


def list_clients(server: Dispatcher, session: Session, command: ListClients) -> tuple[Client, ...]:
    """Return all clients, in the order of their numbers."""
    server.rights(session).read_servers()
    joined = server.connection_groups.of
    return tuple(
        Client(each.client_id, each.user_id, each.transport, each.address, len(joined(each.client_id)))
        for each in server.sessions.list()
        if each.transport is not None
    )


def _detail(server: Dispatcher, session: Session, transport: TransportKind) -> ClientDetails:
    joined = server.connection_groups.of(session.client_id)
    groups = tuple(ClientGroup(place.stream_id, place.topic_id, place.group_id) for place in joined)
    return ClientDetails(session.client_id, session.user_id, transport, session.address, groups)


def get_snapshot(server: Dispatcher, session: Session, command: Snapshot) -> bytes:
    """Return an archive (ZIP) that tells about the server."""
    return make_archive(server.broker.backing.log, command.compression, command.types)


HANDLERS: Final[dict[type[Command[Any]], Handler]] = {
    GetStats: get_stats,
    GetMe: get_me,
    GetClient: get_client,
    ListClients: list_clients,
    Snapshot: get_snapshot,
}
