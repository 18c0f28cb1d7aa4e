"""Call: one request of a client, with all objects that the handler needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from headstream.broker.accounts.permissions import Rights
from headstream.broker.accounts.scram import ScramLogin
from headstream.broker.accounts.sessions import Session
from headstream.broker.accounts.users import User
from headstream.broker.commands.dispatch import Dispatcher
from headstream.server.config.kafka_settings import KafkaSettings
from headstream.server.kafka.groups.coordinator import Coordinator
from headstream.server.network.addresses import Address
from headstream.server.resources.memory_budget import MemoryBudget

NODE_ID: Final = 1
"""Id of the only broker of the cluster."""
NO_OPERATIONS: Final = -(1 << 31)
"""The authorized operations in a response to a client that did not request them."""

Reply: TypeAlias = Mapping[str, Any] | None
"""The fields of a response; None if no response is sent."""


@dataclass(slots=True)
class SaslLogin:
    """The login of one connection.

    Args:
        scram: The SCRAM login in progress.
        user: The user of the SCRAM login, as read when the login started.
    """

    mechanism: str | None = None
    scram: ScramLogin | None = None
    user: User | None = None


@dataclass(slots=True, kw_only=True)
class ListenerContext:
    """The state that all connections share; `coordinator` manages the groups with members."""

    dispatcher: Dispatcher
    settings: KafkaSettings
    budget: MemoryBudget
    coordinator: Coordinator


@dataclass(slots=True, kw_only=True)
class Call:
    """One request.

    Args:
        here: The address to which the client has connected.
        sasl: The SASL login of the connection.
    """

    context: ListenerContext
    session: Session
    version: int
    client_id: str
    request: dict[str, Any]
    here: Address
    sasl: SaslLogin

    @property
    def rights(self) -> Rights:
        """The rights of the user."""
        return self.context.dispatcher.rights(self.session)

    @property
    def advertised(self) -> Address:
        """The address that metadata reports to clients."""
        return self.context.settings.advertised or self.here
