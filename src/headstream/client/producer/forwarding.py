"""ForwardingProducer: sends messages copied from another topic or log, with all headers, including reserved headers."""

from __future__ import annotations

from headstream.client.producer.encoding import SentEncoder
from headstream.client.producer.producer import Producer
from headstream.client.producer.sending import SendingOptions
from headstream.client.transports.transport import Transport
from headstream.core.model.topology import Topic


class ForwardingProducer(Producer):
    """A producer for dead letters and mirrored messages."""

    def __init__(self, transport: Transport, topic: Topic, options: SendingOptions) -> None:
        super().__init__(transport, topic, options)
        gives_ids = topic.deduplication_count is not None
        self._encode = SentEncoder(topic, gives_ids=gives_ids, keeps_reserved=True).encode
