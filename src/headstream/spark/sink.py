"""Writing to the `headstream` data source: what Spark asks for, handed on to options, columns, tasks and the log.

    driver     options and columns are checked before anything runs
    tasks      rows -> batches, staged in the log's directory or at its server (stager.py)
    driver     commit: which of them count (sink_log.py, server_sink.py); abort: they go

Once and whole: a stream's batch has a name, its query's id and its number, which Spark hands to every task and keeps in
the checkpoint; the log remembers the last one of each query, so that a batch that comes again, in whatever order its
rows come, changes nothing. A batch write has a name of its own, or the one that txnAppId and txnVersion give.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from headstream.errors import EnvironmentSetupError, InvalidOptionError
from headstream.log.commits import ONCE
from headstream.log.staging import Manifest
from headstream.spark.bad_rows import discard_bad_rows, publish_bad_rows
from headstream.spark.server_sink import ServerSink
from headstream.spark.sink_columns import SinkColumns, plan_columns
from headstream.spark.sink_log import DirectorySink, SinkLog
from headstream.spark.sink_options import SinkOptions, parse_sink_options
from headstream.spark.stager import Staged, StageTask, stage_rows
from headstream.spark.worker_endings import end_quietly
from headstream.spark.worker_memory import spare_imports

__all__ = ["HeadstreamStreamWriter", "HeadstreamWriter", "TaskMessage"]

_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"
"""Local properties that Spark sets for every task of a stream."""


@dataclass(frozen=True, slots=True)
class TaskMessage(WriterCommitMessage):
    """What a task tells the driver.

    Args:
        writer: Who writes.
        epoch: Its number.
        task: The task's number.
        staged: What it has staged.
    """

    writer: str
    epoch: int
    task: int
    staged: Staged


@dataclass(frozen=True, slots=True)
class _Sink:
    """What both writers do."""

    options: SinkOptions
    log: SinkLog
    columns: SinkColumns
    identity: str

    @classmethod
    def plan(cls, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> _Sink:
        spare_imports()
        parsed = parse_sink_options(options)
        if overwrite:
            raise InvalidOptionError(
                "a log is appended to, and what is in it is not overwritten",
                advice='Write with .mode("append") or .outputMode("append"); headstream topic purge empties a topic',
            )
        columns = plan_columns(schema, parsed)
        log: SinkLog = DirectorySink(parsed.log) if isinstance(parsed.log, str) else ServerSink(parsed.log)
        identity = log.read_identity()
        if parsed.topic is not None:
            log.find(parsed.topic)
        return cls(parsed, log, columns, identity)

    def stage(self, writer: str, epoch: int, task: int, batches: Iterator[pa.RecordBatch]) -> TaskMessage:
        spare_imports()
        options = self.options
        work = StageTask(self.log, self.columns, options.topic, options.bad_rows_path, writer, epoch, task)
        return TaskMessage(writer, epoch, task, stage_rows(work, batches))

    def commit(self, messages: Sequence[TaskMessage]) -> None:
        options = self.options
        told = sorted(messages, key=lambda message: message.task)
        if not told:
            return
        writer, epoch = told[0].writer, told[0].epoch
        if options.bad_rows_path is not None:
            names = [message.staged.bad_rows for message in told if message.staged.bad_rows is not None]
            publish_bad_rows(options.bad_rows_path, writer, epoch, names)
        parts = tuple(message.staged.part for message in told if message.staged.part is not None)
        if parts:
            limits = {name: each for message in told for name, each in message.staged.limits.items()}
            manifest = Manifest(writer, epoch, self.identity, limits, parts)
            self.log.commit(manifest, options.commit_timeout_s)

    def abort(self, writer: str, epoch: int, messages: Sequence[TaskMessage]) -> None:
        options = self.options
        parts = [message.staged.part for message in messages if message.staged.part is not None]
        is_gone = self.log.abort(writer, epoch, parts)
        if is_gone and writer.startswith(ONCE) and options.bad_rows_path is not None:
            discard_bad_rows(options.bad_rows_path, writer, epoch)


def _task() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise EnvironmentSetupError("there is no Spark task here", advice="Rows are written by Spark's tasks alone")
    return context


def _told(messages: Sequence[WriterCommitMessage | None]) -> list[TaskMessage]:
    return [message for message in messages if isinstance(message, TaskMessage)]


class HeadstreamWriter(DataSourceArrowWriter):
    """Writes a DataFrame once.

    Args:
        options: As given to the writer; see sink_options.py.
        schema: The DataFrame's.
        overwrite: Whether what is there is to be replaced, which is refused.

    Raises:
        InvalidOptionError: an option or a column cannot be used; by its name.
        NotALogError, TopicNotFoundError: there is no such place.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self._sink = _Sink.plan(options, schema, overwrite=overwrite)
        transaction = self._sink.options.transaction
        self._writer, self._epoch = (f"{ONCE}{uuid.uuid4()}", 0) if transaction is None else transaction

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of a task."""
        return self._sink.stage(self._writer, self._epoch, _task().partitionId(), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Append what the tasks have staged."""
        self._sink.commit(_told(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove what the tasks have staged."""
        self._sink.abort(self._writer, self._epoch, _told(messages))


class HeadstreamStreamWriter(DataSourceStreamArrowWriter):
    """Writes a stream, batch after batch, each once.

    Args:
        options: As given to the writer; see sink_options.py.
        schema: The DataFrame's.
        overwrite: Whether each batch is to replace what is there (output mode complete), which is refused.

    Raises:
        InvalidOptionError: an option or a column cannot be used; by its name.
        NotALogError, TopicNotFoundError: there is no such place.
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
                f"Spark does not say which batch of which query this is ({_QUERY_ID}, {_BATCH_ID})",
                advice="Write in foreachBatch, with the options txnAppId and txnVersion",
            )
        return self._sink.stage(query, int(batch), context.partitionId(), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Append what the tasks have staged."""
        self._sink.commit(_told(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove what the tasks have staged; those that failed have done so themselves."""
        told = _told(messages)
        if told:
            self._sink.abort(told[0].writer, told[0].epoch, told)


end_quietly()  # every process in which PySpark looks for sources, plans or commits imports this, with the source or a writer
