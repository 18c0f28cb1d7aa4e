"""ServerSink: a log behind a server that is written to: tasks send it their batches, the driver has them committed.

What a batch is staged as does not depend on how often it was sent: each says where in its part it lies. So a connection
that breaks, or a server that is started again, costs a task nothing but time.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from headstream.client.remote.address import Address
from headstream.client.remote.topology import RemoteTopics
from headstream.codec.buffer import BytesLike
from headstream.errors import HeadstreamError, LogError, NotALogError, StreamNotFoundError, TopicNotFoundError
from headstream.log.staging import Chunk, Manifest, StagedPart
from headstream.model.identifiers import TopicName
from headstream.model.topology import Limits
from headstream.spark.packing import Target
from headstream.spark.server_connections import caller_of
from headstream.spark.sink_log import topic_missing
from headstream.wire.extensions.epochs import CommitEpoch, GetEpoch, StageBatch, StagedBatch, UnstageParts
from headstream.wire.extensions.topics import GetIdentity

__all__ = ["ServerSink"]

_DELIVERY_S: Final = 120.0
"""For so long a batch is tried through broken connections and restarts of the server, as a producer's is."""


@dataclass(frozen=True, slots=True)
class ServerSink:
    """A log behind a server; see SinkLog.

    Args:
        address: The server, and who asks.
    """

    address: Address

    @property
    def where(self) -> str:
        """The server, without credentials."""
        return self.address.place

    def read_identity(self) -> str:
        """Return what tells the log from every other."""
        identity = caller_of(self.address).call(GetIdentity()).uuid
        if not identity:
            raise NotALogError("nothing was ever written to this server", where=self.where, advice="Create the topic first")
        return identity

    def find(self, name: TopicName) -> Target:
        """Return a topic as it is now."""
        try:
            topic = RemoteTopics(caller_of(self.address)).get(name)
        except (StreamNotFoundError, TopicNotFoundError):
            raise topic_missing(name, self.where) from None
        needs_key = topic.compaction_delay_us is not None
        return Target(str(name), len(topic.partitions), topic.limits is Limits.WIDE, needs_key)

    def begin_part(self, writer: str, epoch: int, name: str) -> _ServerPart:
        """Return what stages the batches of a task."""
        return _ServerPart(self.address, writer, epoch, name)

    def commit(self, manifest: Manifest, timeout_s: float) -> None:
        """Have the server append what was staged; the answer may take so many seconds longer than others."""
        found = self.read_identity()
        if found != manifest.identity:
            raise LogError(
                "the log has been deleted and made again since this write was planned",
                where=f"{self.where}: log {found}, was {manifest.identity}",
                advice="Start the query anew; nothing was written",
            )
        command = CommitEpoch(manifest.writer, manifest.epoch, _receipts(manifest.parts))
        wait_ms, patience_s = timeout_s * 1000, _DELIVERY_S + timeout_s
        committed = caller_of(self.address).call(command, wait_ms=wait_ms, patience_s=patience_s).epoch
        if committed != manifest.epoch:  # as servers answered that passed over an epoch behind a later one
            raise LogError(
                f"epoch {manifest.epoch} was not committed: the server has committed epoch {committed} of writer "
                f"{manifest.writer!r}",
                where=self.where,
                advice="Nothing of it was written: start the query anew, from a new checkpoint",
            )

    def abort(self, writer: str, epoch: int, parts: Sequence[StagedPart]) -> bool:
        """Have the server remove what was staged."""
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
    """Stages the batches of one task at a server, all but the newest, which waits until it is known whether it is the last."""

    def __init__(self, address: Address, writer: str, epoch: int, name: str) -> None:
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
            patience_s=_DELIVERY_S,
        )
        self._waiting = None
        self._position += receipt.size_bytes
        self._chunks.append(Chunk(receipt.topic, receipt.partition, receipt.size_bytes, receipt.count, receipt.crc32c))

    def finish(self) -> StagedPart | None:
        """Return what was staged, on the server's disk itself; None where that is nothing."""
        self._send(is_last=True)
        return StagedPart(self._name, tuple(self._chunks)) if self._chunks else None

    def discard(self) -> None:
        """Have the server remove what was staged; one that cannot be asked removes it after a day."""
        part = StagedPart(self._name, tuple(self._chunks))
        with suppress(HeadstreamError):
            if part.chunks:
                caller_of(self._address).call(UnstageParts(self._writer, self._epoch, _receipts([part])))
