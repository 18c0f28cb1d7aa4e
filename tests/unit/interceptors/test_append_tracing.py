"""A server with tracing makes a span of each append of a traced message, in the message's trace; over every transport."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import headstream as hs
from headstream.interceptors import Tracing
from headstream.server.network.addresses import Address
from tests.support.server.served import Running, config_of, serving

UNSAMPLED = f"00-{1:032x}-{1:016x}-00"
SAMPLED = f"00-{1:032x}-{1:016x}-01"


class Spans:
    """A tracer provider, and the spans that it has exported."""

    def __init__(self) -> None:
        self.provider, self._exporter = TracerProvider(), InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def by_name(self) -> dict[str, list[ReadableSpan]]:
        found: dict[str, list[ReadableSpan]] = {}
        for span in self._exporter.get_finished_spans():
            found.setdefault(span.name, []).append(span)
        return found

    def appends(self) -> list[ReadableSpan]:
        return self.by_name().get("append shop/orders", [])


@pytest.fixture
def spans() -> Iterator[Spans]:
    found = Spans()
    yield found
    found.provider.shutdown()


def serve(spans: Spans, *, is_on: bool = True) -> Iterator[Running]:
    config = config_of(tracing=is_on, http_address=Address("127.0.0.1", 0))
    with serving(config, tracer_provider=spans.provider) as running:
        with hs.connect(url_of(running)) as log:
            log.create_topic("shop/orders")
        yield running


@pytest.fixture
def running(spans: Spans) -> Iterator[Running]:
    yield from serve(spans)


def url_of(running: Running, transport: str = "tcp") -> str:
    if transport == "tcp":
        return f"headstream://iggy:iggy@{running.address}"
    assert running.server.http_address is not None
    return f"http://iggy:iggy@{running.server.http_address}"


@pytest.mark.parametrize("transport", ["tcp", "http"])
def test_one_trace_leads_from_the_sender_through_the_server_to_the_consumer(
    running: Running, spans: Spans, transport: str
) -> None:
    tracing = Tracing(spans.provider)
    with hs.connect(url_of(running, transport), interceptors=[tracing]) as log:
        log.send("shop/orders", b"x", headers={"own": 1})
        with log.consumer("shop/orders", timeout_ms=60_000) as consumer, tracing.process(next(iter(consumer))):
            pass
    found = spans.by_name()
    (sent,), (appended,), (processed,) = (found[f"{name} shop/orders"] for name in ("send", "append", "process"))
    assert {span.context.trace_id for span in (sent, appended, processed)} == {sent.context.trace_id}
    assert appended.parent is not None
    assert appended.parent.span_id == sent.context.span_id
    assert appended.kind is SpanKind.SERVER
    assert appended.attributes is not None
    assert appended.attributes["messaging.destination.partition.id"] == "1"
    assert appended.start_time is not None
    assert appended.end_time is not None
    assert sent.start_time is not None
    assert sent.start_time <= appended.start_time <= appended.end_time


def test_each_traced_message_of_a_batch_has_a_span_and_no_other_message(running: Running, spans: Spans) -> None:
    contexts = [f"00-{number:032x}-{number:016x}-0{number % 2}" for number in range(1, 11)]
    with hs.connect(url_of(running)) as log:
        with log.producer("shop/orders") as producer:
            for context in contexts:
                producer.send(b"x", headers={"traceparent": context})
        log.send("shop/orders", b"x")
        for _ in range(20):  # the connection is then read by the fast path
            log.send("shop/orders", b"x", headers={"traceparent": UNSAMPLED})
        assert sorted(span.context.trace_id for span in spans.appends()) == [1, 3, 5, 7, 9]
        log.send("shop/orders", b"x", headers={"traceparent": SAMPLED})
        assert len(spans.appends()) == 6
        assert log.topic("shop/orders").messages_count == 32


def test_a_refused_append_is_an_error_in_its_trace(running: Running, spans: Spans) -> None:
    with hs.connect(url_of(running)) as log, log.producer("shop/orders") as producer:
        log.update_topic("shop/orders", compaction_delay_us=0)  # the producer does not know yet that its messages need keys
        with pytest.raises(hs.HeadstreamError, match="key"):
            producer.send(b"x", headers={"traceparent": SAMPLED}).result()
    (span,) = spans.appends()
    assert span.status.status_code is StatusCode.ERROR


def test_a_server_makes_no_spans_unless_it_is_told_to(spans: Spans) -> None:
    for running in serve(spans, is_on=False):
        with hs.connect(url_of(running)) as log:
            log.send("shop/orders", b"x", headers={"traceparent": SAMPLED})
    assert spans.appends() == []
