"""The pipeline: a Spark query over the log, and the processing of its micro-batches.

messages -> decode (executors, one pass) -> processor.py (driver): merge, one commit per table
"""

from __future__ import annotations

import functools
import logging
import shutil
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headstream.errors import HeadstreamError, InvalidInputError, LogError, ReplicateError, StorageError
from headstream.interceptors.batch_tracing import BatchSpan, BatchTracing
from headstream.metrics.output import MetricsOutput
from headstream.replicate.apply.on_executors.stored_batch import open_store_session
from headstream.replicate.checkpoint.checkpoint_store import CheckpointStore, LocalCheckpointStore, ObjectCheckpointStore
from headstream.replicate.checkpoint.driver_lock import DriverLock
from headstream.replicate.checkpoint.moved import MOVED_FILE, check_not_moved, note_moved
from headstream.replicate.columns.large_values import take_rows
from headstream.replicate.columns.raw import RAW_SCHEMA, SOURCE_COLUMNS, match_rows
from headstream.replicate.decoding.decode import Decoder, decode_partitions, open_schema_store
from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.decoding.frame_times import FrameTimes
from headstream.replicate.engines.engines import Engines
from headstream.replicate.engines.job_labels import JobLabels, LabelJobs
from headstream.replicate.inputs.collecting import collect, find_planned_batch, find_source_fault, is_too_big, reason_of
from headstream.replicate.inputs.inputs import Input, add_declared_schemas, check_topics, open_input, query_checkpoint
from headstream.replicate.parked.ledger import Ledger
from headstream.replicate.parked.own_log import recover_log
from headstream.replicate.run.decoded_storage import store_decoded
from headstream.replicate.run.metrics import describe_pipeline
from headstream.replicate.run.mirrors import IcebergMirrors
from headstream.replicate.run.processor import Processor
from headstream.replicate.run.progress import Listener, ProgressReports, batch_numbers
from headstream.replicate.run.registration import CatalogTables
from headstream.replicate.run.session_check import check_classic, check_delta, check_workers
from headstream.replicate.run.status import HEARTBEAT_US, describe_orders, note_status, note_targets, read_status
from headstream.replicate.run.summary import Summary
from headstream.replicate.run.unit import PipelineContext
from headstream.replicate.schemas.schema_catalog import DecodeOptions
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.storage.places import StorePlace
from headstream.replicate.storage.store_check import check_stores
from headstream.replicate.storage.store_files import StoreFiles
from headstream.replicate.tables.tables import Applied, TargetTables

_WRITE_EVERY_S: Final = 10.0
_RETRY_US: Final = 1_000_000
"""Time for which a failing metrics write is retried, microseconds; short, because newer metrics follow."""


class StoredMetrics:
    """Writes metrics to an object, at most every ten seconds; store errors are logged as warnings."""

    def __init__(self, place: StorePlace, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._files = StoreFiles(place, _RETRY_US)
        self._clock_s = clock_s
        self._written_s: float | None = None

    def write(self, text: str, *, is_last: bool) -> None:
        """Write the metrics if at least ten seconds have passed since the last write, or if the metrics are final."""
        if not is_last and self._written_s is not None and self._clock_s() < self._written_s + _WRITE_EVERY_S:
            return
        self._written_s = self._clock_s()
        try:
            self._files.write(text.encode())
        except StorageError as error:
            _LOGGER.warning("the metrics cannot be written: %s", error)


def open_checkpoint_store(config: ReplicateConfig, clock_us: Callable[[], int]) -> tuple[CheckpointStore, ReplicateConfig]:
    """Open a pipeline's checkpoint; return the checkpoint store, and the settings with the state directory.

    Raises:
        ReplicateError: the checkpoint was moved, the target of a move has a checkpoint, or another run uses the checkpoint.
    """
    place = config.checkpoint
    if not isinstance(place, StorePlace):
        check_not_moved(place)
        return LocalCheckpointStore(place), config
    check_stores([place])
    directory = Path(tempfile.mkdtemp(prefix="headstream-checkpoint-"))
    checkpoint_store = ObjectCheckpointStore(place, directory, clock_us)
    weakref.finalize(checkpoint_store, shutil.rmtree, directory, True)  # at the end of the process, if close() was not called
    try:
        if config.checkpoint_from is None:
            checkpoint_store.open(repair=recover_log)
        else:
            _move(config.checkpoint_from, checkpoint_store)
    except BaseException:
        checkpoint_store.close()
        raise
    return checkpoint_store, replace(config, local_copy=directory)


def _move(first: Path, checkpoint_store: ObjectCheckpointStore) -> None:
    """Move a checkpoint from a directory to an object store; no run may use the checkpoint during the move."""
    if not (first / "ledger.sqlite").is_file():
        raise StorageError(
            "there is no checkpoint of a pipeline", where=str(first), advice="Specify the directory that a pipeline used"
        )

    def prepare(copy: Path) -> None:
        (copy / MOVED_FILE).unlink(missing_ok=True)
        recover_log(copy)
        note_moved(first, checkpoint_store.place)

    lock = DriverLock(first)
    lock.acquire()
    try:
        check_not_moved(first, checkpoint_store.place)
        checkpoint_store.open(first, repair=prepare)
    finally:
        lock.release()


_LOGGER = logging.getLogger("headstream.replicate")
_TIMES = "partition_times"
"""Name, in the ledger, of the log times read from each partition."""
_KEEP_EVERY_US = 10_000_000
"""Interval at which an idle run saves its checkpoint to an object store, where `status` reads it, microseconds."""
_SWEEP_SECONDS = 0.5
"""Interval at which waiting messages are processed while no data arrives, seconds."""


class MergeSpan:
    """The OpenTelemetry span of one merge."""

    def __init__(self, span: Any) -> None:
        self._span = span

    def end(self, applied: Applied) -> None:
        """Record the result or error of the merge."""
        for counts in applied.counts.values():
            for operation in ("inserted", "updated", "deleted"):
                self._span.set_attribute(f"headstream.rows.{operation}", getattr(counts, operation))
        for error in applied.failed.values():
            from opentelemetry.trace import Status, StatusCode

            self._span.record_exception(error)
            self._span.set_status(Status(StatusCode.ERROR, str(error)))


class BatchSpans:
    """Records the spans of a pipeline's micro-batches and merges if `tracing` is set.

    Raises:
        MissingExtraError: `is_on` is set, but opentelemetry-api is not installed.
    """

    def __init__(self, labels: LabelJobs, *, is_on: bool, tracer_provider: Any = None) -> None:
        self._labels = labels
        self._tracing = BatchTracing(tracer_provider) if is_on else None
        self._batch: BatchSpan | None = None

    @contextmanager
    def merging(self, text: str) -> Iterator[MergeSpan | None]:
        """Label the Spark jobs of a table's step (`SHOP.orders: merge, micro-batch 12`), and record the span; see LabelJobs."""
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
        """Record the span of a micro-batch that began at `start_ns` (nanoseconds since 1970 UTC), linked to sampled messages."""
        if self._tracing is None:
            yield
            return
        attributes = {"messaging.batch.message_count": message_count, "headstream.batch": batch_id}
        with self._tracing.process("process micro-batch", contexts, attributes, start_ns) as self._batch:
            try:
                yield
            finally:
                self._batch = None


class ReplicatePipeline:
    """One run of a pipeline. The state is in the checkpoint, from which the next run continues.

    Args:
        spark: A session from headstream.spark.session().
        source: A streaming DataFrame to read instead of the source's topics, with the columns of Spark's Kafka source.
        on_progress: Called after every micro-batch with the current summary.
        clock: Returns the time in nanoseconds since 1970 UTC.
        tracer_provider: Records the spans if `tracing` is set; by default OpenTelemetry's global provider.

    Raises:
        InvalidOptionError: the session is a Spark Connect client.
        EnvironmentSetupError: the session lacks the jars for the tables' object store, Delta if Spark needs it, or Headstream in
            its workers' Python.
    """

    def __init__(
        self,
        spark: SparkSession,
        config: ReplicateConfig,
        *,
        source: DataFrame | None = None,
        on_progress: Callable[[Summary], None] | None = None,
        clock: Callable[[], int] = time.time_ns,
        tracer_provider: Any = None,
    ) -> None:
        check_classic(spark)
        check_delta(spark, config.rules.engines, has_catalog=config.rules.has_catalog)
        check_workers(spark)
        self._spark = spark
        self._config = config
        self._source = source
        self._on_progress = on_progress
        self._clock = clock
        self._lock = threading.Lock()  # micro-batches run on Spark's thread, and the sweep on the caller's thread
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._query: Any = None
        self._listeners: list[Listener] = []
        self._reports: ProgressReports | None = None
        self._background: futures.Future[Summary] | None = None
        self._checkpoint_store, config = open_checkpoint_store(config, self._now_us)
        self._config = config
        self._decoding = DecodeOptions.of(config)
        self._schema_store = open_schema_store(config.schemas_directory, self._decoding, config.schemas_place)
        self._decoder = Decoder(self._schema_store, self._decoding)
        self._ledger = Ledger(config.state_directory / "ledger.sqlite")
        self._summary = Summary()
        self._noted_us = self._kept_us = self._idle_us = 0
        self._schema_count = -1
        self._is_collecting = False
        self._planned: int | None = None
        engines = Engines(spark, config.merge_settings)
        engines.check(config.table_places, config.rules.engines)
        self._store_session = open_store_session(spark) if engines.uses_spark(config.rules.engines) else None
        self._catalog = CatalogTables(spark, config, self._schema_store)
        self._iceberg = None if config.iceberg is None else IcebergMirrors(config, self._now_us)
        self._labels = JobLabels(spark)
        self._metrics = _open_metrics(config)
        self._spans = BatchSpans(self._labels.writing, is_on=config.tracing, tracer_provider=tracer_provider)
        self._tables = TargetTables.of(
            config, engines.open, self._ledger.pipeline_id, self._checkpoint_store, self._spans.merging
        )
        context = PipelineContext(
            config,
            self._schema_store,
            self._decoder,
            self._ledger,
            self._tables,
            self._summary,
            self._now_us,
            self._checkpoint_store,
            self._iceberg,
        )
        self._processor = Processor(context)

    def run(self) -> Summary:
        """Run until stopped or, with `once`, until all messages that existed at the start are applied.

        Raises:
            HeadstreamError: the source cannot be read, a table cannot be written, or a schema is missing and the policy
                is `fail`. Applied changes persist; the next run continues after them.
        """
        finished = False
        try:
            self._checkpoint_store.begin()
        except BaseException:
            self._close()
            raise
        try:
            if self._source is None:
                check_topics(self._config)
            check_stores(self._config.table_places)
            self._schema_store.scan()
            self._catalog.follow_schemas()
            self._catalog.offer(self._tables.names())
            if self._iceberg is not None:
                self._iceberg.offer(self._tables.names())
            query = self._start()
            try:
                while not query.awaitTermination(_SWEEP_SECONDS):
                    if self._stopping.is_set():
                        break
                    self._sweep(lambda: _is_idle(query))
            finally:
                query.stop()
                if self._reports is not None:
                    self._reports.end()
            self._sweep(lambda: self._config.once and not self._stopping.is_set(), last=True)
            self._checkpoint_store.save()
            is_complete = self._config.once and not self._stopping.is_set()
            self._catalog.finish(self._summary.tables, every_table=is_complete)
            if self._iceberg is not None:
                self._iceberg.offer(self._tables.take_touched())
                self._iceberg.finish(every_table=is_complete)
            finished = True
        except (PySparkException, Py4JError, ConnectionError, LogError) as error:
            cause = error if self._failure is None else self._failure
            if isinstance(cause, (PySparkException, Py4JError, ConnectionError)) or find_source_fault(cause) is not None:
                raise self._explain(cause) from cause
            raise cause from None
        finally:
            self._count_waiting()
            self._note_status("ended" if finished else f"failed: {sys.exception()}")
            self._keep_at_end()
            self._close()
        return self._summary

    def _close(self) -> None:
        self._metrics.close()
        self._catalog.close()
        if self._iceberg is not None:
            self._iceberg.close()
        self._processor.close()
        self._tables.close()
        self._ledger.close()
        self._checkpoint_store.close()

    def _keep_at_end(self) -> None:
        try:
            self._checkpoint_store.save(attempts=1)
        except HeadstreamError as error:
            _LOGGER.warning("the last steps of the run were not saved in the checkpoint; the next run repeats them: %s", error)

    def _explain(self, error: BaseException) -> ReplicateError:
        """Translate a Spark failure into an error with advice."""
        is_lost = isinstance(error, (Py4JError, ConnectionError)) and not isinstance(error, Py4JJavaError)
        if is_too_big(error) or (is_lost and self._is_collecting):
            what = "Spark's driver has too little memory for a micro-batch"
            if is_lost:
                what = "Spark's Java process ended while it collected a micro-batch, probably because memory was exhausted"
            return ReplicateError(
                what,
                where=self._config.source,
                advice="Run again with the same checkpoint: the micro-batch is then fetched in pieces. To avoid this in later "
                "micro-batches, increase Spark's memory (--driver-memory 4g, or spark.driver.memory), or lower "
                "max_bytes_per_batch or max_messages_per_batch",
            )
        found = find_source_fault(error)
        if found is not None:
            return ReplicateError(found.what, where=self._config.source, advice=found.advice)
        if not is_lost:
            return ReplicateError(f"the Spark query failed: {reason_of(error)}", where=self._config.source)
        return ReplicateError(
            "Spark's Java process ended",
            where=self._config.source,
            advice="Java has printed the reason above; run again with the same checkpoint to continue where this run ended",
        )

    def stop(self) -> None:
        """End the run after the current micro-batch; thread-safe, returns immediately."""
        self._stopping.set()

    def start(self) -> None:
        """Run in a separate thread and return immediately, for example in a notebook.

        Raises:
            InvalidInputError: the pipeline was already started; it can run only once.
        """
        if self._background is not None:
            raise InvalidInputError("the pipeline was already started", advice="Create another pipeline with the same checkpoint")
        self._background = result = futures.Future[Summary]()

        def work() -> None:
            try:
                result.set_result(self.run())
            except BaseException as error:
                expected = isinstance(error, HeadstreamError)
                _LOGGER.error("the pipeline failed: %s", error, exc_info=None if expected else error)
                result.set_exception(error)

        threading.Thread(target=work, name="headstream-replicate", daemon=True).start()

    def await_termination(self, timeout_s: float | None = None) -> Summary | None:
        """Wait until a run started by start() has ended.

        Args:
            timeout_s: Maximum wait, seconds; None: unlimited.

        Returns:
            The summary of the run; None if it is still running.

        Raises:
            InvalidInputError: the pipeline was not started.
            HeadstreamError: the run failed, with the error of run().
        """
        if self._background is None:
            raise InvalidInputError("the pipeline was not started", advice="Call start() first, or use run()")
        ended = futures.wait([self._background], timeout_s).done
        return self._background.result() if ended else None

    def add_listener(self, listener: Listener) -> None:
        """Pass the progress of each micro-batch to a function. Call add_listener() before the run.

        The listener receives Spark's StreamingQueryProgress as a JSON object with an additional member `headstream`: the
        messages, bytes, changes, merges, schemas, released and dead messages of the micro-batch, the `parked` and `delayed`
        messages after it, the longest `lag_seconds`, `table_count`, and `tables` (rows and lag of the ten tables with the most
        changes).

        Args:
            listener: Called on a Spark thread, soon after the micro-batch; errors of the listener are logged.
        """
        self._listeners.append(listener)

    def _start(self) -> Any:
        if self._config.schemas is not None:
            add_declared_schemas(self._schema_store, self._config.schemas, self._now_us())
        decode = decode_partitions(self._schema_store, self._decoding, with_statistics=self._store_session is not None)
        source = open_input(self._spark, self._config, decode, self._frame_times(), self._source)

        def run_batch(batch: DataFrame, batch_id: int) -> None:
            self._run_batch(source, batch, batch_id)

        checkpoint = query_checkpoint(self._config)
        if self._config.accept_recreated:
            source.accept_recreated(checkpoint)
        self._planned = find_planned_batch(checkpoint)
        writer = source.stream().writeStream.foreachBatch(run_batch)
        writer = writer.option("checkpointLocation", str(checkpoint))
        if self._config.once:
            writer = writer.trigger(availableNow=True)
        elif self._config.trigger_every_us:
            writer = writer.trigger(processingTime=f"{self._config.trigger_every_us // 1000} milliseconds")
        if self._listeners:
            self._reports = ProgressReports(self._spark, self._listeners)
            self._reports.begin()
        self._query = writer.queryName("headstream-replicate").start()
        if self._reports is not None:
            self._reports.follow(str(self._query.runId))
        return self._query

    def _frame_times(self) -> FrameTimes:
        def progress() -> Any:
            return None if self._query is None else self._query.lastProgress

        load, save = functools.partial(self._ledger.mark, _TIMES), functools.partial(self._ledger.set_mark, _TIMES)
        return FrameTimes(query_checkpoint(self._config), progress, load, save)

    def _run_batch(self, source: Input, batch: DataFrame, batch_id: int) -> None:
        with self._lock:
            try:
                self._apply_batch(source, batch, batch_id)
            except BaseException as error:
                self._failure = error  # Spark reports only the error's text
                raise

    def _apply_batch(self, source: Input, batch: DataFrame, batch_id: int) -> None:
        began, began_ns, before = time.monotonic(), time.time_ns(), self._summary.to_dict() if self._reports is not None else {}
        in_pieces = batch_id == self._planned
        read = functools.partial(collect, in_pieces=in_pieces)

        def find_raw(wanted: pa.Table) -> pa.Table:
            with self._labels.reading(f"read messages again, micro-batch {batch_id}"):
                return _find_raw(source.read_again(batch, wanted, in_pieces=in_pieces), wanted)

        self._is_collecting = True
        rows, stored = source.decoded(batch), None
        with self._labels.reading(f"decode, micro-batch {batch_id}"):
            if self._store_session is None:
                decoded = Decoded.from_table(read(rows))
                if self._processor.store_schemas(decoded).shares_ids:
                    decoded = Decoded.from_table(read(rows))
            else:
                stored, decoded = store_decoded(self._store_session, rows, read, self._processor.store_schemas)
        self._is_collecting = False
        try:
            for finding, count in decoded.findings.items():
                _LOGGER.warning("%s (%d messages)", finding, count)
            with self._spans.batch(batch_id, decoded.contexts, decoded.message_count, began_ns):
                self._processor.process(decoded, find_raw, batch_id, source.read_until(batch_id, decoded.times))
        finally:
            if stored is not None:
                self._summary.rows_in_driver += stored.fetched_rows
                stored.close()
        self._summary.batches += 1
        self._summary.seconds += time.monotonic() - began
        self._report()
        if self._reports is not None:
            self._reports.note(batch_id, batch_numbers(before, self._summary.to_dict()))

    def _sweep(self, is_all_read: Callable[[], bool], *, last: bool = False) -> None:
        with self._lock:  # evaluated under the lock: no later micro-batch can begin in the meantime
            all_read = is_all_read()
            if all_read and self._query.lastProgress is not None:  # that trigger or a later one found nothing
                began = datetime.fromisoformat(self._query.lastProgress["timestamp"])
                self._idle_us = int(began.timestamp() * 1000) * 1000
            if self._processor.sweep(last=last, all_read=all_read) or self._now_us() - self._noted_us >= HEARTBEAT_US:
                self._report()
            self._processor.bounds.find_alarm(self._now_us())

    def _report(self) -> None:
        self._count_waiting()
        self._note_status("running")
        if self._noted_us - self._kept_us >= _KEEP_EVERY_US:
            self._kept_us = self._noted_us
            self._checkpoint_store.save()
        if self._on_progress is not None:
            self._on_progress(self._summary)

    def status(self) -> dict[str, Any]:
        """Return the status of a running pipeline, as in `replicate status --output json`; thread-safe."""
        return read_status(self._ledger, self._now_us())

    def _note_status(self, state: str) -> None:
        self._noted_us = self._now_us()
        self._summary.read_until_us = max(self._idle_us, self._processor.read_until_us)
        if self._schema_store.scan() != self._schema_count:
            self._schema_count = self._schema_store.scan()
            note_targets(self._ledger, self._schema_store, self._config.rules)
            self._catalog.follow_schemas()
        self._catalog.offer(self._summary.tables)
        heartbeat_us = HEARTBEAT_US if isinstance(self._checkpoint_store, LocalCheckpointStore) else HEARTBEAT_US + _KEEP_EVERY_US
        catalog, iceberg = self._catalog.status(), None
        if self._iceberg is not None:
            self._iceberg.offer(self._tables.take_touched())
            iceberg = self._iceberg.status()
        orders = describe_orders(self._decoder.orders, self._schema_store)
        note_status(
            self._ledger,
            state,
            self._summary,
            self._schema_store.directory,
            self._noted_us,
            heartbeat_us,
            catalog,
            orders,
            iceberg,
        )
        if self._metrics.is_wanted:
            self._metrics.write(describe_pipeline(self.status()))

    def _count_waiting(self) -> None:
        counts = self._ledger.counts()
        self._summary.vectors = self._tables.vectors()
        self._summary.parked = sum(counts.get(state, 0) for state in ("parked", "called", "releasing"))
        self._summary.failing = {table: found.reason for table, found in self._processor.health.failing.items()}
        self._summary.delayed = counts.get("delayed", 0)

    def _now_us(self) -> int:
        return self._clock() // 1000


def _open_metrics(config: ReplicateConfig) -> MetricsOutput:
    place = config.metrics
    if isinstance(place, StorePlace):
        return MetricsOutput("headstream-replicate", None, over_otlp=config.metrics_otlp, write_text=StoredMetrics(place).write)
    return MetricsOutput("headstream-replicate", place, over_otlp=config.metrics_otlp)


def _find_raw(found: pa.Table, wanted: pa.Table) -> pa.Table:
    """Select the wanted messages from messages that were read again, because decoded changes are sent without their bytes."""
    fields = [RAW_SCHEMA.field(name).with_nullable(True) for name in SOURCE_COLUMNS]
    found = found.select(list(SOURCE_COLUMNS)).cast(pa.schema(fields))  # a session can be configured to return other types
    chosen = take_rows(found, match_rows(found, wanted)[0])
    empty = pa.nulls(chosen.num_rows, pa.string())
    return chosen.append_column("schema_id", empty).append_column("reason", empty).select(RAW_SCHEMA.names).cast(RAW_SCHEMA)


def _is_idle(query: Any) -> bool:
    """Return whether a query has found no data since its last micro-batch: it has then reached the end of all partitions."""
    status = query.status
    return not status["isDataAvailable"] and not status["isTriggerActive"] and query.lastProgress is not None
