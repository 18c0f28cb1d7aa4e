"""Connections to servers, cached by each process of Spark's: a task reuses that of the task before it.

A login costs the server tens of milliseconds, by design, and a micro-batch has several tasks. A connection that was
closed meanwhile is reopened at its next use.
"""

from __future__ import annotations

from typing import Final

from headstream.client.transports.remote.address import ServerUrl
from headstream.client.transports.remote.caller import Caller
from headstream.client.transports.remote.transport import connector_of

_callers: Final[dict[ServerUrl, Caller]] = {}


def caller_of(address: ServerUrl) -> Caller:
    """Return the cached caller of a server, shared by the tasks of this process; it is not to be closed."""
    found = _callers.get(address)
    return _callers.setdefault(address, Caller(address, connector_of(address))) if found is None else found
