"""Rows of a merge's source that executors have computed, stored on the executors' disks, with statistics."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from typing import Final, Generic, TypeAlias, TypeVar

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame

from headstream.replicate.apply.on_executors.fold import FoldReport, FoldTask, join_reports
from headstream.replicate.apply.on_executors.keyed_task import KeyedTask
from headstream.replicate.columns.raw import read_ipc
from headstream.replicate.columns.task_errors import naming_messages
from headstream.replicate.engines.plan import quote_name

ROWS_AT_ONCE: Final = 20_000
"""Rows per Arrow batch for Spark."""
_Batches: TypeAlias = Iterator[pa.RecordBatch]
_Task = TypeVar("_Task", FoldTask, KeyedTask)


class _ExecutorRows(Generic[_Task]):
    """Rows of a merge's source and their report for the driver, stored on the executors' disks until close()."""

    def __init__(self, frame: DataFrame, task: _Task) -> None:
        self._task: _Task = task
        self._parts = frame.persist(StorageLevel.DISK_ONLY)
        try:
            reports = self._parts.where("part = 'report'").select("content").toArrow()["content"]
            self.report: FoldReport = join_reports([pickle.loads(content.as_buffer()) for content in reports])
        except BaseException:
            self._parts.unpersist()
            raise

    @property
    def task(self) -> _Task:
        """The task that computed the rows."""
        return self._task

    def deletions(self) -> Iterator[pa.Table]:
        """Yield the highest deletion of each deleted key, in parts: key columns, `_hs_sequence`."""
        if self.report.has_deletions:
            for row in self._parts.where("part = 'deletions'").select("content").toLocalIterator():
                yield read_ipc(bytes(row.content))

    def _frame(self) -> DataFrame:
        table = self._task.table

        def unpack(batches: _Batches) -> _Batches:
            for batch in batches:
                for content in batch.column(0):
                    with naming_messages(f"reading merged changes of {table}"):
                        rows = read_ipc(content.as_buffer()).to_batches(ROWS_AT_ONCE)
                    yield from rows

        return self._parts.where("part = 'rows'").select("content").mapInArrow(unpack, types_sql(self._task.row_types))

    def close(self) -> None:
        """Delete the rows from the executors' disks."""
        self._parts.unpersist()


class FoldedChanges(_ExecutorRows[FoldTask]):
    """The fold of a table's changes."""

    def rows(self) -> DataFrame:
        """Return the rows of the merge's source."""
        return self._frame()


class JoinedChanges(_ExecutorRows[KeyedTask]):
    """The join of a table's changes to its rows."""

    def left(self) -> pa.Table | None:
        """Return the changes that the driver must merge, with the columns of FoldTask.names, or None."""
        contents = self._parts.where("part = 'left'").select("content").toArrow()["content"]
        found = [read_ipc(content.as_buffer()) for content in contents]
        return pa.concat_tables(found) if found else None

    def rows(self, own: pa.Table | None) -> DataFrame:
        """Return the rows of the merge's source, including the driver's rows `own` (KeyedTask.row_types)."""
        frame = self._frame()
        return frame if own is None else frame.unionByName(frame.sparkSession.createDataFrame(own))


def types_sql(types: Mapping[str, str]) -> str:
    """Return columns and their Spark types as DDL."""
    return ", ".join(f"{quote_name(name)} {kind}" for name, kind in types.items())
