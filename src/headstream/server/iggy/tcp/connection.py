"""TcpServerConnection: one client over TCP, from received bytes to responses.

    bytes -> the scratch buffer of all connections -> SmallRequests -> one write for the responses of one read
          -> through the Intake instead of the transport, while a client sends only small requests -> SmallRequests
          -> FrameBuffer, for other requests -> frames in order -> answer_request -> pieces -> one write
                                      slow requests on a worker thread, long polls without a thread; later frames wait

A connection that starts with 4 zeros uses Iggy's protocol 0.11: the same path with VsrRequests and a VsrResponder.

Reading pauses while a request waits or runs on a worker, and while the client does not read its responses. One client therefore
holds at most one frame, one response and a full write buffer, within the shared memory budget.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import Protocol, cast

from headstream.broker.accounts.sessions import Session
from headstream.broker.commands.dispatch import Dispatcher
from headstream.broker.commands.requests import READS, is_slow
from headstream.core.codec.buffer import BytesLike
from headstream.core.wire.frames import Frame, FrameBuffer, FrameBufferPool
from headstream.core.wire.statuses import Status
from headstream.server.config.tcp_settings import ConnectionLimits
from headstream.server.iggy.fast_path.intake import Intake
from headstream.server.iggy.fast_path.small_requests import SmallRequests
from headstream.server.iggy.fast_path.traffic import Traffic
from headstream.server.iggy.fast_path.vsr_requests import VsrRequests
from headstream.server.iggy.requests.pending_wait import PendingWait
from headstream.server.iggy.requests.responder import Responder, Response
from headstream.server.iggy.requests.vsr_responder import VsrResponder
from headstream.server.iggy.tcp.reader_switch import ROUND_BYTES, ReaderSwitch
from headstream.server.iggy.tcp.timeouts import ConnectionTimeouts
from headstream.server.network.addresses import Address
from headstream.server.network.admission import UnauthenticatedQuota
from headstream.server.network.sockets import write_pieces
from headstream.server.resources.loop_rounds import FRAMES_PER_ROUND, ConnectionPolls, LoopRounds
from headstream.server.resources.memory_budget import UNAUTHENTICATED_BYTES, MemoryAccount, MemoryBudget
from headstream.server.resources.wakeups import Wakeups
from headstream.server.resources.workers import Workers


class SharedTcp(Protocol):
    """The state that the connections of one server share."""

    dispatcher: Dispatcher
    limits: ConnectionLimits
    budget: MemoryBudget
    pool: FrameBufferPool
    scratch: memoryview
    has_fast_path: bool
    intake: Intake | None
    traffic: Traffic
    rounds: LoopRounds
    quota: UnauthenticatedQuota
    wakeups: Wakeups
    workers: Workers

    def joined(self, connection: TcpServerConnection) -> bool:
        """Register a new connection; return False if the connection limit is reached."""

    def left(self, connection: TcpServerConnection) -> None:
        """Unregister a closed connection that has no running request."""

    def adapt_polls(self) -> None:
        """Lower the poll size limit according to the size of unread responses."""


class TcpServerConnection(asyncio.BufferedProtocol):
    """One client over TCP."""

    def __init__(self, shared: SharedTcp, loop: asyncio.AbstractEventLoop) -> None:
        self._shared = shared
        self._loop = loop
        self._frames = FrameBuffer.for_requests(
            shared.pool, min(UNAUTHENTICATED_BYTES, shared.limits.frame_bytes), finds_vsr=True
        )
        self._is_unauthenticated = True
        self._todo: list[Frame] = []
        self._at = 0
        self._transport: asyncio.Transport
        self._switch: ReaderSwitch
        self._responder: Responder
        self._fast_path: SmallRequests
        self._is_in_scratch = False
        self._wait: PendingWait | None = None
        self.is_busy = False
        self._is_full = False
        self._is_lost = self._is_leaving = False
        self._timeouts = ConnectionTimeouts(shared.limits, loop.time())
        self._memory: MemoryAccount

    # -- called by the transport ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open a session, or abort the connection if the limit is reached."""
        self._transport = cast(asyncio.Transport, transport)
        if not self._shared.joined(self):
            self._is_lost = True
            self._transport.abort()
            return
        limit = self._shared.limits.unsent_bytes
        self._transport.set_write_buffer_limits(high=limit, low=limit // 4)
        dispatcher, peer = self._shared.dispatcher, transport.get_extra_info("peername")
        session = dispatcher.sessions.open(str(Address(*peer[:2])) if peer else "unknown:0")
        local = transport.get_extra_info("sockname")
        if local:
            session.server_address = str(Address(*local[:2]))
        self._memory = self._shared.budget.open(session.client)
        self._polls = ConnectionPolls(self._shared.rounds, self._memory)
        self._responder = Responder(dispatcher, session)
        self._fast_path = SmallRequests(dispatcher, session, self._shared.traffic)
        self._switch = ReaderSwitch(self._transport, self._fast_path, self._shared.intake)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next bytes: the shared scratch buffer unless a request is partially received or pending."""
        self._is_in_scratch = self._shared.has_fast_path and not self._frames.pending_bytes and not self._todo
        return self._shared.scratch if self._is_in_scratch else self._frames.writable()[:ROUND_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        """Answer the complete requests, then the waits that these requests end."""
        self._answer_all(nbytes)
        self._shared.wakeups.run()

    def _answer_all(self, nbytes: int) -> None:
        self._shared.traffic.received_bytes += nbytes
        self._switch.read_bytes += nbytes
        self._recognize()
        if self._is_in_scratch:
            at = self._answer_short(nbytes)
            self._switch.note(self, is_short=at == nbytes)
            if at == nbytes:
                return
            nbytes = self._frames.copy_in(self._shared.scratch[at:nbytes])
        self._received(nbytes)

    def _recognize(self) -> None:
        """Apply the limits for authenticated users after a login, even if the client has logged out again."""
        if self._is_unauthenticated and self._responder.session.last_user_id:
            self._is_unauthenticated = False
            self._memory.log_in(self._responder.session.last_user_id)
            self._frames.set_max_bytes(self._shared.limits.frame_bytes)

    def take(self, received: memoryview) -> None:
        """Handle bytes that the intake has read and cannot answer; empty at the end of the stream."""
        if received:
            self._received(self._frames.copy_in(received))
        else:
            self._switch.go_on_alone()

    def respond(self, response: memoryview) -> None:
        """Write the part of a response that the socket has not accepted from the intake."""
        if not self._transport.is_closing():
            self._transport.write(bytes(response))

    def _received(self, nbytes: int) -> None:
        """Answer the frames that are complete after `nbytes` more bytes."""
        frames = self._frames.received(nbytes)
        if self._frames.is_vsr and not isinstance(self._responder, VsrResponder):
            self._change_protocol()
        if not frames:
            self._continue()
            return
        self._todo, self._at = frames, 0
        if self._wait is not None:  # a further request ends the wait
            self._end_wait()
        else:
            self._go_on()

    def _change_protocol(self) -> None:
        """Switch to Iggy's protocol 0.11, because the connection started with a frame of this protocol."""
        shared, session = self._shared, self._responder.session
        responder = self._responder = VsrResponder(shared.dispatcher, session, shared.limits.hold_s)
        self._fast_path = self._switch.short = VsrRequests(shared.dispatcher, session, shared.traffic, responder)

    def _answer_short(self, count: int) -> int:
        """Answer small requests in the scratch buffer; return the position of the remaining bytes."""
        is_held = self.is_busy or self._is_full or self._memory.is_waiting
        if self._is_unauthenticated or self._wait is not None or self._is_leaving or is_held:
            return 0
        at, response = self._fast_path.answer(self._shared.scratch, count)
        if response:
            self._write([response], len(response))
        return at

    def pause_writing(self) -> None:
        """Stop answering, because the client does not read its responses."""
        self._is_full = True
        unsent = self._transport.get_write_buffer_size()
        self._timeouts.begin_stall(self._loop.time(), unsent)
        self._note_unsent(unsent)
        self._switch.pause()

    def resume_writing(self) -> None:
        """Continue answering."""
        self._is_full = False
        self._note_unsent(0)
        if not self.is_busy:
            self._go_on()

    def eof_received(self) -> bool:
        """Allow the transport to close, because a client that has ended its stream has disconnected."""
        if not self._todo:  # frees the buffer now, a round before the transport closes: thousands can disconnect at once
            self._frames.done()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the session as soon as no worker uses it."""
        if self._is_lost:
            return
        self._is_lost = True
        self._switch.end()
        self._memory.close()
        if self._frames.pending_bytes:
            self._responder.note(logging.INFO, "client disconnected in the middle of a request", bytes=self._frames.pending_bytes)
        self._forget_wait()
        if not self.is_busy:
            self._end()

    # -- called by the server -------------------------------------------------------------------------------

    @property
    def is_logged_in(self) -> bool:
        """Whether a user is logged in."""
        return bool(self._responder.session.user_id)

    def leave(self) -> None:
        """Close after the received requests are answered, including a partially received request; end a wait immediately."""
        self._is_leaving = True
        if self._wait is not None:
            self._end_wait()
        elif not self.is_busy:
            self._continue()

    def abort(self) -> None:
        """Close immediately."""
        self._switch.abort()

    def check(self, now_s: float) -> None:
        """Close the connection if a request, its responses, the login or a wait for memory took too long."""
        responder, transport = self._responder, self._transport
        pending = None if self._switch.is_paused else self._frames.pending_bytes
        unsent = transport.get_write_buffer_size() if self._is_full or transport.is_closing() else None
        if self._memory.has_waited_too_long(now_s):
            self._close_with(*responder.refuse(0, self._shared.budget.busy()), "no memory", bytes=self._frames.needed_bytes)
            return
        is_known = self.is_busy or responder.session.user_id != 0
        fault = self._timeouts.find_fault(now_s, pending, unsent, is_known=is_known, is_tight=self._shared.budget.is_tight)
        if fault is not None:
            responder.note(logging.WARNING, f"closed: {fault[0]}", **fault[1])
            self.abort()

    # -- one frame after the other --------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Answer frames until all are answered, a frame needs a worker or must wait, or the round ends; write the responses."""
        responder = self._responder
        if self._is_lost or self.is_busy or self._is_full or self._memory.is_waiting:
            return
        todo, pieces, size = self._todo, list[BytesLike](), 0
        wanted = min(len(todo) - self._at, FRAMES_PER_ROUND)
        until = self._at + (self._shared.quota.take(wanted) if self._is_unauthenticated else wanted)
        limit, is_alone = self._shared.limits.unsent_bytes, self._shared.traffic.connections == 1
        while self._at < until and size < limit:
            code, payload = todo[self._at]
            if code in READS and not self._polls.begin(responder.session, is_alone=is_alone):
                if not self._memory.poll_bytes:
                    self._wait_for_memory()
                break
            self._at += 1
            if responder.may_wait(code, payload) and self._begin_wait(responder.session, code, payload):
                break
            if is_slow(self._shared.dispatcher, responder.session, code, payload, responder.encoding, is_alone=is_alone):
                self.is_busy = True
                break
            found = self._answer(responder, code, payload)
            pieces += found
            size += sum(map(len, found))
            if responder.session.is_ended:
                break
        if pieces:
            self._write(pieces, size)
        if self.is_busy:
            self._switch.pause()
            self._hand_over(responder, code, payload)
        else:
            self._continue()

    def _answer(self, responder: Responder, code: int, payload: memoryview) -> list[BytesLike]:
        """Return the response to a request, and count the request."""
        began_s = perf_counter()
        status, pieces = responder.find(code, payload)
        self._shared.traffic.answered(code, status, perf_counter() - began_s)
        if code in READS:
            self._polls.end(sum(map(len, pieces)))
        return pieces

    def _write(self, pieces: list[BytesLike], size: int) -> None:
        self._shared.traffic.sent_bytes += size
        if self._transport.is_closing():
            return
        write_pieces(self._transport, pieces, size, is_joined=self._shared.budget.is_in_use)

    def _note_unsent(self, count_bytes: int) -> None:
        self._memory.note_responses(count_bytes)
        self._shared.adapt_polls()

    def _wait_for_memory(self) -> None:
        """Pause reading and answering until memory is freed; check() refuses a request that has waited too long."""
        self._switch.pause()
        self._memory.wait(self._loop.time(), self._try_again)

    def _try_again(self) -> None:
        """Continue if memory is available."""
        if not (self._memory.poll_bytes if self._todo else self._memory.hold_requests(self._frames.needed_bytes)):
            self._memory.wait(self._loop.time(), self._try_again)
            return
        self._memory.end_wait()
        self._go_on()

    def _close_with(self, status: int, pieces: list[BytesLike], why: str, **fields: object) -> None:
        self._responder.note(logging.WARNING, f"closed: {why}", status=status, **fields)
        self._write(pieces, sum(map(len, pieces)))
        self._switch.close()

    def _continue(self) -> None:
        """Continue if no request is running: answer further frames, read further bytes, or close."""
        if self._is_lost or self._is_full or self.is_busy or self._memory.is_waiting or self._switch.is_over():
            return
        frames = self._frames
        if self._responder.session.is_ended:
            self._switch.close()
            return
        if self._at < len(self._todo):
            self._switch.pause()
            (self._shared.quota.later if self._is_unauthenticated else self._loop.call_soon)(self._go_on)
            return
        if self._todo:
            self._todo, self._at = [], 0
            self._timeouts.end_frame()
        frames.done()
        if frames.fault is not None:
            self._recognize()
            if frames.fault is None:
                self._received(0)
                return
            is_never_taken = (frames.fault.need or 0) > self._shared.limits.frame_bytes
            status = Status.INVALID_COMMAND if is_never_taken else Status.UNAUTHENTICATED
            self._close_with(status, self._responder.reject_unread(status), "a request is too long", reason=str(frames.fault))
        elif frames.pending_bytes:
            self._timeouts.begin_frame(self._loop.time())
            self._switch.go_on_alone()
            if not self._memory.hold_requests(frames.needed_bytes):
                self._wait_for_memory()
            elif not self._switch.yields(self._shared.rounds, self._continue) and self._switch.resume():
                self._timeouts.begin_again(self._loop.time())
        elif self._is_leaving:
            self._switch.close()
        else:
            self._memory.hold_requests(0)
            self._switch.resume()

    # -- workers and waits ----------------------------------------------------------------------------------

    def _hand_over(self, responder: Responder, code: int, payload: memoryview) -> None:
        """Answer a frame on a worker thread."""
        future = self._shared.workers.submit(code, partial(responder.find, code, payload), responder.session.client)
        future.add_done_callback(partial(self._call_loop, partial(self._finish, code, perf_counter())))

    def _call_loop(self, function: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: the server has stopped
            self._loop.call_soon_threadsafe(function, *arguments)

    def _finish(self, code: int, began_s: float, future: Future[Response]) -> None:
        self.is_busy = False
        if future.cancelled():
            self._switch.abort()
        else:
            self._respond(code, began_s, *self._responder.finished(code, future))
        if self._is_lost:
            self._end()
        elif not self._is_full:
            self._go_on()

    def _respond(self, code: int, began_s: float, status: int, pieces: list[BytesLike]) -> None:
        self._shared.traffic.answered(code, status, perf_counter() - began_s)
        if not self._is_lost:
            self._write(pieces, sum(map(len, pieces)))

    def _begin_wait(self, session: Session, code: int, payload: memoryview) -> bool:
        """Start a wait; return False if the request is answered immediately, for example because another request follows.

        The request is copied, because reading continues so that a disconnect is noticed.
        """
        if self._at < len(self._todo) or self._is_leaving:
            return False
        server, on_notify = self._shared.dispatcher, partial(self._shared.wakeups.notify, self._answer_wait)
        encoding = self._responder.encoding
        self._wait = PendingWait.begin(server, session, code, payload, encoding, self._loop, on_notify, self._end_wait)
        if self._wait is None:
            return False
        self._switch.go_on_alone()
        return True

    def _answer_wait(self) -> None:
        """Answer the wait if messages are available, or cannot become available any more."""
        if self._wait is not None and self._wait.is_over:
            self._end_wait(self._wait.answer)

    def _forget_wait(self) -> None:
        if self._wait is not None:
            self._wait.cancel()
            self._wait = None

    def _end_wait(self, answer: Response | None = None) -> None:
        """Answer a wait (messages are available, it has timed out, or the server stops), then continue."""
        waiting = self._wait
        if waiting is None:
            return
        self._forget_wait()
        self._respond(waiting.code, waiting.began_s, *(answer or self._responder.find(waiting.code, waiting.payload)))
        if not self._is_full:
            self._go_on()

    def _end(self) -> None:
        """Release all resources; no request may be running."""
        self._todo = []
        self._frames.close()
        self._responder.close()
        self._shared.left(self)
