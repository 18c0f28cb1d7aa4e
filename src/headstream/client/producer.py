"""Producer: sends messages in batches, in the background.

send() encodes and checks a message (encoding.py) and puts it into a batch (sending.py); one thread of the producer's own
delivers the batches that are due (delivery.py), one after the other. So an interrupt (Ctrl-C), which Python delivers to the
main thread, never hits the middle of an append, and what was sent is flushed after it. Locks and queues here are those
written in C: unlike a Condition, they leave nothing half done when they are interrupted.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Final

from headstream.client import forks
from headstream.client.arguments import MessageIdInput
from headstream.client.delivery import Delivery
from headstream.client.encoding import SentEncoder
from headstream.client.outcomes import Counts, ProducerStats, call_all, explain
from headstream.client.receipts import Delivered, Receipt
from headstream.client.sending import Batch, Sending, SendingOptions
from headstream.client.transport import Transport
from headstream.errors import (
    ClosedError,
    OutcomeUnknownError,
    PartitionClosedError,
    PartitionNotFoundError,
)
from headstream.model.headers import HeadersInput
from headstream.model.identifiers import TopicName
from headstream.model.message import Message
from headstream.model.topology import Topic

__all__ = ["Producer"]


_FAREWELL_S: Final = 2.0
"""So long close() waits for the server to take note that the producer is done; one that does not forgets it in time."""


class Producer:
    """Sends messages to one topic; any thread. Made by Client.producer(); use it in a `with` statement.

    Leaving the body flushes. What send() has taken is stored once, and in each partition in the order of sending, whatever
    becomes of connections and of the server, if it can be within `delivery_timeout_ms`. What cannot is given up: the next
    send(), flush() or close() raises an error whose `messages` are all of these, and whose `in_doubt` are those of them that
    may be stored nevertheless. The producer goes on with the others.

    An error is raised once: by a receipt of each message, where all of them are asked, else by the producer.

    Args:
        transport: What is behind the client.
        topic: The topic, as it is now.
        options: How messages are put together.
    """

    def __init__(self, transport: Transport, topic: Topic, options: SendingOptions) -> None:
        self._name = TopicName(topic.stream, topic.name)
        self._partitions = len(topic.partitions)
        finds_repeats = topic.deduplication_count is not None
        self._encode = SentEncoder(topic, gives_ids=finds_repeats).encode
        self._sending = Sending(self._partitions, topic.limits, options, self)
        self._delivery = Delivery(transport.messages, self._name, finds_repeats=finds_repeats)
        self._counts = Counts()
        self._lock = threading.Lock()
        self._work: SimpleQueue[None] = SimpleQueue()
        self._waiting: list[SimpleQueue[None]] = []
        self._thread: threading.Thread | None = None
        self._runner: int | None = None
        self._is_idle = False
        self._is_closed = False
        self._failed: list[Batch] = []
        self._raised: list[Batch] = []
        self._forks = forks.count
        _OPEN.add(self)

    @property
    def is_full(self) -> bool:
        """Whether send() would wait for room now."""
        return self._sending.is_full

    def send(
        self,
        payload: bytes | bytearray | memoryview | None,
        *,
        key: bytes | None = None,
        headers: HeadersInput | None = None,
        id: MessageIdInput = 0,
        partition: int | None = None,
    ) -> Receipt:
        """Send one message: it is on its way when this returns, and stored when its receipt, or flush(), says so.

        The receipt tells where it is (`receipt.result()`); who does not need it drops it.

        Args:
            payload: The bytes; None is a null payload, for topics with limits `wide`.
            key: Bytes that choose the partition, and identify the message.
            headers: Typed headers: a dict, a list of pairs (for repeats) or Headers. Names that begin with `hs.` are
                reserved, but for `hs.timestamp`.
            id: Unsigned 128-bit, or a UUID; 0 has one made: by the producer where the topic looks for repeats, else by the log.
            partition: From 1; where none is given the key chooses, and without one all partitions take turns.

        Raises:
            HeaderError: a header is not legal, or reserved.
            LimitError: the message is beyond what the topic takes.
            InvalidInputError: an argument is of the wrong type or out of range.
            PartitionNotFoundError: the topic has no such partition.
            ClosedError: the producer is closed.
            HeadstreamError: earlier messages could not be stored (`error.messages`); this one was not taken.
        """
        message, header_bytes = self._encode(payload, key, headers, id)
        if partition is not None and not 1 <= partition <= self._partitions:
            raise PartitionNotFoundError(
                f"topic {str(self._name)!r} has no partition {partition}", advice=f"Its partitions are 1 to {self._partitions}"
            )
        while True:
            with self._lock:
                self._check_usable()
                if not self._sending.is_full:
                    batch = self._sending.add(message, header_bytes, key, partition, time.monotonic_ns() // 1000)
                    receipt = Receipt(batch, batch.count - 1)
                    is_due = self._sending.is_due
                    break
                room = self._wait_for_progress()
            room.get()
        if is_due or self._is_idle or self._thread is None:
            self._wake_thread()
        return receipt

    def send_and_wait(
        self,
        payload: bytes | bytearray | memoryview | None,
        *,
        key: bytes | None = None,
        headers: HeadersInput | None = None,
        id: MessageIdInput = 0,
        partition: int | None = None,
    ) -> Delivered:
        """Send one message without waiting for others to go with, and return where it is once it is stored.

        Arguments and errors are those of send() and of Receipt.result().
        """
        return self.send(payload, key=key, headers=headers, id=id, partition=partition).result()

    def send_many(self, messages: Iterable[Message | bytes]) -> list[Receipt]:
        """Send messages one after the other, and return their receipts in the same order.

        Args:
            messages: Payloads, or Message values, of which payload, key, headers, id and partition count.

        Raises:
            HeadstreamError: as send() does, of the message at which it stops; those before it are on their way.
        """
        send = self.send
        return [
            send(each.payload, key=each.key, headers=each.headers, id=each.id, partition=each.partition)
            if isinstance(each, Message)
            else send(each)
            for each in messages
        ]

    def stats(self) -> ProducerStats:
        """Return what has become of the messages that were sent until now."""
        with self._lock:
            sending = self._sending
            return self._counts.describe(sending.pending_count, sending.pending_bytes, self._delivery.producer_id)

    def flush(self) -> None:
        """Return when all that was sent is stored.

        Raises:
            HeadstreamError: something could not be stored; everything else is.
            ClosedError: the producer is closed.
        """
        with self._lock:
            self._check_usable()
            last = self._sending.close_all()
        self._wait_until_settled(last)

    def flush_within(self, timeout_s: float) -> bool:
        """Flush for so long, and return whether all that was sent is stored; of a closed producer too.

        Args:
            timeout_s: How long to wait, seconds.

        Raises:
            HeadstreamError: something could not be stored.
        """
        with self._lock:
            last = self._sending.close_all()
        return self._wait_until_settled(last, timeout_s)

    def raise_again(self) -> None:
        """Have the next call raise once more what was raised last, because nobody saw it."""
        with self._lock:
            self._failed[:0], self._raised = self._raised, []

    def close(self) -> None:
        """Flush and end; closing again is fine, and goes on waiting where a first time was interrupted.

        Raises:
            HeadstreamError: something could not be stored, and that was not raised yet.
        """
        if self._forks != forks.count:
            return
        with self._lock:
            self._is_closed = True
            last = self._sending.close_all()
        try:
            self._wait_until_settled(last)
        finally:
            with self._lock:
                is_over = self._sending.is_settled(last)
            if is_over:
                _OPEN.discard(self)
                self._work.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_FAREWELL_S)

    def close_soon(self) -> None:
        """Take nothing more, and end when all that was sent is settled, without waiting for it."""
        with self._lock:
            self._is_closed = True
            self._sending.close_all()
        self._work.put(None)

    def _check_usable(self) -> None:
        if self._forks != forks.count:
            raise self._forked()
        if self._failed:
            self._raise_failed()
        if self._is_closed:
            raise ClosedError("the producer is closed", where=str(self._name), advice="Make another with log.producer()")

    @staticmethod
    def _forked() -> ClosedError:
        return ClosedError("the producer was made before this process was forked", advice="Connect in this process")

    def _raise_failed(self) -> None:
        """Raise the error of what was given up and no receipt has told of; called with the lock."""
        failed = [batch for batch in self._failed if batch.watched < batch.count]
        self._failed, self._raised = [], failed
        if failed:
            raise explain(failed, self._name)

    # -- the thread, and those who wait for it ----------------------------------------------------------------

    def _wake_thread(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=f"headstream-producer {self._name}", daemon=True)
            thread.start()
            self._thread = thread
        if self._work.empty():  # one call to look is enough, however many have called
            self._work.put(None)

    def _wait_for_progress(self) -> SimpleQueue[None]:
        """Return what is put to when a batch has been settled; called with the lock."""
        bell: SimpleQueue[None] = SimpleQueue()
        self._waiting.append(bell)
        return bell

    def _wait_until_settled(self, number: int, timeout_s: float | None = None) -> bool:
        """Return whether all batches up to a number are stored, having waited for it; None waits as long as it takes.

        Raises:
            HeadstreamError: some are not stored and will not be.
        """
        if not self._wait(lambda: self._sending.is_settled(number), timeout_s):
            return False
        with self._lock:
            self._raise_failed()
        return True

    def _wait(self, is_over: Callable[[], bool], timeout_s: float | None) -> bool:
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            if self._forks != forks.count:
                raise self._forked()
            with self._lock:
                if is_over():
                    return True
                progress = self._wait_for_progress()
            self._wake_thread()
            if until_s is not None and until_s <= time.monotonic():
                return False
            with suppress(Empty):
                progress.get(timeout=None if until_s is None else max(0, until_s - time.monotonic()))

    def wait_for(self, batch: Batch, timeout_s: float | None) -> bool:
        """Send a batch now, wait until it is settled, and return whether it is; receipts ask this.

        Args:
            batch: One of this producer's.
            timeout_s: How long to wait, seconds; 0 does not, None waits until it is settled.
        """
        with self._lock:
            self._sending.close_batch(batch)
        return self._wait(lambda: batch.is_settled, timeout_s)

    def watch(self, batch: Batch, callback: Callable[[], object] | None) -> None:
        """Take note that somebody hears of one of a batch's messages, and call back when it is settled; receipts ask this.

        Args:
            batch: One of this producer's.
            callback: What to call, at once where it is settled; None calls nothing.
        """
        with self._lock:
            batch.watched += 1
            if callback is not None and not batch.is_settled:
                if batch.callbacks is None:
                    batch.callbacks = []
                batch.callbacks.append(callback)
                return
        if callback is not None:
            call_all([callback])

    def _run(self) -> None:
        """Send what is due, until the producer is closed."""
        with self._lock:
            if self._runner is not None:
                return  # two threads were begun at the same moment
            self._runner = threading.get_ident()
        while True:
            with self._lock:
                now_us = time.monotonic_ns() // 1000
                batch = self._sending.take(now_us)
                due_us = self._sending.next_due_us()
                self._is_idle = batch is None and due_us is None
                is_over = batch is None and self._is_closed
            if is_over:
                self._delivery.release()
                return
            if batch is not None:
                self._send(batch)
                continue
            with suppress(Empty):
                self._work.get(timeout=None if due_us is None else max(0, due_us - now_us) / 1e6)

    def _send(self, batch: Batch) -> None:
        """Deliver a batch, or give it up, and tell all who wait for it."""
        error: Exception | None = None
        try:
            batch.appended = self._delivery.deliver(batch)
        except Exception as caught:  # whatever it is, it is raised where somebody sees it
            error = caught
        with self._lock:
            self._sending.settle(batch)
            if error is None:
                batch.data = bytearray()  # a receipt may live long
            else:
                batch.is_in_doubt = isinstance(error, (OutcomeUnknownError, PartitionClosedError))
                batch.error = explain([batch], self._name, error)
                self._failed.append(batch)
            self._counts.add(batch)
            callbacks, batch.callbacks = batch.callbacks, None
            waiting, self._waiting = self._waiting, []
        for bell in waiting:
            bell.put(None)
        if callbacks:
            call_all(callbacks)

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if error is None:
            self.close()
            return
        # What was sent before the body failed is still flushed; the body's own exception is the one to hear of.
        try:
            self.close()
        except Exception as also:
            error.add_note(f"Closing the producer failed too: {also}")


_OPEN: Final[weakref.WeakSet[Producer]] = weakref.WeakSet()


def _close_at_exit() -> None:
    """Flush what a program that ends has sent and not flushed."""
    for producer in list(_OPEN):
        producer.close()


atexit.register(_close_at_exit)
