"""Receipt: where a message is, once it is stored. It costs next to nothing until somebody asks it something."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, overload

from headstream.codec.binary import decode_sent
from headstream.errors import WaitTimeoutError
from headstream.model.message import Message

if TYPE_CHECKING:
    from headstream.client.sending import Batch

__all__ = ["BatchOwner", "Delivered", "Receipt", "Undelivered"]


class Delivered(NamedTuple):
    """Where a message is.

    Args:
        partition: From 1.
        offset: Its place there; None where the topic passed over messages of its batch whose ids it had.
        timestamp: When it was appended, microseconds since 1970 UTC; None from a server that does not tell.
    """

    partition: int
    offset: int | None
    timestamp: int | None


class BatchOwner(Protocol):
    """What a receipt asks of the producer of its batch."""

    def wait_for(self, batch: Batch, timeout_s: float | None) -> bool:
        """Send a batch now, wait until it is settled, and return whether it is."""

    def watch(self, batch: Batch, callback: Callable[[], object] | None) -> None:
        """Take note that somebody hears of one of its messages, and call back when the batch is settled."""


class Receipt:
    """What send() returns; any thread. In asyncio, `await receipt` is what result() is elsewhere.

    Args:
        batch: The batch that the message is in.
        number: Which of its messages it is, from 0.
    """

    __slots__ = ("_batch", "_number")

    def __init__(self, batch: Batch, number: int) -> None:
        self._batch = batch
        self._number = number

    @property
    def is_done(self) -> bool:
        """Whether the message is stored, or given up."""
        return self._batch.is_settled

    @property
    def partition(self) -> int:
        """The partition that the message goes to, from 1."""
        return self._batch.partition

    @property
    def offset(self) -> int | None:
        """Its place in the partition; None until it is stored."""
        appended, batch = self._batch.appended, self._batch
        return None if appended is None or appended.count != batch.count else appended.offset + self._number

    @property
    def timestamp(self) -> int | None:
        """When it was appended, microseconds since 1970 UTC; None until it is stored."""
        appended = self._batch.appended
        return None if appended is None else appended.timestamp_us

    @property
    def error(self) -> Exception | None:
        """Why it was given up, else None."""
        return self._batch.error

    def result(self, timeout_s: float | None = None) -> Delivered:
        """Return where the message is, having waited until it is stored; its batch goes without waiting for others.

        Args:
            timeout_s: How long to wait, seconds; None waits until the producer gives it up (`delivery_timeout_ms`).

        Raises:
            WaitTimeoutError: it is still on its way.
            OutcomeUnknownError: it may be stored or not.
            HeadstreamError: it is not stored.
        """
        batch = self._batch
        batch.owner.watch(batch, None)
        if not batch.owner.wait_for(batch, timeout_s):
            raise WaitTimeoutError(
                f"the message is not stored within {timeout_s:g} s",
                advice="It is still on its way: ask again, or raise the timeout",
            )
        return self._settled()

    def _settled(self) -> Delivered:
        if self._batch.error is not None:
            raise self._batch.error
        return Delivered(self.partition, self.offset, self.timestamp)

    def add_done_callback(self, callback: Callable[[Receipt], object]) -> None:
        """Have a function called with this receipt when the message is stored or given up; at once where it is.

        It is called by the producer's thread, which sends nothing meanwhile: let it be quick, and wait for nothing. What
        it raises is logged.

        Args:
            callback: The function.
        """
        self._batch.owner.watch(self._batch, lambda: callback(self))

    def __await__(self) -> Generator[Any, None, Delivered]:
        batch = self._batch
        if not batch.is_settled:
            loop = asyncio.get_running_loop()
            settled: asyncio.Future[None] = loop.create_future()

            def ring() -> None:
                if not settled.done():
                    settled.set_result(None)

            def call() -> None:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(ring)

            batch.owner.watch(batch, call)
            batch.owner.wait_for(batch, 0)
            yield from settled
        else:
            batch.owner.watch(batch, None)
        return self._settled()

    def __repr__(self) -> str:
        state = "given up" if self.error is not None else "stored" if self.is_done else "on its way"
        return f"<Receipt: partition {self.partition}, offset {self.offset}, {state}>"


class Undelivered(Sequence[Message]):
    """Messages that could not be delivered, decoded when they are looked at.

    Args:
        batches: Partition and sent messages of each batch.
        topic: `stream/topic`.
        count: How many messages they are.
    """

    def __init__(self, batches: Sequence[tuple[int, bytes | bytearray]], topic: str, count: int) -> None:
        self._batches = tuple(batches)
        self._topic = topic
        self._count = count
        self._messages: list[Message] | None = None

    def _decode(self) -> list[Message]:
        if self._messages is None:
            self._messages = [
                Message(
                    payload=each.payload,
                    headers=each.headers,
                    key=each.key,
                    id=each.id,
                    topic=self._topic,
                    partition=partition,
                )
                for partition, data in self._batches
                for each in decode_sent(data)
            ]
        return self._messages

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Message: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...

    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        return self._decode()[index]
