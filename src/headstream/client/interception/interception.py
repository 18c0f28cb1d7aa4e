"""Interception: applies a client's interceptors to its producers, consumers and polled messages."""

from __future__ import annotations

from collections.abc import Iterable

from headstream.client.dead_letters.interception import DeadLetters
from headstream.client.interception.producer import InterceptedProducer
from headstream.client.producer.forwarding import ForwardingProducer
from headstream.client.producer.producer import Producer
from headstream.client.producer.sending import SendingOptions
from headstream.client.transports.transport import Transport
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import ReceivedMessage
from headstream.core.model.polling import OffsetOwner
from headstream.core.model.topology import Limits, NewTopic, Topic
from headstream.errors import HeadstreamError
from headstream.interceptors.chain import Chain, RejectedMessageError


class Interception:
    """The interceptors of one client."""

    def __init__(self, transport: Transport, chain: Chain) -> None:
        self.chain = chain
        self._skips = chain.skips_receive
        self._transport = transport
        self.dead_letters = DeadLetters(lambda topic: _make_dead_letter_producer(transport, topic))

    def make_producer(self, topic: Topic, options: SendingOptions) -> Producer:
        """Return a producer with the client's interceptors."""
        return InterceptedProducer(self._transport, topic, options, self.chain, self.dead_letters)

    def receive(self, message: ReceivedMessage) -> ReceivedMessage | None:
        """Return the message to deliver, or None if the message was dead-lettered. InterceptorError; HeadstreamError."""
        skips = self._skips
        if skips is not None:
            try:
                is_skipped = skips(message)
            except Exception:  # on_receive is then called; errors of on_receive have a policy
                is_skipped = False
            if is_skipped:
                return message
        try:
            changed = self.chain.receive(message)
        except RejectedMessageError as rejected:
            self.dead_letters.store(rejected)
            return None
        if not isinstance(changed, ReceivedMessage):
            raise TypeError("on_receive returned a Message instead of a ReceivedMessage")
        return changed

    def receive_polled(
        self, topic: TopicName, messages: Iterable[ReceivedMessage], committer: OffsetOwner | None
    ) -> list[ReceivedMessage]:
        """Return messages except new dead letters; commit both for `committer`. Raise an error only for the first message."""
        received: list[ReceivedMessage] = []
        done: dict[int, int] = {}
        for message in messages:
            try:
                changed = self.receive(message)
            except HeadstreamError:
                if not done:
                    raise
                break  # a poll that begins at this message raises the error
            done[message.partition] = message.offset + 1
            if changed is not None:
                received.append(changed)
        if committer is not None and done:
            self._transport.offsets.commit(topic, committer, done)
            self.chain.commit(str(topic), done)
        return received


def _make_dead_letter_producer(transport: Transport, name: str) -> ForwardingProducer:
    topic = transport.topics.create(NewTopic(TopicName.parse(name), 1, Limits.WIDE), if_not_exists=True)
    return ForwardingProducer(transport, topic, SendingOptions(linger_ms=0))
