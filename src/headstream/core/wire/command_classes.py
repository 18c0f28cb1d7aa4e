"""The classes of all commands by code."""

from __future__ import annotations

from typing import Any, Final

from headstream.core.codec.buffer import BytesLike
from headstream.core.wire.commands import groups, messages, offsets, partitions, sessions, streams, system, tokens, topics, users
from headstream.core.wire.extensions import deliveries, delivery_views, epochs, leases
from headstream.core.wire.extensions import filters as own_filters
from headstream.core.wire.extensions import groups as own_groups
from headstream.core.wire.extensions import messages as own_messages
from headstream.core.wire.extensions import producers as own_producers
from headstream.core.wire.extensions import topic_options as own_topics
from headstream.core.wire.records import Command
from headstream.errors import DecodeError

_MODULES: Final = (groups, messages, offsets, partitions, sessions, streams, system, tokens, topics, users)
_EXTENSIONS: Final = (
    *(deliveries, delivery_views, epochs, leases, own_filters),
    *(own_groups, own_messages, own_producers, own_topics),
)


def _find_commands() -> dict[int, type[Command[Any]]]:
    found: dict[int, type[Command[Any]]] = {}
    for module in (*_MODULES, *_EXTENSIONS):
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, Command) and kind.__module__ == module.__name__:
                found[kind.code] = kind
    return found


COMMANDS: Final = _find_commands()
"""Every command's class by its code."""


def decode_command(code: int, payload: BytesLike) -> Command[Any]:
    """Decode the command of a request from the bytes after the header; DecodeError with status 3 for an unknown code."""
    kind = COMMANDS.get(code)
    if kind is None:
        raise DecodeError(f"there is no command {code}", 0)
    return kind.decode(payload)
