"""Streams: the namespaces of topics."""

from __future__ import annotations

from headstream.broker.backing import Backing
from headstream.errors import AlreadyExistsError
from headstream.log.administration import create_stream, delete_stream, rename_stream
from headstream.log.catalog import StreamRecord
from headstream.model.identifiers import check_name
from headstream.model.topology import Stream

__all__ = ["Streams"]


class Streams:
    """What can be done with streams."""

    def __init__(self, backing: Backing) -> None:
        self._backing = backing

    def create(self, name: str) -> Stream:
        """Make a stream.

        Args:
            name: Without dot or slash.

        Raises:
            AlreadyExistsError: there is one of that name.
        """
        check_name(name, "stream")
        log = self._backing.writable_log()
        if name in log.snapshot():
            raise AlreadyExistsError(f"there is a stream {name!r} already", where=log.root, advice="Use it, or another name")
        create_stream(log, name, self._backing.clock_us())
        return self.get(name)

    def get(self, name: str) -> Stream:
        """Return a stream; StreamNotFoundError where there is none."""
        return _stream(self._backing.stream(name))

    def list(self) -> list[Stream]:
        """Return all streams, in the order of their ids."""
        return [_stream(record) for record in self._backing.log.snapshot().values()]

    def rename(self, name: str, to: str) -> None:
        """Give a stream another name; to its own is fine.

        Args:
            name: The stream.
            to: Its new name, without dot or slash.

        Raises:
            StreamNotFoundError: there is none.
            AlreadyExistsError: another stream has that name.
        """
        check_name(to, "stream")
        log = self._backing.writable_log()
        with log.administration:
            record = self._backing.stream(name)
            if to == name:
                return
            if to in log.snapshot():
                raise AlreadyExistsError(f"there is a stream {to!r} already", where=log.root, advice="Use another name")
            rename_stream(log, record, to)

    def delete(self, name: str) -> None:
        """Delete a stream with all its topics; StreamNotFoundError where there is none."""
        log = self._backing.writable_log()
        self._backing.stream(name)
        delete_stream(log, name)


def _stream(record: StreamRecord) -> Stream:
    return Stream(record.name, record.id, record.created_us, tuple(sorted(record.topics)))
