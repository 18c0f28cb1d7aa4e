"""Caller: sends commands over a pool of connections, so that a wait, a send and a query do not block each other.

A broken connection is reopened with backoff. A pending command is retried if it is idempotent; otherwise the outcome is unknown
(OutcomeUnknownError).
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from headstream.client.closing import limited, until_closed_s
from headstream.client.transports.remote.address import ServerUrl
from headstream.client.transports.remote.backoff import Backoff
from headstream.client.transports.remote.connection import Connection, Connector, lost
from headstream.core.model.identifiers import parse_number
from headstream.core.wire.codes import Code
from headstream.core.wire.extensions.filters import FilterMessages
from headstream.core.wire.extensions.messages import FetchMessages
from headstream.core.wire.extensions.topic_options import CreateOpenTopic, GetIdentity
from headstream.core.wire.records import Command
from headstream.core.wire.statuses import Status
from headstream.errors import ClosedError, DecodeError, HeadstreamError, OutcomeUnknownError, ServerError, ServerUnreachableError
from headstream.forks import register_for_forks

_R = TypeVar("_R")
_MOST_IDLE: Final = 8
"""Maximum idle connections."""

_SOON_S: Final = 1.0
"""Maximum wait for the reply to a cancelled command before the connection is closed, seconds."""

_ONCE_ONLY: Final = frozenset(
    {
        Code.APPEND_MESSAGES,
        Code.CREATE_STREAM,
        Code.UPDATE_STREAM,
        Code.DELETE_STREAM,
        Code.RENAME_TOPIC,
        Code.DELETE_TOPIC,
        Code.PURGE_TOPIC,
        Code.CREATE_PARTITIONS,
        Code.DELETE_PARTITIONS,
        Code.DELETE_GROUP,
        Code.CREATE_USER,
        Code.UPDATE_USER,
        Code.DELETE_USER,
        Code.CHANGE_PASSWORD,
        Code.CREATE_TOKEN,
        Code.DELETE_TOKEN,
    }
)
"""Commands that are not idempotent: a repeated command has a different effect or is rejected."""

_CHECK_EVERY_S: Final = 0.1
"""Interval at which a wait between two attempts checks for an interrupt, seconds."""

_LEAST_S: Final = 0.1
"""Minimum timeout of a response, seconds, even if less time is left."""

_KEEPS_DOUBT: Final = _ONCE_ONLY | {Code.APPEND_NUMBERED}
"""Commands that report an unknown outcome if their retries fail, including idempotent commands."""

_FORGOTTEN: Final = (Status.STALE_CLIENT, Status.UNAUTHENTICATED)
"""Statuses of a connection that the server has forgotten; the command was not executed, and a new connection works."""


class Caller:
    """Sends commands to one server; thread-safe."""

    def __init__(self, address: ServerUrl, connector: Connector) -> None:
        self.address = address
        self._connector = connector
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._used: dict[int, Connection] = {}
        self._interrupted: set[int] = set()
        self._closing = threading.Event()
        self._was_connected = False
        register_for_forks(self)

    def after_fork(self) -> None:
        """In a forked child: start without connections, which the parent process uses."""
        self._lock = threading.Lock()
        self._idle, self._used, self._interrupted = [], {}, set()
        is_closed, self._closing = self._closing.is_set(), threading.Event()
        if is_closed:
            self._closing.set()

    def open(self) -> None:
        """Connect, unless already connected, and check that the server supports Headstream's extensions.

        Raises:
            ServerUnreachableError: the server cannot be reached.
            AuthenticationError: the credentials are wrong.
            ServerError: the server does not support the extensions.
        """
        if self._was_connected:
            return
        connection = self._connector.connect(self.use)
        try:
            _ask(connection, GetIdentity())
        except BaseException as error:
            connection.close()
            if isinstance(error, ServerError) and error.status in (Status.INVALID_COMMAND, None):
                raise ServerError(
                    "the server does not support Headstream's own commands",
                    where=self.address.place,
                    advice="If the server is an Iggy server, use an Iggy client, or start `headstream server`",
                ) from None
            raise
        self._was_connected = True
        self.give(connection)

    def can_express(self, named: str | int) -> bool:
        """Return whether the protocol can express a name; over HTTP, a numeric name means an id."""
        is_http = self.address.scheme in ("http", "https")
        return isinstance(named, int) or parse_number(named) is None or not is_http

    def call(
        self,
        command: Command[_R],
        *,
        wait_ms: float = 0,
        may_repeat: Callable[[], bool] | None = None,
        may_reconnect: bool = True,
        retry_timeout_s: float | None = None,
        on_lost: Callable[[], None] | None = None,
    ) -> _R:
        """Return the reply to a command.

        Args:
            wait_ms: Additional time for the response, milliseconds.
            may_repeat: Returns whether a command that is not idempotent can be repeated.
            may_reconnect: Whether to reopen a broken connection within the limits of the options.
            retry_timeout_s: Total time of all attempts, including the last response, seconds; overrides the options.
            on_lost: Called after an attempt without a response; the server may still execute this attempt later.

        Raises:
            OutcomeUnknownError: the connection broke and the command is not idempotent, or all retries failed.
            HeadstreamError: the server's error.
        """
        self._interrupted.discard(threading.get_ident())
        doubt: OutcomeUnknownError | None = None
        until_s = until_closed_s()
        if retry_timeout_s is not None:
            end_s = time.monotonic() + retry_timeout_s
            until_s = end_s if until_s is None else min(until_s, end_s)
        retry_s = self.address.options.retry_timeout_ms / 1000
        backoff = Backoff(retry_s, random.random, until_s=until_s) if may_reconnect else Backoff(0, random.random)
        while True:
            self.open()
            try:
                connection = self._take()
                return self._ask_over(connection, command, self._shortened(wait_ms, until_s))
            except OutcomeUnknownError as error:
                if on_lost is not None:
                    on_lost()
                if not (_may_repeat(command) or (may_repeat is not None and may_repeat())):
                    raise
                doubt = error if command.code in _KEEPS_DOUBT else None
                self._pause(backoff, error)
            except ServerUnreachableError as error:
                self._pause(backoff, doubt or error)
            except HeadstreamError as error:
                if doubt is None:
                    raise
                doubt.add_note(f"When the request was repeated, the server refused it: {error}")
                raise doubt from error

    def _shortened(self, wait_ms: float, until_s: float | None) -> float:
        """Return the additional time for the response, seconds, reduced if the total time is limited."""
        if until_s is None:
            return wait_ms
        left_ms = max(_LEAST_S, until_s - time.monotonic()) * 1000
        return min(wait_ms, left_ms - self.address.options.timeout_ms)

    def begin(self, command: Command[_R]) -> Pending[_R]:
        """Send an idempotent command and return a pending reply; HeadstreamError if the command cannot be sent."""
        self.open()
        connection = self._take()
        try:
            connection.send(command)
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._used.pop(threading.get_ident(), None)
        return Pending(self, connection, command)

    def _ask_over(self, connection: Connection, command: Command[_R], wait_ms: float) -> _R:
        try:
            reply = _ask(connection, command, wait_ms)
        except (OutcomeUnknownError, ServerUnreachableError):
            connection.close()
            raise
        except HeadstreamError as error:
            if isinstance(error, DecodeError) and error.status is None and command.code in _KEEPS_DOUBT:
                connection.close()  # an unreadable response leaves the outcome unknown
                raise lost(self.address, f"invalid response ({error})") from error
            if error.status in _FORGOTTEN:
                connection.close()
                raise ServerUnreachableError(error.what, where=self.address.place, advice=error.advice) from error
            self.give(connection)
            raise
        except BaseException:  # an interrupt: the response is still pending
            connection.close()
            raise
        self.give(connection)
        return reply

    def _pause(self, backoff: Backoff, error: HeadstreamError) -> None:
        wait_s = backoff.next_wait(time.monotonic())
        if wait_s is None:
            raise error
        until_s = time.monotonic() + wait_s
        while (left_s := until_s - time.monotonic()) > 0:
            if threading.get_ident() in self._interrupted:
                raise error
            if self._closing.wait(min(left_s, _CHECK_EVERY_S)):
                raise self._closed()

    def _take(self) -> Connection:
        while True:
            with self._lock:
                self._check_open()
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self._connector.connect(self.use)
            if connection.is_usable:
                self.use(connection)
                return connection
            connection.close()

    def use(self, connection: Connection) -> None:
        """Record the connection that this thread uses until the thread returns the connection or takes a different connection."""
        with self._lock:
            self._used[threading.get_ident()] = connection

    def interrupt(self, thread: int) -> None:
        """Interrupt a thread's call (by threading.get_ident()) as if the connection had broken; the call is not retried."""
        with self._lock:
            self._interrupted.add(thread)
            connection = self._used.get(thread)
            if connection is not None:
                connection.interrupt()

    def give(self, connection: Connection) -> None:
        """Return an idle connection to the pool."""
        with self._lock:
            self._used.pop(threading.get_ident(), None)
            if not self._closing.is_set() and len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _check_open(self) -> None:
        if self._closing.is_set():
            raise self._closed()

    def _closed(self) -> ClosedError:
        return ClosedError("the log is closed", where=self.address.place, advice="Connect again")

    def close(self) -> None:
        """Close all connections; busy connections are closed after their call. A second call does nothing."""
        self._closing.set()
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


class Pending(Generic[_R]):
    """A pending reply to a command that was sent over a connection."""

    def __init__(self, caller: Caller, connection: Connection, command: Command[_R]) -> None:
        self._caller = caller
        self._connection: Connection | None = connection
        self._command = command

    def __del__(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def result(self) -> _R:
        """Return the reply; if the connection broke, send the command again. Can be called only once."""
        connection, self._connection = self._connection, None
        if connection is None:
            raise ClosedError("the request was cancelled", advice="Send the request again")
        self._caller.use(connection)
        try:
            reply = connection.receive(self._command)
        except ServerUnreachableError:
            connection.close()
            return self._caller.call(self._command)
        except BaseException as error:
            connection.close()
            if isinstance(error, HeadstreamError) and error.status in _FORGOTTEN:
                return self._caller.call(self._command)
            raise
        self._caller.give(connection)
        return reply

    def cancel(self) -> None:
        """Cancel the reply; a reply that arrives soon is read, so that the connection can be reused. Idempotent."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if not connection.has_reply(round(limited(_SOON_S) * 1000)):
            connection.close()
            return
        try:
            connection.receive(self._command)
        except BaseException as error:
            connection.close()
            if not isinstance(error, HeadstreamError):
                raise
        else:
            self._caller.give(connection)


def _ask(connection: Connection, command: Command[_R], wait_ms: float = 0) -> _R:
    connection.send(command, wait_ms)
    return connection.receive(command)


def _may_repeat(command: Command[Any]) -> bool:
    """Return whether a command is idempotent."""
    if isinstance(command, CreateOpenTopic):
        return command.if_not_exists
    if isinstance(command, (FetchMessages, FilterMessages)):
        return not command.auto_commit  # messages committed by a lost response would not be delivered again
    return command.code not in _ONCE_ONLY
