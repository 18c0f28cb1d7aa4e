"""ServerSettings: the server-wide settings, except its sockets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from headstream.core.model.topology import Fsync

DEFAULT_USERNAME: Final = "iggy"
DEFAULT_PASSWORD: Final = "iggy"
"""The default login of existing clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Server-wide settings.

    Args:
        root_username: Name of user 1 when the log is created, 3 to 50 bytes.
        root_password: The root user's initial password, 3 to 100 bytes.
        most_tokens: Maximum personal access tokens per user.
        most_consumers: Maximum consumers and groups, counted by topic, for which a user stores offsets: 4 KiB of disk each.
        heartbeat_us: A client without a ping for 1.2 times this is stale; None disables the check. Microseconds.
        message_expiry_us: Default retention of topics, microseconds; None is unlimited.
        max_topic_bytes: Default size limit of topics, bytes; None is unlimited.
        fsync: When messages to topics of existing clients are synced to disk; their protocol has no such option.
        deduplication_count: Number of ids such a topic remembers; None disables deduplication.
        password_rounds: The cost of a password's hash: the logarithm of its rounds, 4 to 31.
        stores_scram: Whether verifiers for SCRAM, by which Kafka's clients can log in, are stored with a password.
        reported_version: The Iggy version reported to clients.
    """

    root_username: str = DEFAULT_USERNAME
    root_password: str = field(default=DEFAULT_PASSWORD, repr=False)
    most_tokens: int = 100
    most_consumers: int = 10_000
    heartbeat_us: int | None = None
    message_expiry_us: int | None = None
    max_topic_bytes: int | None = None
    fsync: Fsync = Fsync.INTERVAL
    deduplication_count: int | None = None
    password_rounds: int = 10
    stores_scram: bool = False
    reported_version: str = "0.4.300"
