"""Short requests: small sends and polls of one connection, by the way that was found for the one before; compiled.

    frame -> the topic its bytes named before -> PartitionEnd.append, or what Ahead has kept -> the response

What a request has to pass is looked at when a way is found: login, permission, topic, limits. A way holds as long as
the session's user, all users and the log's topics are the same objects, which is looked at whenever bytes come, and of the
topics again right before each append. What is not on a way is left where it stands, for requests.py, which says of
everything what it is: nothing is refused here.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from headstream.broker.commands.dispatch import Dispatcher
from headstream.broker.commands.messages import check_readable
from headstream.broker.commands.offsets import check_partition
from headstream.broker.commands.places import Place
from headstream.broker.sessions import Session
from headstream.codec.buffer import BytesLike
from headstream.errors import HeadstreamError
from headstream.log.catalog import TopicRecord
from headstream.log.readers import Lent
from headstream.model.partitioning import PartitioningKind
from headstream.model.polling import ConsumerKind, PollingKind, partition_of
from headstream.model.topology import Fsync
from headstream.segments.follower import PartitionFollower
from headstream.wire.codes import Code
from headstream.wire.commands.messages import PollMessages, SendMessages
from headstream.wire.frames import response_head

if TYPE_CHECKING:
    from headstream.codec import uncompiled as cython
else:
    try:
        import cython
    except ImportError:
        from headstream.codec import uncompiled as cython

if not cython.compiled:
    from headstream.broker.traffic import Traffic
    from headstream.codec.uncompiled_primitives import equal, load32, load64, readable, store32, store64, writable
    from headstream.log.partition_end import PartitionEnd
    from headstream.segments.ahead import Ahead
elif not TYPE_CHECKING:
    from cython.cimports.headstream.broker.traffic import Traffic
    from cython.cimports.headstream.codec.primitives import equal, load32, load64, readable, store32, store64, writable
    from cython.cimports.headstream.log.partition_end import PartitionEnd
    from cython.cimports.headstream.segments.ahead import Ahead

__all__ = ["ShortRequests"]

PING = cython.declare(cython.longlong, Code.PING.value)
POLL = cython.declare(cython.longlong, Code.POLL_MESSAGES.value)
SEND = cython.declare(cython.longlong, Code.SEND_MESSAGES.value)
BALANCED = cython.declare(cython.longlong, PartitioningKind.BALANCED.value)
PARTITION_ID = cython.declare(cython.longlong, PartitioningKind.PARTITION_ID.value)
MESSAGES_KEY = cython.declare(cython.longlong, PartitioningKind.MESSAGES_KEY.value)
OFFSET = cython.declare(cython.longlong, PollingKind.OFFSET.value)
HEAD_BYTES = cython.declare(cython.longlong, 24)
"""So long is a response to a poll up to its messages: status u32 | length u32 | partition u32 | newest offset u64 | count u32."""

_DONE: Final = response_head(0, 0)
"""A response that says: done."""
_MOST_BYTES: Final = 64 << 10
"""So many bytes of responses are made at a time."""
_FEW: Final = 100
"""Polls of more messages go the long way; if these are of more than"""
_FEW_BYTES: Final = 16 << 10
"""bytes, as well: what takes longer may have to be read by another thread."""
_MOST_WAYS: Final = 1024
"""So many ways are remembered of each kind, before it is begun anew."""


class Way:
    """What was found for requests that name it with certain bytes."""

    def __init__(self, name: bytes) -> None:
        self.name = memoryview(name)


class SendWay(Way):
    """Where sends go that name a topic with certain bytes; nowhere by this way if there is no topic."""

    def __init__(self, name: bytes, place: Place | None) -> None:
        super().__init__(name)
        self.topic = None if place is None else place.topic
        self.partitions = 0 if place is None else place.topic.partitions
        self.ends: dict[int, PartitionEnd] = {}
        self.partition = 0
        self.end: PartitionEnd | None = None


class PollWay(Way):
    """Where polls read that name consumer, topic and partition with certain bytes; nowhere by this way if there is no topic."""

    def __init__(self, name: bytes, place: Place | None, partition: int) -> None:
        super().__init__(name)
        self.topic = None if place is None else place.topic
        self.partition = partition
        self.lent: Lent | None = None
        self.end: PartitionEnd | None = None
        self.transactions = -1
        self.is_available = False


class Ways:
    """The ways of one kind that are known; the next request mostly goes that of the last one."""

    def __init__(self) -> None:
        self._known: dict[bytes, Way] = {}
        self._last: Way | None = None

    def find(self, view: memoryview, at: cython.longlong, end: cython.longlong) -> Any:
        """Return the way that the bytes between two places name, or None."""
        last = self._last
        size: cython.longlong = end - at
        if last is not None and size == last.name.nbytes and equal(readable(view), at, readable(last.name), 0, size):
            return last
        found = self._known.get(bytes(view[at:end]))
        if found is not None:
            self._last = found
        return found

    def keep(self, way: Way) -> Way:
        """Remember a way, and return it."""
        if len(self._known) >= _MOST_WAYS:
            self._known.clear()
        self._known[bytes(way.name)] = way
        self._last = way
        return way

    def forget(self) -> None:
        """Know none any more."""
        self._known.clear()
        self._last = None


class ShortRequests:
    """The short way of one connection's requests; used in one thread.

    Args:
        server: What they are about.
        session: Whose they are.
        traffic: What counts them.
    """

    def __init__(self, server: Dispatcher, session: Session, traffic: Traffic) -> None:
        backing = server.broker.backing
        self._server = server
        self._session = session
        self._traffic = traffic
        self._log = backing.log
        self._clock_us = backing.clock_us
        self._bells = backing.log.waiting.bells
        self._user_id = 0
        self._generation = 0
        self._users: Any = None
        self._catalog: Any = None
        self._topics: Any = None
        self._is_extended = False
        self._sends = Ways()
        self._polls = Ways()

    def answer(self, view: memoryview, size: cython.longlong) -> tuple[int, BytesLike]:
        """Answer the requests that can be answered here, from the first on.

        Args:
            view: Received bytes; a request begins with them.
            size: How many there are.

        Returns:
            Where the first request begins that is left, and the responses to those before it.
        """
        p: cython.p_const_uchar = readable(view)
        at: cython.longlong = 0
        end: cython.longlong
        code: cython.longlong
        made: cython.longlong = 0
        pieces: list[BytesLike] = []
        began_s: cython.double = perf_counter()
        ended_s: cython.double
        if not self._is_valid():
            return 0, b""
        while size - at >= 8 and made < _MOST_BYTES:
            end = at + 4 + load32(p, at)
            if end < at + 8 or end > size:
                break
            code = load32(p, at + 4)
            piece = self._find(view, code, at + 8, end)
            if piece is None:
                break
            pieces.append(piece)
            made += len(piece)
            at = end
            ended_s = perf_counter()
            self._traffic.answered(code, 0, ended_s - began_s)
            began_s = ended_s
        return at, (pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def _find(self, view: memoryview, code: cython.longlong, at: cython.longlong, end: cython.longlong) -> BytesLike | None:
        """Return the response to a request, or None where it has to go the long way."""
        try:
            if code == SEND:
                return self._send(view, at, end)
            if code == POLL:
                return self._poll(view, at, end)
        except HeadstreamError:  # nothing has been done then; the long way says why
            return None
        if code == PING and end == at:
            self._server.sessions.ping(self._session)
            return _DONE
        return None

    def _is_valid(self) -> bool:
        """Return whether the session may go on by the ways that are known; all are forgotten where they might be others."""
        session = self._session
        if session.is_stale or session.is_ended:
            return False
        if (
            self._topics is not None
            and self._catalog.known is self._topics
            and self._server.users.known is self._users
            and session.user_id == self._user_id
            and session.generation == self._generation
            and session.is_extended == self._is_extended
        ):
            return True
        return self._begin_anew()

    def _begin_anew(self) -> bool:
        """Forget all ways, and return whether there can be others."""
        session, users = self._session, self._server.users
        self._sends.forget()
        self._polls.forget()
        self._topics = None
        self._users, self._user_id, self._is_extended = users.known, session.user_id, session.is_extended
        self._generation = session.generation
        try:
            self._catalog = self._log.catalog()
        except HeadstreamError:
            return False
        if self._catalog is None or not users.is_good(session.user_id, session.generation):
            return False
        self._topics = self._catalog.known  # looked up just now; None where another process may change it
        return self._topics is not None

    # -- sends ----------------------------------------------------------------------------------------------

    def _send(self, view: memoryview, at: cython.longlong, end: cython.longlong) -> bytes | None:
        """Append the messages of a send; stream | topic | kind u8 | length u8 | value | messages."""
        p: cython.p_const_uchar = readable(view)
        named: cython.longlong = at
        _: cython.int
        for _ in range(2):
            if end - named < 2:
                return None
            named += 2 + p[named + 1]
        if end - named < 2:
            return None
        kind: cython.longlong = p[named]
        value: cython.longlong = named + 2
        messages: cython.longlong = value + p[named + 1]
        if messages >= end:
            return None
        found = self._sends.find(view, at, named)
        if found is None:
            found = self._sends.keep(SendWay(bytes(view[at:named]), self._find_sent(bytes(view[at:end]))))
        way: SendWay = found
        topic = way.topic
        if topic is None:
            return None
        partition: cython.longlong
        if kind == PARTITION_ID and messages - value == 4:
            partition = load32(p, value)
        elif kind == BALANCED and messages == value:
            partition = self._server.balance.turn(topic)
        elif kind == MESSAGES_KEY and messages > value and way.partitions > 0:
            partition = partition_of(bytes(view[value:messages]), way.partitions)
        else:
            return None
        if partition < 1 or partition > way.partitions:
            return None
        if partition != way.partition:
            way.end = way.ends.get(partition)
            if way.end is None:
                way.end = way.ends[partition] = self._log.partition(topic, partition).end
            way.partition = partition
        place: PartitionEnd | None = way.end
        time_us: cython.longlong = self._clock_us()
        if place is None or self._catalog.known is not self._topics or place.append(view, messages, end, time_us) < 0:
            return None
        if kind == BALANCED:
            self._server.balance.next(topic)
        if place.directory in self._bells:
            self._log.waiting.ring(place.directory)
        return _DONE

    def _find_sent(self, payload: bytes) -> Place | None:
        """Return the topic of a send, or None where one has to go the long way."""
        server, session = self._server, self._session
        try:
            command = SendMessages.decode(payload)
            place = server.places.topic(command.stream, command.topic)
            server.rights(session).send(place.stream.id, place.topic.id)
            check_readable(session, place.topic)
        except HeadstreamError:
            return None
        looks = place.topic.options.looks_into_messages
        return place if not looks and place.topic.fsync is not Fsync.ALWAYS else None

    # -- polls ----------------------------------------------------------------------------------------------

    def _poll(self, view: memoryview, at: cython.longlong, end: cython.longlong) -> bytearray | None:
        """Answer a poll from what was read ahead; consumer | stream | topic | partition u32 | strategy u8 | value u64 | ..."""
        p: cython.p_const_uchar = readable(view)
        numbers: cython.longlong = end - 14
        if numbers - at < 4 or p[numbers] != OFFSET or p[end - 1] == 1:
            return None
        count: cython.longlong = load32(p, numbers + 9)
        found = self._polls.find(view, at, numbers)
        if found is None:
            found = self._polls.keep(PollWay(bytes(view[at:numbers]), *self._find_polled(bytes(view[at:end]))))
        way: PollWay = found
        topic = way.topic
        if topic is None:
            return None
        lent = self._log.reading(topic, way.partition) if way.lent is None else way.lent
        way.lent = None
        if not lent.try_enter():
            return None
        try:
            response = self._read(way, topic, lent, load64(p, numbers + 1), count)
            if way.end is None:
                way.end = self._log.writing_end(topic, way.partition)
            known: PartitionEnd | None = way.end
            newest: cython.longlong = lent.follower.end_offset if known is None or not known.end_offset else known.end_offset
        finally:
            lent.leave()
        if response is None:
            return None
        way.lent = lent
        q: cython.p_uchar = writable(response)
        store32(q, 0, 0)
        store32(q, 4, len(response) - 8)
        store32(q, 8, way.partition)
        store64(q, 12, newest - 1)
        store32(q, 20, count)
        return response

    def _read(
        self, way: PollWay, topic: TopicRecord, lent: Lent, offset: cython.longlong, count: cython.longlong
    ) -> bytearray | None:
        """Return messages from an offset on behind room for the head of a response, if so many are known and all available."""
        ahead: Ahead = lent.follower.ahead
        chunk = ahead.take_kept(offset, count, _MOST_BYTES, HEAD_BYTES)
        if chunk is None and 1 <= count <= _FEW and self._log.reading(topic, way.partition) is lent:  # else it has been closed
            chunk = _read_few(lent.follower, offset, offset + count)
        if way.transactions != self._catalog.transactions:
            way.transactions = self._catalog.transactions
            way.is_available = self._log.states.next_exception(topic, way.partition) is None
        if way.is_available:
            return chunk
        ahead.forget()
        return None

    def _find_polled(self, payload: bytes) -> tuple[Place | None, int]:
        """Return topic and partition of a poll, or None where one has to go the long way."""
        server, session = self._server, self._session
        try:
            command = PollMessages.decode(payload)
            if PollMessages.count_surplus(payload):  # its numbers are not at the end, where they are looked for here
                return None, 0
            place = server.places.topic(command.stream, command.topic)
            server.rights(session).poll(place.stream.id, place.topic.id)
            check_readable(session, place.topic)
            partition = check_partition(place, command.partition or 1)
        except HeadstreamError:
            return None, 0
        return (place if command.consumer.kind == ConsumerKind.CONSUMER else None), partition


def _read_few(follower: PartitionFollower, offset: int, until: int) -> bytearray | None:
    """Return as Ahead.take_kept() all messages between two offsets, if none is known to be missing, and they are small."""
    if offset < follower.first_offset or until > follower.end_offset or follower.may_miss(offset):
        return None
    pieces: list[BytesLike] = [bytes(HEAD_BYTES)]
    room = _FEW_BYTES
    while offset < until and room > 0:
        chunk, offset = follower.ahead.read_chunk(follower, offset, until, room)
        pieces.append(chunk)
        room -= len(chunk)
    return bytearray().join(pieces) if offset == until and room >= 0 else None
