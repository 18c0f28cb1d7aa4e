"""BatchTracing: OpenTelemetry batch spans; the messages of a batch belong to different traces.

    send shop/orders        the span of the sender's Tracing, in the header `traceparent`
      append shop/orders    a server's span in the trace of each message, until the batch is written

    process batch 12        a pipeline's span: child of the first sampled message's span, linked to the other messages' spans
      merge SHOP.orders     the span of a step, in any thread
    applied                 a span in the trace of each other message, with the times of the batch's span and a link to that span

Only messages of sampled traces have spans. The traces' contexts are found in the bytes of a batch, so no message is decoded. A
pipeline's batch is recorded if at least one of its messages is sampled. Links connect each message's trace with the batch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from headstream.core.model.identifiers import TopicName
from headstream.interceptors.trace_contexts import open_tracer

MAX_LINKS: Final = 128
"""Maximum number of linked messages of a batch, which is OpenTelemetry's limit for a span."""


class BatchSpan:
    """The span of a batch."""

    def __init__(self, tracing: Any, tracer: Any, span: Any) -> None:
        self._trace = tracing
        self._tracer = tracer
        self.span = span

    @contextmanager
    def step(self, name: str, attributes: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """Record a span around the body and yield the span; an error of the body is recorded. Thread-safe."""
        parent = self._trace.set_span_in_context(self.span)
        with self._tracer.start_as_current_span(name, parent, attributes=dict(attributes or {})) as span:
            yield span


class BatchTracing:
    """Records spans of batches. Thread-safe.

    Args:
        tracer_provider: A provider of OpenTelemetry's SDK; by default the global provider.

    Raises:
        MissingExtraError: opentelemetry-api is not installed (the extra `tracing`).
    """

    def __init__(self, tracer_provider: Any = None) -> None:
        self._trace, self._tracer = open_tracer(tracer_provider)
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def process(
        self, name: str, contexts: Sequence[str], attributes: Mapping[str, Any] | None = None, start_ns: int | None = None
    ) -> Iterator[BatchSpan]:
        """Record a span around the processing of a batch and yield the span; an error of the body is recorded.

        Args:
            contexts: The `traceparent` values of sampled messages. Invalid values and values beyond MAX_LINKS are ignored.
            start_ns: Start time of the processing, nanoseconds since 1970 UTC; None is the current time.
        """
        trace, began_ns = self._trace, time.time_ns() if start_ns is None else start_ns
        parents = [self._propagator.extract({"traceparent": text}) for text in contexts[:MAX_LINKS]]
        origins = [(parent, trace.get_current_span(parent).get_span_context()) for parent in parents]
        origins = [(parent, origin) for parent, origin in origins if origin.is_valid]
        span = self._tracer.start_span(
            name,
            origins[0][0] if origins else None,
            trace.SpanKind.CONSUMER,
            {"messaging.system": "headstream", "messaging.operation.type": "process", **(attributes or {})},
            [trace.Link(origin) for _, origin in origins[1:]],
            start_time=began_ns,
        )
        try:
            with trace.use_span(span, end_on_exit=True):
                yield BatchSpan(trace, self._tracer, span)
        finally:
            for parent, _ in origins[1:]:
                link = trace.Link(span.get_span_context())
                self._tracer.start_span("applied", parent, trace.SpanKind.CONSUMER, None, [link], start_time=began_ns).end()

    @contextmanager
    def append(self, topic: TopicName, partition: int, contexts: Sequence[str]) -> Iterator[None]:
        """Record one span per traced message around the append of the messages' batch.

        Args:
            contexts: The `traceparent` values of the messages, as returned by find_contexts().
        """
        trace, began_ns = self._trace, time.time_ns()
        attributes = {
            "messaging.system": "headstream",
            "messaging.operation.name": "append",
            "messaging.destination.name": str(topic),
            "messaging.destination.partition.id": str(partition),
        }
        failure: BaseException | None = None
        try:
            yield
        except BaseException as error:
            failure = error
            raise
        finally:
            for text in contexts:
                parent = self._propagator.extract({"traceparent": text})
                span = self._tracer.start_span(f"append {topic}", parent, trace.SpanKind.SERVER, attributes, start_time=began_ns)
                if failure is not None:
                    span.record_exception(failure)
                    span.set_status(trace.Status(trace.StatusCode.ERROR, str(failure)))
                span.end()
