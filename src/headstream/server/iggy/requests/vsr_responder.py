"""VsrResponder: the responses to a client of Iggy's protocol 0.11 (SDKs from 0.11), in frames with a 256-byte header.

A client whose login fails, or that writes without a login, receives an eviction; other errors are replies with a status. The
connection stays open for another login, unless no further login can succeed.
"""

from __future__ import annotations

import struct
from typing import Final

from headstream.broker.accounts.sessions import Session
from headstream.broker.commands.dispatch import Dispatcher
from headstream.core.codec.buffer import BytesLike
from headstream.core.wire.codes import Code
from headstream.core.wire.refusals import refusal
from headstream.core.wire.statuses import Status
from headstream.core.wire.vsr.encoding import VSR, VsrEncoding
from headstream.core.wire.vsr.frames import HEADER_BYTES, PROTOCOL, Eviction, RequestHeader, encode_eviction, encode_reply_head
from headstream.core.wire.vsr.logins import SERVER_VERSION
from headstream.errors import DecodeError, HeadstreamError
from headstream.server.iggy.requests.responder import Responder, Response

_LOGIN_EVICTIONS: Final = {
    Status.INVALID_CREDENTIALS: Eviction.INVALID_CREDENTIALS,
    Status.INVALID_USERNAME: Eviction.INVALID_CREDENTIALS,
    Status.INVALID_PASSWORD: Eviction.INVALID_CREDENTIALS,
    Status.INVALID_PERSONAL_ACCESS_TOKEN: Eviction.INVALID_TOKEN,
    Status.PERSONAL_ACCESS_TOKEN_EXPIRED: Eviction.INVALID_TOKEN,
    Status.RESOURCE_NOT_FOUND: Eviction.INVALID_TOKEN,
    Status.USER_INACTIVE: Eviction.USER_INACTIVE,
    Status.INCOMPATIBLE_PROTOCOL: Eviction.INCOMPATIBLE_PROTOCOL,
}
_FINAL_EVICTIONS: Final = frozenset({Eviction.STALE_CLIENT, Eviction.INCOMPATIBLE_PROTOCOL, Eviction.MALFORMED_LOGIN})
"""The evictions that close the connection."""
_LOGIN_TAIL: Final = struct.Struct("<QIB")
_NO_LOGIN_CODES: Final = frozenset({Code.PING, Code.LOGIN})
_CLASSIC_LOGINS: Final = frozenset({Code.LOGIN, Code.LOGIN_WITH_TOKEN})
_NO_CLIENT: Final = bytes(16)
_POLL_END: Final = 13
"""Number of bytes of a poll after partition and kind: value u64 | count u32 | auto_commit u8."""


def _polled_place(payload: memoryview) -> bytes:
    """Return the bytes of a poll that identify consumer, topic, partition and kind."""
    return bytes(payload[HEADER_BYTES:-_POLL_END])


class VsrResponder(Responder):
    """Answers requests like Responder; a payload is a complete frame. `hold_s`: maximum wait of a poll, seconds.

    Attributes:
        empty_polls: The places of empty polls since the last poll that returned messages. A poll that repeats one of them waits,
            because the client has found all of its partitions empty.
    """

    encoding: VsrEncoding = VSR
    client = _NO_CLIENT
    """The id of the client that has logged in."""

    def __init__(self, dispatcher: Dispatcher, session: Session, hold_s: float = 0.0) -> None:
        super().__init__(dispatcher, session)
        self.empty_polls = set[bytes]()
        if hold_s:
            self.encoding = VsrEncoding(int(hold_s * 1000))

    @property
    def number(self) -> int:
        """The number of the session, which write requests must contain."""
        return self.session.client_id

    def may_wait(self, code: int, payload: memoryview) -> bool:
        """Return whether a request repeats an empty poll, and no poll since then has returned messages."""
        return code == Code.POLL_MESSAGES and _polled_place(payload) in self.empty_polls

    def find(self, code: int, payload: memoryview) -> Response:
        """Return the response, with header, to a frame; the code -1 (not a request) closes the connection."""
        if code < 0:
            self.session.is_ended = True
            return Status.INVALID_COMMAND, []
        error = self._find_fault(code, RequestHeader.decode(payload), payload[HEADER_BYTES:])
        return super().find(code, payload) if error is None else self.refuse(code, error, payload)

    def _find_fault(self, code: int, header: RequestHeader, body: memoryview) -> HeadstreamError | None:
        """Return the error with which to refuse a request before its body is decoded, or None."""
        session = self.session
        if not header.matches(body):
            return DecodeError("the body of a request does not match its checksum", HEADER_BYTES)
        if header.is_read and header.read_code in _CLASSIC_LOGINS:
            return DecodeError("the login is a request of the older protocol", HEADER_BYTES)
        is_bound = header.is_read or (header.session == self.number and header.client == self.client)
        if code not in _NO_LOGIN_CODES and not (session.user_id and is_bound):
            return refusal(Status.UNAUTHENTICATED, "the request needs a login", advice="Log in first")
        return None

    def accept(self, code: int, body: list[BytesLike], payload: memoryview) -> Response:
        """Return the response to a successful request; for arguments see Responder.accept()."""
        header = RequestHeader.decode(payload)
        if code == Code.LOGIN:
            self.client = header.client
            version = SERVER_VERSION.encode()
            body = [*body, _LOGIN_TAIL.pack(self.number, PROTOCOL, len(version)) + version]
        elif code == Code.POLL_MESSAGES and self.encoding is not VSR:
            if len(body) > 1 or len(self.empty_polls) >= 1000:
                self.empty_polls.clear()
            else:
                self.empty_polls.add(_polled_place(payload))
        return 0, [encode_reply_head(header, 0, sum(map(len, body)), self.number), *body]

    def reject(self, code: int, error: HeadstreamError, status: int, payload: memoryview | None) -> list[BytesLike]:
        """Return the response to a rejected request: an eviction or a status; for arguments see Responder.reject()."""
        if payload is None:
            return self.reject_unread(status)
        header = RequestHeader.decode(payload)
        reason = self._find_eviction(code, error, status, header)
        if reason is None:
            return [encode_reply_head(header, status, 0, self.number)]
        self.session.is_ended |= reason in _FINAL_EVICTIONS
        return [encode_eviction(header.client, reason)]

    def reject_unread(self, status: int) -> list[BytesLike]:
        """Return an eviction, because the request's header was not read."""
        return [encode_eviction(self.client, Eviction.MALFORMED_LOGIN)]

    def _find_eviction(self, code: int, error: HeadstreamError, status: int, header: RequestHeader) -> Eviction | None:
        """Return the reason for an eviction, or None for a reply with a status."""
        if self.session.is_stale:
            return Eviction.STALE_CLIENT
        if header.is_read:
            return Eviction.MALFORMED_LOGIN if header.read_code in _CLASSIC_LOGINS else None
        if code == Code.LOGIN:
            if isinstance(error, DecodeError):
                return Eviction.MALFORMED_LOGIN
            return _LOGIN_EVICTIONS.get(Status(status))
        return Eviction.NO_SESSION if status == Status.UNAUTHENTICATED else None
