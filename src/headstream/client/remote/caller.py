"""Caller: commands over a pool of connections, so that a wait, a send and a question do not wait for each other.

A connection that broke is made again with back-off. What was asked over it is asked again where doing it twice is doing
it once; else the error says that nobody knows whether it was done.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from headstream.client.remote.address import Address
from headstream.client.remote.backoff import Backoff
from headstream.client.remote.connection import Connection, Connector
from headstream.errors import ClosedError, HeadstreamError, OutcomeUnknownError, ServerError, ServerUnreachableError
from headstream.wire.codes import Code
from headstream.wire.extensions.messages import FetchMessages
from headstream.wire.extensions.topics import CreateOpenTopic, GetIdentity
from headstream.wire.records import Command
from headstream.wire.statuses import Status

__all__ = ["Caller", "Pending"]

_R = TypeVar("_R")
_MOST_IDLE: Final = 8
"""Connections that nobody uses now, at most."""

_SOON_MS: Final = 1000
"""For so long is waited for a reply that nobody wants any more; then the connection is given up too."""

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
"""Commands that do something else when they are done twice, or are refused the second time."""

_LEAST_S: Final = 0.1
"""So long an answer is waited for, however little time is left."""

_KEEPS_DOUBT: Final = _ONCE_ONLY | {Code.APPEND_NUMBERED}
"""Commands of which it matters whether they were done, though some of them may be done twice."""

_FORGOTTEN: Final = (Status.STALE_CLIENT, Status.UNAUTHENTICATED)
"""The server does not know the connection any more, and has done nothing: another one serves."""


class Caller:
    """Commands to one server; any thread.

    Args:
        address: The server, and who asks.
        connector: Makes connections to it.
    """

    def __init__(self, address: Address, connector: Connector) -> None:
        self.address = address
        self._connector = connector
        self._lock = threading.Lock()
        self._idle: list[Connection] = []
        self._used: dict[int, Connection] = {}
        self._interrupted: set[int] = set()
        self._closing = threading.Event()
        self._was_connected = False
        self._process = os.getpid()

    def open(self) -> None:
        """Connect, if that has not happened yet, and see that the server is one of ours.

        Raises:
            ServerUnreachableError: it cannot be reached.
            AuthenticationError: the credentials are wrong.
            ServerError: it does not speak Headstream's own commands.
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
                    "the server does not know Headstream's own commands",
                    where=self.address.place,
                    advice="It may be a plain Iggy server: use a client of its own, or start `headstream server`",
                ) from None
            raise
        self._was_connected = True
        self.give(connection)

    def call(
        self,
        command: Command[_R],
        *,
        wait_ms: float = 0,
        may_repeat: Callable[[], bool] | None = None,
        is_patient: bool = True,
        patience_s: float | None = None,
    ) -> _R:
        """Return the reply to a command.

        Args:
            command: What is asked.
            wait_ms: How much longer than usual the answer may take.
            may_repeat: Says, of a command that is not to be done twice, whether it may be repeated nevertheless.
            is_patient: Whether a connection that broke is made again for as long as the options say, or not at all.
            patience_s: For how long in all to try, seconds, instead of what the options say; the last answer, too, has to come
                within it.

        Raises:
            ClosedError: the caller is closed.
            ServerUnreachableError: the server cannot be reached, nothing has been done.
            OutcomeUnknownError: the connection broke, and the command may not be repeated, or could not be.
            HeadstreamError: what the server says is wrong.
        """
        self._interrupted.discard(threading.get_ident())
        doubt: OutcomeUnknownError | None = None
        until_s = None if patience_s is None else time.monotonic() + patience_s
        backoff = Backoff(self.address.options.retry_timeout_ms / 1000 if is_patient else 0, random.random, until_s=until_s)
        while True:
            self.open()
            try:
                connection = self._take()
                return self._ask_over(connection, command, self._shortened(wait_ms, until_s))
            except OutcomeUnknownError as error:
                if not (_may_repeat(command) or (may_repeat is not None and may_repeat())):
                    raise
                doubt = error if command.code in _KEEPS_DOUBT else None
                self._pause(backoff, error)
            except ServerUnreachableError as error:
                self._pause(backoff, doubt or error)
            except HeadstreamError as error:
                if doubt is None:
                    raise
                doubt.add_note(f"When it was asked again, the server refused: {error}")
                raise doubt from error

    def _shortened(self, wait_ms: float, until_s: float | None) -> float:
        """Return how much longer or shorter than usual an answer may take, where there is an end to all trying."""
        if until_s is None:
            return wait_ms
        left_ms = max(_LEAST_S, until_s - time.monotonic()) * 1000
        return min(wait_ms, left_ms - self.address.options.timeout_ms)

    def begin(self, command: Command[_R]) -> Pending[_R]:
        """Send a command whose reply is looked at later; it must be one that may be repeated.

        Raises:
            HeadstreamError: it could not be sent; nothing is waited for then.
        """
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
            if error.status in _FORGOTTEN:
                connection.close()
                raise ServerUnreachableError(error.what, where=self.address.place, advice=error.advice) from error
            self.give(connection)
            raise
        except BaseException:  # an interrupt: the answer is still on its way
            connection.close()
            raise
        self.give(connection)
        return reply

    def _pause(self, backoff: Backoff, error: HeadstreamError) -> None:
        wait_s = backoff.next_wait(time.monotonic())
        if wait_s is None or threading.get_ident() in self._interrupted:
            raise error
        if self._closing.wait(wait_s):
            raise self._closed()

    def _take(self) -> Connection:
        """Return a connection that nobody else uses."""
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
        """Take note that this thread uses a connection from now on, until it gives it back or takes another."""
        with self._lock:
            self._used[threading.get_ident()] = connection

    def interrupt(self, thread: int) -> None:
        """Have the call end soon that a thread is in, as if its connection had broken; it is not repeated.

        Args:
            thread: As threading.get_ident() numbers it.
        """
        with self._lock:
            self._interrupted.add(thread)
            connection = self._used.get(thread)
            if connection is not None:
                connection.interrupt()

    def give(self, connection: Connection) -> None:
        """Take a connection back that has nothing on its way."""
        with self._lock:
            self._used.pop(threading.get_ident(), None)
            if not self._closing.is_set() and len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def _check_open(self) -> None:
        if self._closing.is_set():
            raise self._closed()
        if self._process != os.getpid():  # the parent's connections are not this child's to speak over
            self._process = os.getpid()
            idle, self._idle = self._idle, []
            for connection in idle:
                connection.close()

    def _closed(self) -> ClosedError:
        return ClosedError("the log is closed", where=self.address.place, advice="Connect again")

    def close(self) -> None:
        """Close all connections, those in use as soon as they are not; closing twice is fine."""
        self._closing.set()
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


class Pending(Generic[_R]):
    """A reply that is on its way.

    Args:
        caller: Who the connection belongs to.
        connection: The command was sent over it.
        command: The command.
    """

    def __init__(self, caller: Caller, connection: Connection, command: Command[_R]) -> None:
        self._caller = caller
        self._connection: Connection | None = connection
        self._command = command

    def __del__(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def result(self) -> _R:
        """Return the reply; where the connection broke, the command is asked again. Once only."""
        connection, self._connection = self._connection, None
        if connection is None:
            raise ClosedError("the reply has been given up", advice="Ask again")
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
        """Give the reply up; if it comes soon it is read, so that the connection can be used again. Giving up twice is fine."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if not connection.has_reply(_SOON_MS):
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
    """Return whether doing a command twice is doing it once."""
    if isinstance(command, CreateOpenTopic):
        return command.if_not_exists
    if isinstance(command, FetchMessages):
        return not command.auto_commit  # what was committed and lost on its way would not come again
    return command.code not in _ONCE_ONLY
