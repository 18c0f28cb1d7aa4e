"""AppendTracing: spans of a server's appends, in the traces of the messages (OpenTelemetry).

    send shop/orders         made by the sender's Tracing, in the header `traceparent`
      append shop/orders     from before the append until the messages are written
      process shop/orders    made by the consumer's Tracing

Only messages of sampled traces have one. They are found in the bytes of a batch: no message is decoded.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from headstream.core.model.identifiers import TopicName
from headstream.errors import MissingExtraError

__all__ = ["AppendTracing"]


class AppendTracing:
    """Makes spans of appends; any thread.

    Args:
        tracer_provider: Of OpenTelemetry's SDK; by default the global one.

    Raises:
        MissingExtraError: opentelemetry-api is not installed (the extra `tracing`).
    """

    def __init__(self, tracer_provider: Any = None) -> None:
        try:
            from opentelemetry import trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as error:
            raise MissingExtraError(f"tracing needs {error.name}", advice="Install headstream[tracing]") from None
        self._trace = trace
        self._tracer = trace.get_tracer("headstream", tracer_provider=tracer_provider)
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def append(self, topic: TopicName, partition: int, contexts: Sequence[str]) -> Iterator[None]:
        """Make a span for each traced message around the append of their batch.

        Args:
            topic: Stream and topic.
            partition: From 1.
            contexts: The `traceparent` of the messages, as find_contexts() returns them.

        Yields:
            Nothing; an error of the body is recorded in the spans.
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
