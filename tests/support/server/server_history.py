"""A history of one server: many clients that do anything in any pieces, and a model that says what each may be answered.

All clients are driven by one thread, so that what has been asked and what has been answered has an order. The model knows
little: the messages of each send, what each topic was when a request was made and when it was answered, and which offsets
are known to be there. Of what is answered it asks: one response a request, in their order; a status that was right at some
moment between; messages that were sent to that topic and partition, of the topic as it is and not as it was, the same
ones at the same offsets to everybody, and none missing that were acknowledged before.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from headstream.core.codec.binary import decode_polled, encode_sent
from headstream.core.model.message import Message
from headstream.core.model.partitioning import Partitioning, PartitioningKind
from headstream.core.wire.commands.messages import PolledMessages, PollMessages, SendMessages
from headstream.core.wire.statuses import Status

STREAM = "arena"
KEPT = "kept"
BRIEF = "brief"
"""The topic that is deleted and made again all the time."""
PARTITIONS = 2
_WHOLE_BYTES = 900_000
"""So much a poll always brings, where it is there."""

_NOT_FOUND = {Status.TOPIC_ID_NOT_FOUND, Status.TOPIC_NAME_NOT_FOUND}
_T = TypeVar("_T")


class Changing(Generic[_T]):
    """What somebody changes while others ask: which values it may have had between two moments."""

    def __init__(self, value: _T) -> None:
        self._values = [value]
        self.mark = 0

    def begin(self, value: _T) -> None:
        """From now on it may be another one."""
        self._values.append(value)

    def settle(self) -> None:
        """From now on it is the newest one."""
        self.mark = len(self._values) - 1

    def since(self, mark: int) -> set[_T]:
        """Return what it may have been from a moment on, whose mark was this."""
        return set(self._values[mark:])


@dataclass(eq=False)
class Sent:
    """The messages of one send."""

    number: int
    client: int
    topic: str
    partition: int | None
    mark: int
    payloads: list[bytes]
    is_rightful: bool
    versions: set[int | None] | None = None
    is_acknowledged: bool = False
    is_refused: bool = False


class History:
    """What has happened so far."""

    def __init__(self) -> None:
        self.is_allowed = Changing(True)
        self.versions: dict[str, Changing[int | None]] = {KEPT: Changing(1), BRIEF: Changing(1)}
        self.sent: list[Sent] = []
        self.counts: Counter[str] = Counter()
        self._known: defaultdict[tuple[str, int | None, int], dict[int, bytes]] = defaultdict(dict)
        self._acknowledged: Counter[tuple[str, int | None, int]] = Counter()
        self._seen: Counter[tuple[str, int | None, int]] = Counter()
        self._numbers = itertools.count()

    def send(
        self, client: int, topic: str, partitioning: Partitioning, sizes: list[int], *, is_rightful: bool
    ) -> tuple[Sent, SendMessages]:
        """Return a new send of messages of so many bytes, and its command."""
        number = next(self._numbers)
        heads = [b"%d:%d:" % (number, at) for at in range(len(sizes))]
        payloads = [head.ljust(size, b".") for head, size in zip(heads, sizes, strict=True)]
        is_named = partitioning.kind is PartitioningKind.PARTITION_ID
        partition = int.from_bytes(partitioning.value, "little") if is_named else None
        sent = Sent(number, client, topic, partition, self.versions[topic].mark, payloads, is_rightful)
        self.sent.append(sent)
        return sent, SendMessages(STREAM, topic, partitioning, encode_sent([Message(payload=each) for each in payloads]))

    def check_sent(self, sent: Sent, status: int, statuses: set[int]) -> None:
        """Take note of the answer to a send; `statuses` are those that whoever sent it might be told."""
        versions = self.versions[sent.topic].since(sent.mark)
        self._check_status(status, statuses, versions)
        sent.versions = versions - {None}
        sent.is_acknowledged, sent.is_refused = status == 0, status != 0
        self.counts[f"sends answered {status}"] += 1
        if status == 0 and sent.partition is not None and len(sent.versions) == 1:
            (version,) = sent.versions
            self._acknowledged[sent.topic, version, sent.partition] += len(sent.payloads)

    def end_of(self, topic: str, partition: int) -> int:
        """Return how many messages are known to be in a partition of a topic as it is."""
        changing = self.versions[topic]
        versions = changing.since(changing.mark)
        return min(self._end(topic, version, partition) for version in versions)

    def could_reach(self, topic: str, partition: int, offset: int) -> bool:
        """Return whether there can be a message at an offset, from all that was ever sent."""
        return offset < sum(
            len(each.payloads) for each in self.sent if each.topic == topic and each.partition in (None, partition)
        )

    def expect_polled(
        self, topic: str, partition: int, offset: int, count: int, statuses: Callable[[], set[int]]
    ) -> Callable[[int, bytes], None]:
        """Return what checks the response to a poll that is asked for now."""
        mark, end = self.versions[topic].mark, self.end_of(topic, partition)

        def check(status: int, body: bytes) -> None:
            versions = self.versions[topic].since(mark)
            self._check_status(status, statuses(), versions)
            self.counts[f"polls answered {status}"] += 1
            if status == 0:
                reply = PollMessages.decode_reply(body)
                assert reply.partition == partition
                self._check_polled(topic, partition, offset, count, end, versions, reply)

        return check

    def _check_polled(
        self, topic: str, partition: int, offset: int, count: int, end: int, versions: set[int | None], reply: PolledMessages
    ) -> None:
        messages = decode_polled(reply.messages)
        assert len(messages) == reply.count or not messages, (len(messages), reply.count)
        assert len(messages) <= count
        assert [message.offset for message in messages] == list(range(offset, offset + len(messages)))
        payloads = [bytes(message.payload or b"") for message in messages]
        self.counts["messages polled"] += len(payloads)
        may = set(versions)
        for payload in payloads:
            sent = self._sent_of(payload, topic, partition)
            may &= sent.versions if sent.versions is not None else self.versions[topic].since(sent.mark)
        assert may - {None}, f"messages of {topic} from before it was made anew, or from nowhere: {payloads[0][:20]!r}"
        assert not messages or reply.current_offset >= offset + len(messages) - 1
        if len(versions) != 1:
            return
        (version,) = versions
        place = topic, version, partition
        assert reply.current_offset >= end - 1, f"{place} has {end} messages, not {reply.current_offset + 1}"
        if sum(map(len, payloads)) < _WHOLE_BYTES:
            assert len(messages) >= min(count, end - offset), f"{place} from {offset}: {len(messages)} of {count}, up to {end}"
        known = self._known[place]
        for at, payload in enumerate(payloads, offset):
            assert known.setdefault(at, payload) == payload, f"{place}: another message at {at}"
        if messages:
            self._seen[place] = max(self._seen[place], reply.current_offset + 1)

    def _sent_of(self, payload: bytes, topic: str, partition: int) -> Sent:
        number, at, _ = payload.split(b":", 2)
        sent = self.sent[int(number)]
        assert sent.payloads[int(at)] == payload, "a payload is not what was sent"
        assert sent.topic == topic
        assert sent.partition in (None, partition)
        return sent

    def _end(self, topic: str, version: int | None, partition: int) -> int:
        place = topic, version, partition
        return max(self._acknowledged[place], self._seen[place])

    def _check_status(self, status: int, statuses: set[int], versions: set[int | None]) -> None:
        allowed = set(statuses)
        if 0 in allowed and None in versions:
            allowed |= _NOT_FOUND
            allowed -= {0} if versions == {None} else set()
        assert status in allowed, f"status {status} where {allowed} may be"

    # -- the end ----------------------------------------------------------------------------------------------

    def check_stored(self, topic: str, partitions: dict[int, list[bytes]]) -> None:
        """Check a topic, after all has ended, against everything that was sent to it.

        Args:
            topic: The topic.
            partitions: All payloads of each of its partitions.
        """
        changing = self.versions[topic]
        (version,) = changing.since(changing.mark)
        found: Counter[tuple[int, int]] = Counter()
        for partition, payloads in partitions.items():
            known = self._known[topic, version, partition]
            assert all(payloads[at] == payload for at, payload in known.items())
            places = list[tuple[int, int]]()
            for payload in payloads:
                sent = self._sent_of(payload, topic, partition)
                places.append((sent.number, sent.payloads.index(payload)))
            found.update(places)
            self._check_order(places)
        assert all(count == 1 for count in found.values()), "a message is there twice"
        whole = {number for number, _ in found}
        sizes = Counter(number for number, _ in found)
        gone = set[int]()
        for sent in self.sent:
            if sent.topic != topic:
                continue
            is_there = sent.number in whole
            assert sizes[sent.number] in (0, len(sent.payloads)), "half a send is there"
            assert not (sent.is_refused and is_there), "what was refused is there"
            if sent.versions is not None and version not in sent.versions:
                assert not is_there, "what was sent to the topic before it was made anew is there"
            if sent.is_acknowledged and sent.versions == {version}:
                assert is_there, f"send {sent.number} was acknowledged, and is not there"
            if topic == KEPT and sent.is_rightful and not sent.is_refused:  # a connection's requests are answered in their order
                assert not (is_there and sent.client in gone), f"send {sent.number} is there, but not one before it"
                if not is_there:
                    gone.add(sent.client)

    def _check_order(self, places: list[tuple[int, int]]) -> None:
        newest: dict[int, tuple[int, int]] = {}
        for number, at in places:
            client = self.sent[number].client
            assert newest.get(client, (-1, -1)) < (number, at), f"messages of client {client} are not in their order"
            newest[client] = number, at
