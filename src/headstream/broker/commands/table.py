"""The one table of who answers what, and a dispatcher over it."""

from __future__ import annotations

from typing import Any, Final

from headstream.broker.broker import Broker
from headstream.broker.commands import (
    epochs,
    groups,
    messages,
    offsets,
    own_groups,
    own_messages,
    own_producers,
    own_topics,
    partitions,
    sessions,
    streams,
    system,
    tokens,
    topics,
    users,
)
from headstream.broker.commands.dispatch import Dispatcher, Handler
from headstream.broker.settings import ServerSettings
from headstream.wire.records import Command

__all__ = ["make_dispatcher"]

_MODULES: Final = (
    epochs,
    groups,
    messages,
    offsets,
    own_groups,
    own_messages,
    own_producers,
    own_topics,
    partitions,
    sessions,
    streams,
    system,
    tokens,
    topics,
    users,
)
_HANDLERS: Final[dict[type[Command[Any]], Handler]] = {
    command: handler for module in _MODULES for command, handler in module.HANDLERS.items()
}


def make_dispatcher(broker: Broker, settings: ServerSettings) -> Dispatcher:
    """Return what answers every command.

    Args:
        broker: What the commands are about; whoever made it closes it.
        settings: What the server decides for everybody.
    """
    return Dispatcher(broker, settings, _HANDLERS)
