"""ServerSettings: the settings of a server, except for its sockets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from headstream.core.model.topology import Fsync

DEFAULT_USERNAME: Final = "iggy"
DEFAULT_PASSWORD: Final = "iggy"
"""Root's default password, which existing clients use unless configured otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Server-wide settings.

    Args:
        root_username: Initial name of user 1 (root), 3 to 50 bytes.
        root_password: Initial password of user 1 (root), 3 to 100 bytes.
        most_tokens: Maximum number of personal access tokens per user.
        most_consumers: Maximum number of consumers and groups per user that store offsets, per topic; each takes 4 KiB of disk.
        heartbeat_us: Ping interval, microseconds; a client without a ping for 1.2 intervals is stale. None disables the check.
        message_expiry_us: Default retention of topics, microseconds; None: unlimited.
        max_topic_bytes: Default size limit of topics, bytes; None: unlimited.
        fsync: When messages in topics of Iggy clients are synced to disk; Iggy's protocol has no option for this.
        deduplication_count: Number of recorded message ids in topics of Iggy clients; None disables deduplication.
        password_rounds: Cost of a password hash: base-2 logarithm of bcrypt's rounds, 4 to 31.
        stores_scram: Whether to store SCRAM verifiers with passwords, so that Kafka clients can log in with SCRAM.
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
