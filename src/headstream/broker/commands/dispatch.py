"""Dispatcher: handles the commands of sessions.

    stale session (30) -> extension without client support (3) -> not logged in (40) -> the command's handler

Commands are decoded (3) and validated before these steps; the handler checks existence and permission.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from headstream.broker.accounts.login_limits import LoginLimits
from headstream.broker.accounts.permissions import Rights
from headstream.broker.accounts.sessions import Session, Sessions
from headstream.broker.accounts.tokens import Tokens
from headstream.broker.accounts.users import Users
from headstream.broker.broker import Broker
from headstream.broker.commands.counts import CountsCache
from headstream.broker.commands.topic_lookup import FoundTopic, TopicLookup
from headstream.broker.deliveries.delivery_audit import DeliveryAudit
from headstream.broker.groups.connection_groups import ConnectionGroups
from headstream.broker.groups.members import Members
from headstream.broker.messages.offsets import limit_consumers
from headstream.broker.settings import ServerSettings
from headstream.core.model.topology import MAX_BATCH_BYTES
from headstream.core.wire.codes import CodeEntry
from headstream.core.wire.commands.system import TransportKind
from headstream.core.wire.records import Command
from headstream.core.wire.refusals import refusal
from headstream.core.wire.shapes import Identifier
from headstream.core.wire.statuses import Status
from headstream.errors import (
    AuthenticationError,
    HeadstreamError,
    NotFoundError,
    PermissionDeniedError,
    StreamNotFoundError,
    TopicNotFoundError,
)
from headstream.log.catalog.records import TopicRecord

# Balance: the partition of a send that leaves the choice to the server.


class Balance:
    """The next partition of each topic, round robin: each send goes to the next partition; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: dict[tuple[int, int], int] = {}

    def peek(self, topic: TopicRecord) -> int:
        """Return the next partition without advancing."""
        partition = self._next.get((topic.stream_number, topic.id), 1)
        return partition if partition <= topic.partitions else 1

    def next(self, topic: TopicRecord) -> int:
        """Return the next partition and advance; after the last partition, continue at 1."""
        with self._lock:
            partition = self.peek(topic)
            self._next[topic.stream_number, topic.id] = partition + 1
        return partition

    def forget(self, stream_number: int, topic_id: int | None = None) -> None:
        """Reset the topic with an id, or all topics of a stream, after a deletion."""
        with self._lock:
            for key in [key for key in self._next if key[0] == stream_number and topic_id in (None, key[1])]:
                del self._next[key]


_HEARTBEAT_TOLERANCE: Final = 1.2
"""A session times out after this number of heartbeat intervals."""

QUIC_POLL_BYTES: Final = 1_000_000
"""Maximum size of a poll's reply over QUIC, bytes; Iggy's command line accepts at most 1 MiB."""

_R = TypeVar("_R")
Handler: TypeAlias = Callable[["Dispatcher", Session, Any], Any]
"""Returns a command's reply, or raises HeadstreamError."""

Threads: TypeAlias = Literal["work", "scans", "passwords"]
"""The worker-thread groups of a server."""


class CommandRow(NamedTuple):
    """A row of the command table: a command's handler and cost.

    Args:
        is_slow: Whether the command can delay other requests, because it reads many files, syncs, changes the catalog (which is
            synced), waits for such a change, or hashes a password. Over TCP and QUIC, a worker thread runs it.
        is_quick: Whether the command neither reads many files nor waits for the disk, so that the event loop can run it.
        threads: The worker-thread group that runs the command.
        is_read: Whether the reply contains messages, whose size is limited by the available memory.
        is_append: Whether the command appends messages, so that it is slow if the topic syncs each send.
        waits: Whether the command can wait for messages.
    """

    handler: Handler
    is_slow: bool = False
    is_quick: bool = False
    threads: Threads = "work"
    is_read: bool = False
    is_append: bool = False
    waits: bool = False


class Dispatcher:
    """Handles commands; thread-safe, but each session runs one command at a time.

    Creating a Dispatcher makes this process the log's writer, and creates the log and the root user if missing.

    Args:
        broker: The broker, which the caller closes.

    Attributes:
        poll_bytes: Approximate maximum size of one poll's reply, bytes. A transport lowers the value while too many replies are
            unread.
        audit: Appends an audit row for each transition of a delivery, or None.

    Raises:
        LogLockedError: another process is the writer.
        InvalidInputError: there is no root user yet and root's name or password is invalid.
    """

    def __init__(self, broker: Broker, settings: ServerSettings, handlers: dict[type[Command[Any]], Handler]) -> None:
        self.broker = broker
        self.settings = settings
        self.poll_bytes = MAX_BATCH_BYTES
        self.audit: DeliveryAudit | None = None
        self.sessions = Sessions(broker.monotonic)
        self.login_limits = LoginLimits(broker.monotonic)
        self.lookup = TopicLookup(broker.backing.log)
        self.balance = Balance()
        self.counts = CountsCache(broker.backing.log)
        self.connection_groups = ConnectionGroups()
        self.members = Members(broker.groups, broker.monotonic)
        self.sessions.on_close(self.leave_groups)
        backing = broker.backing
        with backing.writable_log().changing() as catalog:
            self.catalog = catalog
            self.users = Users(catalog, settings, backing.clock_us())
            self.tokens = Tokens(catalog, settings, backing.clock_us, backing.entropy)
        limit_consumers(backing.log, settings.most_consumers)
        self._handlers = handlers

    def leave_groups(self, session: Session) -> None:
        """Remove a session from its groups."""
        self.connection_groups.end(session.client_id)
        self.members.end(session)

    def answer(self, session: Session, command: Command[_R]) -> _R:
        """Return the reply to a validated command, or raise a HeadstreamError (wire.refusals.status_of() returns its status)."""
        entry = command.entry()
        handler = self._handlers.get(type(command))
        if handler is None:
            raise refusal(Status.INVALID_COMMAND, f"{entry.name} is not supported here")
        try:
            self.admit(session, entry)
            reply: _R = handler(self, session, command)
        except (NotFoundError, AuthenticationError, PermissionDeniedError) as error:
            if session.is_stale or session.is_ended or not entry.is_lookup:
                raise self.disclosed(session, command, error) from None
            return None  # type: ignore[return-value]  # a lookup's reply may be nothing
        return reply

    def admit(self, session: Session, entry: CodeEntry) -> None:
        """Raise HeadstreamError (30, 3, 40, or entry.refusal) for a command that a session has no right to send."""
        if not entry.needs_login:
            return
        session.check_alive()
        if not session.is_extended and entry.is_extension:
            raise refusal(Status.INVALID_COMMAND, f"{entry.name} is not supported here")
        if session.is_ended or not self.users.is_good(session.user_id, session.generation, session.token_id):
            raise refusal(entry.refusal, f"{entry.name} requires a login", advice="Log in first")

    def disclosed(self, session: Session, command: Command[Any], error: HeadstreamError) -> HeadstreamError:
        """Return the error that the client receives.

        Only users with a right to all streams or topics receive errors about missing names. All other users receive the same
        error for missing and forbidden names, so that they cannot probe names.
        """
        if not session.user_id or not isinstance(error, (StreamNotFoundError, TopicNotFoundError)):
            return error
        stream = 0
        if isinstance(error, TopicNotFoundError):
            named = getattr(command, "stream", None)
            stream = 0 if named is None else self.lookup.stream(named).id
        rights = self.rights(session)
        return error if rights.may_see(stream) else rights.unknown()

    def most_polled_bytes(self, session: Session) -> int:
        """Return the approximate maximum size of one poll's reply to a session, bytes."""
        most_bytes = min(self.poll_bytes, session.poll_bytes)
        if session.transport is TransportKind.QUIC and not session.is_extended:
            return min(most_bytes, QUIC_POLL_BYTES)
        return most_bytes

    def rights(self, session: Session) -> Rights:
        """Return the rights of a session's user, the same object until they change."""
        return self.users.rights(session.user_id)

    def readable_topic(self, session: Session, stream: Identifier, topic: Identifier) -> FoundTopic:
        """Return a topic that a session's user has the right to poll."""
        target = self.lookup.topic(stream, topic)
        self.rights(session).poll(target.stream.id, target.topic.id)
        return target

    def end_sessions(self, user_id: int, *, but: Session | None = None) -> None:
        """End all sessions of a user, except `but`."""
        for session in self.sessions.list():
            if session.user_id == user_id and session is not but:
                session.is_ended = True
                self.sessions.close(session)

    def sweep(self) -> None:
        """End sessions without heartbeats and remove expired tokens; called periodically."""
        heartbeat_us = self.settings.heartbeat_us
        if heartbeat_us is not None:
            self.sessions.sweep(heartbeat_us * _HEARTBEAT_TOLERANCE / 1e6)
        self.tokens.forget_expired()
        self.members.sweep()
