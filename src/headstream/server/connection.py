"""Connection: one client over TCP, from received bytes to answers.

    bytes -> the scratch buffer of all connections -> ShortRequests -> one write for all that came together
          -> by the Intake instead of the transport, while a client makes nothing but small requests -> ShortRequests
          -> FrameBuffer, for what is left -> frames, one after the other -> answer_request -> pieces -> one write
                                      slow ones on a worker's thread, a wait on none: the rest of the connection's frames wait

Nothing is read while a worker or a wait has the turn, nor while the client does not take its answers. What one client
can hold is so one frame, one answer and a full write buffer, within the memory budget of all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import Final, cast

from headstream.broker.commands.requests import READS, is_slow
from headstream.broker.commands.short_requests import ShortRequests
from headstream.broker.sessions import Session
from headstream.codec.buffer import BytesLike
from headstream.server.addresses import Address
from headstream.server.answers import Answer, Answers
from headstream.server.memory_budget import STRANGER_BYTES, MemoryAccount
from headstream.server.patience import Patience
from headstream.server.pending_wait import WAITS, PendingWait
from headstream.server.reading import Reading
from headstream.server.shared import Shared
from headstream.server.sockets import write_pieces
from headstream.wire.frames import Frame, FrameBuffer, response_head
from headstream.wire.statuses import Status

__all__ = ["Connection"]

_FRAMES_A_TURN: Final = 256
"""After so many small frames of one connection, others have their turn."""


class Connection(asyncio.BufferedProtocol):
    """One client over TCP.

    Args:
        shared: What it has in common with the others.
        loop: The event loop it lives in.
    """

    def __init__(self, shared: Shared, loop: asyncio.AbstractEventLoop) -> None:
        self._shared = shared
        self._loop = loop
        self._frames = FrameBuffer.for_requests(shared.pool, min(STRANGER_BYTES, shared.limits.frame_bytes))
        self._is_stranger = True
        self._todo: list[Frame] = []
        self._at = 0
        self._transport: asyncio.Transport
        self._reading: Reading
        self._answers: Answers
        self._short: ShortRequests
        self._is_in_scratch = False
        self._wait: PendingWait | None = None
        self._is_busy = False
        self._is_full = False
        self._is_lost = False
        self._is_leaving = False
        self._patience = Patience(shared.limits, loop.time())
        self._memory: MemoryAccount

    # -- what the transport calls ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a session, or end the connection at once where there are too many."""
        self._transport = cast(asyncio.Transport, transport)
        if not self._shared.joined(self):
            self._is_lost = True
            self._transport.abort()
            return
        limit = self._shared.limits.unsent_bytes
        self._transport.set_write_buffer_limits(high=limit, low=limit // 4)
        dispatcher, peer = self._shared.dispatcher, transport.get_extra_info("peername")
        session = dispatcher.sessions.open(str(Address(*peer[:2])) if peer else "unknown:0")
        self._memory = self._shared.budget.open(session.client)
        self._answers = Answers(dispatcher, session)
        self._short = ShortRequests(dispatcher, session, self._shared.traffic)
        self._reading = Reading(self._transport, self._short, self._shared.intake)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return where the next bytes go to: what may be answered before anything else comes needs no room of its own."""
        self._is_in_scratch = not self._frames.pending_bytes and not self._todo
        return self._shared.scratch if self._is_in_scratch else self._frames.writable()

    def buffer_updated(self, nbytes: int) -> None:
        """Answer what is whole now."""
        self._shared.traffic.received_bytes += nbytes
        self._recognize()
        if self._is_in_scratch:
            at = self._answer_short(nbytes)
            self._reading.note(self, is_short=at == nbytes)
            if at == nbytes:
                return
            nbytes = self._frames.take_in(self._shared.scratch[at:nbytes])
        self._received(nbytes)

    def _recognize(self) -> None:
        """Let a client that has logged in have what users have."""
        if self._is_stranger and self._answers.session.user_id:
            self._is_stranger = False
            self._memory.log_in(self._answers.session.user_id)
            self._frames.allow(self._shared.limits.frame_bytes)

    def take(self, received: memoryview) -> None:
        """Answer what the intake has read, and cannot answer; nothing where nothing more comes."""
        if received:
            self._received(self._frames.take_in(received))
        else:
            self._reading.go_on_alone()

    def respond(self, response: memoryview) -> None:
        """Write what the system did not take from the intake."""
        if not self._transport.is_closing():
            self._transport.write(bytes(response))

    def _received(self, nbytes: int) -> None:
        """Answer the frames that are whole by so many bytes more."""
        frames = self._frames.received(nbytes)
        if not frames:
            self._settle()
            return
        self._todo = frames
        self._at = 0
        if self._wait is not None:  # who says more does not wait any more
            self._end_wait()
        else:
            self._go_on()

    def _answer_short(self, count: int) -> int:
        """Answer what can be answered out of the scratch buffer; return where the rest begins."""
        if self._is_stranger or self._wait is not None:
            return 0
        if self._is_leaving or self._is_busy or self._is_full or self._memory.is_waiting:
            return 0
        at, response = self._short.answer(self._shared.scratch, count)
        if response:
            self._write([response], len(response))
        return at

    def pause_writing(self) -> None:
        """Stop answering: the client does not take what there is."""
        self._is_full = True
        unsent = self._transport.get_write_buffer_size()
        self._patience.begin_stall(self._loop.time(), unsent)
        self._note_unsent(unsent)
        self._reading.pause()

    def resume_writing(self) -> None:
        """Go on answering."""
        self._is_full = False
        self._note_unsent(0)
        if not self._is_busy:
            self._go_on()

    def eof_received(self) -> bool:
        """Let the transport close: a client that says no more has gone."""
        if not self._todo:  # it is closed a turn later: a crowd that leaves at once would have a buffer each until then
            self._frames.done()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """End the session, as soon as no worker is busy with it."""
        if self._is_lost:
            return
        self._is_lost = True
        self._reading.end()
        self._memory.close()
        if self._frames.pending_bytes:
            self._answers.note(logging.INFO, "client left in the middle of a request", bytes=self._frames.pending_bytes)
        self._forget_wait()
        if not self._is_busy:
            self._end()

    # -- what the server calls ------------------------------------------------------------------------------

    def leave(self) -> None:
        """Close once what has been received is answered, a request that is half there included; a wait ends now."""
        self._is_leaving = True
        if self._wait is not None:
            self._end_wait()
        elif not self._is_busy:
            self._settle()

    def abort(self) -> None:
        """Close at once."""
        self._reading.abort()

    def check(self, now_s: float) -> None:
        """Close if a request has been in coming for too long, the answers are not taken, or nobody logs in.

        Args:
            now_s: The loop's time.
        """
        answers, transport = self._answers, self._transport
        pending = None if self._reading.is_paused else self._frames.pending_bytes
        unsent = transport.get_write_buffer_size() if self._is_full or transport.is_closing() else None
        if self._memory.has_waited_too_long(now_s):
            refused = answers.refuse(0, self._shared.budget.busy())
            self._close_with(*refused, "no memory for a request", bytes=self._frames.needed_bytes)
            return
        is_known = self._is_busy or answers.session.user_id != 0
        fault = self._patience.find_fault(now_s, pending, unsent, is_known=is_known, is_tight=self._shared.budget.is_tight)
        if fault is not None:
            why, fields = fault
            self._answers.note(logging.WARNING, f"closed: {why}", **fields)
            self.abort()

    # -- one frame after the other --------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Answer frames until there is no more, or somebody else has the turn; what was answered is written at once."""
        answers = self._answers
        if self._is_lost or self._is_busy or self._is_full or self._memory.is_waiting:
            return
        todo, pieces, size = self._todo, list[BytesLike](), 0
        until = min(self._at + _FRAMES_A_TURN, len(todo))
        limit = self._shared.limits.unsent_bytes
        while self._at < until and size < limit:
            code, payload = todo[self._at]
            if code in READS and self._shared.budget.is_full:
                self._wait_for_memory()
                break
            self._at += 1
            if code in WAITS and self._begin_wait(answers.session, code, payload):
                break
            if is_slow(self._shared.dispatcher, code, payload, is_alone=self._shared.traffic.connections == 1):
                self._is_busy = True
                break
            for piece in self._answer(answers, code, payload):
                pieces.append(piece)
                size += len(piece)
            if answers.session.is_ended:
                break
        if pieces:
            self._write(pieces, size)
        if self._is_busy:
            self._reading.pause()
            self._hand_over(answers, code, payload)
        else:
            self._settle()

    def _answer(self, answers: Answers, code: int, payload: memoryview) -> list[BytesLike]:
        """Return the response to a request, and count it."""
        began_s = perf_counter()
        status, pieces = answers.find(code, payload)
        self._shared.traffic.answered(code, status, perf_counter() - began_s)
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
        """Read and answer nothing until others hold less; what waits too long is refused by check()."""
        self._reading.pause()
        self._memory.wait(self._loop.time(), self._try_again)

    def _try_again(self) -> None:
        """Go on if there is memory now."""
        if self._shared.budget.is_full if self._todo else not self._memory.hold_requests(self._frames.needed_bytes):
            self._memory.wait(self._loop.time(), self._try_again)
            return
        self._memory.end_wait()
        self._go_on()

    def _close_with(self, status: int, pieces: list[BytesLike], why: str, **fields: object) -> None:
        """Write a last response, and close."""
        self._answers.note(logging.WARNING, f"closed: {why}", status=status, **fields)
        self._write(pieces, sum(map(len, pieces)))
        self._reading.close()

    def _settle(self) -> None:
        """See what comes next, with nothing under way: more frames, more bytes, or the end."""
        if self._is_lost or self._is_full or self._is_busy or self._memory.is_waiting or self._reading.is_over():
            return
        frames = self._frames
        if self._answers.session.is_ended:
            self._reading.close()
            return
        if self._at < len(self._todo):
            self._reading.pause()
            self._loop.call_soon(self._go_on)
            return
        if self._todo:
            self._todo = []
            self._at = 0
            self._patience.end_frame()
        frames.done()
        if frames.fault is not None:
            self._recognize()
            if frames.fault is None:
                self._received(0)
                return
            is_never_taken = (frames.fault.need or 0) > self._shared.limits.frame_bytes
            status = Status.INVALID_COMMAND if is_never_taken else Status.UNAUTHENTICATED
            self._close_with(status, [response_head(status, 0)], "a request is too long", reason=str(frames.fault))
        elif frames.pending_bytes:
            self._patience.begin_frame(self._loop.time())
            self._reading.go_on_alone()
            if self._memory.hold_requests(frames.needed_bytes):
                self._resume()
            else:
                self._wait_for_memory()
        elif self._is_leaving:
            self._reading.close()
        else:
            self._memory.hold_requests(0)
            self._resume()

    def _resume(self) -> None:
        if self._reading.resume():
            self._patience.begin_again(self._loop.time())

    # -- what does not answer at once -----------------------------------------------------------------------

    def _hand_over(self, answers: Answers, code: int, payload: memoryview) -> None:
        """Have a frame answered by a worker."""
        future = self._shared.workers.submit(code, partial(answers.find, code, payload), answers.session.client)
        future.add_done_callback(partial(self._call_loop, partial(self._finish, code, perf_counter())))

    def _call_loop(self, function: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop has been closed: the server has stopped
            self._loop.call_soon_threadsafe(function, *arguments)

    def _finish(self, code: int, began_s: float, future: Future[Answer]) -> None:
        """Write what a worker has answered, and go on."""
        self._is_busy = False
        if future.cancelled():
            self._reading.abort()
        else:
            self._respond(code, began_s, *future.result())
        if self._is_lost:
            self._end()
        elif not self._is_full:
            self._go_on()

    def _respond(self, code: int, began_s: float, status: int, pieces: list[BytesLike]) -> None:
        self._shared.traffic.answered(code, status, perf_counter() - began_s)
        if not self._is_lost:
            self._write(pieces, sum(map(len, pieces)))

    def _begin_wait(self, session: Session, code: int, payload: memoryview) -> bool:
        """Begin to wait, and return whether there is something to wait for.

        Nothing is waited for with another request behind it. Reading goes on, so that a client that leaves is noticed; so the
        request is copied, and the buffer is not kept.
        """
        if self._at < len(self._todo) or self._is_leaving:
            return False
        server, on_ring = self._shared.dispatcher, partial(self._call_loop, self._look)
        self._wait = PendingWait.begin(server, session, code, payload, self._loop, on_ring, self._end_wait)
        if self._wait is None:
            return False
        self._reading.go_on_alone()
        return True

    def _look(self) -> None:
        """Answer if what is waited for has come, or cannot come any more."""
        if self._wait is not None and self._wait.is_over:
            self._end_wait(self._wait.answer)

    def _forget_wait(self) -> None:
        if self._wait is not None:
            self._wait.cancel()
            self._wait = None

    def _end_wait(self, answer: Answer | None = None) -> None:
        """Answer what has waited: something has come, its time is up, or the server leaves; and go on."""
        waiting = self._wait
        if waiting is None:
            return
        self._forget_wait()
        self._respond(waiting.code, waiting.began_s, *(answer or self._answers.find(waiting.code, waiting.payload)))
        if not self._is_full:
            self._go_on()

    # -- the end --------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """Let go of everything; nothing is under way any more."""
        self._todo = []
        self._frames.close()
        self._answers.close()
        self._shared.left(self)
