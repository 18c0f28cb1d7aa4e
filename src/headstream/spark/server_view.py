"""ServerView: what the driver knows of a log behind a server: it asks for every look."""

from __future__ import annotations

from headstream.client.remote.address import Address
from headstream.client.remote.messages import RemoteMessages
from headstream.client.remote.topology import RemoteTopics
from headstream.codec.batch.columns import decode_columns
from headstream.errors import CorruptSendError, NotALogError
from headstream.model.identifiers import TopicName
from headstream.model.polling import PollingStrategy
from headstream.model.topology import Topic
from headstream.spark.log_view import LogView, SeenTopic
from headstream.spark.offsets import Available, Place
from headstream.spark.server_connections import caller_of
from headstream.spark.server_reader import ServerLog
from headstream.spark.subscription import Subscription
from headstream.wire.extensions.messages import MeasuredRange, MeasureRange
from headstream.wire.extensions.topics import GetIdentity

__all__ = ["ServerView"]

_LAST_OFFSET = (1 << 64) - 1


class ServerView(LogView):
    """Some topics of a log behind a server; see LogView.

    Args:
        address: The server, and who asks.
        subscription: Which topics and partitions.

    Raises:
        NotFoundError: a topic or a partition that was named does not exist.
        HeadstreamError: the server cannot be reached, or refuses.
    """

    def __init__(self, address: Address, subscription: Subscription) -> None:
        super().__init__(subscription, address.place)
        self._address = address
        self._caller = caller_of(address)
        self._topics = RemoteTopics(self._caller)
        self._messages = RemoteMessages(self._caller, self._topics)
        self.refresh()

    @property
    def log(self) -> ServerLog:
        """What the tasks of a read are told of the log."""
        return ServerLog(self._address, self.identity)

    def incarnation(self, place: Place) -> str:
        """Return a partition's generation."""
        return str(self.topics[place.topic].generations[place.partition - 1])

    def find_time(self, place: Place, timestamp_us: int) -> int:
        """Return the first offset of a partition of this time or later, where it ends if there is none."""
        start = PollingStrategy.timestamp(max(timestamp_us, 0))
        topic = TopicName.parse(place.topic)
        try:
            polled = self._messages.poll(topic, place.partition, start, 1, states=None, size_bytes=1)
        except CorruptSendError as error:  # whoever reads there reports the damage
            return error.from_offset
        return int.from_bytes(polled.chunks[0][:8], "little") if polled.count else polled.end_offset

    def last_time(self, place: Place) -> int | None:
        """Return when a partition's newest message was appended, microseconds since 1970 UTC; None where there is none."""
        topic = TopicName.parse(place.topic)
        polled = self._messages.poll(topic, place.partition, PollingStrategy.last(), 1, states=None, size_bytes=1)
        times = [decode_columns(chunk, headers="none", ids=False).timestamp for chunk in polled.chunks if polled.count]
        return int.from_bytes(times[-1][-8:], "little") if times else None

    def size_between(self, place: Place, from_offset: int, until_offset: int) -> int:
        """Return about how many stored bytes a range of a partition has; 0 where a damaged index cannot say."""
        return self._measure(place, from_offset, until_offset, 0).size_bytes

    def offset_after(self, place: Place, from_offset: int, size_bytes: int) -> int:
        """Return where the last send ends that is within so many bytes; the first one's end where none is."""
        return self._measure(place, from_offset, _LAST_OFFSET, size_bytes).reached_offset

    def _measure(self, place: Place, from_offset: int, until_offset: int, size_bytes: int) -> MeasuredRange:
        topic = TopicName.parse(place.topic)
        return self._caller.call(MeasureRange(topic.stream, topic.topic, place.partition, from_offset, until_offset, size_bytes))

    def refresh(self) -> None:
        """Ask the server what is there now; see LogView."""
        self.identity = self._caller.call(GetIdentity()).uuid
        if not self.identity:
            raise NotALogError("nothing was ever written to this server", where=self.where, advice="Create the topic first")
        found = {topic.full_name: topic for topic in self._find_all()}
        self.topics = {name: _seen(topic) for name, topic in found.items()}
        self.available = {
            place: Available(partition.first_offset, partition.end_offset)
            for name, topic in found.items()
            for place in self.places(self.topics[name])
            for partition in (topic.partitions[place.partition - 1],)
        }

    def _find_all(self) -> list[Topic]:
        if self.subscription.topics is not None:
            return [self._topics.get(topic) for topic in self.subscription.topics]
        return [topic for topic in self._topics.list() if self.subscription.has_topic(topic.full_name)]

    def close(self) -> None:
        """Nothing is held between two looks."""


def _seen(topic: Topic) -> SeenTopic:
    return SeenTopic(topic.full_name, topic.identity, tuple(partition.generation for partition in topic.partitions))
