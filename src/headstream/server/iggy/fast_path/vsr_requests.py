"""VsrRequests: as SmallRequests, for frames of Iggy's protocol 0.11 (core/wire/vsr/frames.py); compiled.

frame -> cached route of its topic -> batch as messages -> PartitionEnd.append, or cached messages -> batches -> reply
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

from headstream.broker.accounts.sessions import Session
from headstream.broker.commands.dispatch import Dispatcher
from headstream.core.codec.batch.iggy_batches import decode_batch, encode_batches
from headstream.core.codec.buffer import BytesLike
from headstream.core.model.partitioning import PartitioningKind
from headstream.core.model.polling import PollingKind
from headstream.core.wire.codes import Code
from headstream.core.wire.commands.messages import SendMessages
from headstream.core.wire.vsr.frames import HEADER_BYTES, IS_REPLY, IS_REQUEST
from headstream.core.wire.vsr.operations import READ, SEND
from headstream.errors import HeadstreamError
from headstream.log.partition.partition_end import MAX_SHORT_BYTES

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.log.partition.partition_end import PartitionEnd
    from headstream.server.iggy.fast_path.route_cache import PollRoute, SendRoute
    from headstream.server.iggy.fast_path.small_requests import SmallRequests
    from headstream.server.iggy.fast_path.traffic import Traffic
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.log.partition.partition_end import PartitionEnd
    from cython.cimports.headstream.server.iggy.fast_path.route_cache import PollRoute, SendRoute
    from cython.cimports.headstream.server.iggy.fast_path.small_requests import SmallRequests
    from cython.cimports.headstream.server.iggy.fast_path.traffic import Traffic

HEADER = cython.declare(cython.longlong, HEADER_BYTES)
REQUEST_COMMAND = cython.declare(cython.longlong, IS_REQUEST)
REPLY_COMMAND = cython.declare(cython.longlong, IS_REPLY)
READ_OPERATION = cython.declare(cython.longlong, READ)
SEND_OPERATION = cython.declare(cython.longlong, SEND)
PING_CODE = cython.declare(cython.longlong, Code.PING.value)
POLL_CODE = cython.declare(cython.longlong, Code.POLL_MESSAGES.value)
SEND_CODE = cython.declare(cython.longlong, Code.SEND_MESSAGES.value)
PARTITION = cython.declare(cython.longlong, PartitioningKind.PARTITION_ID.value)
FROM_OFFSET = cython.declare(cython.longlong, PollingKind.OFFSET.value)
SENT_BYTES = cython.declare(cython.longlong, 24)
"""The body of a reply to a send: count u32 = 1 | stream u32 | topic u32 | partition u32 | base offset u64."""
POLLED_BYTES = cython.declare(cython.longlong, 16)
"""The body of a reply to a poll before the batches: partition u32 | newest offset u64 | count u32."""
LENT_BYTES = cython.declare(cython.longlong, 24)
"""The space before the messages that SmallRequests._take() returns."""
MOST_FRAMES = cython.declare(cython.longlong, 3 * MAX_SHORT_BYTES)
"""PartitionEnd.append() refuses what frames of that size contain; they must not be decoded twice."""
MAX_RESPONSES = cython.declare(cython.longlong, 64 << 10)


class VsrRequests(SmallRequests):
    """Answers small requests of one connection; used in one thread. The responder answers the others."""

    def __init__(self, server: Dispatcher, session: Session, traffic: Traffic, responder: Any) -> None:
        SmallRequests.__init__(self, server, session, traffic)
        self._responder = responder
        self._empty_polls = responder.empty_polls
        self._number = session.client_id

    def answer(self, view: memoryview, size: cython.longlong) -> tuple[int, BytesLike]:
        """Answer requests in order, up to the first one for the general path; see SmallRequests.answer()."""
        p: cython.p_const_uchar = c.readable(view)
        at: cython.longlong = 0
        made: cython.longlong = 0
        pieces: list[BytesLike] = []
        began_s: cython.double = perf_counter()
        if not self._is_valid():
            return 0, b""
        client = memoryview(self._responder.client)
        while size - at >= HEADER and made < MAX_RESPONSES:
            length: cython.longlong = c.load32(p, at + 48)
            operation: cython.longlong = p[at + 176]
            code: cython.longlong = SEND_CODE if operation == SEND_OPERATION else c.load32(p, at + 196)
            if length < HEADER or length > size - at or p[at + 60] != REQUEST_COMMAND:
                break
            if not c.equal(p, at + 128, c.readable(client), 0, 16):
                break
            piece = self._answer_frame(view, at, at + length, operation)
            if piece is None:
                break
            pieces.append(piece)
            made += len(piece)
            at += length
            ended_s: cython.double = perf_counter()
            self._traffic.answered(code, 0, ended_s - began_s)
            began_s = ended_s
        return at, (pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def _answer_frame(
        self, view: memoryview, at: cython.longlong, end: cython.longlong, operation: cython.longlong
    ) -> BytesLike | None:
        """Return the reply to a request, or None for the general path."""
        p: cython.p_const_uchar = c.readable(view)
        if c.load64(p, at + 144) != 0 or c.load64(p, at + 152) != 0:  # a checksum of the body
            return None
        try:
            if operation == SEND_OPERATION:
                return self._send_batch(view, at, end) if c.load64_signed(p, at + 184) == self._number else None
            if operation != READ_OPERATION:
                return None
            if c.load32(p, at + 196) == POLL_CODE:
                return self._poll_batches(view, at, end)
        except HeadstreamError:  # nothing was changed; the general path raises the error again
            return None
        if c.load32(p, at + 196) == PING_CODE and end == at + HEADER:
            self._server.sessions.ping(self._session)
            return self._with_head(view, at, c.new_bytes(HEADER))
        return None

    def _with_head(self, view: memoryview, at: cython.longlong, reply: bytearray) -> bytearray:
        """Write the header of a success at the begin of a reply, and return it; see encode_reply_head()."""
        p: cython.p_const_uchar = c.readable(view)
        q: cython.p_uchar = c.writable(reply)
        request: cython.ulonglong = c.load64(p, at + 168)
        c.fill(q, 0, 0, HEADER)
        c.store32(q, 48, len(reply))
        q[60] = REPLY_COMMAND
        c.copy(q, 160, p, at + 128, 16)
        c.store64(q, 176, self._number)
        c.store64(q, 184, request if request > 0 else 1)
        c.copy(q, 192, p, at + 160, 16)  # time and request
        q[208] = p[at + 176]
        return reply

    def _send_batch(self, view: memoryview, at: cython.longlong, end: cython.longlong) -> bytearray | None:
        """Append the batch of a send: metadata_length u32 | stream | topic | partitioning (6 bytes) | count u32 | batch."""
        p: cython.p_const_uchar = c.readable(view)
        begin: cython.longlong = at + HEADER + 4
        named: cython.longlong = self._find_name_end(view, begin, end) if begin < end < begin + MOST_FRAMES else 0
        if not named or end - named < 10 or p[named] != PARTITION or p[named + 1] != 4:
            return None
        if c.load32(p, begin - 4) != named + 10 - begin:
            return None
        found = self._sends.find(view, begin, named)
        if found is None:
            found = self._sends.add(SendRoute(bytes(view[begin:named]), self._find_sent(SendMessages, bytes(view[begin:end]))))
        route: SendRoute = found
        partition: cython.longlong = c.load32(p, named + 2)
        place: PartitionEnd | None = self._find_end(route, partition + 1)
        topic = route.topic
        if place is None or topic is None:
            return None
        sent = decode_batch(view[named + 10 : end])
        if isinstance(sent, int):
            return None
        messages: memoryview = sent
        size: cython.longlong = messages.nbytes
        if self._has_traces(messages, 0, size) or self._catalog.known is not self._topics:
            return None
        offset: cython.longlong = place.append(messages, 0, size, self._clock_us())
        if offset < 0:
            return None
        if place.directory in self._registered:
            self._log.waiting.notify(place.directory)
        reply = self._with_head(view, at, c.new_bytes(HEADER + SENT_BYTES))
        q: cython.p_uchar = c.writable(reply)
        c.store32(q, HEADER, 1)
        c.store32(q, HEADER + 4, route.stream_id)
        c.store32(q, HEADER + 8, topic.id)
        c.store32(q, HEADER + 12, partition)
        c.store64(q, HEADER + 16, offset)
        return reply

    def _poll_batches(self, view: memoryview, at: cython.longlong, end: cython.longlong) -> bytearray | None:
        """Answer a poll from cached messages: consumer | stream | topic | flag u8 | partition u32 | kind u8 | value u64 | ..."""
        p: cython.p_const_uchar = c.readable(view)
        begin: cython.longlong = at + HEADER
        numbers: cython.longlong = end - 14
        if numbers - begin < 9 or p[numbers] != FROM_OFFSET or p[end - 1] == 1 or p[numbers - 5] > 1:
            return None
        count: cython.longlong = c.load32(p, numbers + 9)
        found = self._polls.find(view, begin, numbers)
        if found is None:
            partition: cython.longlong = c.load32(p, numbers - 4)
            partition = min(partition + 1, 0xFFFF_FFFF) if p[numbers - 5] else 0  # 1 is added to 64 bits
            payload = bytes(view[begin : numbers - 5]) + partition.to_bytes(4, "little") + bytes(view[numbers:end])
            found = self._polls.add(PollRoute(bytes(view[begin:numbers]), *self._find_polled(payload)))
        route: PollRoute = found
        taken = self._take(route, c.load64(p, numbers + 1), count)
        if taken is None:
            return None
        self._empty_polls.clear()
        batches = encode_batches(memoryview(taken)[LENT_BYTES:], count, route.partition - 1, HEADER + POLLED_BYTES)
        reply = self._with_head(view, at, batches)
        q: cython.p_uchar = c.writable(reply)
        c.store32(q, HEADER, route.partition - 1)
        c.store64(q, HEADER + 4, self._newest - 1)
        c.store32(q, HEADER + 12, count)
        return reply
