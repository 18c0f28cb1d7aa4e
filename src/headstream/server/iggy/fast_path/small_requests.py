"""SmallRequests: answers small sends and polls of one connection with cached routes; compiled.

    frame -> cached route of the topic -> PartitionEnd.append, or messages cached by ReadAhead -> response

Login, permission, topic and limits are checked when a route is cached. Routes are valid while the session's user, all users and
the log's topics are the same objects. Each read compares these objects, and each append compares the topics again. All other
requests take the general path (broker/commands/requests.py); the fast path rejects no request.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any, Final

from headstream.broker.accounts.sessions import Session
from headstream.broker.commands.dispatch import Dispatcher
from headstream.broker.commands.messages import check_readable
from headstream.broker.commands.offsets import check_partition
from headstream.broker.commands.topic_lookup import FoundTopic
from headstream.core.codec.buffer import BytesLike
from headstream.core.model.partitioning import PartitioningKind, partition_of
from headstream.core.model.polling import ConsumerKind, PollingKind
from headstream.core.model.producers import MAX_PRODUCER_ID, is_owned_by
from headstream.core.model.topology import Fsync
from headstream.core.wire.codes import Code
from headstream.core.wire.commands.messages import PollMessages, SendMessages
from headstream.core.wire.extensions.producers import AppendNumbered
from headstream.core.wire.frames import response_head
from headstream.errors import HeadstreamError
from headstream.interceptors.trace_contexts import find_contexts
from headstream.log.catalog.records import TopicRecord
from headstream.log.partition.readers import LockedFollower
from headstream.log.segments.follower import PartitionFollower

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.wire import layout
    from headstream.log.partition.partition_end import PartitionEnd
    from headstream.log.segments.read_ahead import ReadAhead
    from headstream.server.iggy.fast_path.route_cache import PollRoute, RouteCache, SendRoute
    from headstream.server.iggy.fast_path.traffic import Traffic
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.wire import layout
    from cython.cimports.headstream.log.partition.partition_end import PartitionEnd
    from cython.cimports.headstream.log.segments.read_ahead import ReadAhead
    from cython.cimports.headstream.server.iggy.fast_path.route_cache import PollRoute, RouteCache, SendRoute
    from cython.cimports.headstream.server.iggy.fast_path.traffic import Traffic

PING = cython.declare(cython.longlong, Code.PING.value)
POLL = cython.declare(cython.longlong, Code.POLL_MESSAGES.value)
SEND = cython.declare(cython.longlong, Code.SEND_MESSAGES.value)
BALANCED = cython.declare(cython.longlong, PartitioningKind.BALANCED.value)
PARTITION_ID = cython.declare(cython.longlong, PartitioningKind.PARTITION_ID.value)
MESSAGES_KEY = cython.declare(cython.longlong, PartitioningKind.MESSAGES_KEY.value)
OFFSET = cython.declare(cython.longlong, PollingKind.OFFSET.value)
APPEND = cython.declare(cython.longlong, Code.APPEND_NUMBERED.value)
HEAD_BYTES = cython.declare(cython.longlong, layout.FRAME_BODY + layout.POLLED_BYTES)
"""Bytes of a response to a poll before the messages."""

APPENDED_BYTES = cython.declare(cython.longlong, layout.FRAME_BODY + layout.APPENDED_BYTES)
"""Bytes of a response to a numbered batch."""
MAX_ID = cython.declare(cython.longlong, MAX_PRODUCER_ID)

_DONE: Final = response_head(0, 0)
"""An empty response with status 0."""
_MAX_RESPONSE_BYTES: Final = 64 << 10
"""Limit of the responses of one call."""
_MAX_READ_MESSAGES: Final = 100
"""Polls of more messages take the general path."""
_MAX_READ_BYTES: Final = 16 << 10
"""Polls of more bytes take the general path, because long reads can need another thread."""


class SmallRequests:
    """Answers small requests of one connection; not thread-safe."""

    def __init__(self, server: Dispatcher, session: Session, traffic: Traffic) -> None:
        backing = server.broker.backing
        self._server = server
        self._session = session
        self._traffic = traffic
        self._log = backing.log
        self._clock_us = backing.clock_us
        self._registered = backing.log.waiting.registered
        self._is_traced = server.broker.messages.tracing is not None
        self._user_id = 0
        self._generation = 0
        self._users: Any = None
        self._catalog: Any = None
        self._topics: Any = None
        self._is_extended = False
        self._producer_id = 0
        self._newest = 0
        self._sends = RouteCache()
        self._polls = RouteCache()

    def answer(self, view: memoryview, size: cython.longlong) -> tuple[int, BytesLike]:
        """Answer requests in order, up to the first request for the general path; return its position and the responses."""
        p: cython.p_const_uchar = c.readable(view)
        at: cython.longlong = 0
        end: cython.longlong
        code: cython.longlong
        made: cython.longlong = 0
        pieces: list[BytesLike] = []
        began_s: cython.double = perf_counter()
        ended_s: cython.double
        if not self._is_valid():
            return 0, b""
        while size - at >= layout.FRAME_BODY and made < _MAX_RESPONSE_BYTES:
            end = at + layout.FRAME_CODE + c.load32(p, at)
            if end < at + layout.FRAME_BODY or end > size:
                break
            code = c.load32(p, at + layout.FRAME_CODE)
            piece = self._find(view, code, at + layout.FRAME_BODY, end)
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
        """Return the response to a request, or None for the general path."""
        try:
            if code == SEND:
                return self._send(view, at, end)
            if code == POLL:
                return self._poll(view, at, end)
            if code == APPEND:
                return self._append(view, at, end)
        except HeadstreamError:  # nothing was changed; the general path raises the error again
            return None
        if code == PING and end == at:
            self._server.sessions.ping(self._session)
            return _DONE
        return None

    def _is_valid(self) -> bool:
        """Return whether the cached routes are valid; clear the routes if users, rights or topics have changed."""
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
        return self._find_catalog()

    def _find_catalog(self) -> bool:
        """Clear all routes; return whether new routes can be cached."""
        session, users = self._session, self._server.users
        self._sends.clear()
        self._polls.clear()
        self._topics = None
        self._producer_id = 0
        self._users, self._user_id, self._is_extended = users.known, session.user_id, session.is_extended
        self._generation = session.generation
        try:
            self._catalog = self._log.catalog()
        except HeadstreamError:
            return False
        if self._catalog is None or not users.is_good(session.user_id, session.generation):
            return False
        self._topics = self._catalog.known  # None if another process can change the catalog
        return self._topics is not None

    # -- sends ----------------------------------------------------------------------------------------------

    def _append(self, view: memoryview, at: cython.longlong, end: cython.longlong) -> bytearray | None:
        """Append a numbered batch; stream | topic | partition u32 | producer u64 | epoch u32 | sequence u32 | messages."""
        p: cython.p_const_uchar = c.readable(view)
        named: cython.longlong = self._find_name_end(view, at, end)
        messages: cython.longlong = named + layout.NUMBERED_BYTES
        if not named or messages >= end or not self._is_extended or self._has_traces(view, messages, end):
            return None
        producer_id: cython.longlong = c.load64(p, named + layout.NUMBERED_PRODUCER)
        if producer_id <= 0 or producer_id > MAX_ID:
            return None
        if producer_id != self._producer_id:
            if not is_owned_by(producer_id, self._session.user_id):
                return None
            self._producer_id = producer_id
        found = self._sends.find(view, at, named)
        if found is None:
            found = self._sends.add(SendRoute(bytes(view[at:named]), self._find_sent(AppendNumbered, bytes(view[at:end]))))
        route: SendRoute = found
        place: PartitionEnd | None = self._find_end(route, c.load32(p, named))
        time_us: cython.longlong = self._clock_us()
        if place is None or self._catalog.known is not self._topics:
            return None
        epoch: cython.longlong = c.load32(p, named + layout.NUMBERED_EPOCH)
        sequence: cython.longlong = c.load32(p, named + layout.NUMBERED_SEQUENCE)
        done = place.append_numbered(view, messages, end, time_us, producer_id, epoch, sequence)
        if done is None:
            return None
        if place.directory in self._registered:
            self._log.waiting.notify(place.directory)
        response = bytearray(APPENDED_BYTES)
        q: cython.p_uchar = c.writable(response)
        c.store32(q, layout.FRAME_CODE, layout.APPENDED_BYTES)
        c.store64(q, layout.FRAME_BODY, done[0])
        c.store64(q, layout.FRAME_BODY + layout.APPENDED_TIME, done[1])
        c.store32(q, layout.FRAME_BODY + layout.APPENDED_COUNT, done[2])
        return response

    def _has_traces(self, view: memoryview, at: cython.longlong, end: cython.longlong) -> bool:
        """Return whether messages have trace headers, because the general path records their spans."""
        return self._is_traced and bool(find_contexts(view[at:end]))

    def _find_name_end(self, view: memoryview, at: cython.longlong, end: cython.longlong) -> cython.longlong:
        """Return the position after the stream and topic at the start of a request; 0 if they are incomplete."""
        p: cython.p_const_uchar = c.readable(view)
        _: cython.int
        for _ in range(2):
            if end - at < 2:
                return 0
            at += 2 + p[at + 1]
        return at

    def _find_end(self, route: SendRoute, partition: cython.longlong) -> PartitionEnd | None:
        """Return the PartitionEnd of a partition, or None for the general path."""
        if route.topic is None or partition < 1 or partition > route.partitions:
            return None
        if partition != route.partition:
            route.end = route.ends.get(partition)
            if route.end is None:
                route.end = route.ends[partition] = self._log.partition(route.topic, partition).end
            route.partition = partition
        return route.end

    def _send(self, view: memoryview, at: cython.longlong, end: cython.longlong) -> bytes | None:
        """Append the messages of a send; stream | topic | kind u8 | length u8 | value | messages."""
        p: cython.p_const_uchar = c.readable(view)
        named: cython.longlong = self._find_name_end(view, at, end)
        if not named or end - named < 2:
            return None
        kind: cython.longlong = p[named]
        value: cython.longlong = named + 2
        messages: cython.longlong = value + p[named + 1]
        if messages >= end or self._has_traces(view, messages, end):
            return None
        found = self._sends.find(view, at, named)
        if found is None:
            found = self._sends.add(SendRoute(bytes(view[at:named]), self._find_sent(SendMessages, bytes(view[at:end]))))
        route: SendRoute = found
        topic = route.topic
        if topic is None:
            return None
        partition: cython.longlong
        if kind == PARTITION_ID and messages - value == 4:
            partition = c.load32(p, value)
        elif kind == BALANCED and messages == value:
            partition = self._server.balance.peek(topic)
        elif kind == MESSAGES_KEY and messages > value and route.partitions > 0:
            partition = partition_of(bytes(view[value:messages]), route.partitions)
        else:
            return None
        place: PartitionEnd | None = self._find_end(route, partition)
        time_us: cython.longlong = self._clock_us()
        if place is None or self._catalog.known is not self._topics or place.append(view, messages, end, time_us) < 0:
            return None
        if kind == BALANCED:
            self._server.balance.next(topic)
        if place.directory in self._registered:
            self._log.waiting.notify(place.directory)
        return _DONE

    def _find_sent(self, kind: type[SendMessages | AppendNumbered], payload: bytes) -> FoundTopic | None:
        """Return the topic of a send, or None for the general path."""
        server, session = self._server, self._session
        try:
            command = kind.decode(payload)
            place = server.lookup.topic(command.stream, command.topic)
            server.rights(session).send(place.stream.id, place.topic.id)
            check_readable(session, place.topic)
        except HeadstreamError:
            return None
        inspects = place.topic.options.inspects_messages
        return place if not inspects and place.topic.fsync is not Fsync.ALWAYS else None

    # -- polls ----------------------------------------------------------------------------------------------

    def _poll(self, view: memoryview, at: cython.longlong, end: cython.longlong) -> bytearray | None:
        """Answer a poll with cached messages; consumer | stream | topic | partition u32 | strategy u8 | value u64 | ..."""
        p: cython.p_const_uchar = c.readable(view)
        numbers: cython.longlong = end - layout.POLL_BYTES
        if numbers - at < 4 or p[numbers] != OFFSET or p[end - 1] == 1:
            return None
        count: cython.longlong = c.load32(p, numbers + layout.POLL_COUNT)
        found = self._polls.find(view, at, numbers)
        if found is None:
            found = self._polls.add(PollRoute(bytes(view[at:numbers]), *self._find_polled(bytes(view[at:end]))))
        route: PollRoute = found
        response = self._take(route, c.load64(p, numbers + layout.POLL_VALUE), count)
        if response is None:
            return None
        q: cython.p_uchar = c.writable(response)
        c.store32(q, 0, 0)
        c.store32(q, layout.FRAME_CODE, len(response) - layout.FRAME_BODY)
        c.store32(q, layout.FRAME_BODY, route.partition)
        c.store64(q, layout.FRAME_BODY + layout.POLLED_NEWEST, self._newest - 1)
        c.store32(q, layout.FRAME_BODY + layout.POLLED_COUNT, count)
        return response

    def _take(self, route: PollRoute, offset: cython.longlong, count: cython.longlong) -> bytearray | None:
        """Return `count` messages after HEAD_BYTES of space, and record the next offset; None for the general path."""
        topic = route.topic
        if topic is None:
            return None
        locked = self._log.reading(topic, route.partition) if route.locked is None else route.locked
        route.locked = None
        if not locked.try_enter():
            return None
        try:
            response = self._read(route, topic, locked, offset, count)
            if route.end is None:
                route.end = self._log.writing_end(topic, route.partition)
            known: PartitionEnd | None = route.end
            self._newest = locked.follower.end_offset if known is None or not known.end_offset else known.end_offset
        finally:
            locked.leave()
        if response is not None:
            route.locked = locked
        return response

    def _read(
        self, route: PollRoute, topic: TopicRecord, locked: LockedFollower, offset: cython.longlong, count: cython.longlong
    ) -> bytearray | None:
        """Return `count` messages after HEAD_BYTES of space for the response's head, if all are cached and available, else None.

        After a change of the catalog, the general path must renew the follower (log/states.py) before the fast path uses it.
        """
        transactions: cython.longlong = self._catalog.transactions
        if locked.follower.states_changes != transactions:
            return None
        ahead: ReadAhead = locked.follower.read_ahead
        chunk = ahead.take_cached(offset, count, _MAX_RESPONSE_BYTES, HEAD_BYTES)
        if (
            chunk is None and 1 <= count <= _MAX_READ_MESSAGES and self._log.reading(topic, route.partition) is locked
        ):  # not closed
            chunk = _read_messages(locked.follower, offset, offset + count)
        if route.transactions != transactions:
            route.transactions = transactions
            route.is_available = self._log.states.next_exception(topic, route.partition) is None
        if route.is_available and self._catalog.transactions == transactions:
            return chunk
        ahead.forget()
        return None

    def _find_polled(self, payload: bytes) -> tuple[FoundTopic | None, int]:
        """Return topic and partition of a poll; the topic is None for the general path."""
        server, session = self._server, self._session
        try:
            command = PollMessages.decode(payload)
            if PollMessages.count_surplus(payload):  # _poll() reads the numbers at the end
                return None, 0
            place = server.lookup.topic(command.stream, command.topic)
            server.rights(session).poll(place.stream.id, place.topic.id)
            check_readable(session, place.topic)
            partition = check_partition(place, command.partition or 1)
        except HeadstreamError:
            return None, 0
        return (place if command.consumer.kind == ConsumerKind.CONSUMER else None), partition


def _read_messages(follower: PartitionFollower, offset: int, until: int) -> bytearray | None:
    """Return all messages between two offsets, like ReadAhead.take_cached(), if they are small and complete, else None."""
    if offset < follower.first_offset or until > follower.end_offset or follower.may_miss(offset):
        return None
    pieces: list[BytesLike] = [bytes(HEAD_BYTES)]
    left_bytes = _MAX_READ_BYTES
    while offset < until and left_bytes > 0:
        chunk, offset = follower.read_ahead.read_chunk(follower, offset, until, left_bytes)
        pieces.append(chunk)
        left_bytes -= len(chunk)
    return bytearray().join(pieces) if offset == until and left_bytes >= 0 else None
