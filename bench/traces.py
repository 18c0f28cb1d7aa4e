"""What traces cost: a message sent, received and decoded by a pipeline, with OpenTelemetry off, and on at two sampling rates.

send, receive   one message through a producer and a consumer of a log in memory, with the interceptor Tracing and without;
                sampled by Tracing itself, or by OpenTelemetry's provider, for which each message needs a header
served          the same through a server: the client's processor time and the server's, which has `headstream.tracing` too
append          a batch stored by a server's broker, in memory, with `headstream.tracing` and without
decode          what the pipeline does with a micro-batch in a Python worker, on one core, with `tracing` and without

Each way runs in turn with the one without traces; the ratio is the median of these pairs. Time is that of the processor, of
all threads. The exporter keeps spans in memory.

    python -m bench.traces [--quick]
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from headstream.core.model.topology import NewTopic

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import psutil  # noqa: E402
import pyarrow as pa  # noqa: E402
from opentelemetry.sdk.trace import TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased  # noqa: E402

import headstream as hs  # noqa: E402
from bench.machine import run_benchmark  # noqa: E402
from bench.replicate_decode import make_messages, make_schema_store  # noqa: E402
from bench.replicate_messages import make_table, raw_batches  # noqa: E402
from headstream.broker.broker import Broker  # noqa: E402
from headstream.core.codec.binary import encode_sent  # noqa: E402
from headstream.core.model.identifiers import TopicName  # noqa: E402
from headstream.core.model.message import Message  # noqa: E402
from headstream.interceptors import Tracing  # noqa: E402
from headstream.interceptors.batch_tracing import BatchTracing  # noqa: E402
from headstream.log.opening import open_memory  # noqa: E402
from headstream.replicate.decoding.decode import Decoder  # noqa: E402
from headstream.replicate.schemas.schema_catalog import DecodeOptions  # noqa: E402
from tests.support.server.server_process import ServerProcess  # noqa: E402

TOPIC: Final = "shop/orders"
_HEADERS: Final = {"attempt": hs.uint8(3), "source": "web"}


def make_provider(rate: float) -> TracerProvider:
    """Return a provider that samples a part of the traces."""
    provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(rate)))
    provider.add_span_processor(BatchSpanProcessor(InMemorySpanExporter()))
    return provider


def send(count: int, tracing: Tracing | None) -> tuple[float, float]:
    """Return the seconds of all cores to send and to receive so many messages."""
    with hs.connect("memory://", interceptors=[] if tracing is None else [tracing]) as log:
        log.create_topic(TOPIC)
        began = time.process_time()
        with log.producer(TOPIC) as producer:
            for _ in range(count):
                producer.send(b"x" * 200, headers=_HEADERS)
        sent = time.process_time()
        with log.consumer(TOPIC, timeout_ms=0) as consumer:
            received = sum(len(consumer.poll(1000)) for _ in range(count // 1000))
        assert received == count
        return sent - began, time.process_time() - sent


def serve(count: int, server: ServerProcess, tracing: Tracing | None) -> tuple[float, float]:
    """Return the seconds of both processes to send and to receive so many messages."""
    usage = psutil.Process(server.pid)

    def spent() -> float:
        times = usage.cpu_times()
        return float(time.process_time() + times.user + times.system)

    url = f"headstream://iggy:iggy@127.0.0.1:{server.tcp[1]}"
    with hs.connect(url, interceptors=[] if tracing is None else [tracing]) as log:
        log.create_topic(TOPIC)
        began = spent()
        with log.producer(TOPIC) as producer:
            for _ in range(count):
                producer.send(b"x" * 200, headers=_HEADERS)
        sent = spent()
        with log.consumer(TOPIC, timeout_ms=0) as consumer:
            received = 0
            while received < count:
                received += len(consumer.poll(1000))
        ended = spent()
        log.delete_topic(TOPIC)
    return sent - began, ended - sent


def with_headers(batches: list[pa.RecordBatch], rate: float) -> list[pa.RecordBatch]:
    """Return the batches with a trace context in each message, of which a part is sampled."""
    numbers = itertools.count(1)
    every = round(1 / rate) if rate else 0

    def block() -> bytes:
        number = next(numbers)
        flags = "01" if every and number % every == 0 else "00"
        return hs.Headers({**_HEADERS, "traceparent": f"00-{number:032x}-{number:016x}-{flags}"}).as_bytes()

    at = batches[0].schema.get_field_index("headers")
    return [batch.set_column(at, "headers", pa.array([block() for _ in range(batch.num_rows)], pa.binary())) for batch in batches]


def compare(
    rounds: int, plain: Callable[[], tuple[float, ...]], other: Callable[[], tuple[float, ...]]
) -> list[tuple[float, float, float]]:
    """Return, for each measured part, the median seconds of the processor of both ways, and the median ratio of pairs."""
    pairs = [(plain(), other()) if number % 2 else (other(), plain())[::-1] for number in range(rounds)]
    found = []
    for part in range(len(pairs[0][0])):
        before, after = [pair[0][part] for pair in pairs], [pair[1][part] for pair in pairs]
        ratio = statistics.median(b / a for a, b in zip(before, after, strict=True))
        found.append((statistics.median(before), statistics.median(after), ratio))
    return found


def main() -> None:
    """Measure, and write results/traces.txt."""
    with run_benchmark("traces", __doc__, "few messages and rounds; no results are written") as (report, directory, is_quick):
        count, rounds = (5000, 2) if is_quick else (20_000, 7)
        ways = (
            ("none, Tracing(rate=0)", 1.0, 0.0),
            ("1 %, Tracing(rate=0.01)", 1.0, 0.01),
            ("1 %, by the provider", 0.01, None),
            ("all", 1.0, None),
        )
        for name, share, rate in ways:
            provider = make_provider(share)
            tracing = Tracing(provider, rate=rate)
            found = compare(rounds, lambda: send(count, None), lambda tracing=tracing: send(count, tracing))  # type: ignore[misc]
            for what, (before, after, ratio) in zip(("send", "receive"), found, strict=True):
                text = f"{1e6 * before / count:.1f} us a message without traces, {1e6 * after / count:.1f} with, {ratio:.2f} x"
                report.line(f"{what}, sampled: {name}: {text}")
            provider.shutdown()
        measure_served(report.line, directory, count, 3 * rounds)
        measure_appends(report.line, count, rounds)
        measure_decoding(report.line, directory, 50_000 if is_quick else 100_000, rounds)


def measure_served(tell: Callable[[str], None], directory: Path, count: int, rounds: int) -> None:
    """Measure sending and receiving through a server in a process of its own, with traces on both sides and on none."""
    recording = {"HEADSTREAM_TRACING": "true", "OTEL_PYTHON_TRACER_PROVIDER": "sdk_tracer_provider"}
    provider = make_provider(1.0)
    tracing = Tracing(provider, rate=0.01)
    with ServerProcess(directory / "plain") as plain, ServerProcess(directory / "traced", environ=recording) as traced:
        found = compare(rounds, lambda: serve(count, plain, None), lambda: serve(count, traced, tracing))
    for what, (before, after, ratio) in zip(("send", "receive"), found, strict=True):
        text = f"{1e6 * before / count:.1f} us a message without traces, {1e6 * after / count:.1f} with, {ratio:.2f} x"
        tell(f"{what}, through a server, 1 % sampled: {text}")
    provider.shutdown()


def measure_appends(tell: Callable[[str], None], count: int, rounds: int) -> None:
    """Measure the appends of a server's broker with a tracer and without."""
    provider = make_provider(1.0)
    for size in (1, 100):
        for name, every in (("none sampled", 0), ("1 % sampled", 100)):
            contexts = (f"00-{n:032x}-{n:016x}-{'01' if every and n % every == 0 else '00'}" for n in itertools.count(1))
            headers = (hs.Headers({**_HEADERS, "traceparent": next(contexts)}) for _ in range(count))
            messages = [Message(payload=b"x" * 200, headers=each) for each in headers]
            batches = [encode_sent(messages[at : at + size]) for at in range(0, count, size)]

            def append(tracing: BatchTracing | None, batches: list[bytes] = batches) -> tuple[float]:
                with contextlib.closing(Broker(open_memory())) as broker:
                    broker.topics.create(NewTopic(TopicName.parse(TOPIC), 1, hs.Limits.WIDE))
                    broker.messages.tracing = tracing
                    began = time.process_time()
                    for batch in batches:
                        broker.messages.send(TopicName.parse(TOPIC), 1, batch)
                    return (time.process_time() - began,)

            ((before, after, ratio),) = compare(rounds, lambda: append(None), lambda: append(BatchTracing(provider)))
            text = f"{1e6 * before / count:.2f} us a message without traces, {1e6 * after / count:.2f} with, {ratio:.2f} x"
            tell(f"append, batches of {size}, {name}: {text}")
    provider.shutdown()


def measure_decoding(tell: Callable[[str], None], directory: Path, count: int, rounds: int) -> None:
    """Measure the decoding of messages without and with trace contexts."""
    tables = [make_table(0)]
    schema_store = make_schema_store(directory / "zone", tables)
    plain = list(raw_batches(make_messages(tables, count), 50_000))

    def decode(batches: list[pa.RecordBatch], *, is_on: bool) -> tuple[float]:
        decoder = Decoder(schema_store, DecodeOptions(tracing=is_on))
        began = time.process_time()
        for batch in batches:
            decoder.decode(batch).to_batch()
        return (time.process_time() - began,)

    kinds = {"none has a context": plain, "1 % sampled": with_headers(plain, 0.01), "all sampled": with_headers(plain, 1.0)}
    for name, batches in kinds.items():
        off, on = (lambda is_on=is_on, batches=batches: decode(batches, is_on=is_on) for is_on in (False, True))
        ((before, after, ratio),) = compare(rounds, off, on)
        text = f"{1e6 * before / count:.2f} us a message with tracing off, {1e6 * after / count:.2f} on, {ratio:.2f} x"
        tell(f"decode, {name}: {text}")


if __name__ == "__main__":
    main()
