"""Planning: what Spark is given as the input partitions of a read, and back again from such a one to its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from headstream.spark.directory_view import DirectoryView
from headstream.spark.log_view import LogView
from headstream.spark.offsets import Place
from headstream.spark.options import SourceOptions
from headstream.spark.reader import ReadPart, ReadTask, read_task
from headstream.spark.server_view import ServerView
from headstream.spark.tasks import plan_ranges, plan_tasks
from headstream.spark.worker_memory import spare_imports

__all__ = ["open_view", "plan_partitions", "read_partition"]


def open_view(options: SourceOptions) -> LogView:
    """Return what the driver knows of the log that is to be read.

    Args:
        options: What the user asked for.

    Raises:
        NotALogError: there is no log at that place.
        NotFoundError: a topic or a partition that was named does not exist.
        HeadstreamError: the log cannot be read, or its server not be reached.
    """
    if isinstance(options.log, str):
        return DirectoryView(options.log, options.subscription)
    return ServerView(options.log, options.subscription)


def plan_partitions(
    options: SourceOptions, view: LogView, start: Mapping[Place, int], end: Mapping[Place, int]
) -> list[InputPartition]:
    """Return what each task reads of what lies between two offsets.

    Args:
        options: What the user asked for.
        view: The log as it is now.
        start: Where each partition begins.
        end: Where each partition ends.

    Raises:
        OffsetOutOfRangeError: some of it is gone, and failOnDataLoss says that this is an error.
    """
    ranges = plan_ranges(
        start, end, view.available, fail_on_data_loss=options.fail_on_data_loss, is_read=options.subscription.has
    )
    return [
        InputPartition(
            ReadTask(
                log=view.log,
                parts=tuple(ReadPart(part, view.incarnation(part.place)) for part in task),
                shape=options.shape,
                states=options.states,
                fail_on_data_loss=options.fail_on_data_loss,
            )
        )
        for task in plan_tasks(ranges, options.min_partitions, view.size_of)
    ]


def read_partition(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Return the rows of one of plan_partitions(); none of one that holds nothing."""
    spare_imports()
    task = partition.value
    return iter(()) if task is None else read_task(task)
