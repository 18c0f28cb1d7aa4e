"""Call: one request of a client, with all objects that its handler needs."""

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
"""The one broker of the cluster."""
NO_OPERATIONS: Final = -(1 << 31)
"""The authorized operations, for a client that did not ask for them."""

Reply: TypeAlias = Mapping[str, Any] | None
"""The fields of a response; None for no response at all."""


@dataclass(slots=True)
class SaslLogin:
    """The login of one connection.

    Args:
        scram: The SCRAM login in progress.
        user: The user of that login, as it was when it began.
    """

    mechanism: str | None = None
    scram: ScramLogin | None = None
    user: User | None = None


@dataclass(slots=True, kw_only=True)
class ListenerContext:
    """Objects that all connections share; `coordinator` has the groups with members."""

    dispatcher: Dispatcher
    settings: KafkaSettings
    budget: MemoryBudget
    coordinator: Coordinator


@dataclass(slots=True, kw_only=True)
class Call:
    """One request.

    Args:
        here: The address that the client has connected to.
        sasl: The login of the connection.
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
        """The user's permissions."""
        return self.context.dispatcher.rights(self.session)

    @property
    def advertised(self) -> Address:
        """The address reported to clients in metadata."""
        return self.context.settings.advertised or self.here
