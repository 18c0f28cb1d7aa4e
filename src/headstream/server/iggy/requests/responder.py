"""Responder: the responses to one TCP or QUIC session, and log lines about its failed requests."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from typing import Final, TypeAlias

from headstream.broker.accounts.sessions import Session
from headstream.broker.commands.dispatch import Dispatcher
from headstream.broker.commands.requests import WAITS, answer_request
from headstream.core.codec.buffer import BytesLike
from headstream.core.wire.codes import Code, name_of_code
from headstream.core.wire.encodings import CLASSIC, Encoding
from headstream.core.wire.extensions.messages import WaitMessages, WaitResult
from headstream.core.wire.frames import encode_response, response_head
from headstream.core.wire.refusals import encode_refusal
from headstream.core.wire.statuses import Status
from headstream.errors import DecodeError, HeadstreamError
from headstream.server.reporting.logs import note
from headstream.server.reporting.redaction import redact
from headstream.server.reporting.storage_errors import STORAGE_ERRORS

Response: TypeAlias = tuple[int, list[BytesLike]]
"""A status, and a complete response in pieces."""

_DONE: Final[Response] = 0, [response_head(0, 0)]
WOKEN: Final[Response] = 0, [encode_response(0, WaitMessages.encode_reply(WaitResult(True)))]
"""Response to a finished wait, which is not checked again, because one message can end a thousand waits."""

_MAX_LOGGED_FAULTS: Final = 5
"""Maximum refused requests logged per connection, because a faulty client sends many."""

_LOGINS: Final = frozenset({Code.LOGIN, Code.LOGIN_WITH_TOKEN})


class Responder:
    """Answers the requests of one session, one at a time, on any thread."""

    encoding: Encoding = CLASSIC
    """How the client encodes requests and responses."""

    def __init__(self, dispatcher: Dispatcher, session: Session) -> None:
        self._dispatcher = dispatcher
        self._faults = 0
        self.session = session

    def may_wait(self, code: int, payload: memoryview) -> bool:
        """Return whether a request can wait for messages."""
        return code in WAITS

    def find(self, code: int, payload: memoryview) -> Response:
        """Return the response to a request; the payload is the bytes after the code."""
        try:
            body = answer_request(self._dispatcher, self.session, code, payload, self.encoding)
        except HeadstreamError as error:
            return self.refuse(code, error, payload)
        except Exception as error:  # a bug in the server must not close the connection
            self.note(logging.ERROR, "internal error", error, command=name_of_code(code))
            return self.refuse(code, HeadstreamError("internal error: see the server's log"), payload)
        return self.accept(code, body, payload)

    def accept(self, code: int, body: list[BytesLike], payload: memoryview) -> Response:
        """Return the response to a successful request; `body` is a list of pieces."""
        return (0, [response_head(0, sum(map(len, body))), *body]) if body else _DONE

    def finished(self, code: int, future: Future[Response]) -> Response:
        """Return the response of a completed worker future, or the refusal if no worker accepted the request."""
        try:
            return future.result()
        except HeadstreamError as error:
            return self.refuse(code, error)

    def refuse(self, code: int, error: HeadstreamError, payload: memoryview | None = None) -> Response:
        """Return the response to a rejected request, and log failed logins, decode errors and storage errors.

        Args:
            code: 0 if the request is incomplete; the payload is then None.
        """
        session = self.session
        status = self.encoding.status_of(code, error, is_extended=session.is_extended)
        if code in _LOGINS:
            self.note(logging.WARNING, "login refused", status=status, reason=error.what, name=self._username_of(code, payload))
        elif isinstance(error, DecodeError):
            self._note_fault("invalid request", code, error)
        else:
            STORAGE_ERRORS.log_once(error, status)
            if status == Status.ERROR and not session.is_extended:  # this status does not name the cause
                self._note_fault("request refused", code, error)
        if status == Status.CLIENT_NOT_FOUND:
            session.is_ended = True
        return status, self.reject(code, error, status, payload)

    def reject(self, code: int, error: HeadstreamError, status: int, payload: memoryview | None) -> list[BytesLike]:
        """Return the response to a rejected request, in pieces; for arguments see refuse()."""
        body = encode_refusal(redact(error, self._dispatcher.broker.backing.log)) if self.session.is_extended else b""
        return [response_head(status, len(body)), body]

    def reject_unread(self, status: int) -> list[BytesLike]:
        """Return the response to a request that is not completely read, in pieces; the connection is then closed."""
        return [response_head(status, 0)]

    def _note_fault(self, event: str, code: int, error: HeadstreamError) -> None:
        self._faults += 1
        if self._faults <= _MAX_LOGGED_FAULTS:
            self.note(logging.INFO, event, command=name_of_code(code), reason=error.what)

    def note(self, level: int, event: str, error: BaseException | None = None, /, **fields: object) -> None:
        """Log an event about the session; see logs.note()."""
        session = self.session
        note(level, event, error, address=session.address, client=session.client_id, user=session.user_id, **fields)

    def close(self) -> None:
        """End the session."""
        if self._faults > _MAX_LOGGED_FAULTS:
            self.note(logging.INFO, "invalid requests of the connection", count=self._faults)
        self._dispatcher.sessions.close(self.session)

    def _username_of(self, code: int, payload: memoryview | None) -> str | None:
        """Return the username of a login request; None for other requests."""
        if code != Code.LOGIN or payload is None:
            return None
        try:
            return getattr(self.encoding.decode(code, payload), "username", None)
        except HeadstreamError:
            return None
