"""VsrRequests: like SmallRequests, for frames of Iggy's protocol 0.11 (core/wire/vsr/frames.py); compiled.

frame -> cached route of the topic -> batch as messages -> PartitionEnd.append, or cached messages -> batches -> reply
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
    from headstream.core.wire import layout
    from headstream.core.wire.vsr import frames
    from headstream.log.partition.partition_end import PartitionEnd
    from headstream.server.iggy.fast_path.route_cache import PollRoute, SendRoute
    from headstream.server.iggy.fast_path.small_requests import SmallRequests
    from headstream.server.iggy.fast_path.traffic import Traffic
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.wire import layout
    from cython.cimports.headstream.core.wire.vsr import frames
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
HEAD_BYTES = cython.declare(cython.longlong, layout.FRAME_BODY + layout.POLLED_BYTES)
"""The space before the messages that SmallRequests._take() returns."""
MOST_FRAMES = cython.declare(cython.longlong, 3 * MAX_SHORT_BYTES)
"""Maximum size of a frame; PartitionEnd.append() refuses the messages of larger frames, which are not decoded twice."""
MAX_RESPONSES = cython.declare(cython.longlong, 64 << 10)


class VsrRequests(SmallRequests):
    """Answers small requests of one connection; not thread-safe. The responder answers all other requests."""

    def __init__(self, server: Dispatcher, session: Session, traffic: Traffic, responder: Any) -> None:
        SmallRequests.__init__(self, server, session, traffic)
        self._responder = responder
        self._empty_polls = responder.empty_polls
        self._number = session.client_id

    def answer(self, view: memoryview, size: cython.longlong) -> tuple[int, BytesLike]:
        """Answer requests in order, up to the first request for the general path; see SmallRequests.answer()."""
        p: cython.p_const_uchar = c.readable(view)
        at: cython.longlong = 0
        made: cython.longlong = 0
        pieces: list[BytesLike] = []
        began_s: cython.double = perf_counter()
        if not self._is_valid():
            return 0, b""
        client = memoryview(self._responder.client)
        while size - at >= HEADER and made < MAX_RESPONSES:
            length: cython.longlong = c.load32(p, at + frames.REQUEST_SIZE)
            operation: cython.longlong = p[at + frames.REQUEST_OPERATION]
            code: cython.longlong = SEND_CODE if operation == SEND_OPERATION else c.load32(p, at + frames.REQUEST_CODE)
            if length < HEADER or length > size - at or p[at + frames.REQUEST_COMMAND] != REQUEST_COMMAND:
                break
            if not c.equal(p, at + frames.REQUEST_CLIENT, c.readable(client), 0, frames.REQUEST_CHECKSUM - frames.REQUEST_CLIENT):
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
        if (
            c.load64(p, at + frames.REQUEST_CHECKSUM) != 0 or c.load64(p, at + frames.REQUEST_CHECKSUM + layout.HIGH_HALF) != 0
        ):  # of the body
            return None
        try:
            if operation == SEND_OPERATION:
                is_bound: cython.bint = c.load64_signed(p, at + frames.REQUEST_SESSION) == self._number
                return self._send_batch(view, at, end) if is_bound else None
            if operation != READ_OPERATION:
                return None
            if c.load32(p, at + frames.REQUEST_CODE) == POLL_CODE:
                return self._poll_batches(view, at, end)
        except HeadstreamError:  # nothing was changed; the general path raises the error again
            return None
        if c.load32(p, at + frames.REQUEST_CODE) == PING_CODE and end == at + HEADER:
            self._server.sessions.ping(self._session)
            return self._with_head(view, at, c.new_bytes(HEADER))
        return None

    def _with_head(self, view: memoryview, at: cython.longlong, reply: bytearray) -> bytearray:
        """Write the success header at the start of a reply; return the reply. See encode_reply_head()."""
        p: cython.p_const_uchar = c.readable(view)
        q: cython.p_uchar = c.writable(reply)
        request: cython.ulonglong = c.load64(p, at + frames.REQUEST_NUMBER)
        c.fill(q, 0, 0, HEADER)
        c.store32(q, frames.REPLY_SIZE, len(reply))
        q[frames.REPLY_COMMAND] = REPLY_COMMAND
        c.copy(q, frames.REPLY_CLIENT, p, at + frames.REQUEST_CLIENT, frames.REQUEST_CHECKSUM - frames.REQUEST_CLIENT)
        c.store64(q, frames.REPLY_OP, self._number)
        c.store64(q, frames.REPLY_COMMIT, request if request > 0 else 1)
        c.store64(q, frames.REPLY_TIME, c.load64(p, at + frames.REQUEST_TIME))
        c.store64(q, frames.REPLY_REQUEST, request)
        q[frames.REPLY_OPERATION] = p[at + frames.REQUEST_OPERATION]
        return reply

    def _send_batch(self, view: memoryview, at: cython.longlong, end: cython.longlong) -> bytearray | None:
        """Append the batch of a send: metadata_length u32 | stream | topic | partitioning (6 bytes) | count u32 | batch."""
        p: cython.p_const_uchar = c.readable(view)
        begin: cython.longlong = at + HEADER + 4
        named: cython.longlong = self._find_name_end(view, begin, end) if begin < end < begin + MOST_FRAMES else 0
        if not named or end - named < layout.SEND_BYTES or p[named] != PARTITION or p[named + layout.SEND_LENGTH] != 4:
            return None
        if c.load32(p, begin - 4) != named + layout.SEND_BYTES - begin:
            return None
        found = self._sends.find(view, begin, named)
        if found is None:
            found = self._sends.add(SendRoute(bytes(view[begin:named]), self._find_sent(SendMessages, bytes(view[begin:end]))))
        route: SendRoute = found
        partition: cython.longlong = c.load32(p, named + layout.SEND_PARTITION)
        place: PartitionEnd | None = self._find_end(route, partition + 1)
        topic = route.topic
        if place is None or topic is None:
            return None
        sent = decode_batch(view[named + layout.SEND_BYTES : end])
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
        reply = self._with_head(view, at, c.new_bytes(HEADER + layout.SENT_BYTES))
        q: cython.p_uchar = c.writable(reply)
        c.store32(q, HEADER, 1)
        c.store32(q, HEADER + layout.SENT_STREAM, route.stream_id)
        c.store32(q, HEADER + layout.SENT_TOPIC, topic.id)
        c.store32(q, HEADER + layout.SENT_PARTITION, partition)
        c.store64(q, HEADER + layout.SENT_OFFSET, offset)
        return reply

    def _poll_batches(self, view: memoryview, at: cython.longlong, end: cython.longlong) -> bytearray | None:
        """Answer a poll with cached messages: consumer | stream | topic | flag u8 | partition u32 | kind u8 | value u64 | ..."""
        p: cython.p_const_uchar = c.readable(view)
        begin: cython.longlong = at + HEADER
        numbers: cython.longlong = end - layout.POLL_BYTES
        flag: cython.longlong = numbers - layout.POLL_NUMBERS
        if numbers - begin < 9 or p[numbers] != FROM_OFFSET or p[end - 1] == 1 or p[flag] > 1:
            return None
        count: cython.longlong = c.load32(p, numbers + layout.POLL_COUNT)
        found = self._polls.find(view, begin, numbers)
        if found is None:
            partition: cython.longlong = c.load32(p, flag + layout.POLL_PARTITION)
            partition = min(partition + 1, 0xFFFF_FFFF) if p[flag] else 0  # the sum is a 64-bit number
            payload = bytes(view[begin:flag]) + partition.to_bytes(4, "little") + bytes(view[numbers:end])
            found = self._polls.add(PollRoute(bytes(view[begin:numbers]), *self._find_polled(payload)))
        route: PollRoute = found
        taken = self._take(route, c.load64(p, numbers + layout.POLL_VALUE), count)
        if taken is None:
            return None
        self._empty_polls.clear()
        batches = encode_batches(memoryview(taken)[HEAD_BYTES:], count, route.partition - 1, HEADER + layout.POLLED_BYTES)
        reply = self._with_head(view, at, batches)
        q: cython.p_uchar = c.writable(reply)
        c.store32(q, HEADER, route.partition - 1)
        c.store64(q, HEADER + layout.POLLED_NEWEST, self._newest - 1)
        c.store32(q, HEADER + layout.POLLED_COUNT, count)
        return reply
