"""Trace contexts of received messages: sampled or not, of W3C's propagator or another one."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import headstream as hs
from headstream.interceptors import Tracing


class _OtherHeader(TextMapPropagator):
    """A propagator with a header of its own, whose bytes tell nothing about sampling."""

    @property
    def fields(self) -> set[str]:
        return {"x-trace"}

    def extract(self, carrier: Any, context: Any = None, getter: Any = None) -> Any:
        given = {"traceparent": carrier["x-trace"]} if "x-trace" in carrier else {}
        return TraceContextTextMapPropagator().extract(given, context)

    def inject(self, carrier: Any, context: Any = None, setter: Any = None) -> None:
        given: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(given, context)
        carrier["x-trace"] = given["traceparent"]


@pytest.mark.parametrize(("flags", "count"), [("01", 2), ("00", 0), ("03", 2), ("zz", 0)])
@pytest.mark.parametrize("propagator", [None, _OtherHeader()], ids=["w3c", "another"])
def test_a_received_context_is_told_by_its_bytes_as_by_its_header(propagator: Any, flags: str, count: int) -> None:
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    header = "traceparent" if propagator is None else "x-trace"
    with hs.connect("memory://") as log:
        log.create_topic("shop/orders")
        log.send("shop/orders", b"x", headers={"a": 1, header: f"00-{1:032x}-{2:016x}-{flags}", "b": "c"})
        log.send("shop/orders", b"y", headers={"traceparents": "none"})
        received = list(log.poll("shop/orders"))
    tracing = Tracing(provider, propagator=propagator, rate=0.01)
    for each in received:
        if not tracing.skips_receive(each):
            tracing.on_receive(each)
        with tracing.process(each) as span:
            assert span.is_recording() == (each is received[0] and count > 0)
    found = exporter.get_finished_spans()
    assert [span.parent and span.parent.span_id for span in found] == [2] * count
    provider.shutdown()
