"""ServerSettings: what a server decides for everybody, apart from its sockets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from headstream.model.topology import Fsync

__all__ = ["DEFAULT_PASSWORD", "DEFAULT_USERNAME", "ServerSettings"]

DEFAULT_USERNAME: Final = "iggy"
DEFAULT_PASSWORD: Final = "iggy"
"""What existing clients log in with where nobody has chosen anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """What a server decides for everybody.

    Args:
        root_username: The name that user 1 gets when the log is made, 3 to 50 bytes.
        root_password: Its password then, 3 to 100 bytes.
        most_tokens: How many personal access tokens a user may have.
        heartbeat_us: Within 1.2 times this a client pings, or is stale; None asks for none. Microseconds.
        message_expiry_us: What a topic keeps where its creator leaves it to the server; None is for ever. Microseconds.
        max_topic_bytes: How much, likewise; None is without limit.
        fsync: When what is sent to a topic of an existing client is on the disk itself; nothing in its protocol says it.
        deduplication_count: How many ids such a topic remembers, likewise; None looks for no repeats.
        password_rounds: The cost of a password's hash: the logarithm of its rounds, 4 to 31.
        reported_version: The version of the protocol's original that clients are told.
    """

    root_username: str = DEFAULT_USERNAME
    root_password: str = field(default=DEFAULT_PASSWORD, repr=False)
    most_tokens: int = 100
    heartbeat_us: int | None = None
    message_expiry_us: int | None = None
    max_topic_bytes: int | None = None
    fsync: Fsync = Fsync.INTERVAL
    deduplication_count: int | None = None
    password_rounds: int = 10
    reported_version: str = "0.4.300"
