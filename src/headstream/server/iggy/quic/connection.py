"""QuicClient: one client over QUIC, from datagrams to responses; runs in the event loop.

    one bidirectional stream per request: the request as over TCP, end of stream -> the response as over TCP, end of stream

Requests are answered in sequence, waits in parallel. A client uses memory for its window, its pending requests and its
unacknowledged responses, within the memory budget.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import Final, Protocol

from aioquic.quic import events

from headstream.broker.commands.dispatch import Dispatcher
from headstream.broker.commands.requests import READS, WAITS, is_slow
from headstream.core.codec.buffer import BytesLike
from headstream.core.wire.commands.system import TransportKind
from headstream.core.wire.frames import response_head
from headstream.core.wire.statuses import Status
from headstream.errors import HeadstreamError
from headstream.server.config.tcp_settings import ConnectionLimits
from headstream.server.iggy.fast_path.traffic import Traffic
from headstream.server.iggy.quic.flow import BoundedQuicConnection
from headstream.server.iggy.requests.pending_wait import PendingWait
from headstream.server.iggy.requests.responder import Responder, Response
from headstream.server.network.acceptor import HANDSHAKE_S
from headstream.server.network.addresses import Address
from headstream.server.resources.loop_rounds import max_poll_bytes
from headstream.server.resources.memory_budget import UNAUTHENTICATED_BYTES, MemoryBudget
from headstream.server.resources.workers import Workers

USER_WINDOW_BYTES: Final = 512 << 10
"""Receive window of a logged-in client."""

_HEAD_BYTES: Final = 8
_MOST_WAITS: Final = 64
"""Maximum number of waits per connection; an additional wait is answered as if it had timed out."""


class SharedQuic(Protocol):
    """The state that all QUIC clients of a server share."""

    dispatcher: Dispatcher
    limits: ConnectionLimits
    budget: MemoryBudget
    traffic: Traffic
    workers: Workers

    def send(self, datagram: bytes, address: tuple[str, int]) -> None:
        """Send a datagram; a datagram that the system rejects is lost, as on the network."""

    def named(self, client: QuicClient, connection_id: bytes) -> None:
        """Register an additional connection id of a client."""

    def unnamed(self, connection_id: bytes) -> None:
        """Unregister a connection id."""

    def left(self, client: QuicClient) -> None:
        """Unregister a closed connection."""


class QuicClient:
    """One client over QUIC."""

    def __init__(
        self, shared: SharedQuic, connection: BoundedQuicConnection, address: tuple[str, int], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._shared = shared
        self._connection = connection
        self._loop = loop
        self._address = str(Address(*address[:2]))
        self._began_s = self._known_s = loop.time()
        self._responder: Responder | None = None
        self._memory = shared.budget.open(address[0])
        self._is_unauthenticated = True
        self._partial: dict[int, bytearray] = {}
        self._partial_s: dict[int, float] = {}
        self._whole: deque[tuple[int, bytearray]] = deque()
        self._waits: dict[int, PendingWait] = {}
        self.is_busy = False
        self._is_lost = False
        self._stalled_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_s: float | None = None
        self._memory.hold_requests(connection.window_bytes)

    @property
    def is_half_open(self) -> bool:
        """Whether the client's handshake is pending."""
        return self._responder is None

    @property
    def is_logged_in(self) -> bool:
        """Whether a user has logged in."""
        return self._responder is not None and bool(self._responder.session.user_id)

    @property
    def connection_id(self) -> bytes:
        """The connection id that the server has chosen."""
        return self._connection.host_cid

    # -- called by the server -------------------------------------------------------------------------------

    def receive(self, datagram: bytes, address: tuple[str, int]) -> None:
        """Process a datagram of this connection."""
        self._connection.receive_datagram(datagram, address, now=self._loop.time())
        self._work()

    def check(self, now_s: float) -> None:
        """Close the connection if the handshake, the login, a request or its responses took too long."""
        why = self._find_fault(now_s)
        if why is not None:
            if self._responder is not None:
                self._responder.note(logging.WARNING, f"closed: {why}")
            self.close(why)

    def close(self, why: str = "") -> None:
        """Close the connection; responses of running requests are dropped."""
        self._connection.close(reason_phrase=why)
        self._transmit()
        self._end()

    def _find_fault(self, now_s: float) -> str | None:
        limits, is_tight = self._shared.limits, self._shared.budget.is_tight
        if self._responder is None:
            return "handshake timed out" if now_s - self._began_s > HANDSHAKE_S else None
        if self._responder.session.is_ended:
            return "the session has ended"
        if self._responder.session.user_id or self.is_busy:
            self._known_s = now_s
        elif now_s - self._known_s > limits.login_s:
            return "login timed out"
        for stream, began_s in self._partial_s.items():
            limit_s = limits.frame_s + len(self._partial[stream]) / limits.bytes_a_second
            if now_s - began_s > (HANDSHAKE_S if is_tight else limit_s):
                return "receiving a request timed out"
        if self._stalled_s is not None and now_s - self._stalled_s > (HANDSHAKE_S if is_tight else limits.stall_s):
            return "sending responses timed out"
        if self._memory.has_waited_too_long(now_s):
            self._refuse_for_memory()
        return None

    # -- the protocol ---------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Process QUIC events, answer complete requests, and send datagrams."""
        self._take_events()
        if not self._is_lost:
            self._go_on()
            self._transmit()

    def _take_events(self) -> None:
        event = self._connection.next_event()
        while event is not None:
            if isinstance(event, events.StreamDataReceived):
                self._take(event.stream_id, event.data, is_end=event.end_stream)
            elif isinstance(event, events.StreamReset):
                self._forget(event.stream_id)
            elif isinstance(event, events.HandshakeCompleted):
                session = self._shared.dispatcher.sessions.open(self._address, TransportKind.QUIC)
                self._responder = Responder(self._shared.dispatcher, session)
                self._known_s = self._loop.time()
            elif isinstance(event, events.ConnectionIdIssued):
                self._shared.named(self, event.connection_id)
            elif isinstance(event, events.ConnectionIdRetired):
                self._shared.unnamed(event.connection_id)
            elif isinstance(event, events.ConnectionTerminated):
                self._end()
                return
            event = self._connection.next_event()

    def _transmit(self) -> None:
        now_s = self._loop.time()
        for datagram, address in self._connection.datagrams_to_send(now=now_s):
            self._shared.traffic.sent_bytes += len(datagram)
            self._shared.send(datagram, address)
        unsent = self._connection.unsent_bytes
        self._memory.note_responses(unsent)
        if unsent <= self._shared.limits.unsent_bytes:
            self._stalled_s = None
        elif self._stalled_s is None:
            self._stalled_s = now_s
        at_s = self._connection.get_timer()
        if self._timer is not None and self._timer_s != at_s:
            self._timer.cancel()
            self._timer = None
        if self._timer is None and at_s is not None:
            self._timer = self._loop.call_at(at_s, self._on_timer)
        self._timer_s = at_s

    def _on_timer(self) -> None:
        self._timer = None
        self._connection.handle_timer(now=max(self._timer_s or 0.0, self._loop.time()))
        self._work()

    # -- requests -------------------------------------------------------------------------------------------

    def _take(self, stream: int, data: bytes, *, is_end: bool) -> None:
        """Append received bytes to a request."""
        if self._responder is None or stream % 4 or (stream not in self._partial and not data and not is_end):
            return
        request = self._partial.get(stream)
        if request is None:
            request = self._partial[stream] = bytearray()
            self._partial_s[stream] = self._loop.time()
        request += data
        most_bytes = UNAUTHENTICATED_BYTES if self._is_unauthenticated else self._shared.limits.frame_bytes
        if len(request) > most_bytes:
            self._forget(stream)
            self._connection.stop_stream(stream, 0)
            self._send_status(stream, Status.UNAUTHENTICATED if self._is_unauthenticated else Status.INVALID_COMMAND)
            return
        if is_end:
            self._forget(stream)
            self._whole.append((stream, request))
        self._hold()

    def _forget(self, stream: int) -> None:
        self._partial.pop(stream, None)
        self._partial_s.pop(stream, None)

    def _hold(self) -> None:
        """Reserve memory for the received bytes; if the budget is used up, pause the client until memory is freed."""
        held = sum(map(len, self._partial.values())) + sum(len(request) for _, request in self._whole)
        if self._memory.hold_requests(self._connection.window_bytes + held):
            self._memory.end_wait()
            self._connection.is_paused = False
        else:
            self._connection.is_paused = True
            self._memory.wait(self._loop.time(), self._try_again)

    def _try_again(self) -> None:
        self._memory.end_wait()
        self._hold()
        self._work()

    def _refuse_for_memory(self) -> None:
        assert self._responder is not None
        streams = [*self._partial, *(stream for stream, _ in self._whole)]
        self._partial.clear()
        self._partial_s.clear()
        self._whole.clear()
        for stream in streams:
            with suppress(ValueError, RuntimeError):  # the stream has ended
                self._connection.stop_stream(stream, 0)
            self._respond(stream, 0, perf_counter(), *self._responder.refuse(0, self._shared.budget.busy()))
        self._hold()
        self._transmit()

    def _go_on(self) -> None:
        """Answer the complete requests in order until all are answered or a worker handles a request."""
        responder, shared = self._responder, self._shared
        while responder is not None and self._whole and not (self.is_busy or self._is_lost or responder.session.is_ended):
            stream, request = self._whole[0]
            if len(request) < _HEAD_BYTES:
                self._whole.popleft()
                self._connection.reset_stream(stream, 0)
                continue
            code = int.from_bytes(request[4:8], "little")
            if self._stalled_s is not None:
                return  # until the client reads its responses
            if code in READS:
                responder.session.poll_bytes = max_poll_bytes(self._memory, is_alone=shared.traffic.connections == 1)
                if not responder.session.poll_bytes:
                    self._memory.wait(self._loop.time(), self._try_again)
                    return
            self._whole.popleft()
            shared.traffic.received_bytes += len(request)
            payload = memoryview(request)[_HEAD_BYTES:]
            if code in WAITS and self._begin_wait(stream, code, payload):
                continue
            if is_slow(shared.dispatcher, responder.session, code, payload):
                self.is_busy = True
                future = shared.workers.submit(code, partial(responder.find, code, payload), responder.session.client)
                future.add_done_callback(partial(self._call_loop, partial(self._finish, stream, code, perf_counter())))
                return
            began_s = perf_counter()
            self._respond(stream, code, began_s, *responder.find(code, payload))
        if responder is not None and not self._memory.is_waiting:
            self._hold()

    def _finish(self, stream: int, code: int, began_s: float, future: Future[Response]) -> None:
        self.is_busy = False
        if self._is_lost:
            self._close_session()
            return
        if future.cancelled():
            self.close()
            return
        assert self._responder is not None
        self._respond(stream, code, began_s, *self._responder.finished(code, future))
        self._recognize()
        self._work()

    def _recognize(self) -> None:
        """Apply the limits for authenticated users after a login."""
        assert self._responder is not None
        if self._is_unauthenticated and self._responder.session.user_id:
            self._is_unauthenticated = False
            self._memory.log_in(self._responder.session.user_id)
            self._connection.window_bytes = USER_WINDOW_BYTES

    def _respond(self, stream: int, code: int, began_s: float, status: int, pieces: list[BytesLike]) -> None:
        self._shared.traffic.answered(code, status, perf_counter() - began_s)
        with suppress(AssertionError, ValueError, RuntimeError):  # the client has ended the stream
            self._connection.send_stream_data(stream, b"".join(pieces), end_stream=True)

    def _send_status(self, stream: int, status: int) -> None:
        self._respond(stream, 0, perf_counter(), status, [response_head(status, 0)])

    def _call_loop(self, function: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: the server has stopped
            self._loop.call_soon_threadsafe(function, *arguments)

    # -- waits ----------------------------------------------------------------------------------------------

    def _begin_wait(self, stream: int, code: int, payload: memoryview) -> bool:
        """Start a wait; return False if the request is answered immediately."""
        if self._responder is None or len(self._waits) >= _MOST_WAITS:
            return False
        on_ready, end = partial(self._call_loop, partial(self._answer_wait, stream)), partial(self._end_wait, stream)
        responder = self._responder
        wait = PendingWait.begin(
            self._shared.dispatcher, responder.session, code, payload, responder.encoding, self._loop, on_ready, end
        )
        if wait is None:
            return False
        self._waits[stream] = wait
        return True

    def _answer_wait(self, stream: int) -> None:
        wait = self._waits.get(stream)
        if wait is not None and wait.is_over:
            self._end_wait(stream, wait.answer)

    def _end_wait(self, stream: int, answer: Response | None = None) -> None:
        """Answer a wait that has messages or has timed out, after the running request."""
        wait = self._waits.pop(stream, None)
        if wait is None or self._responder is None or self._is_lost:
            return
        wait.cancel()
        if self.is_busy and answer is None:  # a session runs one request at a time
            self._loop.call_later(0.01, self._retry_wait, stream, wait)
            return
        self._respond(stream, wait.code, wait.began_s, *(answer or self._responder.find(wait.code, wait.payload)))
        self._work()

    def _retry_wait(self, stream: int, wait: PendingWait) -> None:
        self._waits[stream] = wait
        self._end_wait(stream)

    # -- the end --------------------------------------------------------------------------------------------

    def _end(self) -> None:
        """Release all resources; the session is released when no worker uses it."""
        if self._is_lost:
            return
        self._is_lost = True
        if self._timer is not None:
            self._timer.cancel()
        for wait in self._waits.values():
            wait.cancel()
        self._waits.clear()
        self._whole.clear()
        self._partial.clear()
        self._partial_s.clear()
        self._memory.close()
        self._shared.left(self)
        if not self.is_busy:
            self._close_session()

    def _close_session(self) -> None:
        if self._responder is not None:
            with suppress(HeadstreamError):
                self._responder.close()
