"""ServerSink: writes to a log behind a server. Tasks send their batches to the server, and the driver commits them.

Staging is idempotent, because each batch has a position in its part. So a broken connection or a restarted server only delays a
task.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from headstream.client.transports.remote.address import ServerUrl
from headstream.client.transports.remote.topology import RemoteTopics
from headstream.core.codec.buffer import BytesLike
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Limits
from headstream.core.wire.extensions.epochs import CommitEpoch, GetEpoch, StageBatch, StagedBatch, UnstageParts
from headstream.core.wire.extensions.topic_options import GetIdentity
from headstream.errors import HeadstreamError, LogError, NotALogError, StreamNotFoundError, TopicNotFoundError
from headstream.log.staged.staging import Chunk, Manifest, StagedPart
from headstream.spark.connection.server_connections import caller_of
from headstream.spark.sink.log import topic_missing
from headstream.spark.sink.packing import Target

_DELIVERY_S: Final = 120.0
"""Time for which a batch is retried after connection errors and server restarts, seconds, as in a producer."""


@dataclass(frozen=True, slots=True)
class ServerSink:
    """A log behind a server; see SinkLog."""

    address: ServerUrl

    @property
    def where(self) -> str:
        """The server, without credentials."""
        return self.address.place

    def read_identity(self) -> str:
        """Return the log's identity."""
        identity = caller_of(self.address).call(GetIdentity()).uuid
        if not identity:
            raise NotALogError("nothing has been written to this server yet", where=self.where, advice="Create the topic first")
        return identity

    def find(self, name: TopicName) -> Target:
        """Return the current state of a topic."""
        try:
            topic = RemoteTopics(caller_of(self.address)).get(name)
        except (StreamNotFoundError, TopicNotFoundError):
            raise topic_missing(name, self.where) from None
        needs_key = topic.compaction_delay_us is not None
        return Target(str(name), len(topic.partitions), topic.limits is Limits.WIDE, needs_key)

    def begin_part(self, writer: str, epoch: int, name: str) -> _ServerPart:
        """Return a writer for a task's staged part."""
        return _ServerPart(self.address, writer, epoch, name)

    def commit(self, manifest: Manifest, timeout_s: float) -> None:
        """Commit the staged batches on the server; the response can take `timeout_s` longer than other responses."""
        found = self.read_identity()
        if found != manifest.identity:
            raise LogError(
                "the log was deleted and recreated after this write was planned",
                where=f"{self.where}: log {found}, previously {manifest.identity}",
                advice="Restart the query; nothing was written",
            )
        command = CommitEpoch(manifest.writer, manifest.epoch, _receipts(manifest.parts))
        wait_ms, retry_timeout_s = timeout_s * 1000, _DELIVERY_S + timeout_s
        committed = caller_of(self.address).call(command, wait_ms=wait_ms, retry_timeout_s=retry_timeout_s).epoch
        if committed != manifest.epoch:  # older servers ignored an epoch below the last committed epoch
            raise LogError(
                f"epoch {manifest.epoch} was not committed: the server has committed epoch {committed} of writer "
                f"{manifest.writer!r}",
                where=self.where,
                advice="Nothing was written: restart the query with a new checkpoint",
            )

    def abort(self, writer: str, epoch: int, parts: Sequence[StagedPart]) -> bool:
        """Remove the staged batches from the server."""
        caller = caller_of(self.address)
        if parts:
            caller.call(UnstageParts(writer, epoch, _receipts(parts)))
        last = caller.call(GetEpoch(writer))
        return last is None or last.epoch < epoch


def _receipts(parts: Sequence[StagedPart]) -> tuple[StagedBatch, ...]:
    return tuple(
        StagedBatch(part.name, chunk.topic, chunk.partition, chunk.size_bytes, chunk.count, chunk.crc32c)
        for part in parts
        for chunk in part.chunks
    )


class _ServerPart:
    """Stages the batches of one task on a server. The newest batch is held back until the next batch or finish()."""

    def __init__(self, address: ServerUrl, writer: str, epoch: int, name: str) -> None:
        self._address = address
        self._writer = writer
        self._epoch = epoch
        self._name = name
        self._position = 0
        self._chunks: list[Chunk] = []
        self._waiting: tuple[TopicName, int, bytes] | None = None

    def add(self, topic: str, partition: int, sent: BytesLike, count: int) -> None:
        """Stage a batch."""
        self._send(is_last=False)
        self._waiting = TopicName.parse(topic), partition, bytes(sent)

    def _send(self, *, is_last: bool) -> None:
        if self._waiting is None:
            return
        name, partition, sent = self._waiting
        receipt = caller_of(self._address).call(
            StageBatch(self._writer, self._epoch, self._name, self._position, name.stream, name.topic, partition, is_last, sent),
            retry_timeout_s=_DELIVERY_S,
        )
        self._waiting = None
        self._position += receipt.size_bytes
        self._chunks.append(Chunk(receipt.topic, receipt.partition, receipt.size_bytes, receipt.count, receipt.crc32c))

    def finish(self) -> StagedPart | None:
        """Return the staged part, synced on the server; None if it is empty."""
        self._send(is_last=True)
        return StagedPart(self._name, tuple(self._chunks)) if self._chunks else None

    def discard(self) -> None:
        """Remove the staged part from the server; a server that cannot be reached removes it after a day."""
        part = StagedPart(self._name, tuple(self._chunks))
        with suppress(HeadstreamError):
            if part.chunks:
                caller_of(self._address).call(UnstageParts(self._writer, self._epoch, _receipts([part])))
