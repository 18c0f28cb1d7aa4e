"""Sending: groups messages into batches, chooses partitions, and decides when to send. Sans-IO: time is an argument.

    sending.add(message, key, partition, now_us)     adds a message to the open batch of its partition
    sending.take(now_us)                             returns the next due batch: full, flushed, or at the end of its linger
    sending.remove_finished(batch)                   removes a batch that is stored or has failed

The partition is the requested partition or is hashed from the key; for messages with neither, partitions rotate after each batch.
A taken batch stays at the head of the queue until it is settled. Batches of one partition are taken in order.

Not thread-safe: callers hold a lock. If Ctrl-C interrupts add(), the message may or may not have been added; all batches stay
consistent, because a batch is one list entry from creation to settlement and is never moved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from headstream.core.model.partitioning import partition_of
from headstream.core.model.producers import Appended
from headstream.core.model.topology import MAX_BATCH_BYTES, Limits
from headstream.errors import InvalidOptionError

DEFAULT_LINGER_MS: Final = 5
"""Default linger, milliseconds. A longer linger fills larger batches; with a shorter linger, messages are stored sooner."""

MAX_DELIVERY_TIMEOUT_MS: Final = 3_600_000
"""Maximum delivery timeout, milliseconds; a log keeps a producer's state for longer after its last batch (producer_states.py)."""

_MAX_IGGY_BATCH_BYTES: Final = 10_000_000
_MAX_IGGY_HEADER_BYTES: Final = 100_000
"""Maximum payload and header value bytes of one send with limits `iggy`. This module counts all bytes, an upper bound."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingOptions:
    """How messages are batched.

    Args:
        linger_ms: Maximum time that a message waits for its batch to fill, milliseconds; 0 sends without delay.
        batch_bytes: Size at which a batch is sent immediately, bytes; 1 byte to 64 MiB.
        batch_count: Number of messages at which a batch is sent immediately.
        buffer_bytes: Maximum unacknowledged bytes before send() blocks.
        delivery_timeout_ms: Time for which a batch is retried after its linger, milliseconds; afterwards, the batch fails.
    """

    linger_ms: float = DEFAULT_LINGER_MS
    batch_bytes: int = 1 << 20
    batch_count: int = 1000
    buffer_bytes: int = 32 << 20
    delivery_timeout_ms: float = 120_000

    def __post_init__(self) -> None:
        if not 0 <= self.linger_ms <= 3_600_000:
            raise InvalidOptionError(f"linger_ms must be 0 to 3600000, not {self.linger_ms}")
        if not 1 <= self.batch_bytes <= MAX_BATCH_BYTES:
            raise InvalidOptionError(f"batch_bytes must be 1 to {MAX_BATCH_BYTES}, not {self.batch_bytes}")
        if self.batch_count < 1:
            raise InvalidOptionError(f"batch_count must be at least 1, not {self.batch_count}")
        if self.buffer_bytes < 1:
            raise InvalidOptionError(f"buffer_bytes must be at least 1, not {self.buffer_bytes}")
        if not 0 < self.delivery_timeout_ms <= MAX_DELIVERY_TIMEOUT_MS:
            what = f"delivery_timeout_ms must be above 0 and at most {MAX_DELIVERY_TIMEOUT_MS}"
            raise InvalidOptionError(f"{what}, not {self.delivery_timeout_ms}")


class BatchOwner(Protocol):
    """The interface that a batch's producer provides to receipts."""

    def wait_for(self, batch: Batch, timeout_s: float | None) -> bool:
        """Send a batch immediately and wait until it is settled; return whether it is settled."""

    def watch(self, batch: Batch, callback: Callable[[], object] | None) -> None:
        """Record that a receipt reports the outcome of the batch; call back when the batch is settled."""


@dataclass(slots=True, eq=False)
class Batch:
    """Messages sent to a partition together.

    Args:
        due_us: Time at which the batch is sent even if it is not full.
        deadline_us: Time at which the batch fails.
        data: Encoded messages, back to back.
        is_closed: Whether the batch accepts no more messages.
        error: The cause of the failure, or None.
        is_in_doubt: Whether a failed batch may be stored.
        watched: Number of receipts that report the batch's outcome.
        callbacks: Called when the batch is settled.
    """

    number: int
    partition: int
    due_us: int
    deadline_us: int
    owner: BatchOwner
    data: bytearray = field(default_factory=bytearray)
    count: int = 0
    header_bytes: int = 0
    is_closed: bool = False
    appended: Appended | None = None
    error: Exception | None = None
    is_in_doubt: bool = False
    watched: int = 0
    callbacks: list[Callable[[], object]] | None = None

    @property
    def is_done(self) -> bool:
        """Whether the batch is stored or has failed."""
        return self.appended is not None or self.error is not None


class Sending:
    """The batches of one producer.

    Args:
        partitions: The numbers of the topic's partitions.
        choose: Returns the partition of a key; the second argument is the number of partitions.

    Attributes:
        is_due: Whether the last added message filled a batch.
    """

    def __init__(
        self,
        partitions: range,
        limits: Limits,
        options: SendingOptions,
        owner: BatchOwner,
        choose: Callable[[bytes, int], int] = partition_of,
    ) -> None:
        self.is_due = False
        self._owner = owner
        self._delivery_us = int(options.delivery_timeout_ms * 1000)
        self._partitions = partitions
        self._linger_us = int(options.linger_ms * 1000)
        self._batch_count = options.batch_count
        self._buffer_bytes = options.buffer_bytes
        is_iggy = limits is Limits.IGGY
        self._batch_bytes = min(options.batch_bytes, _MAX_IGGY_BATCH_BYTES) if is_iggy else options.batch_bytes
        self._header_bytes = _MAX_IGGY_HEADER_BYTES if is_iggy else MAX_BATCH_BYTES
        self._batches: list[Batch] = []
        self._open: dict[int, Batch] = {}
        self._choose = choose
        self._partition = partitions[0]
        self._made = 0
        self._pending_bytes = 0
        self._taken: Batch | None = None

    @property
    def is_full(self) -> bool:
        """Whether the pending bytes have reached the limit."""
        return self._pending_bytes >= self._buffer_bytes

    @property
    def pending_count(self) -> int:
        """Number of unacknowledged messages."""
        return sum(batch.count for batch in self._batches)

    @property
    def pending_bytes(self) -> int:
        """Number of unacknowledged bytes."""
        return self._pending_bytes

    def add(self, message: bytes, header_bytes: int, key: bytes | None, partition: int | None, now_us: int) -> Batch:
        """Add a message to the open batch of a partition (None: by the key's hash, else in rotation); return the batch."""
        target = partition
        if target is None and key is not None:
            target = self._choose(key, len(self._partitions))
        closed = False
        batch = self._open_batch(target)
        while batch is not None and not self._has_space(batch, len(message), header_bytes):
            self._close(batch)
            closed = True
            batch = self._open_batch(target)  # closing a batch can advance the rotation
        if batch is None:
            batch = self._begin(self._partition if target is None else target, now_us)
        data = batch.data
        data += message
        batch.count += 1
        batch.header_bytes += header_bytes
        self._pending_bytes += len(message)
        if batch.count >= self._batch_count or len(data) >= self._batch_bytes or self._linger_us == 0:
            self._close(batch)
            closed = True
        self.is_due = closed
        return batch

    def _open_batch(self, partition: int | None) -> Batch | None:
        """Return the open batch of a partition; `partition` None: the next partition in rotation."""
        batch = self._open.get(self._partition if partition is None else partition)
        return None if batch is None or batch.is_closed else batch

    def _has_space(self, batch: Batch, size_bytes: int, header_bytes: int) -> bool:
        return len(batch.data) + size_bytes <= self._batch_bytes and batch.header_bytes + header_bytes <= self._header_bytes

    def _begin(self, partition: int, now_us: int) -> Batch:
        self._made += 1
        batch = Batch(self._made, partition, now_us + self._linger_us, now_us + self._linger_us + self._delivery_us, self._owner)
        self._batches.append(batch)
        self._open[partition] = batch
        return batch

    def _close(self, batch: Batch) -> None:
        batch.is_closed = True
        if batch.partition == self._partition:
            self._partition = self._partition + 1 if self._partition < self._partitions[-1] else self._partitions[0]

    def close_batch(self, batch: Batch) -> None:
        """Make a batch due."""
        if not batch.is_closed:
            self._close(batch)

    def close_all(self) -> int:
        """Make all batches due; return the number of the last batch."""
        for batch in self._batches:
            if not batch.is_closed:
                self._close(batch)
        return self._made

    def is_done(self, number: int) -> bool:
        """Return whether all batches up to a number are settled."""
        return not self._batches or self._batches[0].number > number

    def take(self, now_us: int) -> Batch | None:
        """Return the next batch that is due, or None; the previously taken batch must be settled first."""
        if self._taken is not None:
            return self._taken
        for batch in self._batches:
            if batch.is_closed or batch.due_us <= now_us or self.is_full:
                if not batch.is_closed:
                    self._close(batch)
                self._taken = batch
                return batch
        return None

    def next_due_us(self) -> int | None:
        """Return the time at which the next batch is due if no message is added; None if there is no batch."""
        return self._batches[0].due_us if self._batches else None

    def remove_finished(self, batch: Batch) -> None:
        """Remove a batch that is stored or has failed."""
        self._taken = None
        self._batches.remove(batch)
        # An interrupted add() may not have counted its bytes; the count is correct again when no bytes are pending.
        self._pending_bytes = self._pending_bytes - len(batch.data) if self._batches else 0
