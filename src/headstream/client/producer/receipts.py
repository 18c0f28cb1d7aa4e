"""Receipt: a message's position once it is stored. Creating a receipt is cheap."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from headstream.client.checks import check_function, seconds
from headstream.core.codec.binary import decode_sent
from headstream.core.model.message import Message
from headstream.errors import WaitTimeoutError

if TYPE_CHECKING:
    from headstream.client.producer.sending import Batch


class Delivered(NamedTuple):
    """The position of a stored message.

    Args:
        partition: From 1; in Kafka from 0.
        offset: Offset in the partition; None if the topic dropped duplicates in the message's batch.
        timestamp: Time of the append, microseconds since 1970 UTC; None if the server does not report the time.
    """

    partition: int
    offset: int | None
    timestamp: int | None


class Receipt:
    """The result of send(); thread-safe. In asyncio, `await receipt` replaces result().

    Args:
        number: The message's index in the batch, from 0.
    """

    __slots__ = ("_batch", "_number")

    def __init__(self, batch: Batch, number: int) -> None:
        self._batch = batch
        self._number = number

    @property
    def is_done(self) -> bool:
        """Whether the message is stored or has failed."""
        return self._batch.is_done

    @property
    def partition(self) -> int:
        """The message's partition, from 1; in Kafka from 0."""
        return self._batch.partition

    @property
    def offset(self) -> int | None:
        """The message's offset in the partition; None until the message is stored."""
        appended, batch = self._batch.appended, self._batch
        if appended is not None and appended.positions is not None:
            return appended.positions[self._number][0]
        return None if appended is None or appended.count != batch.count else appended.offset + self._number

    @property
    def timestamp(self) -> int | None:
        """Time of the append, microseconds since 1970 UTC; None until the message is stored."""
        appended = self._batch.appended
        if appended is not None and appended.positions is not None:
            return appended.positions[self._number][1]
        return None if appended is None else appended.timestamp_us

    @property
    def error(self) -> Exception | None:
        """The error if the message failed, else None."""
        return self._batch.error

    def result(self, timeout_s: float | timedelta | None = None) -> Delivered:
        """Wait until the message is stored, and return its position; the message's batch is sent without linger.

        Args:
            timeout_s: Maximum wait, seconds or a timedelta; None waits up to the producer's `delivery_timeout_ms`.

        Raises:
            WaitTimeoutError: the message is still pending.
            OutcomeUnknownError: the message may or may not be stored.
            HeadstreamError: the message is not stored.
            InvalidInputError: the timeout is not a duration.
        """
        if timeout_s is not None:
            timeout_s = seconds("timeout_s", timeout_s)
        batch = self._batch
        batch.owner.watch(batch, None)
        if not batch.owner.wait_for(batch, timeout_s):
            raise WaitTimeoutError(
                f"the message was not stored within {timeout_s:g} s",
                advice="The message is still being sent: wait again, or raise the timeout",
            )
        return self._settled()

    def _settled(self) -> Delivered:
        if self._batch.error is not None:
            raise self._batch.error
        return Delivered(self.partition, self.offset, self.timestamp)

    def add_done_callback(self, callback: Callable[[Receipt], object]) -> None:
        """Call a function with this receipt when the outcome of the message is known, or immediately if it is already known.

        The function runs in the producer's thread, which sends nothing during the call, so it must be short and must not block.
        Exceptions of the function are logged.

        Raises:
            InvalidInputError: `callback` is not a function.
        """
        check_function("callback", callback)
        self._batch.owner.watch(self._batch, lambda: callback(self))

    def __await__(self) -> Generator[Any, None, Delivered]:
        batch = self._batch
        if not batch.is_done:
            loop = asyncio.get_running_loop()
            settled: asyncio.Future[None] = loop.create_future()

            def notify() -> None:
                if not settled.done():
                    settled.set_result(None)

            def call() -> None:
                if not loop.is_closed():
                    loop.call_soon_threadsafe(notify)

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
    """Undelivered messages, which are decoded on access."""

    def __init__(self, batches: Sequence[tuple[int, bytes | bytearray]], topic: str, count: int) -> None:
        self._batches = tuple(batches)
        self._topic = topic
        self._count = count
        self._messages: list[Message] | None = None

    def _decode(self) -> list[Message]:
        if self._messages is None:
            self._messages = [
                Message(
                    payload=each.payload, headers=each.headers, key=each.key, id=each.id, topic=self._topic, partition=partition
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
