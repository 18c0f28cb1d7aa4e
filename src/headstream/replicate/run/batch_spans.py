"""The spans of a pipeline: of each micro-batch, and of each merge into a table; none unless `tracing` is set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from headstream.interceptors.batch_tracing import BatchSpan, BatchTracing
from headstream.replicate.engines.job_labels import LabelJobs
from headstream.replicate.tables.tables import Applied


class MergeSpan:
    """The span of one merge, as OpenTelemetry's."""

    def __init__(self, span: Any) -> None:
        self._span = span

    def end(self, applied: Applied) -> None:
        """Record what a merge did, or why it failed."""
        for counts in applied.counts.values():
            for operation in ("inserted", "updated", "deleted"):
                self._span.set_attribute(f"headstream.rows.{operation}", getattr(counts, operation))
        for error in applied.failed.values():
            from opentelemetry.trace import Status, StatusCode

            self._span.record_exception(error)
            self._span.set_status(Status(StatusCode.ERROR, str(error)))


class BatchSpans:
    """Makes the spans of one pipeline.

    Raises:
        MissingExtraError: `is_on`, and opentelemetry-api is not installed.
    """

    def __init__(self, labels: LabelJobs, *, is_on: bool, tracer_provider: Any = None) -> None:
        self._labels = labels
        self._tracing = BatchTracing(tracer_provider) if is_on else None
        self._batch: BatchSpan | None = None

    @contextmanager
    def merging(self, text: str) -> Iterator[MergeSpan | None]:
        """Label the Spark jobs of a table's step (`SHOP.orders: merge, micro-batch 12`), and make its span; see LabelJobs."""
        batch = self._batch
        with self._labels(text):
            if batch is None:
                yield None
                return
            table, _, step = text.partition(": ")
            with batch.step(f"{step.partition(',')[0]} {table}", {"db.collection.name": table}) as span:
                yield MergeSpan(span)

    @contextmanager
    def batch(self, batch_id: int, contexts: Sequence[str], message_count: int, start_ns: int) -> Iterator[None]:
        """Make the span of a micro-batch, with its start (nanoseconds since 1970 UTC) and trace contexts of sampled messages."""
        if self._tracing is None:
            yield
            return
        attributes = {"messaging.batch.message_count": message_count, "headstream.batch": batch_id}
        with self._tracing.process("process micro-batch", contexts, attributes, start_ns) as self._batch:
            try:
                yield
            finally:
                self._batch = None
