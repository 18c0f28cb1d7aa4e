"""The table of all commands, assembled from the handler modules, and its dispatcher."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from headstream.broker.broker import Broker
from headstream.broker.commands import (
    deliveries,
    epochs,
    groups,
    leases,
    messages,
    offsets,
    partitions,
    producers,
    sessions,
    streams,
    system,
    tokens,
    topics,
    users,
)
from headstream.broker.commands.dispatch import CommandRow, Dispatcher
from headstream.broker.settings import ServerSettings
from headstream.core.wire.records import Command

_MODULES: Final = (
    *(deliveries, epochs, groups, leases, messages, offsets, partitions, producers),
    *(sessions, streams, system, tokens, topics, users),
)
ROWS: Final[dict[type[Command[Any]], CommandRow]] = {command: row for module in _MODULES for command, row in module.ROWS.items()}
"""Every command with its handler and cost; each row is defined in the module of its handler."""


def codes_where(is_chosen: Callable[[CommandRow], bool]) -> frozenset[int]:
    """Return the codes of the commands whose rows match a condition."""
    return frozenset(command.code for command, row in ROWS.items() if is_chosen(row))


def make_dispatcher(broker: Broker, settings: ServerSettings) -> Dispatcher:
    """Return a dispatcher for all commands; the caller closes the broker."""
    return Dispatcher(broker, settings, {command: row.handler for command, row in ROWS.items()})
