"""InterceptedProducer: a producer that runs a client's interceptors for messages and acknowledgements."""

from __future__ import annotations

from dataclasses import replace

from headstream.client.arguments import SendArguments, message_id_of
from headstream.client.dead_letters.interception import DeadLetters
from headstream.client.producer.delivery import BatchDelivery
from headstream.client.producer.producer import Producer
from headstream.client.producer.receipts import Receipt
from headstream.client.producer.sending import Batch, SendingOptions
from headstream.client.transports.transport import Transport
from headstream.core.codec.binary import decode_sent
from headstream.core.model.headers import Headers, HeadersInput
from headstream.core.model.message import Message
from headstream.core.model.producers import Appended
from headstream.core.model.topology import Topic
from headstream.errors import InterceptorError
from headstream.interceptors.chain import Chain, RejectedMessageError


class InterceptedProducer(Producer):
    """A producer that runs interceptors."""

    def __init__(
        self, transport: Transport, topic: Topic, options: SendingOptions, chain: Chain, dead_letters: DeadLetters
    ) -> None:
        super().__init__(transport, topic, options)
        self._chain = chain
        self._dead_letters = dead_letters
        self._reports: list[InterceptorError] = []
        self._raised_report: InterceptorError | None = None
        self._skips = chain.skips_send or _skips_nothing
        chain.remember_loop()
        if chain.reports_acknowledgements:
            self._delivery = _ReportingDelivery(self._delivery, str(self._name), self._reports, chain)
            skips = self._skips
            self._skips = lambda headers: not self._reports and skips(headers)

    @property
    def is_full(self) -> bool:
        """Whether send() can block because of a full buffer or an asynchronous interceptor."""
        return self._chain.is_async or super().is_full

    def _intercept(self, *arguments: *SendArguments) -> SendArguments | Receipt:
        """Return a message's arguments after the interceptors ran, or the receipt of its dead letter; InterceptorError."""
        self._raise_report()
        payload, key, headers, id, partition = arguments
        number = partition if isinstance(partition, int) else None
        message = Message(
            payload=bytes(payload) if isinstance(payload, (bytearray, memoryview)) else payload,
            headers=headers if isinstance(headers, Headers) else Headers(headers or ()),
            key=key,
            id=message_id_of(id),
            topic=str(self._name),
            partition=number,
        )
        try:
            message = self._chain.send(message)
        except RejectedMessageError as rejected:
            return self._dead_letters.send(rejected)
        chosen = message.partition if message.partition is not None or number is not None else partition
        return message.payload, message.key, message.headers, message.id, chosen

    def after_fork(self) -> None:
        """In a forked child: leave the messages and their interceptors' errors to the parent process."""
        super().after_fork()
        self._reports.clear()

    def flush(self) -> None:
        """Wait until all sent messages and dead letters are stored; see Producer.flush()."""
        super().flush()
        self._finish()

    def flush_within(self, timeout_s: float) -> bool:
        """Flush up to a timeout; see Producer.flush_within()."""
        if not super().flush_within(timeout_s):
            return False
        self._finish()
        return True

    def close(self) -> None:
        """Flush and close; see Producer.close()."""
        super().close()
        self._finish()

    def _finish(self) -> None:
        self._dead_letters.flush()
        self._raise_report()

    def _raise_report(self) -> None:
        if self._reports:
            self._raised_report = self._reports.pop(0)
            raise self._raised_report

    def raise_again(self, error: Exception) -> None:
        """Make the next call raise an error again; see Producer.raise_again()."""
        super().raise_again(error)
        if error is self._raised_report:
            self._reports.insert(0, self._raised_report)


def _skips_nothing(headers: HeadersInput | None) -> bool:
    return False


class _ReportingDelivery:
    """Delivers batches and reports outcomes to interceptors; `reports` collects errors for the producer to raise."""

    def __init__(self, delivery: BatchDelivery, topic: str, reports: list[InterceptorError], chain: Chain) -> None:
        self._delivery = delivery
        self._topic = topic
        self._reports = reports
        self._chain = chain

    @property
    def producer_id(self) -> int | None:
        """See Delivery.producer_id."""
        return self._delivery.producer_id

    def release(self) -> None:
        """Release the producer's state; see Delivery.release()."""
        self._delivery.release()

    def deliver(self, batch: Batch) -> Appended:
        """Deliver a batch and report the outcome; see Delivery.deliver()."""
        try:
            appended = self._delivery.deliver(batch)
        except Exception as error:
            self._report(batch, None, error)
            raise
        self._report(batch, appended, None)
        return appended

    def _report(self, batch: Batch, appended: Appended | None, failure: Exception | None) -> None:
        for index, sent in enumerate(decode_sent(batch.data)):
            offset, timestamp = _place_of(batch, appended, index)
            message = replace(sent, topic=self._topic, partition=batch.partition, offset=offset, timestamp=timestamp)
            error = self._chain.acknowledge(message, failure)
            if error is not None and not self._reports:
                self._reports.append(error)


def _place_of(batch: Batch, appended: Appended | None, index: int) -> tuple[int | None, int | None]:
    """Return offset and time of a batch's message; None for unknown values."""
    if appended is None:
        return None, None
    if appended.positions is not None:
        return appended.positions[index]
    return (appended.offset + index if appended.count == batch.count else None), appended.timestamp_us
