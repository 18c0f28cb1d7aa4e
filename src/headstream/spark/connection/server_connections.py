"""Connections to servers, cached per Spark process: a task reuses the connection of the previous task.

A login takes tens of milliseconds by design, and a micro-batch has several tasks. A closed connection is reopened when it is next
used.
"""

from __future__ import annotations

from typing import Final

from headstream.client.transports.remote.address import ServerUrl
from headstream.client.transports.remote.caller import Caller
from headstream.client.transports.remote.transport import connector_of

_callers: Final[dict[ServerUrl, Caller]] = {}


def caller_of(address: ServerUrl) -> Caller:
    """Return the cached Caller of a server. Do not close the Caller: all tasks of the process share it."""
    found = _callers.get(address)
    return _callers.setdefault(address, Caller(address, connector_of(address))) if found is None else found
