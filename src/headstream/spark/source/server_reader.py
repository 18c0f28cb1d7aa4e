"""Tasks on executors for a log behind a server: offset ranges -> stored messages, prefetching one response.

The server applies the filter and sends the matching messages. The code for files decodes these messages (reader.py).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from headstream.client.transports.remote.address import ServerUrl
from headstream.client.transports.remote.messages import PolledAhead, RemoteMessages
from headstream.client.transports.remote.topology import RemoteTopics
from headstream.core.codec.batch.stored.scan import find_offset
from headstream.core.filters.filter import Filter
from headstream.core.filters.poll_request import PollRequest
from headstream.core.model.identifiers import TopicName
from headstream.core.model.polling import Polled, PollingStrategy
from headstream.core.wire.extensions.topic_options import GetIdentity
from headstream.core.wire.statuses import Status
from headstream.errors import (
    HeaderError,
    LogError,
    OffsetOutOfRangeError,
    OutcomeUnknownError,
    ServerError,
    ServerUnreachableError,
)
from headstream.spark.connection.server_connections import caller_of
from headstream.spark.source.matching import Matching, match_chunks
from headstream.spark.source.offsets import OffsetRange
from headstream.spark.source.reader import ReadPart

_LOGGER: Final = logging.getLogger("headstream.spark")
_CHUNK_BYTES: Final = 4 << 20
"""Size of a fetch, bytes; the same as a file chunk."""


@dataclass(frozen=True, slots=True)
class ServerLog:
    """A log behind a server; see ReadableLog."""

    address: ServerUrl
    identity: str

    def check(self, first: OffsetRange) -> None:
        """Check that this is the log that the read was planned for."""
        if caller_of(self.address).call(GetIdentity()).uuid != self.identity:
            raise LogError(
                "the server no longer has the log that this read was planned for",
                where=f"{self.address.place}; {first}",
                advice="If the log was recreated, start with a new checkpointLocation",
            )

    def follow(self, part: ReadPart) -> ServerFollower:
        """Return a follower of a partition."""
        return ServerFollower(self.address, part)


class ServerFollower:
    """Reads one partition of a log behind a server; see Follower.

    Args:
        part: The partition; `incarnation` is the partition's generation when the read was planned.
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
        """Refresh the current offsets."""
        partitions = self._topics.get(self._topic).partitions
        number = self._part.range.partition
        if number > len(partitions):
            raise self._replaced_error()
        self._check_generation(partitions[number - 1].generation)
        self.first_offset = partitions[number - 1].first_offset

    def next_readable(self, offset: int) -> int:
        """Return the given offset: the next fetch shows whether its message exists."""
        return offset

    def read_matching(
        self, from_offset: int, until_offset: int, where: Filter | None, states: frozenset[int] | None
    ) -> Iterator[Matching]:
        """Yield the messages of a range that match a filter, in order; see Follower. The next messages are prefetched."""
        if where is None:
            return match_chunks(self._read(from_offset, until_offset), None)
        return self._read_filtered(from_offset, until_offset, where, states)

    def _read_filtered(
        self, from_offset: int, until_offset: int, where: Filter, states: frozenset[int] | None
    ) -> Iterator[Matching]:
        """Yield the messages that the server returns; an older server without filters returns all messages."""
        offset = from_offset
        try:
            for polled in self._polls(from_offset, until_offset, where, states):
                if polled.next_offset - offset != polled.scanned_count or polled.end_offset < until_offset:
                    self._check_range(polled, offset, until_offset)
                offset = polled.next_offset
                stored = polled.chunks[0] if polled.count else memoryview(b"")
                yield Matching(_until(stored, offset, until_offset), min(offset, until_offset), polled.failed_count)
        except HeaderError as error:  # names the offset
            error.where = self._where
            raise
        except ServerError as error:
            if error.status != Status.INVALID_COMMAND:
                raise
            _LOGGER.warning(
                "%s, offset %d: the server does not support filters, so this executor applies %s to all messages",
                self._part.range.topic_partition,
                offset,
                where.text,
            )
            yield from match_chunks(self._read(offset, until_offset), where.with_states(states))

    def _read(self, from_offset: int, until_offset: int) -> Iterator[memoryview]:
        """Yield all stored messages of a range in chunks."""
        offset = from_offset
        for polled in self._polls(from_offset, until_offset, None, None):
            first = int.from_bytes(polled.chunks[0][:8], "little") if polled.count else polled.next_offset
            if first != offset or polled.end_offset < until_offset:
                self._check_range(polled, offset, until_offset)
            offset = polled.next_offset
            for chunk in polled.chunks:
                yield _until(chunk, offset, until_offset)

    def _polls(self, offset: int, until_offset: int, where: Filter | None, states: frozenset[int] | None) -> Iterator[Polled]:
        """Yield the responses of polls up to the end of a range; the next poll is sent before a response is yielded."""
        partition = self._part.range.partition
        asked: PolledAhead | None = None
        try:
            while offset < until_offset:
                if asked is not None:
                    polled = asked.result()
                else:
                    polled = self._messages.poll(self._topic, partition, _request(offset, until_offset, where, states))
                asked = None
                self._check_generation(polled.generation)
                offset = polled.next_offset
                if offset < min(until_offset, polled.end_offset):
                    asked = self._ask(offset, until_offset, where, states)
                yield polled
        finally:
            if asked is not None:
                asked.cancel()

    def _ask(self, offset: int, until_offset: int, where: Filter | None, states: frozenset[int] | None) -> PolledAhead | None:
        """Send the next poll; return None if the connection is broken, because a later poll reconnects."""
        request = _request(offset, until_offset, where, states)
        try:
            return self._messages.poll_ahead(self._topic, self._part.range.partition, request)
        except (OutcomeUnknownError, ServerUnreachableError):
            return None

    def _check_range(self, polled: Polled, offset: int, until_offset: int) -> None:
        """Check a poll that has skipped offsets: gaps of compaction are allowed; messages removed by retention are an error."""
        self.refresh()
        if polled.end_offset < until_offset or offset < self.first_offset:
            raise OffsetOutOfRangeError(
                f"offsets {offset} to {until_offset} were requested, but only {self.first_offset} to {polled.end_offset} exist",
                where=self._where,
                advice="Older messages were removed by retention or deleted; later offsets were never written",
            )

    def _check_generation(self, generation: int) -> None:
        if str(generation) != self._part.incarnation:
            raise self._replaced_error()

    def _replaced_error(self) -> LogError:
        return LogError(
            "the partition was purged or deleted after this read was planned",
            where=self._where,
            advice="Start the query with a new checkpointLocation; it then reads from startingOffsets",
        )

    def __enter__(self) -> ServerFollower:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Do nothing: no resource is held between reads."""


def _until(stored: memoryview, next_offset: int, until_offset: int) -> memoryview:
    """Return the messages of a poll whose offsets are below `until_offset`.

    If compaction has left gaps, a poll contains the requested number of messages, some beyond the range.
    """
    return stored if next_offset <= until_offset else stored[: find_offset(stored, until_offset)]


def _request(offset: int, until_offset: int, where: Filter | None, states: frozenset[int] | None) -> PollRequest:
    start, count = PollingStrategy.offset(offset), until_offset - offset
    return PollRequest(start, count, states, _CHUNK_BYTES, where=where, until_offset=until_offset)
