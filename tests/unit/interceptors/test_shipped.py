"""The shipped interceptors, message by message."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import headstream as hs
from headstream.core.model.topology import MAX_BATCH_BYTES
from headstream.errors import InvalidOptionError
from headstream.interceptors import Auditing, Compression, Encryption, ErrorPolicy, Tracing, guard

LONG = b"the same words again " * 100


def message(payload: bytes | None = LONG, **fields: Any) -> hs.Message:
    return hs.Message(payload=payload, topic="shop/orders", **fields)


# -- compression ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["zlib", "zstd"])
def test_compression_gives_back_the_same_message(algorithm: str) -> None:
    compression = Compression(algorithm)
    before = message(key=b"k", headers=hs.Headers({"own": hs.uint8(1)}))
    sent = compression.on_send(before)
    assert len(sent.payload or b"") < len(LONG) / 5
    assert sent.headers["hs.compression"] == algorithm
    assert sent.headers["own"] == hs.uint8(1)
    assert Compression().on_receive(sent) == before


def test_compression_leaves_what_it_cannot_make_smaller() -> None:
    compression = Compression(min_bytes=0)
    for payload in (None, b"", b"short", secrets.token_bytes(1000)):
        assert compression.on_send(message(payload)) == message(payload)
    assert Compression(min_bytes=len(LONG) + 1).on_send(message()) == message()


def test_compression_neither_compresses_twice_nor_touches_plain_messages() -> None:
    compression = Compression()
    sent = compression.on_send(message())
    assert compression.on_send(sent) == sent
    assert compression.on_receive(message()) == message()


@pytest.mark.parametrize(
    "payload",
    [b"not zlib", Compression().on_send(message()).payload[:-1], (Compression().on_send(message()).payload or b"") + b"x"],  # type: ignore[index]
)
def test_a_damaged_compressed_payload_is_an_error(payload: bytes) -> None:
    damaged = message(payload, headers=hs.Headers({"hs.compression": "zlib"}))
    with pytest.raises(hs.InvalidInputError):
        Compression().on_receive(damaged)


@pytest.mark.parametrize("algorithm", ["zlib", "zstd"])
def test_a_small_payload_that_decompresses_to_too_much_is_refused(algorithm: str) -> None:
    bomb = Compression(algorithm).on_send(message(bytes(MAX_BATCH_BYTES + 1)))
    with pytest.raises(hs.InvalidInputError, match="decompresses to more than"):
        Compression().on_receive(bomb)


def test_an_unknown_compression_is_an_error_that_names_it() -> None:
    with pytest.raises(hs.InvalidInputError, match="'lzma'"):
        Compression().on_receive(message(headers=hs.Headers({"hs.compression": "lzma"})))


@pytest.mark.parametrize("options", [{"algorithm": "lzma"}, {"level": 10}, {"min_bytes": -1}])
def test_compression_refuses_options_out_of_range(options: dict[str, Any]) -> None:
    with pytest.raises(hs.InvalidOptionError):
        Compression(**options)


# -- encryption -------------------------------------------------------------------------------------------------------

KEY = bytes(range(32))


def test_encryption_hides_the_payload_and_leaves_headers_readable() -> None:
    encryption = Encryption({"a": KEY})
    before = message(b"patient 17", key=b"k", headers=hs.Headers({"clinic": "north"}))
    sent = encryption.on_send(before)
    assert b"patient" not in (sent.payload or b"")
    assert sent.headers["clinic"] == "north"
    assert json.loads(str(sent.headers["hs.encryption"].value)) == {"alg": "A256GCM", "key": "a", "headers": []}
    assert encryption.on_receive(sent) == before
    assert encryption.on_send(before).payload != sent.payload  # another nonce


def test_encryption_finds_changes_of_payload_key_and_authenticated_headers() -> None:
    encryption = Encryption({"a": KEY}, authenticate=["clinic"])
    sent = encryption.on_send(message(b"x", key=b"k", headers=hs.Headers({"clinic": "north", "hop": 1})))
    payload = sent.payload or b""
    changed = [
        replace(sent, payload=payload[:-1] + bytes([payload[-1] ^ 1]), checksum=-1),
        replace(sent, payload=payload[:20], checksum=-1),
        replace(sent, key=b"other"),
        replace(sent, key=None),
        replace(sent, headers=hs.Headers([(key, "south" if key == "clinic" else value) for key, value in sent.headers.items()])),
        replace(sent, headers=sent.headers.without("clinic")),
        replace(sent, headers=sent.headers.with_(("clinic", "again"))),
    ]
    for each in changed:
        with pytest.raises(hs.InvalidInputError, match=r"was changed|cut short"):
            encryption.on_receive(each)
    on_its_way = replace(sent, headers=sent.headers.without("hop").with_(("hop", 2)))
    assert encryption.on_receive(on_its_way).payload == b"x"


def test_encryption_cannot_be_stripped_of_its_authenticated_headers() -> None:
    encryption = Encryption({"a": KEY}, authenticate=["clinic"])
    sent = encryption.on_send(message(b"x", headers=hs.Headers({"clinic": "north"})))
    forged = hs.Headers({"clinic": "south", "hs.encryption": json.dumps({"alg": "A256GCM", "key": "a", "headers": []})})
    with pytest.raises(hs.InvalidInputError, match="was changed"):
        encryption.on_receive(replace(sent, headers=forged))


def test_encryption_rotates_keys() -> None:
    old = Encryption({"a": KEY})
    new = Encryption({"a": KEY, "b": secrets.token_bytes(32)}, current="b")
    assert new.on_receive(old.on_send(message(b"x"))).payload == b"x"
    with pytest.raises(hs.InvalidInputError, match="the key 'b' is unknown"):
        old.on_receive(new.on_send(message(b"x")))


def test_encryption_leaves_null_payloads_and_plain_messages_unless_it_is_required() -> None:
    assert Encryption({"a": KEY}).on_send(message(None)) == message(None)
    assert Encryption({"a": KEY}).on_receive(message(b"plain")) == message(b"plain")
    required = Encryption({"a": KEY}, required=True)
    assert required.on_receive(message(None)) == message(None)
    with pytest.raises(hs.InvalidInputError, match="not encrypted"):
        required.on_receive(message(b"plain"))


def test_encryption_cannot_be_skipped() -> None:
    with pytest.raises(hs.InvalidOptionError, match="cannot have on_error='skip'"):
        guard(Encryption({"a": KEY}), on_error="skip")
    encryption = Encryption({"a": KEY})
    encryption.on_error = "skip"
    with pytest.raises(hs.InvalidOptionError, match="cannot have on_error='skip'"):
        hs.connect("memory://", interceptors=[encryption])


@pytest.mark.parametrize(
    ("keys", "current"), [({"a": b"short"}, None), ({"a": KEY}, "b"), ({"a": KEY, "b": KEY}, None), ({}, None)]
)
def test_encryption_refuses_unusable_keys(keys: dict[str, bytes], current: str | None) -> None:
    with pytest.raises(hs.InvalidOptionError):
        Encryption(keys, current=current)


def test_encryption_reads_a_key_file_and_names_no_key_bytes_in_its_errors(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    text = base64.b64encode(KEY).decode()
    file.write_text(json.dumps({"current": "a", "keys": {"a": text}, "authenticate": ["clinic"]}))
    sent = Encryption.from_file(file).on_send(message(b"x"))
    assert Encryption({"a": KEY}).on_receive(sent).payload == b"x"
    for content in ("{", json.dumps({"current": "a", "keys": {"a": text + "*"}}), "[]", json.dumps({"keys": {"a": text}})):
        file.write_text(content)
        with pytest.raises(hs.InvalidOptionError) as found:
            Encryption.from_file(file)
        assert text not in str(found.value)


# -- auditing ---------------------------------------------------------------------------------------------------------


def test_auditing_adds_a_set_of_typed_headers_at_each_step() -> None:
    steps: list[dict[str, Any]] = []
    sent = Auditing("teller", record=steps.append).on_send(message(b"x"))
    sent = Auditing("approval", record=steps.append).on_send(sent)
    assert [value.value for value in sent.headers.getall("audit.application")] == ["teller", "approval"]
    assert [value.value for value in sent.headers.getall("audit.number")] == [1, 1]
    assert sent.headers["audit.time"].kind_name == "int64"
    assert [step["step"] for step in steps] == ["sent", "sent"]


def test_auditing_records_every_step_of_a_message() -> None:
    steps: list[dict[str, Any]] = []
    with hs.connect("memory://", interceptors=[Auditing("teller", record=steps.append)]) as log:
        log.create_topic("shop/orders")
        log.send("shop/orders", b"x")
        with log.consumer("shop/orders", group="billing", timeout_ms=0) as consumer:
            list(consumer)
    assert [(step["step"], step["topic"], step.get("offset")) for step in steps] == [
        ("sent", "shop/orders", None),
        ("stored", "shop/orders", 0),
        ("received", "shop/orders", 0),
        ("committed", "shop/orders", None),
    ]
    assert steps[-1]["offsets"] == {"1": 1}


def test_auditing_records_lines_of_json_by_default(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="headstream.audit")
    Auditing("teller").on_acknowledged(message(b"x"), ValueError("as arranged"))
    (line,) = caplog.messages
    assert json.loads(line)["error"] == "ValueError: as arranged"


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


def test_a_rate_is_the_part_of_messages_that_begin_a_trace(spans: tuple[TracerProvider, InMemorySpanExporter]) -> None:
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
def test_a_rate_that_is_no_part_is_refused(rate: float) -> None:
    with pytest.raises(InvalidOptionError, match="rate is"):
        Tracing(rate=rate)


def test_tracing_without_an_sdk_changes_nothing() -> None:
    assert Tracing().on_send(message(b"x")) == message(b"x")


def test_tracing_and_auditing_never_stop_a_message_by_default() -> None:
    assert (Tracing.on_error, Auditing.on_error) == (ErrorPolicy.SKIP, ErrorPolicy.SKIP)
