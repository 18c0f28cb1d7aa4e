"""Requests: the bytes of a request in, the bytes of its answer out.

    decode (3) -> validate (its own status) -> Dispatcher: stale (30), login (40), the answer -> encode

What fails is raised; wire.refusals says what the client is told. A poll's messages are the stored bytes in pieces, behind
a head: nothing joins them.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from headstream.broker.commands.dispatch import Dispatcher
from headstream.broker.commands.messages import polled
from headstream.broker.commands.own_messages import fetched
from headstream.broker.sessions import Session
from headstream.codec.buffer import BytesLike
from headstream.errors import HeadstreamError, NotFoundError
from headstream.model.topology import Fsync
from headstream.wire.codes import TABLE, Code
from headstream.wire.commands.messages import PolledMessages, PollMessages, SendMessages
from headstream.wire.commands.offsets import StoreOffset
from headstream.wire.commands.sessions import Ping
from headstream.wire.extensions.messages import FetchedMessages, FetchMessages
from headstream.wire.records import Command
from headstream.wire.refusals import refusal
from headstream.wire.statuses import Status
from headstream.wire.table import decode_command

__all__ = ["READS", "answer_request", "is_slow"]

READS: Final = frozenset({Code.POLL_MESSAGES, Code.FETCH_MESSAGES})
"""What is answered with messages, as many as there is memory for."""

_SLOW: Final = frozenset(
    {
        Code.STATS,  # asks the system, and looks at every partition
        Code.SNAPSHOT,
        Code.CREATE_USER,  # passwords are hashed, at some cost by intention
        Code.CHANGE_PASSWORD,
        Code.LOGIN,
        Code.DELETE_USER,  # the catalog is synced, or read while it may be
        Code.UPDATE_USER,
        Code.UPDATE_PERMISSIONS,
        Code.LIST_TOKENS,
        Code.CREATE_TOKEN,
        Code.DELETE_TOKEN,
        Code.LOGIN_WITH_TOKEN,
        Code.FLUSH_MESSAGES,
        Code.GET_STREAM,  # counts look at the files of each partition
        Code.LIST_STREAMS,
        Code.CREATE_STREAM,  # directories and the catalog are synced
        Code.DELETE_STREAM,
        Code.UPDATE_STREAM,
        Code.PURGE_STREAM,
        Code.GET_TOPIC,
        Code.LIST_TOPICS,
        Code.CREATE_TOPIC,
        Code.DELETE_TOPIC,
        Code.UPDATE_TOPIC,
        Code.PURGE_TOPIC,
        Code.CREATE_PARTITIONS,
        Code.DELETE_PARTITIONS,
        Code.DELETE_SEGMENTS,
        Code.CREATE_GROUP,
        Code.DELETE_GROUP,
        Code.SET_STATE,
        Code.LIST_STATES,
        Code.MEASURE_RANGE,
        Code.CREATE_OPEN_TOPIC,
        Code.GET_OPEN_TOPIC,
        Code.LIST_OPEN_TOPICS,
        Code.CHANGE_TOPIC_OPTIONS,
        Code.RENAME_TOPIC,
        Code.STAGE_BATCH,
        Code.COMMIT_EPOCH,
        Code.UNSTAGE_PARTS,
        Code.GET_GROUP_LAG,
        Code.LIST_GROUP_LAGS,
        Code.SEEK_GROUP,
        Code.INIT_PRODUCER,  # a block of numbers is taken from the catalog
        Code.RELEASE_PRODUCER,
    }
)
"""What may take longer than others should wait: it looks at many files, syncs, or hashes a password."""

_UNANSWERED: Final = frozenset({SendMessages, Ping, StoreOffset})
"""What is asked for all the time, and answered by a status alone."""

_log: Final = logging.getLogger("headstream.server")
_APPENDS: Final = frozenset({Code.SEND_MESSAGES, Code.APPEND_MESSAGES, Code.APPEND_NUMBERED})
_BIG_BYTES: Final = 256 << 10
"""A send of so many bytes is stamped and written without the interpreter's lock for long enough to gain from another core:
going to another thread and back costs 50 us, about what 128 KiB take."""


def answer_request(server: Dispatcher, session: Session, code: int, payload: memoryview) -> list[BytesLike]:
    """Return the body of the response to a request, in pieces.

    Args:
        server: What answers.
        session: Who asks.
        code: The frame's number.
        payload: What follows it; it is not needed any more when this returns.

    Raises:
        HeadstreamError: why there is none.
    """
    entry = TABLE.get(code)
    if entry is not None and entry.is_extension and not session.is_extended:  # before anything of it is looked at
        raise refusal(Status.INVALID_COMMAND, f"{entry.name} is not served here")
    command = decode_command(code, payload)
    if _log.isEnabledFor(logging.DEBUG):
        _note_surplus(session, command, payload)
    command.validate()
    if not isinstance(command, (PollMessages, FetchMessages)):
        reply = server.answer(session, command)
        return [] if type(command) in _UNANSWERED else [type(command).encode_reply(reply)]
    server.admit(session, command.entry())
    try:
        return _read(server, session, command)
    except NotFoundError as error:
        raise server.disclosed(session, command, error) from None


def _read(server: Dispatcher, session: Session, command: PollMessages | FetchMessages) -> list[BytesLike]:
    """Return a reply whose messages are not copied into it."""
    if isinstance(command, PollMessages):
        found = polled(server, session, command)
        return [PolledMessages(found.partition, max(found.end_offset - 1, 0), found.count, b"").head(), *found.chunks]
    got = fetched(server, session, command)
    head = FetchedMessages(got.partition, got.end_offset, got.next_offset, got.generation, got.count, b"")
    return [FetchMessages.encode_reply(head), *got.chunks]


def _note_surplus(session: Session, command: Command[Any], payload: memoryview) -> None:
    """Log that a client sends more than a command says: its author may mean something by it."""
    surplus = command.count_surplus(payload)
    if surplus:
        fields = {"command": command.entry().name, "bytes": surplus, "address": session.address, "client": session.client_id}
        _log.debug("bytes after the last field of a request are ignored", extra={"fields": fields})


def is_slow(server: Dispatcher, code: int, payload: memoryview, *, is_alone: bool = False) -> bool:
    """Return whether a request is to be answered on a thread of its own, not between others.

    Args:
        server: What answers.
        code: The frame's number.
        payload: What follows it.
        is_alone: Whether there is no other client, who could be answered meanwhile.
    """
    if code in _SLOW or (len(payload) >= _BIG_BYTES and not is_alone):
        return True
    return code in _APPENDS and server.places.has_synced_topics() and _is_synced(server, code, payload)


def _is_synced(server: Dispatcher, code: int, payload: memoryview) -> bool:
    """Return whether a request appends to a topic that acknowledges what is on the disk itself."""
    try:
        command: Any = decode_command(code, payload)
        return server.places.topic(command.stream, command.topic).topic.fsync is Fsync.ALWAYS
    except HeadstreamError:
        return False  # refusing it is quick
