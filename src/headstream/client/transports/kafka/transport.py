"""KafkaTransport: a client's transport to a Kafka cluster."""

from __future__ import annotations

from typing import Final

from headstream.client.transports.kafka.address import KafkaAddress
from headstream.client.transports.kafka.cluster import Cluster
from headstream.client.transports.kafka.groups import KafkaGroups, KafkaOffsets
from headstream.client.transports.kafka.messages import KafkaMessages
from headstream.client.transports.kafka.offset_clients import OffsetClients
from headstream.client.transports.kafka.topology import KafkaPartitions, KafkaStreams, KafkaTopics
from headstream.client.transports.transport import Transport
from headstream.core.codec.kafka.murmur2 import kafka_partition_of
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import ClusterStats


class KafkaTransport:
    """All commands of a log in Kafka; see Transport.

    Args:
        parent: The client's transport, if this transport belongs to one producer or consumer.
    """

    first_partition: Final = 0

    def __init__(self, address: KafkaAddress, parent: KafkaTransport | None = None) -> None:
        self._parent = parent
        self._cluster: Cluster = Cluster(address) if parent is None else parent._cluster
        self.topics = KafkaTopics(self._cluster)
        self.streams = KafkaStreams(self._cluster, self.topics)
        self.partitions = KafkaPartitions(self._cluster, self.topics)
        self._offset_clients: OffsetClients = OffsetClients(self._cluster) if parent is None else parent._offset_clients
        self.offsets = KafkaOffsets(self._cluster, self._offset_clients)
        self.groups = KafkaGroups(self._cluster, self.offsets)
        self.messages = KafkaMessages(self._cluster, self.offsets, self.groups, is_shared=parent is None)

    @property
    def identity(self) -> str | None:
        """The cluster's id."""
        found = self._cluster.ask(
            self._cluster.address.place, lambda admin, timeout_s: {0: admin.describe_cluster(request_timeout=timeout_s)}
        )[0]
        return found.cluster_id or None

    def stats(self) -> ClusterStats:
        place, topics = self._cluster.address.place, self.topics.list()
        found = self._cluster.ask(place, lambda admin, timeout_s: {0: admin.describe_cluster(request_timeout=timeout_s)})[0]
        listed = self._cluster.ask(place, lambda admin, timeout_s: {0: admin.list_consumer_groups(request_timeout=timeout_s)})[0]
        return ClusterStats(
            cluster_id=found.cluster_id or None,
            controller_id=None if found.controller is None else found.controller.id,
            brokers_count=len(found.nodes),
            streams_count=len({topic.stream for topic in topics}),
            topics_count=len(topics),
            partitions_count=sum(len(topic.partitions) for topic in topics),
            messages_count=sum(topic.messages_count for topic in topics),
            groups_count=len(listed.valid),
        )

    def topic_name(self, name: str) -> TopicName:
        """Return the topic of a Kafka topic name: `orders` is kafka/orders, and `shop.orders` is shop/orders."""
        return self._cluster.names.topic_name(name)

    def partition_of(self, key: bytes, partitions: int) -> int:
        """Return the partition of a key, computed as in Kafka's Java producers."""
        return kafka_partition_of(key, partitions)

    def for_producer(self) -> Transport:
        """Return a transport with a separate Kafka producer, for one Headstream producer, which closes it."""
        return KafkaTransport(self._cluster.address, self)

    def for_consumer(self) -> Transport:
        """Return a transport with separate Kafka consumers, for one Headstream consumer, which closes it."""
        return KafkaTransport(self._cluster.address, self)

    def open(self) -> None:
        """Connect; ServerUnreachableError if no broker can be reached, AuthenticationError if the login is refused."""
        self._cluster.open()

    def interrupt(self, thread: int, is_over: bool = False) -> None:
        self._cluster.interrupt(thread, is_over)

    def close(self) -> None:
        """Close this transport's own connections to brokers."""
        self.groups.close()
        self.messages.close()
        if self._parent is None:
            self._offset_clients.close()
            self._cluster.close()
