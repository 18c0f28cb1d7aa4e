"""QuicServer: the QUIC listener: one UDP socket and a limited number of connections.

datagram -> the connection with its id
         -> connection without a login: queued (network/admission.py)
         -> no connection: a first packet opens a connection, within the limits; if many handshakes are pending, the client must
            first prove that it receives packets at its address (Retry, for which the server stores no state)
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from aioquic._buffer import Buffer
from aioquic.quic.configuration import SMALLEST_MAX_DATAGRAM_SIZE, QuicConfiguration
from aioquic.quic.packet import QuicHeader, QuicPacketType, encode_quic_retry, encode_quic_version_negotiation, pull_quic_header

from headstream.broker.commands.dispatch import Dispatcher
from headstream.errors import EnvironmentSetupError
from headstream.server.config.tcp_settings import ConnectionLimits
from headstream.server.iggy.fast_path.traffic import Traffic
from headstream.server.iggy.quic.connection import QuicClient
from headstream.server.iggy.quic.flow import BoundedQuicConnection
from headstream.server.iggy.quic.tls import AddressTokens, load_certificate
from headstream.server.network.addresses import Address
from headstream.server.network.admission import HANDSHAKE_COST, Admission
from headstream.server.network.tls import TlsFiles
from headstream.server.network.unauthenticated_connections import UnauthenticatedConnections
from headstream.server.reporting.logs import note
from headstream.server.resources.memory_budget import MemoryBudget
from headstream.server.resources.workers import Workers

_DATAGRAMS_PER_ROUND: Final = 32
"""Number of datagrams that are processed before the event loop continues with other work: a flood fills the system's buffer,
but does not block the loop."""

_UNAUTHENTICATED_WINDOW_BYTES: Final = 32 << 10
"""Receive window before the login: a login and one or two datagrams."""

_TRUSTED_HANDSHAKES: Final = 32
"""Number of pending handshakes from which new clients must validate their addresses (Retry)."""
_MOST_HANDSHAKES: Final = 256
"""Maximum number of pending handshakes; further first packets are dropped, and real clients resend these packets."""
_HANDSHAKES_A_SECOND: Final = 100
"""Handshakes per second; a handshake takes a few milliseconds, so that a flood leaves most of the time to other connections."""

_MOST_WAITING: Final = 256
"""Maximum number of queued datagrams of unauthenticated clients; real clients resend dropped datagrams."""

_CHECK_S: Final = 0.5
_SOCKET_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class QuicSettings:
    """Settings of QUIC.

    Args:
        files: The certificate and the private key, PEM.
    """

    files: TlsFiles
    max_connections: int = 10_000
    idle_s: float = 10.0
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)


class QuicServer:
    """All QUIC connections; runs in the event loop."""

    def __init__(
        self, dispatcher: Dispatcher, workers: Workers, settings: QuicSettings, budget: MemoryBudget, admission: Admission
    ) -> None:
        self.dispatcher = dispatcher
        self.workers = workers
        self.limits = settings.limits
        self.budget = budget
        self.traffic = Traffic("quic")
        self._settings = settings
        self._configuration = QuicConfiguration(
            is_client=False,
            idle_timeout=settings.idle_s,
            max_data=_UNAUTHENTICATED_WINDOW_BYTES,
            max_stream_data=_UNAUTHENTICATED_WINDOW_BYTES,
        )
        load_certificate(self._configuration, settings.files)
        self._tokens = AddressTokens()
        self._quota = admission.quota
        self._waiting = 0
        self._clients: dict[QuicClient, set[bytes]] = {}
        self._unauthenticated = UnauthenticatedConnections[QuicClient](lambda client: client.close("too many connections"))
        self._by_id: dict[bytes, QuicClient] = {}
        self._begun = 0
        self._begun_since_s = 0.0
        self._socket: socket.socket | None = None
        self._loop = asyncio.get_running_loop()
        self._checking: asyncio.Task[None] | None = None

    @property
    def handshakes_count(self) -> int:
        """Number of pending handshakes."""
        return sum(client.is_half_open for client in self._clients)

    def start(self, address: Address) -> Address:
        """Listen; return the bound address. EnvironmentSetupError if the system refuses the address."""
        try:
            found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE)
            family, kind, protocol, _, place = min(found, key=lambda each: each[0] != socket.AF_INET)
            sock = socket.socket(family, kind, protocol)
        except OSError as error:
            raise self._cannot_listen(address, error) from None
        try:
            for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                sock.setsockopt(socket.SOL_SOCKET, option, _SOCKET_BYTES)
            sock.bind(place)
            sock.setblocking(False)
        except OSError as error:
            sock.close()
            raise self._cannot_listen(address, error) from None
        self._socket = sock
        self._loop.add_reader(sock.fileno(), self._receive)
        self._checking = self._loop.create_task(self._check_often())
        return Address(address.host, sock.getsockname()[1])

    @staticmethod
    def _cannot_listen(address: Address, error: OSError) -> EnvironmentSetupError:
        return EnvironmentSetupError(
            f"cannot listen for QUIC: {error.strerror or error}",
            where=str(address),
            advice="Choose another address, or port 0 for any free port",
        )

    def stop(self) -> None:
        """Close all connections and the socket; idempotent."""
        if self._socket is None:
            return
        for client in tuple(self._clients):
            client.close("the server stops")
        if self._checking is not None:
            self._checking.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._socket = None

    # -- called by connections ------------------------------------------------------------------------------

    def send(self, datagram: bytes, address: tuple[str, int]) -> None:
        """Send a datagram; a datagram that the system rejects is lost, as on the network."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.sendto(datagram, address)

    def named(self, client: QuicClient, connection_id: bytes) -> None:
        """Register another connection id of a client."""
        if client in self._clients:
            self._by_id[connection_id] = client
            self._clients[client].add(connection_id)

    def unnamed(self, connection_id: bytes) -> None:
        """Unregister a connection id."""
        client = self._by_id.pop(connection_id, None)
        if client is not None:
            self._clients[client].discard(connection_id)

    def left(self, client: QuicClient) -> None:
        """Unregister a closed connection."""
        self._unauthenticated.discard(client)
        for connection_id in self._clients.pop(client, ()):
            self._by_id.pop(connection_id, None)
        self.traffic.connections = len(self._clients)

    # -- datagrams ------------------------------------------------------------------------------------------

    def _receive(self) -> None:
        for _ in range(_DATAGRAMS_PER_ROUND):
            if self._socket is None:
                return
            try:
                datagram, address = self._socket.recvfrom(65_536)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:  # the system reports an undeliverable datagram
                continue
            try:
                self._take(datagram, address)
            except Exception as error:
                note(logging.ERROR, "internal error", error, what="a datagram", address=str(Address(*address[:2])))

    def _take(self, datagram: bytes, address: tuple[str, int]) -> None:
        try:
            header = pull_quic_header(Buffer(data=datagram), host_cid_length=self._configuration.connection_id_length)
        except ValueError:
            return
        client = self._by_id.get(header.destination_cid)
        if client is not None:
            if client.is_logged_in or not self._waits(datagram, address):
                client.receive(datagram, address)
            return
        if len(datagram) < SMALLEST_MAX_DATAGRAM_SIZE or header.packet_type == QuicPacketType.VERSION_NEGOTIATION:
            return
        if header.version is not None and header.version not in self._configuration.supported_versions:
            versions = self._configuration.supported_versions
            answer = encode_quic_version_negotiation(
                source_cid=header.destination_cid, destination_cid=header.source_cid, supported_versions=versions
            )
            self.send(answer, address)
        elif header.packet_type == QuicPacketType.INITIAL:
            self._begin(datagram, header, address)

    def _waits(self, datagram: bytes, address: tuple[str, int], cost: int = 1) -> bool:
        """Return whether a datagram of an unauthenticated client was queued; if the queue is full, the datagram is dropped.

        A datagram that neither belongs to a connection nor opens one is dropped immediately.
        """
        if self._quota.spend(cost):
            return False
        if self._waiting < _MOST_WAITING:
            self._waiting += 1
            self._quota.later(partial(self._take_waiting, datagram, address))
        return True

    def _take_waiting(self, datagram: bytes, address: tuple[str, int]) -> None:
        self._waiting -= 1
        if self._socket is not None:
            self._take(datagram, address)

    def _begin(self, datagram: bytes, header: QuicHeader, address: tuple[str, int]) -> None:
        """Open a connection for a first packet, within the limits."""
        now_s = self._loop.time()
        if now_s - self._begun_since_s > 1:
            self._begun, self._begun_since_s = 0, now_s
        handshakes = self.handshakes_count if len(self._clients) >= _TRUSTED_HANDSHAKES else 0
        if handshakes >= _MOST_HANDSHAKES or self._begun >= _HANDSHAKES_A_SECOND:
            return
        original_id, retry_id = header.destination_cid, None
        if header.token:
            ids = self._tokens.read(header.token, address, now_s)
            if ids is None:
                return
            original_id, retry_id = ids
        elif max(handshakes, self._begun, self._waiting) >= _TRUSTED_HANDSHAKES:
            self._retry(header, address, now_s)
            return
        if self._waits(datagram, address, HANDSHAKE_COST):
            return
        if len(self._clients) >= self._settings.max_connections and not self._unauthenticated.end_oldest():
            self.traffic.refused_connections += 1
            return
        self._begun += 1
        connection = BoundedQuicConnection(
            configuration=self._configuration, original_destination_connection_id=original_id, retry_source_connection_id=retry_id
        )
        client = QuicClient(self, connection, address, self._loop)
        self._clients[client] = set()
        self._unauthenticated.add(client)
        self.traffic.connections = len(self._clients)
        for connection_id in (header.destination_cid, client.connection_id):
            self.named(client, connection_id)
        client.receive(datagram, address)

    def _retry(self, header: QuicHeader, address: tuple[str, int], now_s: float) -> None:
        """Ask a client to validate its address."""
        assert header.version is not None
        retry_id = os.urandom(8)
        answer = encode_quic_retry(
            version=header.version,
            source_cid=retry_id,
            destination_cid=header.source_cid,
            original_destination_cid=header.destination_cid,
            retry_token=self._tokens.make(address, header.destination_cid, retry_id, now_s),
        )
        self.send(answer, address)

    async def _check_often(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_S)
            for client in tuple(self._clients):
                client.check(self._loop.time())
