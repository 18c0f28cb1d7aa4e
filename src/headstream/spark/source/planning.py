"""Plans the input partitions of a read, and reads the rows of an input partition."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from headstream.spark.source.directory_view import DirectoryView
from headstream.spark.source.log_view import LogView
from headstream.spark.source.offsets import OffsetRange, TopicPartition
from headstream.spark.source.options import SourceOptions
from headstream.spark.source.reader import ReadPart, ReadTask, read_task
from headstream.spark.source.tasks import plan_ranges, plan_tasks
from headstream.spark.workers.memory import freeze_objects

_LOGGER: Final = logging.getLogger("headstream.spark")


def open_view(options: SourceOptions) -> LogView:
    """Return the driver's view of the log to read.

    Raises:
        NotALogError: there is no log at the location.
        NotFoundError: a named topic or partition does not exist.
        HeadstreamError: the log cannot be read, or its server is unreachable.
    """
    if options.where is not None:
        place = "the executors" if isinstance(options.log, str) else "the server"
        _LOGGER.info("the filter is evaluated by %s, on stored bytes: %s", place, options.where.text)
    if isinstance(options.log, str):
        return DirectoryView(options.log, options.subscription)
    from headstream.spark.source.server_view import ServerView  # imports the client, which a read of a directory does not need

    return ServerView(options.log, options.subscription)


def plan_partitions(
    options: SourceOptions, view: LogView, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]
) -> list[InputPartition]:
    """Return the input partitions between two offsets.

    Raises:
        OffsetOutOfRangeError: messages between the offsets are missing, and failOnDataLoss is true.
    """
    fails, is_read = options.fail_on_data_loss, options.subscription.has
    ranges = plan_ranges(start, end, view.available, fail_on_data_loss=fails, is_read=is_read, on_loss=_warn_of_loss)
    return [
        InputPartition(
            ReadTask(
                log=view.log,
                parts=tuple(ReadPart(part, view.incarnation(part.topic_partition)) for part in task),
                shape=options.shape,
                states=options.states,
                where=options.where,
                fail_on_data_loss=options.fail_on_data_loss,
            )
        )
        for task in plan_tasks(ranges, options.min_partitions, view.size_of)
    ]


def _warn_of_loss(wanted: OffsetRange, count: int, there: str) -> None:
    _LOGGER.warning("%s: %d messages are skipped (failOnDataLoss=false): %s", wanted, count, there)


def read_partition(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Return the rows of an input partition from plan_partitions(); empty for an empty partition."""
    freeze_objects()
    task = partition.value
    return iter(()) if task is None else read_task(task)
