"""Writing to the `headstream` data source: delegates Spark's calls to options, columns, tasks and the log.

    driver     options and columns are validated before any task runs
    tasks      rows -> batches, staged in the log's directory or at its server (stager.py)
    driver     commit: a manifest of the successful tasks' parts (log.py, server_sink.py); abort: the parts are removed

Writes are atomic and idempotent. The query's id and the batch number, which Spark passes to every task and stores in the
checkpoint, identify a stream's batch. The log records the last batch of each query, so a repeated batch has no effect, even if
its rows are in another order. A batch write has a generated id, or the id from txnAppId and txnVersion.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from headstream.errors import EnvironmentSetupError, InvalidOptionError
from headstream.log.staged.commits import ONCE
from headstream.log.staged.staging import Manifest
from headstream.log.system.malloc import configure_malloc, trim_malloc
from headstream.spark.connection.spark_versions import DataSourceStreamArrowWriter
from headstream.spark.sink.bad_rows import discard_bad_rows, publish_bad_rows
from headstream.spark.sink.columns import SinkColumns, plan_columns
from headstream.spark.sink.log import DirectorySink, SinkLog
from headstream.spark.sink.options import SinkOptions, parse_sink_options
from headstream.spark.sink.server_sink import ServerSink
from headstream.spark.sink.stager import Staged, StageTask, stage_rows
from headstream.spark.workers.endings import exit_quietly
from headstream.spark.workers.memory import freeze_objects

_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
"""Names of local properties that Spark sets for every task of a stream."""
_MUCH_BYTES: Final = 32 << 20
"""Staged bytes after which a worker returns freed memory to the system."""


@dataclass(frozen=True, slots=True)
class TaskMessage(WriterCommitMessage):
    """A task's result for the driver."""

    writer: str
    epoch: int
    task: int
    staged: Staged


@dataclass(frozen=True, slots=True)
class _Sink:
    """Base class of both writers."""

    options: SinkOptions
    log: SinkLog
    columns: SinkColumns
    identity: str

    @classmethod
    def plan(cls, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> _Sink:
        freeze_objects()
        parsed = parse_sink_options(options)
        if overwrite:
            raise InvalidOptionError(
                "a log is append-only: its messages cannot be overwritten",
                advice='Write with .mode("append") or .outputMode("append"); use `headstream topic purge` to empty a topic',
            )
        columns = plan_columns(schema, parsed)
        log: SinkLog = DirectorySink(parsed.log) if isinstance(parsed.log, str) else ServerSink(parsed.log)
        identity = log.read_identity()
        if parsed.topic is not None:
            log.find(parsed.topic)
        return cls(parsed, log, columns, identity)

    def stage(self, writer: str, epoch: int, task: int, batches: Iterator[pa.RecordBatch]) -> TaskMessage:
        freeze_objects()
        configure_malloc()  # reuses freed memory: new memory for each batch costs more than writing the batch
        options = self.options
        work = StageTask(self.log, self.columns, options.topic, options.bad_rows_path, writer, epoch, task)
        staged = stage_rows(work, batches)
        _return_memory([staged])
        return TaskMessage(writer, epoch, task, staged)

    def commit(self, messages: Sequence[TaskMessage]) -> None:
        options = self.options
        ordered = sorted(messages, key=lambda message: message.task)
        if not ordered:
            return
        writer, epoch = ordered[0].writer, ordered[0].epoch
        if options.bad_rows_path is not None:
            names = [message.staged.bad_rows for message in ordered if message.staged.bad_rows is not None]
            publish_bad_rows(options.bad_rows_path, writer, epoch, names)
        parts = tuple(message.staged.part for message in ordered if message.staged.part is not None)
        if parts:
            configure_malloc()
            limits = {name: each for message in ordered for name, each in message.staged.limits.items()}
            manifest = Manifest(writer, epoch, self.identity, limits, parts)
            self.log.commit(manifest, options.commit_timeout_s)
            _return_memory([message.staged for message in ordered])

    def abort(self, writer: str, epoch: int, messages: Sequence[TaskMessage]) -> None:
        options = self.options
        parts = [message.staged.part for message in messages if message.staged.part is not None]
        is_discarded = self.log.abort(writer, epoch, parts)
        if is_discarded and writer.startswith(ONCE) and options.bad_rows_path is not None:
            discard_bad_rows(options.bad_rows_path, writer, epoch)


def _return_memory(staged: Iterable[Staged]) -> None:
    """Return freed memory to the system after a large task, because Spark reuses its workers."""
    sizes = (chunk.size_bytes for one in staged if one.part is not None for chunk in one.part.chunks)
    if sum(sizes) >= _MUCH_BYTES:
        trim_malloc()


def _task() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise EnvironmentSetupError("this code does not run in a Spark task", advice="Write rows in Spark tasks only")
    return context


def _present(messages: Sequence[WriterCommitMessage | None]) -> list[TaskMessage]:
    return [message for message in messages if isinstance(message, TaskMessage)]


class HeadstreamWriter(DataSourceArrowWriter):
    """Writes a DataFrame in a batch write.

    Args:
        overwrite: Whether to replace existing messages; True is rejected.

    Raises:
        InvalidOptionError: an option or a column is invalid; the message names it.
        NotALogError, TopicNotFoundError: the log or topic is missing.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self._sink = _Sink.plan(options, schema, overwrite=overwrite)
        transaction = self._sink.options.transaction
        self._writer, self._epoch = (f"{ONCE}{uuid.uuid4()}", 0) if transaction is None else transaction

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of a task."""
        return self._sink.stage(self._writer, self._epoch, _task().partitionId(), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Append the tasks' staged files."""
        self._sink.commit(_present(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove the tasks' staged files."""
        self._sink.abort(self._writer, self._epoch, _present(messages))


class HeadstreamStreamWriter(DataSourceStreamArrowWriter):
    """Writes the micro-batches of a stream, each exactly once.

    Args:
        overwrite: Whether each batch replaces existing messages (output mode complete); True is rejected.

    Raises:
        InvalidOptionError: an option or a column is invalid; the message names it.
        NotALogError, TopicNotFoundError: the log or topic is missing.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self._sink = _Sink.plan(options, schema, overwrite=overwrite)
        self._sink.options.check_stream()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of a task."""
        context = _task()
        query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        if query is None or batch is None:
            raise EnvironmentSetupError(
                f"Spark has not set the query and batch of this task ({_QUERY_ID}, {_BATCH_ID})",
                advice="Write in foreachBatch, with the options txnAppId and txnVersion",
            )
        return self._sink.stage(query, int(batch), context.partitionId(), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Append the tasks' staged files."""
        self._sink.commit(_present(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove the tasks' staged files; failed tasks have already removed their files."""
        ordered = _present(messages)
        if ordered:
            self._sink.abort(ordered[0].writer, ordered[0].epoch, ordered)


exit_quietly()  # every process in which PySpark looks up sources, plans or commits imports this module
