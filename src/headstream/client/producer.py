"""Producer: sends messages in batches, in the background.

send() encodes and checks a message and puts it into a batch (sending.py); one thread of the producer's own sends the
batches that are due. So an interrupt (Ctrl-C), which Python delivers to the main thread, never hits the middle of an
append, and what was sent is flushed after it. Locks and queues here are those written in C: unlike a Condition, they
leave nothing half done when they are interrupted.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Final

from headstream.client.sending import Batch, Sending, SendingOptions
from headstream.client.transport import Transport
from headstream.codec.batch.stamp import stamp
from headstream.errors import ClosedError, InvalidInputError, LimitError, OutcomeUnknownError, PartitionNotFoundError
from headstream.model.headers import Headers, HeadersInput
from headstream.model.identifiers import TopicName
from headstream.model.reserved import KEY_HEADER, NULL_HEADER, RESERVED_PREFIX, check_unreserved
from headstream.model.topology import MAX_BATCH_BYTES, Limits, Topic

__all__ = ["Producer"]

_KEY_HEADER: Final = Headers({KEY_HEADER: b""}).as_bytes()[:-4]
"""A key's header up to its length."""

_NULL_HEADER: Final = Headers({NULL_HEADER: True}).as_bytes()
_RESERVED: Final = RESERVED_PREFIX.encode()
_NO_SEED: Final = bytes(16)
_MAX_ID: Final = (1 << 128) - 1
_PLAINLY_SMALL: Final = 1 << 20
"""A payload of 1 to so many bytes, without headers, is within every limit."""


class Producer:
    """Sends messages to one topic; any thread. Made by Client.producer(); use it in a `with` statement.

    Leaving the body flushes. What fails in the background is raised by the next send(), flush() or close(); the
    producer sends nothing more then.

    Args:
        transport: What is behind the client.
        topic: The topic, as it is now.
        options: How messages are put together.
    """

    def __init__(self, transport: Transport, topic: Topic, options: SendingOptions) -> None:
        self._transport = transport
        self._name = TopicName(topic.stream, topic.name)
        self._partitions = len(topic.partitions)
        self._is_wide = topic.limits is Limits.WIDE
        self._needs_key = topic.compaction_delay_us is not None
        self._gives_ids = topic.deduplication_count is not None  # by which a send that is repeated is found out
        self._sending = Sending(self._partitions, topic.limits, options)
        self._lock = threading.Lock()
        self._work: SimpleQueue[None] = SimpleQueue()
        self._waiting: list[SimpleQueue[None]] = []
        self._thread: threading.Thread | None = None
        self._runner: int | None = None
        self._is_idle = False
        self._is_closed = False
        self._error: Exception | None = None
        self._was_raised = False
        self._process = os.getpid()
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
        id: int = 0,
        partition: int | None = None,
    ) -> None:
        """Send one message: it is on its way when this returns, and stored when flush() does.

        Args:
            payload: The bytes; None is a null payload, for topics with limits `wide`.
            key: Bytes that choose the partition, and identify the message.
            headers: Typed headers: a dict, a list of pairs (for repeats) or Headers. Names that begin with `hs.` are
                reserved, but for `hs.timestamp`.
            id: Unsigned 128-bit; 0 has one made: by the producer where the topic looks for repeats, else by the log.
            partition: From 1; where none is given the key chooses, and without one all partitions take turns.

        Raises:
            HeaderError: a header is not legal, or reserved.
            LimitError: the message is beyond what the topic takes.
            InvalidInputError: an argument is of the wrong type or out of range.
            PartitionNotFoundError: the topic has no such partition.
            ClosedError: the producer is closed.
            HeadstreamError: an earlier message could not be stored.
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
                    is_due = self._sending.add(message, header_bytes, key, partition, time.monotonic_ns() // 1000)
                    break
                room = self._wait_for_progress()
            room.get()
        if is_due or self._is_idle or self._thread is None:
            self._wake_thread()

    def _encode(
        self, payload: bytes | bytearray | memoryview | None, key: bytes | None, headers: HeadersInput | None, id: int
    ) -> tuple[bytes, int]:
        """Return the message as sent, and the bytes of its headers, having checked it against the topic's limits."""
        if not isinstance(payload, (bytes, type(None))):
            payload = _as_bytes(payload)
        if not isinstance(key, (bytes, type(None))):
            raise InvalidInputError(f"a key is bytes, not {type(key).__name__}", advice='Encode it, as in key=b"42"')
        if key is None and self._needs_key:
            raise LimitError(
                "a message without a key",
                where=str(self._name),
                advice="The topic keeps the last message of each key, so each needs one: pass key=, or take compaction back",
            )
        if not 0 <= id <= _MAX_ID:
            raise InvalidInputError(f"message id {id} is not an unsigned 128-bit number")
        if not id and self._gives_ids:
            id = int.from_bytes(os.urandom(16), "little")
        # What codec.binary.encode_sent() makes of a Message, without one in between.
        block = _encode_unreserved(Headers(headers)) if headers else b""
        if payload is None:
            payload, block = b"", _NULL_HEADER + block
        if key is not None:
            block = b"".join((_KEY_HEADER, len(key).to_bytes(4, "little"), key, block))
        message = b"".join(
            (id.to_bytes(16, "little"), len(block).to_bytes(4, "little"), block, len(payload).to_bytes(4, "little"), payload)
        )
        if block or not 0 < len(payload) <= _PLAINLY_SMALL:
            self._check(message)
        return message, len(block)

    def _check(self, message: bytes) -> None:
        """Refuse a message that the log would refuse with the batch it is in: while it can be named."""
        if len(message) > MAX_BATCH_BYTES:
            raise LimitError(
                f"a message of {len(message)} bytes",
                where=str(self._name),
                advice=f"One send takes at most {MAX_BATCH_BYTES} bytes: keep big payloads elsewhere and send where",
            )
        stamp(message, 0, 0, _NO_SEED, self._is_wide)

    def flush(self) -> None:
        """Return when all that was sent is stored.

        Raises:
            HeadstreamError: something could not be stored.
            ClosedError: the producer is closed.
        """
        with self._lock:
            self._check_usable()
            last = self._sending.close_all()
        self._wait_until_acknowledged(last)

    def flush_within(self, timeout_s: float) -> bool:
        """Flush for so long, and return whether all that was sent is stored; of a closed producer too.

        Args:
            timeout_s: How long to wait, seconds.

        Raises:
            HeadstreamError: something could not be stored.
        """
        with self._lock:
            last = self._sending.close_all()
        return self._wait_until_acknowledged(last, timeout_s)

    def tell_again(self) -> None:
        """Have the next call raise once more what was raised last, because nobody saw it."""
        self._was_raised = False

    def close(self) -> None:
        """Flush and end; closing again is fine, and goes on waiting where a first time was interrupted.

        Raises:
            HeadstreamError: something could not be stored, and nobody was told yet.
        """
        if self._process != os.getpid():
            return
        with self._lock:
            self._is_closed = True
            last = self._sending.close_all()
        if not self._was_raised:
            self._wait_until_acknowledged(last)
        self._work.put(None)
        _OPEN.discard(self)

    def _check_usable(self) -> None:
        if self._process != os.getpid():
            raise ClosedError("the producer was made before this process was forked", advice="Connect in this process")
        self._raise_error()
        if self._is_closed:
            raise ClosedError("the producer is closed", where=str(self._name), advice="Make another with log.producer()")

    def _raise_error(self) -> None:
        if self._error is not None:
            self._was_raised = True
            raise self._error

    # -- the thread, and those who wait for it ----------------------------------------------------------------

    def _wake_thread(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name=f"headstream-producer {self._name}", daemon=True)
            thread.start()
            self._thread = thread
        if self._work.empty():  # one call to look is enough, however many have called
            self._work.put(None)

    def _wait_for_progress(self) -> SimpleQueue[None]:
        """Return what is put to when a batch has been stored; called with the lock."""
        bell: SimpleQueue[None] = SimpleQueue()
        self._waiting.append(bell)
        return bell

    def _wait_until_acknowledged(self, number: int, timeout_s: float | None = None) -> bool:
        """Return whether all batches up to a number are stored, having waited for it; None waits for ever."""
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            with self._lock:
                if self._sending.is_acknowledged(number):
                    return True
                self._raise_error()
                progress = self._wait_for_progress()
            self._wake_thread()
            try:
                progress.get(timeout=None if until_s is None else max(0, until_s - time.monotonic()))
            except Empty:
                return False

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
                if batch is None and (self._is_closed or self._error is not None):
                    return
            if batch is not None:
                if not self._send(batch):
                    return
                continue
            with suppress(Empty):
                self._work.get(timeout=None if due_us is None else max(0, due_us - now_us) / 1e6)

    def _send(self, batch: Batch) -> bool:
        """Send a batch and return whether it is stored."""
        error: Exception | None = None
        try:
            self._transport.messages.send(self._name, batch.partition, batch.data)
        except Exception as caught:  # whatever it is, it is raised where somebody sees it
            error = caught
        with self._lock:
            if error is None:
                self._sending.acknowledge(batch)
            else:
                error.add_note(self._describe_loss(batch, error))
                self._error = error
            waiting, self._waiting = self._waiting, []
        for bell in waiting:
            bell.put(None)
        return error is None

    def _describe_loss(self, batch: Batch, error: Exception) -> str:
        """Return what became of the messages that are not acknowledged, now that a batch of them has failed."""
        count, end = self._sending.pending_count, "this producer sends no more."
        if not isinstance(error, OutcomeUnknownError):
            return f"{count} messages sent to {self._name} were not stored; {end}"
        unsent = f", {count - batch.count} others were not" if count > batch.count else ""
        return f"{batch.count} messages sent to {self._name} may have been stored or not{unsent}; {end}"

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


def _encode_unreserved(headers: Headers) -> bytes:
    """Return the block of a sender's headers, none of which has a reserved name."""
    block = headers.as_bytes()
    if _RESERVED in block:  # in a name perhaps, seldom: one look at the bytes is quicker than one at each name
        check_unreserved(headers)
    return block


def _as_bytes(payload: object) -> bytes | None:
    if payload is None or isinstance(payload, bytes):
        return payload
    if isinstance(payload, (bytearray, memoryview)):
        return bytes(payload)
    raise InvalidInputError(
        f"a payload is bytes or None, not {type(payload).__name__}", advice='Encode it, as in "text".encode()'
    )


_OPEN: Final[weakref.WeakSet[Producer]] = weakref.WeakSet()


def _close_at_exit() -> None:
    """Flush what a program that ends has sent and not flushed."""
    for producer in list(_OPEN):
        producer.close()


atexit.register(_close_at_exit)
