"""KafkaConnection: one client of Kafka's protocol, from received bytes to responses, one request at a time.

    bytes -> KafkaFrameBuffer -> a frame -> head, schema -> handler: in the loop, on a thread, or waiting -> pieces -> a write

While a request is answered, further requests are received until the buffer is full. Requests that were received together and need
not wait are answered with one write. A client therefore uses at most one buffer, the responses to its requests and a full write
buffer, within the memory budget of all transports.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import Any, Final, Protocol, cast

from headstream.broker.accounts.sessions import Session
from headstream.core.codec.buffer import BytesLike
from headstream.errors import DecodeError, HeadstreamError
from headstream.server.iggy.tcp.timeouts import ConnectionTimeouts
from headstream.server.kafka.apis import (
    API_VERSIONS,
    APIS,
    PRODUCE,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    UNSUPPORTED,
    Api,
    RunsOn,
    status_of,
)
from headstream.server.kafka.calls import Call, ListenerContext, SaslLogin
from headstream.server.kafka.handlers.fetch import FetchSession, open_session
from headstream.server.kafka.handlers.produce import decompressed_bytes, is_big
from headstream.server.kafka.protocol.error_codes import ProtocolError
from headstream.server.kafka.protocol.framing import KafkaFrameBuffer, RequestHead, pull_head, response_pieces, skip_tags
from headstream.server.kafka.sessions import MECHANISMS, enter_without_login, explain_login
from headstream.server.kafka.traffic import KafkaTraffic
from headstream.server.network.addresses import Address
from headstream.server.network.admission import UnauthenticatedQuota
from headstream.server.network.sockets import write_pieces
from headstream.server.reporting.logs import Recently, note
from headstream.server.resources.memory_budget import UNAUTHENTICATED_BYTES, MemoryAccount
from headstream.server.resources.workers import Workers


class SharedKafka(Protocol):
    """The state that all connections of the listener share."""

    context: ListenerContext
    workers: Workers
    traffic: KafkaTraffic
    quota: UnauthenticatedQuota
    refused_recently: Recently

    def joined(self, connection: KafkaConnection) -> bool:
        """Register a new connection; return False if the connection limit is reached."""

    def left(self, connection: KafkaConnection) -> None:
        """Unregister a closed connection."""


_FULL_BYTES: Final = 64 << 10
"""Collected responses from this size on are written even if another request is available."""


class ResponseWriter:
    """Collects responses until flush() writes them; `traffic` counts the bytes."""

    __slots__ = ("_pieces", "_size_bytes", "_traffic", "_transport")

    def __init__(self, transport: asyncio.WriteTransport, traffic: KafkaTraffic) -> None:
        self._transport = transport
        self._traffic = traffic
        self._pieces: list[BytesLike] = []
        self._size_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether the collected responses should be written."""
        return self._size_bytes >= _FULL_BYTES

    def add(self, correlation_id: int, body: Sequence[BytesLike], *, is_flexible: bool) -> None:
        """Add a response; `is_flexible`: the response's head has a section of tagged fields."""
        pieces = response_pieces(correlation_id, body, is_flexible=is_flexible)
        size_bytes = sum(map(len, pieces))
        self._traffic.sent_bytes += size_bytes
        self._size_bytes += size_bytes
        self._pieces += pieces

    def add_bytes(self, data: bytes) -> None:
        """Add the bytes of a complete response."""
        self._size_bytes += len(data)
        self._pieces.append(data)

    def flush(self) -> None:
        """Write the added responses."""
        if not self._pieces:
            return
        pieces, size_bytes = self._pieces, self._size_bytes
        self._pieces, self._size_bytes = [], 0
        if not self._transport.is_closing():
            write_pieces(self._transport, pieces, size_bytes, is_joined=False)


_BEFORE_LOGIN: Final = frozenset({API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE})
_CONTROL_BYTES: Final = 4 << 20
"""Maximum size of a request other than Produce; large assignments have several hundred KiB."""
_FREE_BYTES: Final = 64 << 10  # buffers up to this size are not counted in the memory budget
_FRAMES_TOGETHER: Final = 4
"""Requests of up to _FREE_BYTES that fit in a buffer; Kafka's producers send five without waiting for a response."""
_IDLE_S: Final = 5.0
"""Idle time after which a connection releases its buffer, seconds."""
_AGAIN_S: Final = 0.01  # interval of rechecks of a fetch that waits for more than one byte, seconds
_MANY_PARTITIONS: Final = 8  # a fetch of more partitions is read on a thread


class _NoLoginError(Exception):
    """The client has sent a request without a login."""


class _ClosedError(Exception):
    """The connection is closed without a response."""


class KafkaConnection(asyncio.BufferedProtocol):
    """One client."""

    def __init__(self, listener: SharedKafka, loop: asyncio.AbstractEventLoop) -> None:
        self._listener = listener
        self._loop = loop
        self._limits = listener.context.settings.limits
        self._frames = KafkaFrameBuffer(UNAUTHENTICATED_BYTES)
        self._came = asyncio.Event()
        self._drained = asyncio.Event()
        self._drained.set()
        self._sasl = SaslLogin()
        self._fetching: FetchSession | None = None
        self._notified = asyncio.Event()
        self._is_token_next = False
        self._timeouts = ConnectionTimeouts(self._limits, loop.time())
        self._last_request_s = loop.time()
        self._transport: asyncio.Transport
        self._here: Address
        self._responses: ResponseWriter
        self._memory: MemoryAccount
        self._session: Session
        self._task: asyncio.Task[None] | None = None
        self._is_paused = False
        self._is_holding = False
        self.is_busy = False
        self._is_leaving = False

    # -- called by the transport ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open a session, or abort the connection if the limit is reached."""
        self._transport = cast(asyncio.Transport, transport)
        if not self._listener.joined(self):
            self._transport.abort()
            return
        limit = self._limits.unsent_bytes
        self._transport.set_write_buffer_limits(high=limit, low=limit // 4)
        peer = transport.get_extra_info("peername")
        self._session = self._listener.context.dispatcher.sessions.open(str(Address(*peer[:2])) if peer else "unknown:0")
        self._memory = self._listener.context.budget.open(self._session.client)
        self._here = Address(*transport.get_extra_info("sockname")[:2])
        self._responses = ResponseWriter(self._transport, self._listener.traffic)
        if enter_without_login(self._listener.context, self._session, self._here):
            self._begin_session()
        self._task = self._loop.create_task(self._serve())

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the buffer for the next bytes."""
        return self._frames.writable()

    def buffer_updated(self, nbytes: int) -> None:
        """Pass the received bytes to the connection's task."""
        self._listener.traffic.received_bytes += nbytes
        self._frames.received(nbytes)
        self._last_request_s = self._loop.time()
        if self._frames.is_full:
            self._pause()
        self._came.set()

    def pause_writing(self) -> None:
        """Stop answering, because the client does not read its responses."""
        self._drained.clear()
        unsent = self._transport.get_write_buffer_size()
        self._timeouts.begin_stall(self._loop.time(), unsent)
        self._memory.note_responses(unsent)

    def resume_writing(self) -> None:
        """Continue answering."""
        self._memory.note_responses(0)
        self._drained.set()

    def eof_received(self) -> bool:
        """Allow the transport to close, because a client that has ended its stream has disconnected."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the session."""
        if self._task is not None:
            self._task.cancel()

    # -- called by the listener -----------------------------------------------------------------------------

    @property
    def is_logged_in(self) -> bool:
        """Whether a user has logged in."""
        return bool(self._session.user_id)

    def leave(self) -> None:
        """Close after the running request is answered."""
        self._is_leaving = True
        if not self.is_busy:
            self._transport.close()

    def abort(self) -> None:
        """Close immediately."""
        self._transport.abort()

    def check(self, now_s: float) -> None:
        """Close the connection if a request, its responses or the login took too long."""
        pending = self._frames.pending_bytes
        if (
            not pending
            and not self.is_busy
            and now_s - self._last_request_s > _IDLE_S
            and self._frames.capacity_bytes > _FREE_BYTES
        ):
            self._frames.resize(0)
            self._memory.hold_requests(0)
        is_full = not self._drained.is_set() or self._transport.is_closing()
        unsent = self._transport.get_write_buffer_size() if is_full else None
        is_reading = pending > 0 and not self.is_busy and not self._is_paused
        fault = self._timeouts.find_fault(
            now_s,
            pending if is_reading else None,
            unsent,
            is_known=self.is_busy or self._session.user_id != 0,
            is_tight=self._listener.context.budget.is_tight,
        )
        if fault is not None:
            self._note(logging.WARNING, f"closed: {fault[0]}", **fault[1])
            self.abort()

    # -- one request after the other ------------------------------------------------------------------------

    async def _serve(self) -> None:
        try:
            while not self._is_leaving and not self._transport.is_closing():
                frame = await self._next()
                self.is_busy = True
                if not self._session.user_id:
                    await self._listener.quota.wait()
                await self._answer(frame)
                del frame
                if self._responses.is_full or not self._frames.has_frame:
                    self._responses.flush()
                self._resume()
                await self._drained.wait()
                self.is_busy = False
        except asyncio.CancelledError:
            pass
        except _NoLoginError:
            host = self._session.address.rpartition(":")[0]
            if self._listener.refused_recently.is_first(host):
                is_encrypted = self._transport.get_extra_info("ssl_object") is not None
                self._note(logging.WARNING, "closed: the client did not log in", advice=explain_login(is_encrypted=is_encrypted))
        except (DecodeError, _ClosedError) as error:
            self._note(logging.INFO, "closed: invalid request", reason=str(error))
        except HeadstreamError as error:
            self._note(logging.WARNING, "closed: a request failed", reason=error.what)
        except Exception as error:  # a bug must not stop the server
            self._note(logging.ERROR, "internal error", error)
        finally:
            self._responses.flush()
            self._end_fetches()
            self._transport.close()
            self._memory.close()
            self._listener.context.dispatcher.sessions.close(self._session)
            self._listener.left(self)

    async def _next(self) -> memoryview:
        """Return the next frame, which is valid until bytes are received."""
        frames = self._frames
        while True:
            self._came.clear()
            needed = frames.needed_bytes()
            if needed > frames.capacity_bytes:
                self._pause()
                frames.resize(await self._hold_buffer(needed))
                self._resume()
            frame = frames.take()
            if frame is not None:
                self._timeouts.end_frame()
                return frame
            if frames.pending_bytes:
                self._timeouts.begin_frame(self._loop.time())
            self._resume()
            await self._came.wait()

    async def _hold_buffer(self, needed_bytes: int) -> int:
        """Reserve memory for the next request, and more if available; return the new size of the buffer."""
        if needed_bytes > _FREE_BYTES:
            self._responses.flush()
            await self._memory.hold_soon(needed_bytes)
            return needed_bytes
        many_bytes = needed_bytes * _FRAMES_TOGETHER
        return many_bytes if many_bytes <= _FREE_BYTES or self._memory.hold_requests(many_bytes) else needed_bytes

    def _pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._is_paused and not self._is_holding and not self._frames.is_full and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()
            self._timeouts.begin_again(self._loop.time())

    async def _answer(self, frame: memoryview) -> None:
        if self._is_token_next:
            await self._take_token(frame)
            return
        began_s = perf_counter()
        head, at = pull_head(frame)
        api = self._find_api(head)
        if api is None:
            self._responses.add(head.correlation_id, [UNSUPPORTED], is_flexible=False)
            return
        if api.request.is_flexible(head.version):
            at = skip_tags(frame, at)
        if head.api_key != PRODUCE and len(frame) > _CONTROL_BYTES:
            raise DecodeError("a request other than Produce exceeds the size limit", 0, _CONTROL_BYTES, len(frame))
        call = self._decode(head, api, frame[at:])
        reply = await self._run(api, call)
        if reply is not None:
            is_flexible = api.response.is_flexible(head.version) and head.api_key != API_VERSIONS
            self._responses.add(head.correlation_id, api.response.encode(head.version, reply), is_flexible=is_flexible)
            if head.api_key == SASL_AUTHENTICATE:
                self._logged_in(reply)
        self._listener.traffic.answered(head.api_key, status_of(reply), perf_counter() - began_s)

    def _find_api(self, head: RequestHead) -> Api | None:
        """Return the API of a request; None for an unsupported version of ApiVersions, which has a special response."""
        api = APIS.get(head.api_key)
        if api is None:
            raise _ClosedError(f"API {head.api_key} is not supported")
        if not api.first_version <= head.version <= api.last_version:
            if head.api_key == API_VERSIONS:
                return None
            raise _ClosedError(f"{api.name} does not support version {head.version}")
        if head.api_key in _BEFORE_LOGIN:
            return api
        session, dispatcher = self._session, self._listener.context.dispatcher
        if not session.user_id:
            raise _NoLoginError
        if session.is_ended or session.is_stale or not dispatcher.users.is_good(session.user_id, session.generation):
            raise _ClosedError("the user was changed: log in again")
        dispatcher.sessions.ping(session)
        return api

    def _decode(self, head: RequestHead, api: Api, message: memoryview) -> Call:
        """Return the Call of a request, and record the SASL mechanism that the request selects."""
        request = api.request.decode(head.version, message)
        if head.api_key == SASL_HANDSHAKE and request["mechanism"] in MECHANISMS:
            self._sasl = SaslLogin(request["mechanism"])
            self._is_token_next = head.version == 0
        return self._make_call(head.version, head.client_id, request)

    def _make_call(self, version: int, client_id: str, request: dict[str, Any]) -> Call:
        return Call(
            context=self._listener.context,
            session=self._session,
            version=version,
            client_id=client_id,
            request=request,
            here=self._here,
            sasl=self._sasl,
        )

    async def _take_token(self, token: memoryview) -> None:
        """Log in with a frame without a head, which follows SaslHandshake version 0."""
        self._is_token_next = False
        began_s = perf_counter()
        reply = await self._run(APIS[SASL_AUTHENTICATE], self._make_call(0, "", {"auth_bytes": bytes(token)}))
        if reply is not None:
            self._logged_in(reply)
            if not reply.get("error_code", 0):
                token = reply["auth_bytes"]
                self._responses.add_bytes(len(token).to_bytes(4, "big") + token)
                self._is_token_next = self._sasl.scram is not None
        self._listener.traffic.answered(SASL_AUTHENTICATE, status_of(reply), perf_counter() - began_s)

    def _logged_in(self, reply: Mapping[str, Any]) -> None:
        """Start the user's session after a login; close the connection after a failed login."""
        if reply.get("error_code", 0):
            self._note(logging.WARNING, "login refused", reason=str(reply.get("error_message")))
            self._is_leaving = True
        elif self._sasl.scram is None:
            self._begin_session()

    def _begin_session(self) -> None:
        """Apply the limits for authenticated users."""
        self._frames.most_bytes = self._limits.frame_bytes
        self._memory.log_in(self._session.user_id)

    # -- where handlers run ---------------------------------------------------------------------------------

    async def _run(self, api: Api, call: Call) -> Mapping[str, Any] | None:
        runs_on = api.runs_on
        if runs_on is RunsOn.LOOP and api.name == "produce" and is_big(call):
            runs_on = RunsOn.WORK
        if runs_on is RunsOn.LOOP:
            reply: Mapping[str, Any] | None = api.handler(call)
            return reply
        self._responses.flush()  # this request can wait
        if runs_on is RunsOn.FETCH:
            return await self._fetch(call)
        if runs_on is RunsOn.GROUP:
            waited = api.handler(call)
            return cast(Mapping[str, Any], await waited if isinstance(waited, asyncio.Future) else waited)
        self._is_holding = True  # the buffer contains the records
        self._pause()
        try:
            async with self._memory.hold_more(decompressed_bytes(call) if api.name == "produce" else 0):
                answer: Mapping[str, Any] | None = await self._on_thread(runs_on, partial(api.handler, call))
            return answer
        finally:
            self._is_holding = False

    async def _on_thread(self, runs_on: RunsOn, function: Any) -> Any:
        return await asyncio.wrap_future(self._listener.workers.submit(runs_on.value, function, self._session.client))

    async def _fetch(self, call: Call) -> Mapping[str, Any] | None:
        """Answer a fetch when it has enough bytes or has timed out."""
        try:
            fetch = open_session(call, self._fetching, partial(self._call_loop, self._notified.set))
        except ProtocolError as error:
            return {"error_code": error.fault, "responses": []}
        self._fetching = fetch
        until_s = self._loop.time() + fetch.max_wait_s
        while True:
            self._notified.clear()
            reply = await self._on_thread(RunsOn.WORK, fetch.read) if fetch.reads > _MANY_PARTITIONS else fetch.read()
            left_s = until_s - self._loop.time()
            if fetch.is_enough or left_s <= 0 or self._is_leaving:
                break
            with suppress(TimeoutError):
                await asyncio.wait_for(self._notified.wait(), left_s)
            if fetch.waits_for_bytes:
                await asyncio.sleep(min(_AGAIN_S, left_s))
        if fetch.id:
            fetch.finish()
        else:
            self._end_fetches()
        return cast(Mapping[str, Any], reply)

    def _end_fetches(self) -> None:
        if self._fetching is not None:
            self._fetching.close()
            self._fetching = None

    def _call_loop(self, function: Any) -> None:
        with suppress(RuntimeError):  # the loop is closed: the server has stopped
            self._loop.call_soon_threadsafe(function)

    def _note(self, level: int, event: str, error: BaseException | None = None, /, **fields: object) -> None:
        session = self._session
        note(level, event, error, address=session.address, client=session.client_id, user=session.user_id, **fields)
