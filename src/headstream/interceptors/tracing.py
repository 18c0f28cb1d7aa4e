"""Tracing: the trace context of OpenTelemetry in message headers (W3C `traceparent`, `tracestate`), and spans.

    send       a span `send shop/orders` (PRODUCER), child of the current span, with its context in the headers
    receive    a span `receive shop/orders` (CONSUMER), child of the sender's span
    process    a span around the processing, by `with tracing.process(message):`

If a rate is set, most messages do not belong to a sampled trace. Such messages are recognised by the current context and their
header names, before an OpenTelemetry object or a Message is created. Random gaps determine which messages begin a trace.

The names of messaging attributes are from version 1.27 of OpenTelemetry's conventions, which are not stable yet.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final

from headstream.core.model.headers import Headers, HeadersInput
from headstream.core.model.message import Message
from headstream.errors import InvalidOptionError
from headstream.interceptors.interceptor import ErrorPolicy, Interceptor
from headstream.interceptors.trace_contexts import has_context, open_tracer

_MAX_BYTES: Final = 255
"""Maximum size of a header value in a topic with limits `iggy`; a longer tracestate or baggage is omitted, as W3C allows."""

_COMPANIONS: Final = frozenset(("tracestate", "baggage"))
"""Headers that do not show by themselves that a message belongs to a trace."""

_SEARCHABLE: Final = (dict, Headers)
"""Types of the argument `headers` of send() in which names can be found without encoding."""


class Tracing(Interceptor):
    """Sends the current trace context with each message, and records spans.

    Errors of this interceptor are logged by default, and messages are processed without it.

    Args:
        tracer_provider: A provider of OpenTelemetry's SDK; by default the global provider.
        propagator: Reads and writes the context; by default the global propagator (the variable OTEL_PROPAGATORS).
        rate: Of the messages sent outside of any trace, the share that begins a trace, 0 to 1. All others, and messages of
            unsampled traces, get neither a span nor a header, at the lowest cost. None leaves sampling to the provider: each
            message gets a header, so receivers know whether its trace is sampled.

    Raises:
        MissingExtraError: opentelemetry-api is not installed (the extra `tracing`).
        InvalidOptionError: the rate is out of range.
    """

    on_error: ErrorPolicy | str = ErrorPolicy.SKIP

    def __init__(self, tracer_provider: Any = None, *, propagator: Any = None, rate: float | None = None) -> None:
        self._trace, self._tracer = open_tracer(tracer_provider)
        from opentelemetry import context, propagate

        self._current = _reader_of(context)
        self._propagator = propagate.get_global_textmap() if propagator is None else propagator
        self._fields = frozenset(self._propagator.fields)
        self._is_foreign = self._fields.isdisjoint
        self._marks = tuple(name.encode() for name in self._fields - _COMPANIONS)
        self._is_plain = self._marks == (b"traceparent",)
        """Whether the bytes of a message's headers suffice to decide whether its trace is sampled."""
        if rate is not None and not 0 <= rate <= 1:
            raise InvalidOptionError(f"rate must be 0 to 1, not {rate!r}", advice="Use 0.01 for one message in a hundred")
        self._rate = rate
        self._untraced = 0 if rate is None else _draw_gap(rate)
        """Number of messages outside of any trace to send before a message begins a trace; threads may miscount by one."""

    def skips_send(self, headers: HeadersInput | None) -> bool:
        """Return whether a message with these headers gets neither a span nor a header."""
        if self._current():  # a context is attached; it may not contain a trace
            current = self._trace.get_current_span().get_span_context()
            if current.is_valid:
                return self._rate is not None and not current.trace_flags.sampled
        if headers and not (isinstance(headers, _SEARCHABLE) and self._is_foreign(headers)):
            return False
        if self._untraced < 1:
            return False
        self._untraced -= 1
        return True

    def skips_receive(self, message: Message) -> bool:
        """Return whether a message gets no span."""
        if self._rate is None:
            return False
        block = message.headers.received_bytes()
        if block is not None:
            for mark in self._marks:
                if block.find(mark) >= 0:  # takes half the time of `mark in block`
                    return self._is_plain and not has_context(block)
            return True
        return self._is_foreign(message.headers)

    def on_send(self, message: Message) -> Message:
        """Start a span, and replace any context in the headers with the span's context."""
        trace, headers = self._trace, message.headers
        current = trace.get_current_span().get_span_context()
        is_continued = not current.is_valid and not self._is_foreign(headers)
        # A message that is forwarded outside of any span continues the trace that it came with.
        parent = self.context_of(message) if is_continued else None
        if self._rate is not None:
            if is_continued:
                current = trace.get_current_span(parent).get_span_context()
            if not (current.trace_flags.sampled if current.is_valid or is_continued else self._begins(self._rate)):
                return message
        attributes = {**_attributes(message), "messaging.operation.name": "send", "messaging.operation.type": "send"}
        span = self._tracer.start_span(f"send {message.topic}", parent, trace.SpanKind.PRODUCER, attributes)
        carrier: dict[str, str] = {}
        try:
            self._propagator.inject(carrier, trace.set_span_in_context(span, parent))
        finally:
            span.end()
        found = [(key, value) for key, value in carrier.items() if 0 < len(value.encode()) <= _MAX_BYTES]
        if not found:
            return message
        if not self._is_foreign(headers):
            headers = Headers([(key, value) for key, value in headers.items() if key not in self._fields])
        return replace(message, headers=headers.with_(*found))

    def on_receive(self, message: Message) -> Message:
        """Start a span as a child of the sender's span."""
        context = self.context_of(message)
        if self._rate is None or self._is_sampled(context):
            self._start("receive", message, context).end()
        return message

    def _begins(self, rate: float) -> bool:
        """Return whether a message outside of any trace begins a trace."""
        if self._untraced >= 1:
            self._untraced -= 1
            return False
        self._untraced = _draw_gap(rate)
        return rate > 0

    def _is_sampled(self, context: Any) -> bool:
        return bool(self._trace.get_current_span(context).get_span_context().trace_flags.sampled)

    def context_of(self, message: Message) -> Any:
        """Return the OpenTelemetry context that a message carries."""
        found = ((field, message.headers.get(field)) for field in self._fields)
        carrier = {field: str(value.value) for field, value in found if value is not None}
        return self._propagator.extract(carrier)

    @contextmanager
    def process(self, message: Message) -> Iterator[Any]:
        """Record a span around the processing of a message: make it the current span in the body, and yield it.

        If a rate is set, a message of an unsampled trace has no span, and the body keeps the caller's context.
        """
        is_traced = not self.skips_receive(message)
        context = self.context_of(message) if is_traced else None
        if self._rate is not None and not (is_traced and self._is_sampled(context)):
            yield self._trace.INVALID_SPAN
            return
        span = self._start("process", message, context)
        with self._trace.use_span(span, end_on_exit=True):
            yield span

    def _start(self, operation: str, message: Message, context: Any) -> Any:
        attributes = {**_attributes(message), "messaging.operation.name": operation, "messaging.operation.type": operation}
        return self._tracer.start_span(f"{operation} {message.topic}", context, self._trace.SpanKind.CONSUMER, attributes)


def _reader_of(context: Any) -> Callable[[], Any]:
    """Return a function that returns the current context, from the module `opentelemetry.context`.

    The function is called for each message. If the context is in a context variable, which is the default, the function reads the
    variable directly.
    """
    from opentelemetry.context.contextvars_context import ContextVarsRuntimeContext

    runtime = getattr(context, "_RUNTIME_CONTEXT", None)
    variable = getattr(runtime, "_current_context", None) if type(runtime) is ContextVarsRuntimeContext else None
    return variable.get if isinstance(variable, ContextVar) else context.get_current


def _draw_gap(rate: float) -> float:
    """Return the number of messages before the next sampled message: geometrically distributed."""
    if rate in (0, 1):
        return 0 if rate else math.inf
    return math.floor(math.log(1 - random.random()) / math.log1p(-rate))


def _attributes(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = {"messaging.system": "headstream", "messaging.destination.name": message.topic or ""}
    if message.partition is not None:
        found["messaging.destination.partition.id"] = str(message.partition)
    if message.offset is not None:
        found["messaging.headstream.offset"] = message.offset
    if message.payload is not None:
        found["messaging.message.body.size"] = len(message.payload)
    return found
