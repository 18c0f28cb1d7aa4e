"""Tasks on executors for a log behind a server: ranges of offsets -> stored messages, one fetch ahead.

The server sends stored bytes unchanged; they are decoded like those of files (reader.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from headstream.client.remote.address import ServerUrl
from headstream.client.remote.messages import PolledAhead, RemoteMessages
from headstream.client.remote.topology import RemoteTopics
from headstream.codec.batch.stored.scan import find_offset
from headstream.errors import LogError, OffsetOutOfRangeError, OutcomeUnknownError, ServerUnreachableError
from headstream.filters.filter import Filter
from headstream.model.identifiers import TopicName
from headstream.model.polling import Polled, PollingStrategy
from headstream.spark.connection.server_connections import caller_of
from headstream.spark.source.offsets import OffsetRange
from headstream.spark.source.reader import ReadPart
from headstream.wire.extensions.topics import GetIdentity

__all__ = ["ServerFollower", "ServerLog"]

_CHUNK_BYTES: Final = 4 << 20
"""Bytes of a fetch, as of a file's chunk."""


@dataclass(frozen=True, slots=True)
class ServerLog:
    """A log behind a server; see ReadableLog.

    Args:
        address: The server and the credentials.
        identity: The log's identity when the read was planned.
    """

    address: ServerUrl
    identity: str

    def check(self, first: OffsetRange) -> None:
        """Check that it is the log that the read was planned for."""
        if caller_of(self.address).call(GetIdentity()).uuid != self.identity:
            raise LogError(
                "the log that this read was planned for is no longer at this server",
                where=f"{self.address.place}; {first}",
                advice="If the log was recreated, start with a new checkpointLocation",
            )

    def follow(self, part: ReadPart) -> ServerFollower:
        """Return a follower of a partition."""
        return ServerFollower(self.address, part)


class ServerFollower:
    """Reads one partition behind a server; see Follower.

    Args:
        address: The server and the credentials.
        part: The partition; its incarnation is its generation when the read was planned.
    """

    def __init__(self, address: ServerUrl, part: ReadPart) -> None:
        caller = caller_of(address)
        self._where = address.place
        self._part = part
        self._topic = TopicName.parse(part.range.topic)
        self._topics = RemoteTopics(caller)
        self._messages = RemoteMessages(caller, self._topics)
        self.first_offset = 0

    def refresh(self) -> None:
        """Refresh the present offsets."""
        partitions = self._topics.get(self._topic).partitions
        number = self._part.range.partition
        if number > len(partitions):
            raise self._replaced_error()
        self._check_generation(partitions[number - 1].generation)
        self.first_offset = partitions[number - 1].first_offset

    def next_readable(self, offset: int) -> int:
        """Return the given offset: the next fetch shows whether it is readable."""
        return offset

    def read(self, from_offset: int, until_offset: int, *, where: Filter | None = None) -> Iterator[memoryview]:
        """Yield the stored messages of a range in chunks; the next one is fetched meanwhile.

        Args:
            from_offset: The first offset.
            until_offset: One past the last offset.
            where: The filter; all messages are read whatever it is.

        Raises:
            OffsetOutOfRangeError: some are missing.
            CorruptSendError: the next messages are damaged.
            LogError: the partition was purged, or deleted and recreated.
        """
        offset = from_offset
        asked: PolledAhead | None = None
        try:
            while offset < until_offset:
                polled = self._poll(offset, until_offset) if asked is None else asked.result()
                asked = None
                self._check(polled, offset, until_offset)
                offset = polled.next_offset
                asked = self._ask(offset, until_offset) if offset < until_offset else None
                for chunk in polled.chunks:
                    # With gaps from compaction, as many messages as requested offsets extend beyond the range.
                    yield chunk if offset <= until_offset else chunk[: find_offset(chunk, until_offset)]
        finally:
            if asked is not None:
                asked.cancel()

    def _poll(self, offset: int, until_offset: int) -> Polled:
        start, count = PollingStrategy.offset(offset), until_offset - offset
        partition = self._part.range.partition
        return self._messages.poll(self._topic, partition, start, count, states=None, size_bytes=_CHUNK_BYTES)

    def _ask(self, offset: int, until_offset: int) -> PolledAhead | None:
        """Request the next chunk; None if the connection broke: a later poll reconnects."""
        start, count = PollingStrategy.offset(offset), until_offset - offset
        partition = self._part.range.partition
        try:
            return self._messages.poll_ahead(self._topic, partition, start, count, states=None, size_bytes=_CHUNK_BYTES)
        except (OutcomeUnknownError, ServerUnreachableError):
            return None

    def _check(self, polled: Polled, offset: int, until_offset: int) -> None:
        self._check_generation(polled.generation)
        first = int.from_bytes(polled.chunks[0][:8], "little") if polled.count else polled.next_offset
        if polled.end_offset >= until_offset and first == offset:
            return
        self.refresh()  # compaction leaves gaps, retention moves the beginning
        if polled.end_offset < until_offset or offset < self.first_offset:
            raise OffsetOutOfRangeError(
                f"offsets {offset} to {until_offset} were requested, {self.first_offset} to {polled.end_offset} exist",
                where=self._where,
                advice="Older ones have been dropped by retention or deletion, later ones were never written",
            )

    def _check_generation(self, generation: int) -> None:
        if str(generation) != self._part.incarnation:
            raise self._replaced_error()

    def _replaced_error(self) -> LogError:
        return LogError(
            "the partition was purged, or deleted, since this read was planned",
            where=self._where,
            advice="Start the query with a new checkpointLocation; it then reads from startingOffsets",
        )

    def __enter__(self) -> ServerFollower:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Do nothing: no resource is held between reads."""
