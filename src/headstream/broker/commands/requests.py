"""Requests: converts the bytes of a request to the bytes of its response.

    decode (3) -> validate (a specific status) -> Dispatcher: stale (30), login (40), the handler -> encode

Errors are raised; wire.refusals converts them for the client. A poll's reply is a list of a head and stored bytes, to avoid a
copy.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from headstream.broker.accounts.sessions import Session
from headstream.broker.commands.dispatch import Dispatcher
from headstream.broker.commands.messages import fetched, filtered, polled, searches_states
from headstream.broker.commands.table import codes_where
from headstream.core.codec.buffer import BytesLike, Reader
from headstream.core.model.topology import Fsync
from headstream.core.wire.codes import TABLE, Code
from headstream.core.wire.commands.messages import PolledMessages, PollMessages
from headstream.core.wire.encodings import CLASSIC, Encoding
from headstream.core.wire.extensions.filters import FilteredMessages, FilterMessages
from headstream.core.wire.extensions.messages import FetchedMessages, FetchMessages
from headstream.core.wire.records import Command
from headstream.core.wire.refusals import refusal
from headstream.core.wire.shapes import IDENTIFIER
from headstream.core.wire.statuses import Status
from headstream.errors import HeadstreamError, NotFoundError

READS: Final = codes_where(lambda row: row.is_read)
WAITS: Final = codes_where(lambda row: row.waits)
_SLOW: Final = codes_where(lambda row: row.is_slow)
_APPENDS: Final = codes_where(lambda row: row.is_append)

_LOGINS: Final = frozenset({Code.LOGIN, Code.LOGIN_WITH_TOKEN})

_log: Final = logging.getLogger("headstream.server")
_BIG_BYTES: Final = 256 << 10
"""Minimum size of a send that benefits from another core, bytes: stamping and writing release the interpreter's lock, and
the switch to another thread and back costs 50 us, about the time for 128 KiB.
"""


def answer_request(
    server: Dispatcher, session: Session, code: int, payload: memoryview, encoding: Encoding = CLASSIC
) -> list[BytesLike]:
    """Return the body of the response to a request, in pieces.

    Args:
        payload: The frame's payload; not referenced after the call.
    """
    entry = TABLE.get(code)
    if entry is not None and entry.is_extension and not session.is_extended:  # before the payload is decoded
        raise refusal(Status.INVALID_COMMAND, f"{entry.name} is not supported here")
    command = encoding.decode(code, payload)
    if _log.isEnabledFor(logging.DEBUG):
        _note_surplus(session, command, encoding.count_surplus(command, payload))
    command.validate()
    if not isinstance(command, (PollMessages, FetchMessages, FilterMessages)):
        reply = server.answer(session, command)
        return encoding.encode_reply(command, reply)
    server.admit(session, command.entry())
    try:
        return _read(server, session, command, encoding)
    except NotFoundError as error:
        raise server.disclosed(session, command, error) from None


def _read(
    server: Dispatcher, session: Session, command: PollMessages | FetchMessages | FilterMessages, encoding: Encoding
) -> list[BytesLike]:
    """Return the reply to a poll without copying the messages."""
    if isinstance(command, PollMessages):
        found = polled(server, session, command)
        head = PolledMessages(found.partition, max(found.end_offset - 1, 0), found.count, b"")
        return encoding.encode_polled(head, found.chunks)
    if isinstance(command, FilterMessages):
        matching = filtered(server, session, command)
        return [FilterMessages.encode_reply(FilteredMessages.of(matching, messages=b"")), *matching.chunks]
    got = fetched(server, session, command)
    fetched_head = FetchedMessages(got.partition, got.end_offset, got.next_offset, got.generation, got.count, b"")
    return [FetchMessages.encode_reply(fetched_head), *got.chunks]


def _note_surplus(session: Session, command: Command[Any], surplus: int) -> None:
    """Log a request with surplus bytes after its fields, because the client may expect them to have an effect."""
    if surplus:
        fields = {"command": command.entry().name, "bytes": surplus, "address": session.address, "client": session.client_id}
        _log.debug("bytes after the last field of a request were ignored", extra={"fields": fields})


def is_slow(
    server: Dispatcher, session: Session, code: int, payload: memoryview, encoding: Encoding = CLASSIC, *, is_alone: bool = False
) -> bool:
    """Return whether a worker thread should handle a request, so that the request does not delay other requests.

    Args:
        session: The client's session. Before the login, only login requests are slow; other requests are refused immediately.
        is_alone: Whether no other client is connected.
    """
    if not session.user_id and code not in _LOGINS:
        return False
    if code in _SLOW or (len(payload) >= _BIG_BYTES and not is_alone):
        return True
    if code == Code.FETCH_MESSAGES:
        return _searches_states(code, payload, encoding)
    return code in _APPENDS and server.lookup.has_synced_topics() and _is_synced(server, payload, encoding)


def _searches_states(code: int, payload: memoryview, encoding: Encoding) -> bool:
    try:
        command: Any = encoding.decode(code, payload)
    except HeadstreamError:
        return False  # refusing it is quick
    return searches_states(command)


def _is_synced(server: Dispatcher, payload: memoryview, encoding: Encoding) -> bool:
    """Return whether an append's topic syncs to disk before it acknowledges; the messages are not decoded."""
    try:
        reader = Reader(payload, encoding.topic_at)
        stream, topic = IDENTIFIER.pull(reader, "stream"), IDENTIFIER.pull(reader, "topic")
        return server.lookup.topic(stream, topic).topic.fsync is Fsync.ALWAYS
    except HeadstreamError:
        return False  # the refusal is fast
