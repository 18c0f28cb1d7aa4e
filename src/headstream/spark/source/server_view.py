"""ServerView: the driver's view of a log behind a server; every refresh queries the server."""

from __future__ import annotations

from headstream.client.transports.remote.address import ServerUrl
from headstream.client.transports.remote.messages import RemoteMessages
from headstream.client.transports.remote.topology import RemoteTopics
from headstream.core.codec.batch.to_columns.columns import decode_columns
from headstream.core.filters.poll_request import PollRequest
from headstream.core.model.identifiers import TopicName
from headstream.core.model.polling import PollingStrategy
from headstream.core.model.topology import Topic
from headstream.core.wire.extensions.messages import MeasuredRange, MeasureRange
from headstream.core.wire.extensions.topic_options import GetIdentity
from headstream.errors import CorruptSendError, NotALogError
from headstream.spark.connection.server_connections import caller_of
from headstream.spark.source.log_view import LogView, SeenTopic
from headstream.spark.source.offsets import Available, TopicPartition
from headstream.spark.source.server_reader import ServerLog
from headstream.spark.source.subscription import Subscription

_LAST_OFFSET = (1 << 64) - 1


class ServerView(LogView):
    """Some topics of a log behind a server; see LogView."""

    def __init__(self, address: ServerUrl, subscription: Subscription) -> None:
        super().__init__(subscription, address.place)
        self._address = address
        self._caller = caller_of(address)
        self._topics = RemoteTopics(self._caller)
        self._messages = RemoteMessages(self._caller, self._topics)
        self.refresh()

    @property
    def log(self) -> ServerLog:
        return ServerLog(self._address, self.identity)

    def incarnation(self, partition: TopicPartition) -> str:
        """Return a partition's generation."""
        return str(self.topics[partition.topic].generations[partition.number - 1])

    def find_time(self, partition: TopicPartition, timestamp_us: int) -> int:
        start = PollingStrategy.timestamp(max(timestamp_us, 0))
        topic = TopicName.parse(partition.topic)
        try:
            polled = self._messages.poll(topic, partition.number, PollRequest(start, 1, states=None, size_bytes=1))
        except CorruptSendError as error:  # reading raises the error
            return error.from_offset
        return int.from_bytes(polled.chunks[0][:8], "little") if polled.count else polled.end_offset

    def last_time(self, partition: TopicPartition) -> int | None:
        topic = TopicName.parse(partition.topic)
        polled = self._messages.poll(topic, partition.number, PollRequest(PollingStrategy.last(), 1, states=None, size_bytes=1))
        times = [decode_columns(chunk, headers="none", ids=False).timestamp for chunk in polled.chunks if polled.count]
        return int.from_bytes(times[-1][-8:], "little") if times else None

    def size_between(self, partition: TopicPartition, from_offset: int, until_offset: int) -> int:
        return self._measure(partition, from_offset, until_offset, 0).size_bytes

    def offset_after(self, partition: TopicPartition, from_offset: int, size_bytes: int) -> int:
        return self._measure(partition, from_offset, _LAST_OFFSET, size_bytes).reached_offset

    def _measure(self, partition: TopicPartition, from_offset: int, until_offset: int, size_bytes: int) -> MeasuredRange:
        topic = TopicName.parse(partition.topic)
        return self._caller.call(MeasureRange(topic.stream, topic.topic, partition.number, from_offset, until_offset, size_bytes))

    def refresh(self) -> None:
        """Query the server's current topics; see LogView."""
        self.identity = self._caller.call(GetIdentity()).uuid
        if not self.identity:
            raise NotALogError("nothing was ever written to this server", where=self.where, advice="Create the topic first")
        found = {topic.full_name: topic for topic in self._find_all()}
        self.topics = {
            name: SeenTopic(topic.full_name, topic.identity, tuple(partition.generation for partition in topic.partitions))
            for name, topic in found.items()
        }
        self.available = {
            partition: Available(ends.first_offset, ends.end_offset)
            for name, topic in found.items()
            for partition in self.partitions(self.topics[name])
            for ends in (topic.partitions[partition.number - 1],)
        }

    def _find_all(self) -> list[Topic]:
        if self.subscription.topics is not None:
            return [self._topics.get(topic) for topic in self.subscription.topics]
        return [topic for topic in self._topics.list() if self.subscription.has_topic(topic.full_name)]

    def close(self) -> None:
        """Do nothing: no resource is held between refreshes."""
