"""Producer: sends messages in batches, in the background.

send() encodes and checks a message (encoding.py) and adds it to a batch (sending.py). The producer's thread delivers due batches
(delivery.py) in sequence. Python raises KeyboardInterrupt in the main thread, so Ctrl-C never interrupts an append, and sent
messages are flushed afterwards. Locks and queues are implemented in C; unlike a Condition, they stay consistent when interrupted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Final

from headstream.client.arguments import MessageIdInput, PartitionInput, SendArguments, choice_of
from headstream.client.checks import check_many
from headstream.client.consumer.positions import numbers_of
from headstream.client.exits import closed, open_until_exit
from headstream.client.producer.delivery import BatchDelivery, Delivery
from headstream.client.producer.encoding import SentEncoder
from headstream.client.producer.outcomes import OutcomeCounter, ProducerStats, call_all, explain
from headstream.client.producer.receipts import Delivered, Receipt
from headstream.client.producer.sending import Batch, Sending, SendingOptions
from headstream.client.transports.transport import KeyPartitioning, OwnConnections, Transport
from headstream.core.model.headers import HeadersInput
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message
from headstream.core.model.partitioning import partition_of
from headstream.core.model.topology import Topic
from headstream.errors import ClosedError, OutcomeUnknownError, PartitionClosedError
from headstream.forks import closed_by_fork, register_for_forks

_THREAD_JOIN_TIMEOUT_S: Final = 2.0
"""Maximum time that close() waits for the server to release the producer's state, seconds; after this time, the state expires."""


class Producer:
    """Sends messages to one topic; thread-safe. Created by Client.producer(); use it in a `with` statement.

    Leaving the `with` body flushes. Each message that send() accepts is stored once, in the order of sending per partition, even
    if connections break or the server restarts. If this takes longer than `delivery_timeout_ms`, the message fails: the next
    send(), flush() or close() raises an error that lists all failed messages in `messages`, and in `in_doubt` the messages whose
    outcome is unknown. The producer then continues with other messages. Each error is raised once: by the receipts if all of the
    messages' receipts are awaited, else by the producer.

    Args:
        topic: The topic's current metadata.
        options: How messages are batched.
    """

    def __init__(self, transport: Transport, topic: Topic, options: SendingOptions) -> None:
        self._name = TopicName(topic.stream, topic.name)
        self._transport = transport.for_producer() if isinstance(transport, OwnConnections) else None
        transport = self._transport or transport
        self._partitions = numbers_of(topic)
        finds_repeats = topic.deduplication_count is not None
        self._encode = SentEncoder(topic, gives_ids=finds_repeats).encode
        self._choose = transport.partition_of if isinstance(transport, KeyPartitioning) else partition_of
        self._sending = Sending(self._partitions, topic.limits, options, self, self._choose)
        self._delivery: BatchDelivery = Delivery(transport.messages, self._name, finds_repeats=finds_repeats)
        self._counts = OutcomeCounter()
        self._lock = threading.Lock()
        self._work: SimpleQueue[None] = SimpleQueue()
        self._waiting: list[SimpleQueue[None]] = []
        self._thread: threading.Thread | None = None
        self._runner: int | None = None
        self._is_idle = False
        self._is_closed = False
        self._failed: list[Batch] = []
        self._raised: tuple[Exception | None, list[Batch]] = None, []
        self.is_parents = False
        """Whether the parent process created this producer, before this process was forked."""
        self._skips: Callable[[HeadersInput | None], bool] | None = None
        """Returns whether a message with these headers skips the interceptors; None: no message skips the interceptors."""
        open_until_exit(self)
        register_for_forks(self)

    def after_fork(self) -> None:
        """In a forked child: leave the messages to the parent process, whose thread sends them."""
        self.is_parents = self._is_closed = True
        self._lock = threading.Lock()
        closed(self)

    @property
    def partitions(self) -> range:
        """The numbers of the topic's partitions."""
        return self._partitions

    def partition_of(self, key: bytes) -> int:
        """Return the partition to which a key maps."""
        return self._choose(key, len(self._partitions))

    @property
    def is_full(self) -> bool:
        """Whether send() would block on a full buffer."""
        return self._sending.is_full

    def send(
        self,
        payload: bytes | bytearray | memoryview | None,
        *,
        key: bytes | None = None,
        headers: HeadersInput | None = None,
        id: MessageIdInput = 0,
        partition: PartitionInput = None,
    ) -> Receipt:
        """Send one message. The message is buffered when send() returns, and stored when its receipt or flush() completes.

        `receipt.result()` waits and returns the message's position; the receipt can be ignored.

        Args:
            payload: The bytes; None is a null payload, for topics with limits `wide`.
            key: Bytes that identify the message and determine its partition.
            headers: Typed headers: a dict, a list of pairs (for repeated names) or Headers. Names that start with `hs.` are
                reserved, except `hs.timestamp`.
            id: Unsigned 128-bit number or a UUID. For 0, the producer (if the topic deduplicates) or the log generates an id.
            partition: From 1, or a Partitioning: `hs.Partitioning.key(b"42")` hashes this key instead of the message's key, and
                `hs.Partitioning.balanced()` rotates. By default, the message's key is hashed; messages without a key rotate.

        Raises:
            HeaderError: a header is invalid or reserved.
            LimitError: the message exceeds a limit of the topic.
            InvalidInputError: an argument has a wrong type or is out of range.
            PartitionNotFoundError: the topic has no such partition.
            ClosedError: the producer is closed.
            InterceptorError: an interceptor refused this message, or failed to report an earlier message.
            HeadstreamError: earlier messages could not be stored (`error.messages`); this message was not accepted.
        """
        if self._skips is not None:
            try:
                is_skipped = self._skips(headers)
            except Exception:  # the interceptor is then called; its errors have a policy
                is_skipped = False
            if not is_skipped:
                changed = self._intercept(payload, key, headers, id, partition)
                if isinstance(changed, Receipt):
                    return changed
                payload, key, headers, id, partition = changed
        message, header_bytes = self._encode(payload, key, headers, id)
        number, key = (None, key) if partition is None else choice_of(partition, key, self._name, self._partitions)
        while True:
            with self._lock:
                self._check_usable()
                if not self._sending.is_full:
                    batch = self._sending.add(message, header_bytes, key, number, time.monotonic_ns() // 1000)
                    receipt = Receipt(batch, batch.count - 1)
                    is_due = self._sending.is_due
                    break
                progress = self._wait_for_progress()
            progress.get()
        if is_due or self._is_idle or self._thread is None:
            self._wake_thread()
        return receipt

    def _intercept(self, *arguments: *SendArguments) -> SendArguments | Receipt:
        """Return the arguments to send, or the receipt of a dead letter; overridden for interceptors."""
        return arguments

    def send_and_wait(
        self,
        payload: bytes | bytearray | memoryview | None,
        *,
        key: bytes | None = None,
        headers: HeadersInput | None = None,
        id: MessageIdInput = 0,
        partition: PartitionInput = None,
    ) -> Delivered:
        """Send one message without linger, and return its position once it is stored.

        For arguments and errors see send() and Receipt.result().
        """
        return self.send(payload, key=key, headers=headers, id=id, partition=partition).result()

    def send_many(self, messages: Iterable[Message | bytes]) -> list[Receipt]:
        """Send messages in order; return their receipts in the same order.

        Args:
            messages: Payloads, or Message values, whose payload, key, headers, id and partition are used.

        Raises:
            HeadstreamError: see send(). The call stops at the message that raised the error; earlier messages are sent.
        """
        return [
            self.send(each.payload, key=each.key, headers=each.headers, id=each.id, partition=each.partition)
            if isinstance(each, Message)
            else self.send(each)
            for each in check_many("messages", messages)
        ]

    def stats(self) -> ProducerStats:
        """Return the message counts by outcome."""
        with self._lock:
            return self._counts.describe(self._sending.pending_count, self._sending.pending_bytes, self._delivery.producer_id)

    def flush(self) -> None:
        """Wait until all sent messages are stored.

        Raises:
            HeadstreamError: some messages could not be stored. All other messages are stored.
            ClosedError: the producer is closed.
        """
        with self._lock:
            self._check_usable()
            last = self._sending.close_all()
        self._wait_until_done(last)

    def flush_within(self, timeout_s: float) -> bool:
        """Flush up to a timeout; return whether all sent messages are stored. Can be called on a closed producer.

        Args:
            timeout_s: Maximum wait, seconds.

        Raises:
            HeadstreamError: some messages could not be stored.
        """
        if self.is_parents:
            raise closed_by_fork("producer")
        with self._lock:
            last = self._sending.close_all()
        return self._wait_until_done(last, timeout_s)

    def wait_for_room(self, timeout_s: float) -> bool:
        """Wait until the buffer is not full; return False after the timeout.

        Args:
            timeout_s: Maximum wait, seconds.
        """
        return self._wait(lambda: not self._sending.is_full, timeout_s)

    def raise_again(self, error: Exception) -> None:
        """Make the next call raise an error again, because the call that raised it was cancelled.

        Args:
            error: The last raised error about failed messages; other errors are ignored.
        """
        with self._lock:
            if error is self._raised[0]:
                self._failed[:0], self._raised = self._raised[1], (None, [])

    def close(self) -> None:
        """Flush and close; a second call does nothing, or resumes an interrupted wait.

        Raises:
            HeadstreamError: some messages could not be stored, and no earlier call raised this error.
        """
        if self.is_parents:
            return
        with self._lock:
            self._is_closed = True
            last = self._sending.close_all()
        try:
            self._wait_until_done(last)
        finally:
            with self._lock:
                is_over = self._sending.is_done(last)
            if is_over:
                closed(self)
                self._work.put(None)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_THREAD_JOIN_TIMEOUT_S)

    def close_soon(self) -> None:
        """Reject new messages; close in the background when all sent messages are settled."""
        with self._lock:
            self._is_closed = True
            self._sending.close_all()
        self._work.put(None)

    def _check_usable(self) -> None:
        if self.is_parents:
            raise closed_by_fork("producer")
        if self._failed:
            self._raise_failed()
        if self._is_closed:
            raise ClosedError("the producer is closed", where=str(self._name), advice="Create a new producer with log.producer()")

    def _raise_failed(self) -> None:
        """Raise the error of failed messages that no receipt has reported; called with the lock held."""
        failed = [batch for batch in self._failed if batch.watched < batch.count]
        self._failed = []
        if failed:
            error = explain(failed, self._name)
            self._raised = error, failed
            raise error

    def _wake_thread(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=f"headstream-producer {self._name}", daemon=True)
            thread.start()
            self._thread = thread
        if self._work.empty():  # one queued wake-up covers any number of callers
            self._work.put(None)

    def _wait_for_progress(self) -> SimpleQueue[None]:
        """Return a queue that receives an item when a batch is settled; called with the lock held."""
        waiter: SimpleQueue[None] = SimpleQueue()
        self._waiting.append(waiter)
        return waiter

    def _wait_until_done(self, number: int, timeout_s: float | None = None) -> bool:
        """Wait until all batches up to a number are settled; False after the timeout. HeadstreamError if a batch failed."""
        if not self._wait(lambda: self._sending.is_done(number), timeout_s):
            return False
        with self._lock:
            self._raise_failed()
        return True

    def _wait(self, is_over: Callable[[], bool], timeout_s: float | None) -> bool:
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            with self._lock:
                if is_over():
                    return True
                if self.is_parents:
                    raise closed_by_fork("producer")
                progress = self._wait_for_progress()
            self._wake_thread()
            if until_s is not None and until_s <= time.monotonic():
                return False
            with suppress(Empty):
                progress.get(timeout=None if until_s is None else max(0, until_s - time.monotonic()))

    def wait_for(self, batch: Batch, timeout_s: float | None) -> bool:
        """Send a batch immediately and wait until it is settled; return whether it is settled. Called by receipts.

        Args:
            batch: A batch of this producer.
            timeout_s: Maximum wait, seconds; 0 does not wait, and None waits without limit.
        """
        with self._lock:
            self._sending.close_batch(batch)
        return self._wait(lambda: batch.is_done, timeout_s)

    def watch(self, batch: Batch, callback: Callable[[], object] | None) -> None:
        """Record that a receipt reports the outcome of a batch, and register a callback. Called by receipts.

        Args:
            batch: A batch of this producer.
            callback: Called when the batch is settled, or immediately if it is already settled; None: no callback.
        """
        with self._lock:
            batch.watched += 1
            if callback is not None and not batch.is_done:
                if batch.callbacks is None:
                    batch.callbacks = []
                batch.callbacks.append(callback)
                return
        if callback is not None:
            call_all([callback])

    def _run(self) -> None:
        """Send due batches until the producer is closed."""
        with self._lock:
            if self._runner is not None:
                return  # two threads were started concurrently
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
                if self._transport is not None:
                    self._transport.close()
                return
            if batch is not None:
                self._send(batch)
                continue
            with suppress(Empty):
                self._work.get(timeout=None if due_us is None else max(0, due_us - now_us) / 1e6)

    def _send(self, batch: Batch) -> None:
        """Deliver a batch or mark it as failed, and notify all waiting callers."""
        error: Exception | None = None
        try:
            batch.appended = self._delivery.deliver(batch)
        except Exception as caught:  # any error is raised in the caller's thread
            error = caught
        with self._lock:
            self._sending.remove_finished(batch)
            if error is None:
                batch.data = bytearray()  # a receipt can be kept much longer than the batch
            else:
                batch.is_in_doubt = isinstance(error, (OutcomeUnknownError, PartitionClosedError))
                batch.error = explain([batch], self._name, error)
                self._failed.append(batch)
            self._counts.add(batch)
            callbacks, batch.callbacks = batch.callbacks, None
            waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            waiter.put(None)
        if callbacks:
            call_all(callbacks)

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if error is None:
            self.close()
            return
        # Messages sent before the body failed are still flushed; the body's own exception propagates.
        try:
            self.close()
        except Exception as also:
            error.add_note(f"Closing the producer failed too: {also}")
