"""Spans of batches: one of a batch, whose messages belong to many traces, and links between them and it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import StatusCode

import headstream as hs
from headstream.interceptors.batch_tracing import MAX_LINKS, BatchTracing
from headstream.interceptors.tracing import Tracing


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> Iterator[TracerProvider]:
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    yield made
    made.shutdown()


def send(provider: TracerProvider, count: int) -> list[str]:
    """Return the contexts of sent messages, each of a trace of its own."""
    tracing = Tracing(provider)
    sent = [tracing.on_send(hs.Message(payload=b"x", topic="shop/orders")) for _ in range(count)]
    return [str(message.headers["traceparent"]) for message in sent]


def named(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


def test_each_messages_trace_leads_to_the_batch_and_back(provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    contexts = send(provider, 3)
    with BatchTracing(provider).process("process", contexts, {"number": 12}, start_ns=5) as batch, batch.step("merge"):
        pass
    sends = named(exporter, "send shop/orders")
    ((process,), (merge,)) = named(exporter, "process"), named(exporter, "merge")
    assert process.parent is not None
    assert merge.parent is not None
    assert process.parent.span_id == sends[0].context.span_id
    assert [link.context.span_id for link in process.links] == [span.context.span_id for span in sends[1:]]
    assert merge.parent.span_id == process.context.span_id
    assert (process.attributes or {})["number"] == 12
    for span, origin in zip(named(exporter, "applied"), sends[1:], strict=True):
        assert span.parent is not None
        assert (span.context.trace_id, span.parent.span_id) == (origin.context.trace_id, origin.context.span_id)
        assert [link.context.span_id for link in span.links] == [process.context.span_id]
        assert (span.start_time, process.start_time) == (5, 5)


def test_a_batch_is_recorded_if_one_of_its_messages_is_sampled(exporter: InMemorySpanExporter) -> None:
    never = TracerProvider(sampler=ParentBased(TraceIdRatioBased(0)))
    never.add_span_processor(SimpleSpanProcessor(exporter))
    tracing = BatchTracing(never)
    with tracing.process("alone", []):
        pass
    with tracing.process("with a sampled one", ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"]):
        pass
    assert [span.name for span in exporter.get_finished_spans()] == ["with a sampled one"]
    never.shutdown()


def test_invalid_contexts_and_those_beyond_the_limit_are_left_out(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    contexts = send(provider, MAX_LINKS + 5)
    with BatchTracing(provider).process("process", ["00-zz", "", *contexts]):
        pass
    (process,) = named(exporter, "process")
    assert len(process.links) == MAX_LINKS - 3  # two are invalid, and one is the parent


def test_an_error_is_recorded_in_the_step_and_the_batch(provider: TracerProvider, exporter: InMemorySpanExporter) -> None:
    def fail() -> None:
        with BatchTracing(provider).process("process", []) as batch, batch.step("merge"):
            raise ValueError("no space")

    with pytest.raises(ValueError, match="no space"):
        fail()
    assert {span.name: span.status.status_code for span in exporter.get_finished_spans()} == {
        "merge": StatusCode.ERROR,
        "process": StatusCode.ERROR,
    }
