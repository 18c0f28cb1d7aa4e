"""Answers: what one session is told over TCP, whatever becomes of its requests; and the lines of the log about them."""

from __future__ import annotations

import logging
from typing import Final, TypeAlias

from headstream.broker.commands.dispatch import Dispatcher
from headstream.broker.commands.requests import answer_request
from headstream.broker.sessions import Session
from headstream.codec.buffer import BytesLike
from headstream.errors import DecodeError, HeadstreamError
from headstream.server.disclosure import disclose
from headstream.server.logs import note
from headstream.server.troubles import TROUBLES
from headstream.wire.codes import Code, name_of_code
from headstream.wire.commands.sessions import Login
from headstream.wire.extensions.messages import WaitMessages, Woken
from headstream.wire.frames import encode_response, response_head
from headstream.wire.refusals import encode_refusal, status_of
from headstream.wire.statuses import Status

__all__ = ["WOKEN", "Answer", "Answers"]

Answer: TypeAlias = tuple[int, list[BytesLike]]
"""A status, and a whole response in pieces."""

_DONE: Final[Answer] = 0, [response_head(0, 0)]
WOKEN: Final[Answer] = 0, [encode_response(0, WaitMessages.encode_reply(Woken(True)))]
"""To who waits for messages, once there is something: whoever is woken with a thousand others looks once, not twice."""

_TOLD_FAULTS: Final = 5
"""How many undecodable requests of one connection are logged; who sends garbage sends a lot of it."""

_LOGINS: Final = frozenset({Code.LOGIN, Code.LOGIN_WITH_TOKEN})


class Answers:
    """The answers to one session; one at a time, on any thread.

    Args:
        dispatcher: What answers.
        session: Whose requests they are.
    """

    def __init__(self, dispatcher: Dispatcher, session: Session) -> None:
        self._dispatcher = dispatcher
        self._faults = 0
        self.session = session

    def find(self, code: int, payload: memoryview) -> Answer:
        """Return the response to a request.

        Args:
            code: The frame's number.
            payload: What follows it.
        """
        try:
            body = answer_request(self._dispatcher, self.session, code, payload)
        except HeadstreamError as error:
            return self.refuse(code, error, payload)
        except Exception as error:  # a bug of ours must not be the client's end
            self.note(logging.ERROR, "a request failed by a fault in the server", error, command=name_of_code(code))
            return self.refuse(code, HeadstreamError("the server has a fault, which its log tells"))
        return (0, [response_head(0, sum(map(len, body))), *body]) if body else _DONE

    def refuse(self, code: int, error: HeadstreamError, payload: memoryview | None = None) -> Answer:
        """Return the response to a request that is refused, and log what the operator has to know of it.

        Args:
            code: The request's; 0 where it has not come completely.
            error: Why.
            payload: What follows the code; None where it is not there.
        """
        session = self.session
        status = status_of(error, is_extended=session.is_extended)
        if code in _LOGINS:
            self.note(logging.WARNING, "login refused", status=status, reason=error.what, name=_name_tried(code, payload))
        elif isinstance(error, DecodeError):
            self._faults += 1
            if self._faults <= _TOLD_FAULTS:
                self.note(logging.INFO, "request not understood", command=name_of_code(code), reason=error.what)
        else:
            TROUBLES.look_at(error, status)
        if status == Status.CLIENT_NOT_FOUND:
            session.is_ended = True
        body = encode_refusal(disclose(error, self._dispatcher.broker.backing.log)) if session.is_extended else b""
        return status, [response_head(status, len(body)), body]

    def note(self, level: int, event: str, error: BaseException | None = None, /, **fields: object) -> None:
        """Log an event about the session; see logs.note()."""
        session = self.session
        note(level, event, error, address=session.address, client=session.client_id, user=session.user_id, **fields)

    def close(self) -> None:
        """End the session."""
        if self._faults > _TOLD_FAULTS:
            self.note(logging.INFO, "requests not understood in all", count=self._faults)
        self._dispatcher.sessions.close(self.session)


def _name_tried(code: int, payload: memoryview | None) -> str | None:
    """Return the name of a login, escaped as all fields of the log are; None where there is none."""
    if code != Code.LOGIN or payload is None:
        return None
    try:
        return Login.decode(payload).username
    except DecodeError:
        return None
