"""The shipped interceptors, message by message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import headstream as hs
from headstream.errors import InvalidOptionError
from headstream.interceptors import Auditing, ErrorPolicy, Tracing

LONG = b"the same words again " * 100


def message(payload: bytes | None = LONG, **fields: Any) -> hs.Message:
    return hs.Message(payload=payload, topic="shop/orders", **fields)


# -- tracing ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def spans() -> Iterator[tuple[TracerProvider, InMemorySpanExporter]]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield provider, exporter
    provider.shutdown()


def test_tracing_makes_one_trace_from_sender_to_processing(spans: tuple[TracerProvider, InMemorySpanExporter]) -> None:
    provider, exporter = spans
    tracing = Tracing(provider)
    with hs.connect("memory://", interceptors=[tracing]) as log:
        log.create_topic("shop/orders")
        with provider.get_tracer("test").start_as_current_span("request") as request:
            log.send("shop/orders", b"x", headers={"traceparent": "of an earlier step", "own": 1})
        with log.consumer("shop/orders", timeout_ms=0) as consumer:
            (received,) = list(consumer)
        with tracing.process(received) as span:
            assert trace.get_current_span() is span
    assert [key for key in received.headers.keys()] == ["own", "traceparent"]  # noqa: C416, SIM118
    found = {span.name: span for span in exporter.get_finished_spans()}
    assert set(found) == {"request", "send shop/orders", "receive shop/orders", "process shop/orders"}
    assert {span.context.trace_id for span in found.values()} == {request.get_span_context().trace_id}
    send = found["send shop/orders"]
    assert send.parent is not None
    assert send.parent.span_id == request.get_span_context().span_id
    for name in ("receive shop/orders", "process shop/orders"):
        parent = found[name].parent
        assert parent is not None
        assert parent.span_id == send.context.span_id
        attributes = found[name].attributes or {}
        assert attributes["messaging.destination.partition.id"] == "1"


def test_tracing_continues_the_trace_of_a_forwarded_message(spans: tuple[TracerProvider, InMemorySpanExporter]) -> None:
    tracing = Tracing(spans[0])
    first = tracing.on_send(message(b"x"))
    second = tracing.on_send(hs.Message(payload=b"x", headers=first.headers, topic="shop/next"))
    one, two = spans[1].get_finished_spans()
    assert one.context.trace_id == two.context.trace_id
    assert two.parent is not None
    assert two.parent.span_id == one.context.span_id
    assert len(second.headers.getall("traceparent")) == 1


def test_tracing_leaves_out_what_a_header_of_iggy_cannot_hold(spans: tuple[TracerProvider, InMemorySpanExporter]) -> None:
    class Long:
        fields = frozenset(("traceparent", "tracestate"))

        def inject(self, carrier: dict[str, str], context: object) -> None:
            carrier.update({"traceparent": "00-a", "tracestate": "v" * 256})

        def extract(self, carrier: dict[str, str]) -> None:
            return None

    sent = Tracing(spans[0], propagator=Long()).on_send(message(b"x"))
    assert list(sent.headers.keys()) == ["traceparent"]


def test_tracing_at_a_rate_passes_messages_of_no_sampled_trace_untouched(
    spans: tuple[TracerProvider, InMemorySpanExporter], monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, exporter = spans
    monkeypatch.setattr("headstream.interceptors.tracing.random.random", lambda: 0.015)  # one passes, the next one is traced
    tracing = Tracing(provider, rate=0.01)
    plain = message(b"x")
    assert tracing.on_send(plain) is plain
    assert tracing.on_receive(plain) is plain
    assert exporter.get_finished_spans() == ()
    chosen = tracing.on_send(plain)
    tracing.on_receive(chosen)
    tracing.on_send(chosen)  # forwarded: its trace goes on, whatever the rate
    with provider.get_tracer("test").start_as_current_span("request"):
        tracing.on_send(plain)  # within a sampled trace
    names = [span.name for span in exporter.get_finished_spans()]
    assert names == ["send shop/orders", "receive shop/orders", "send shop/orders", "send shop/orders", "request"]
    unsampled = Tracing(provider, rate=1).on_send(
        hs.Message(payload=b"x", topic="shop/orders", headers=hs.Headers({"traceparent": f"00-{1:032x}-{1:016x}-00"}))
    )
    assert str(unsampled.headers["traceparent"]).endswith("-00")
    assert len(exporter.get_finished_spans()) == len(names)


def test_tracing_at_a_rate_asks_nothing_of_messages_of_no_sampled_trace(
    spans: tuple[TracerProvider, InMemorySpanExporter], monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, exporter = spans
    monkeypatch.setattr("headstream.interceptors.tracing.random.random", lambda: 0.025)  # the third one is traced
    tracing = Tracing(provider, rate=0.01)
    asked: list[str] = []

    def note(hook: str, real: Any) -> Any:
        def call(message: hs.Message) -> Any:
            asked.append(hook)
            return real(message)

        return call

    for hook in ("on_send", "on_receive"):
        monkeypatch.setattr(tracing, hook, note(hook, getattr(tracing, hook)))
    with hs.connect("memory://", interceptors=[tracing]) as log:
        log.create_topic("shop/orders")
        with log.producer("shop/orders") as producer:
            for number in range(6):
                producer.send(b"%d" % number, headers={"own": 1})
        with log.consumer("shop/orders", timeout_ms=0) as consumer:
            received = consumer.poll(10)
    assert [message.payload for message in received] == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert [message.payload for message in received if "traceparent" in message.headers] == [b"2", b"5"]
    assert asked == ["on_send", "on_send", "on_receive", "on_receive"]
    assert [span.name for span in exporter.get_finished_spans()] == [*["send shop/orders"] * 2, *["receive shop/orders"] * 2]
    with tracing.process(received[0]) as span:
        assert not span.is_recording()
    with tracing.process(received[2]) as span:
        assert span.is_recording()


def test_tracing_samples_the_share_of_messages_that_its_rate_gives(spans: tuple[TracerProvider, InMemorySpanExporter]) -> None:
    tracing = Tracing(spans[0], rate=0.05)
    plain = message(b"x")
    passed = sum(tracing.skips_send(None) or tracing.on_send(plain) is plain for _ in range(20_000))
    assert 20_000 * 0.05 / 2 < 20_000 - passed < 20_000 * 0.05 * 2  # 15 standard deviations and more
    assert len(spans[1].get_finished_spans()) == 20_000 - passed


def test_messages_of_the_current_trace_are_traced_whatever_the_rate(spans: tuple[TracerProvider, InMemorySpanExporter]) -> None:
    provider, exporter = spans
    tracing = Tracing(provider, rate=0)
    unsampled = trace.NonRecordingSpan(trace.SpanContext(1, 1, is_remote=True, trace_flags=trace.TraceFlags(0)))
    with hs.connect("memory://", interceptors=[tracing]) as log:
        log.create_topic("shop/orders")
        with trace.use_span(unsampled):
            log.send("shop/orders", b"x")
        log.send("shop/orders", b"x", headers={"traceparent": f"00-{1:032x}-{1:016x}-00"})
        log.send("shop/orders", b"x", headers=[("own", 1)])
        assert exporter.get_finished_spans() == ()
        with provider.get_tracer("test").start_as_current_span("request"):
            log.send("shop/orders", b"x")
        log.send("shop/orders", b"x", headers=[("traceparent", f"00-{1:032x}-{1:016x}-01")])
    assert [span.name for span in exporter.get_finished_spans()] == ["send shop/orders", "request", "send shop/orders"]


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan")])
def test_tracing_refuses_a_sampling_rate_outside_0_to_1(rate: float) -> None:
    with pytest.raises(InvalidOptionError, match="rate must be 0 to 1"):
        Tracing(rate=rate)


def test_tracing_without_an_sdk_changes_nothing() -> None:
    assert Tracing().on_send(message(b"x")) == message(b"x")


def test_tracing_and_auditing_never_stop_a_message_by_default() -> None:
    assert (Tracing.on_error, Auditing.on_error) == (ErrorPolicy.SKIP, ErrorPolicy.SKIP)
