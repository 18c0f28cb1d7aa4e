"""RemoteTransport: a client's transport to a server."""

from __future__ import annotations

from headstream.client.transports.remote.address import ServerUrl
from headstream.client.transports.remote.caller import Caller
from headstream.client.transports.remote.connection import Connector
from headstream.client.transports.remote.deliveries import RemoteDeliveries, RemoteDeliveryViews, RemoteLeases
from headstream.client.transports.remote.messages import RemoteMessages
from headstream.client.transports.remote.progress import RemoteGroups, RemoteOffsets
from headstream.client.transports.remote.topology import RemotePartitions, RemoteStreams, RemoteTopics
from headstream.core.wire.extensions.topic_options import GetIdentity


def connector_of(address: ServerUrl) -> Connector:
    """Return the connector of a server."""
    if address.scheme == "headstream":
        from headstream.client.transports.remote.tcp import TcpConnector

        return TcpConnector(address)
    if address.scheme == "quic":
        from headstream.client.transports.remote.quic import QuicConnector

        return QuicConnector(address)
    from headstream.client.transports.remote.http import HttpConnector

    return HttpConnector(address)


class RemoteTransport:
    """All commands of a log on a server; see Transport.

    The transport connects at its first use, or when it is opened, with one attempt. Later, a broken connection is reopened within
    the limits of the address's options. The transport closes the caller.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self.streams = RemoteStreams(caller)
        self.topics = RemoteTopics(caller)
        self.partitions = RemotePartitions(caller, self.topics)
        self.messages = RemoteMessages(caller, self.topics)
        self.offsets = RemoteOffsets(caller)
        self.groups = RemoteGroups(caller)
        self.deliveries = RemoteDeliveries(caller)
        self.delivery_views = RemoteDeliveryViews(caller)
        self.leases = RemoteLeases(caller)

    @property
    def identity(self) -> str | None:
        return self._caller.call(GetIdentity()).uuid or None

    def open(self) -> None:
        """Connect now; see Caller.open()."""
        self._caller.open()

    def interrupt(self, thread: int, is_over: bool = False) -> None:
        """Interrupt a thread's current call; see Caller.interrupt(). A call that starts later is not affected."""
        if not is_over:
            self._caller.interrupt(thread)

    def close(self) -> None:
        """Close the connections to the server."""
        self.groups.close()
        self._caller.close()
