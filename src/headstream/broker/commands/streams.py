"""Iggy's commands for streams: names of 1 to 255 bytes, ids chosen by the client, renaming.

A duplicate name (1012) is reported before a duplicate id (1011).
"""

from __future__ import annotations

from typing import Any, Final

from headstream.broker.accounts.sessions import Session
from headstream.broker.commands.counts import describe_stream, detail_stream
from headstream.broker.commands.dispatch import CommandRow, Dispatcher
from headstream.core.model.identifiers import has_control_character
from headstream.core.wire.commands.streams import (
    CreateStream,
    DeleteStream,
    GetStream,
    ListStreams,
    PurgeStream,
    Stream,
    StreamDetails,
    UpdateStream,
)
from headstream.core.wire.records import Command
from headstream.core.wire.refusals import refusal
from headstream.core.wire.statuses import Status
from headstream.log.administration import create_stream as add_stream
from headstream.log.administration import delete_stream as remove_stream
from headstream.log.administration import purge_topic, rename_stream


def get_stream(server: Dispatcher, session: Session, command: GetStream) -> StreamDetails | None:
    """Return a stream with its topics."""
    stream = server.lookup.stream(command.stream)
    server.rights(session).read_stream(stream.id)
    return detail_stream(server.counts, stream)


def list_streams(server: Dispatcher, session: Session, command: ListStreams) -> tuple[Stream, ...]:
    """Return all streams, ordered by id."""
    server.rights(session).list_streams()
    return tuple(describe_stream(server.counts, stream) for stream in server.lookup.snapshot().values())


def create_stream(server: Dispatcher, session: Session, command: CreateStream) -> StreamDetails:
    """Create a stream."""
    server.rights(session).create_stream()
    backing = server.broker.backing
    with (log := backing.writable_log()).administration:
        streams = log.snapshot()
        _check_name(server, command.name)
        if any(stream.id == command.id for stream in streams.values()):
            raise refusal(Status.STREAM_ID_ALREADY_EXISTS, f"the stream {command.id} already exists", advice="Use another id")
        add_stream(log, command.name, backing.clock_us(), command.id or None)
        return detail_stream(server.counts, log.snapshot()[command.name])


def delete_stream(server: Dispatcher, session: Session, command: DeleteStream) -> None:
    """Delete a stream with all of its topics."""
    with (log := server.broker.backing.writable_log()).administration:
        stream = server.lookup.stream(command.stream)
        server.rights(session).manage_stream(stream.id)
        remove_stream(log, stream.name)
    server.connection_groups.forget(stream.number)
    server.balance.forget(stream.number)


def update_stream(server: Dispatcher, session: Session, command: UpdateStream) -> None:
    """Rename a stream; renaming it to its current name is accepted."""
    with (log := server.broker.backing.writable_log()).administration:
        stream = server.lookup.stream(command.stream)
        server.rights(session).manage_stream(stream.id)
        if command.name != stream.name:
            _check_name(server, command.name)
            rename_stream(log, stream, command.name)


def purge_stream(server: Dispatcher, session: Session, command: PurgeStream) -> None:
    """Remove all messages and stored offsets of a stream."""
    backing = server.broker.backing
    with (log := backing.writable_log()).administration:
        stream = server.lookup.stream(command.stream)
        server.rights(session).manage_stream(stream.id)
        for topic in stream.topics.values():
            purge_topic(log, topic, backing.clock_us())


def _check_name(server: Dispatcher, name: str) -> None:
    if has_control_character(name):
        raise refusal(Status.INVALID_STREAM_NAME, f"the name {name!r} contains control characters", advice="Use another name")
    if name in server.lookup.snapshot():
        raise refusal(Status.STREAM_NAME_ALREADY_EXISTS, f"the stream {name!r} already exists", advice="Use another name")


ROWS: Final[dict[type[Command[Any]], CommandRow]] = {
    GetStream: CommandRow(get_stream, is_slow=True, threads="scans"),
    ListStreams: CommandRow(list_streams, is_slow=True, threads="scans"),
    CreateStream: CommandRow(create_stream, is_slow=True),
    DeleteStream: CommandRow(delete_stream, is_slow=True),
    UpdateStream: CommandRow(update_stream, is_slow=True),
    PurgeStream: CommandRow(purge_stream, is_slow=True),
}
