"""Connections to servers, kept by each process of Spark's: a task goes on with that of the task before it.

To log in costs the server tens of milliseconds, by intention, and a micro-batch has several tasks. What was closed
meanwhile is made anew when it is used.
"""

from __future__ import annotations

import threading
from typing import Final

from headstream.client.remote.address import Address
from headstream.client.remote.caller import Caller
from headstream.client.remote.transport import connector_of

__all__ = ["caller_of"]

_lock: Final = threading.Lock()
_callers: Final[dict[Address, Caller]] = {}


def caller_of(address: Address) -> Caller:
    """Return what asks a server, the same one for each task of this process; it is not to be closed.

    Args:
        address: The server, and who asks.
    """
    with _lock:
        if address not in _callers:
            _callers[address] = Caller(address, connector_of(address))
        return _callers[address]
