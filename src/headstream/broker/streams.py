"""Streams: the namespaces of topics."""

from __future__ import annotations

from headstream.broker.backing import Backing
from headstream.core.model.identifiers import check_new_name
from headstream.core.model.topology import Stream
from headstream.errors import AlreadyExistsError
from headstream.log.administration import create_stream, delete_stream, rename_stream
from headstream.log.catalog.records import StreamRecord


class Streams:
    """Stream commands; LogLockedError if another process is the writer."""

    def __init__(self, backing: Backing) -> None:
        self._backing = backing

    def create(self, name: str) -> Stream:
        """Create a stream; the name must not contain a dot or slash. AlreadyExistsError if the name is taken."""
        check_new_name(name, "stream")
        with (log := self._backing.writable_log()).administration:
            if name in log.snapshot():
                raise AlreadyExistsError(f"the stream {name!r} already exists", where=log.root, advice="Use another name")
            create_stream(log, name, self._backing.clock_us())
            return self.get(name)

    def get(self, name: str) -> Stream:
        """Return a stream; StreamNotFoundError if it does not exist."""
        return _stream(self._backing.stream(name))

    def find(self, stream: str | int) -> Stream | None:
        """Return a stream by name or id; None if it does not exist."""
        record = self._backing.find_stream(stream)
        return None if record is None else _stream(record)

    def list(self) -> list[Stream]:
        """Return all streams, ordered by id."""
        return [_stream(record) for record in self._backing.log.snapshot().values()]

    def rename(self, name: str, to: str) -> None:
        """Rename a stream; its current name has no effect. StreamNotFoundError; AlreadyExistsError if the name is taken."""
        check_new_name(to, "stream")
        with (log := self._backing.writable_log()).administration:
            record = self._backing.stream(name)
            if to == name:
                return
            if to in log.snapshot():
                raise AlreadyExistsError(f"the stream {to!r} already exists", where=log.root, advice="Use another name")
            rename_stream(log, record, to)

    def delete(self, name: str) -> None:
        """Delete a stream with all its topics; StreamNotFoundError if it does not exist."""
        with (log := self._backing.writable_log()).administration:
            self._backing.stream(name)
            delete_stream(log, name)


def _stream(record: StreamRecord) -> Stream:
    return Stream(record.name, record.id, record.created_us, tuple(sorted(record.topics)))
