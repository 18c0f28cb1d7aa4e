"""The engine for one machine: deltalake (Rust), in the driver, without a Spark job."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Field, QueryBuilder, Transaction, write_deltalake
from deltalake.schema import PrimitiveType
from pyspark.sql import DataFrame

from headstream.errors import StorageError
from headstream.replicate.columns.conversion import arrow_type
from headstream.replicate.columns.raw import match_keys
from headstream.replicate.engines.engine import RowCounts, VectorState
from headstream.replicate.engines.folding import COMPACTION_STEPS, fold, must_fold
from headstream.replicate.engines.mapped import MappedTables, needs_column_mapping, path_properties
from headstream.replicate.engines.merge_on_read import OWN_TABLE, MergeOnRead
from headstream.replicate.engines.plan import MergePlan, quote_name
from headstream.replicate.engines.rewriting import is_cheaper, matched_changes, rewritten
from headstream.replicate.settings.merge_settings import MergeSettings, MergeStrategy
from headstream.replicate.storage.delta_log import LogSnapshot, merge_on_read_refusal
from headstream.replicate.storage.delta_places import Translated, delta_options, make_parent, open_table, remove_file
from headstream.replicate.storage.places import Place

_LOGGER: Final = logging.getLogger(__name__)
_SPARK_TYPES: Final = {
    "byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT", "float": "FLOAT", "double": "DOUBLE",
    "boolean": "BOOLEAN", "binary": "BINARY", "string": "STRING", "date": "DATE", "timestamp": "TIMESTAMP",
}  # fmt: skip
_HOUR_US: Final = 3_600_000_000
_HOUR_MS: Final = 3_600_000
_MARK: Final = "headstream.commit"
_LATEST_COMMITS: Final = 20  # searched for a commit whose response was lost; other writers can have committed after it
_DELTA_TYPES: Final = {spark: delta for delta, spark in _SPARK_TYPES.items()}


class TableLog:
    """The metadata of a Delta table from its log: columns, applied versions, statistics, needed files. Reads no data."""

    def __init__(self, path: Place) -> None:
        self.path = path
        self._has_files = False
        self._snapshot: LogSnapshot | None = None
        with Translated(path, "the table cannot be opened"):
            self._table = open_table(path)

    @property
    def columns(self) -> dict[str, str]:
        """All columns and their Spark types, in table order; empty if the table does not exist."""
        if self._table is None:
            return {}
        return {field.name: _spark_type(field) for field in self._table.schema().fields}

    @property
    def is_mapped(self) -> bool:
        """Whether the table has column mapping."""
        configuration: dict[str, str] = self.table.metadata().configuration
        return configuration.get("delta.columnMapping.mode", "none") != "none"

    @property
    def table(self) -> DeltaTable:
        """The table as of the last read of its log."""
        assert self._table is not None, "create() comes first"
        return self._table

    def refresh(self) -> None:
        """Read the commits since the last read."""
        with Translated(self.path, "the table's log cannot be read"):
            if self._table is None:
                self._table = DeltaTable(str(self.path), storage_options=delta_options(self.path))
            else:
                self._table.update_incremental()

    def last_applied(self, app_id: str) -> int | None:
        """Return the highest version that a commit has recorded for app_id, or None."""
        current = self._current
        return self.table.transaction_version(app_id) if current is None else current.transactions.get(app_id)

    @property
    def size_bytes(self) -> int:
        """The total size of the table's files."""
        if (current := self._current) is not None:
            return sum(file.size for file in current.files.values())
        return 0 if self._table is None else int(pc.sum(pa.table(self._table.get_add_actions())["size_bytes"]).as_py() or 0)

    @property
    def is_empty(self) -> bool:
        """Whether the table has no files (and thus no rows) now, and had none at earlier calls; called before each merge."""
        self._has_files = self._has_files or (self._table is not None and self._table.get_add_actions().num_rows > 0)
        return not self._has_files

    @property
    def has_unescaped_paths(self) -> bool:
        """Whether Spark has written paths with characters that deltalake escapes, so deltalake could not remove such files."""
        if self._table is None or not path_properties(self.columns, self._table.metadata().partition_columns):
            return False
        paths = pa.table(self._table.get_add_actions())["path"]
        return bool(pc.any(pc.invert(pc.string_is_ascii(paths))).as_py())

    @property
    def missing_properties(self) -> dict[str, str]:
        """The properties of path_properties() that the table lacks because another version of Headstream created it."""
        metadata = self.table.metadata()
        wanted = path_properties(self.columns, metadata.partition_columns)
        return {} if wanted.items() <= metadata.configuration.items() else wanted

    @property
    def may_have_vectors(self) -> bool:
        """Whether files can have deletion vectors, because an engine has enabled them. Statistics then include deleted rows."""
        return "deletionVectors" in (self.table.protocol().reader_features or ())

    @property
    def snapshot(self) -> LogSnapshot:
        """The table with its deletion vectors, at the newest version that was read or a later version."""
        if self._snapshot is None:
            self._snapshot = LogSnapshot.read(self.path, at_least=self.table.version())
        elif self._snapshot.version < self.table.version():
            self._snapshot.advance()
        return self._snapshot

    @property
    def _current(self) -> LogSnapshot | None:
        """The cached snapshot, if it has the table version that was read last."""
        return self._snapshot if self._snapshot is not None and self._snapshot.version == self.table.version() else None

    @property
    def vector_counts(self) -> tuple[int, int, int | None]:
        """Numbers of files with deletion vectors and of deleted rows, and time of the last fold, milliseconds since 1970 UTC."""
        if self._snapshot is None:
            return 0, 0, None
        counts = [file.deleted for file in list(self._snapshot.files.values()) if file.vector is not None]
        return len(counts), sum(counts), self._snapshot.folded_ms

    def count_rows(self) -> int | None:
        """Return the row count from the file statistics; None if the statistics lack it."""
        counts = pa.table(self.table.get_add_actions())["num_records"]
        return None if counts.null_count or self.may_have_vectors else int(pc.sum(counts).as_py() or 0)

    def count_values(self, column: str) -> int | None:
        """Return the number of rows with a value in a column, including deleted rows; None if statistics are missing."""
        field = next(field for field in self.table.schema().fields if field.name == column)
        physical = field.metadata.get("delta.columnMapping.physicalName", column)
        files = pa.table(self.table.get_add_actions(flatten=True))
        if not files.num_rows:
            return 0
        if f"null_count.{physical}" not in files.schema.names:
            return None
        nulls = files[f"null_count.{physical}"]
        if nulls.null_count or files["num_records"].null_count:
            return None
        return int(pc.sum(files["num_records"]).as_py()) - int(pc.sum(nulls).as_py())

    def vacuum(self, kept_us: int) -> None:
        """Delete files that no version has needed for `kept_us` microseconds, and files of interrupted writes."""
        hours = -(-kept_us // _HOUR_US)
        self.refresh()  # another engine can have enabled deletion vectors
        with Translated(self.path, "the table cannot be vacuumed"):
            has_vectors = self.may_have_vectors
            unneeded = self.table.vacuum(hours, dry_run=has_vectors, enforce_retention_duration=False, full=True)
            if not has_vectors:
                return
            # deltalake treats all deletion-vector files as unneeded, even in the current version.
            log = LogSnapshot.read(self.path, with_removed=True, at_least=self.table.version())
            kept = log.vector_names(time.time_ns() // 1_000_000 - hours * _HOUR_MS)
            for name in unneeded:
                if name.rpartition("/")[2].removeprefix(".").removesuffix(".crc") not in kept:  # .crc: Hadoop's checksums
                    remove_file(self.path, name)


class LoggedTable:
    """The members of a TableEngine that need only the table's log."""

    def __init__(self, log: TableLog) -> None:
        self._log = log

    @property
    def path(self) -> Place:
        return self._log.path

    @property
    def columns(self) -> dict[str, str]:
        return self._log.columns

    @property
    def is_empty(self) -> bool:
        return self._log.is_empty


class DeltaLakeEngine(LoggedTable):
    """TableEngine that uses deltalake; `mapped` creates and changes tables whose column names need mapping."""

    def __init__(
        self,
        log: TableLog | Place,
        mapped: MappedTables,
        strategy: MergeStrategy = "rewrite",
        settings: MergeSettings | None = None,
    ) -> None:
        super().__init__(log if isinstance(log, TableLog) else TableLog(log))
        self._mapped = mapped
        self._properties = OWN_TABLE if strategy == "auto" else {}
        self._on_read = (
            None if strategy == "rewrite" else MergeOnRead(self.path, self._advanced, strategy, settings or MergeSettings())
        )

    def create(self, columns: Mapping[str, str], partition_by: Sequence[str] = (), *, mapped: bool = False) -> None:
        make_parent(self.path)
        if mapped or needs_column_mapping(columns):
            self._mapped.create(self.path, columns, partition_by)
        else:
            arrow = pa.schema([pa.field(name, arrow_type(kind)) for name, kind in columns.items()])
            create = partial(
                DeltaTable.create,
                str(self.path),
                schema=arrow,
                partition_by=list(partition_by) or None,
                configuration=path_properties(columns, partition_by),
                storage_options=delta_options(self.path),
            )
            self._commit("the table cannot be created", create)
            if self._properties:  # deltalake cannot create a table with properties that it does not know
                self._log.refresh()
                set_properties = partial(self._log.table.alter.set_table_properties, dict(self._properties), False)
                self._commit("the table cannot be created", set_properties)
        self._log.refresh()

    def add_columns(self, added: Mapping[str, str]) -> None:
        needs_mapping = needs_column_mapping(added)
        if needs_mapping and not self._log.is_mapped:
            self._mapped.map_columns(self.path)
        if needs_mapping or self._log.is_mapped:
            self._mapped.add_columns(self.path, added)
            self._log.refresh()
        else:
            fields = [Field(name, PrimitiveType(_DELTA_TYPES.get(kind, kind.lower()))) for name, kind in added.items()]
            self._commit("the table cannot be changed", partial(self._log.table.alter.add_columns, fields))

    def widen(self, widened: Mapping[str, str]) -> None:
        """Rewrite the rows, since Parquet files keep the types with which they were written."""
        if self._log.is_mapped:
            self._mapped.widen(self.path, widened)
            self._log.refresh()
            return
        self._refuse_unescaped_paths()
        table = self._log.table
        partitions = table.metadata().partition_columns or None
        stored = pa.schema(table.schema().to_arrow())  # including lists and maps, as in change tables
        schema = pa.schema([f.with_type(arrow_type(widened[f.name])) if f.name in widened else f for f in stored])
        with (
            Translated(self.path, "the table cannot be changed"),
            TemporaryDirectory(prefix="headstream-") as directory,
            _copied(self._query(stored, "TRUE"), schema, Path(directory) / "rows") as reader,
        ):
            write = partial(write_deltalake, table, reader, mode="overwrite", schema_mode="overwrite", partition_by=partitions)
            self._commit("the table cannot be changed", write)

    @property
    def takes_frames(self) -> bool:
        return False

    def last_applied(self, app_id: str) -> int | None:
        with Translated(self.path, "the table's log cannot be read"):
            return self._log.last_applied(app_id)

    def merge(self, plan: MergePlan, changes: pa.Table | DataFrame, app_id: str, version: int) -> RowCounts:
        assert isinstance(changes, pa.Table), "takes_frames is false"
        counts = self.merge_on_read(plan, changes, app_id, version)
        if counts is not None:
            return counts
        self._refuse_unescaped_paths()
        if is_cheaper(self._log.table, plan):
            return self._rewrite(plan, changes, app_id, version)
        metrics = self._commit("the merge failed", partial(self._merge, plan, changes), Transaction(app_id, version))
        return RowCounts(*(int(metrics[f"num_target_rows_{name}"]) for name in ("inserted", "updated", "deleted")))

    def _advanced(self) -> LogSnapshot:
        snapshot = self._log.snapshot
        snapshot.advance()
        return snapshot

    def merge_on_read(self, plan: MergePlan, changes: pa.Table, app_id: str, version: int) -> RowCounts | None:
        """Run a merge with deletion vectors; return None if, by the table's strategy, files must be rewritten instead."""
        table = self._log.table
        if self._on_read is None or not self._on_read.may_pay(table.metadata().configuration, self._log.size_bytes):
            return None
        with self._committing("the merge failed"):
            counts = self._on_read.merge(plan, changes, app_id, version)
            if counts is not None:
                self._log.refresh()
        return counts

    def _merge(self, plan: MergePlan, changes: pa.Table, *, commit_properties: CommitProperties) -> dict[str, Any]:
        merge = self._log.table.merge(
            changes, plan.predicate, source_alias="s", target_alias="t", commit_properties=commit_properties
        ).when_not_matched_insert(plan.insert, plan.insert_when)
        if plan.delete_when is not None:
            merge = merge.when_matched_delete(plan.delete_when)
        return merge.when_matched_update(plan.update, plan.update_when).execute()

    def _rewrite(self, plan: MergePlan, changes: pa.Table, app_id: str, version: int) -> RowCounts:
        stored = self.read(list(self.columns), "TRUE")
        rows, counts = rewritten(stored, changes, plan, matched_changes(stored, changes, plan.match))
        # With the predicate, a row that another writer appends in the meantime causes a conflict, as in a merge.
        write = partial(write_deltalake, self._log.table, rows, mode="overwrite", predicate="TRUE")
        self._commit("the merge failed", write, Transaction(app_id, version))
        return counts

    def append(self, rows: pa.Table | DataFrame, app_id: str, version: int) -> RowCounts:
        assert isinstance(rows, pa.Table), "takes_frames is false"
        write = partial(write_deltalake, self._log.table, rows, mode="append")
        self._commit("the rows cannot be appended", write, Transaction(app_id, version))
        return RowCounts(inserted=rows.num_rows)

    def update(self, assignments: Mapping[str, str], where: str) -> int:
        self._refuse_unescaped_paths()
        update = partial(self._log.table.update, updates=dict(assignments), predicate=where)
        return int(self._commit("the rows cannot be changed", update)["num_updated_rows"])

    def delete(self, where: str) -> int:
        self._refuse_unescaped_paths()
        return int(self._commit("the rows cannot be deleted", partial(self._log.table.delete, where))["num_deleted_rows"] or 0)

    def read(self, columns: Sequence[str], where: str) -> pa.Table:
        with Translated(self.path, "the table cannot be read"):
            schema = self._schema(columns)
            return pa.Table.from_batches(self._query(schema, where), schema)

    def frame(self, columns: Sequence[str], where: str) -> DataFrame:
        """Not supported: takes_frames is False."""
        raise AssertionError(where)

    def read_keys(self, columns: Sequence[str], where: str, keys: pa.Table) -> pa.Table:
        schema = self._schema(columns)
        with Translated(self.path, "the table cannot be read"):
            found = [match_keys(pa.Table.from_batches([batch]), keys) for batch in self._query(schema, where)]
            return pa.concat_tables([schema.empty_table(), *found])

    def _refuse_unescaped_paths(self) -> None:
        if self._log.has_unescaped_paths:
            raise StorageError(
                "Spark has written files for partition values that are not ASCII; deltalake cannot replace these files",
                where=str(self.path),
                advice="Set engine to spark for this table, or rewrite all of its rows with Spark",
            )

    @contextmanager
    def _committing(self, action: str) -> Iterator[None]:
        """Translate errors; after an error, refresh the log, because a commit can exist although its response was lost."""
        try:
            with Translated(self.path, action):
                yield
        except StorageError:
            with suppress(StorageError):  # the store may be unavailable; the next failure refreshes again
                self._log.refresh()
            raise

    def _commit(self, action: str, write: Callable[..., Any], *transactions: Transaction) -> Any:
        """Make one commit, and return the result of `write`, or the commit's metrics if only the response to the commit was lost.

        If an object store's response to a commit is lost, deltalake sends the commit again and fails, because the commit already
        exists. The commit information has a mark, by which this method finds the commit.
        """
        mark = str(uuid.uuid4())
        try:
            with Translated(self.path, action):
                return write(
                    commit_properties=CommitProperties(custom_metadata={_MARK: mark}, app_transactions=list(transactions) or None)
                )
        except StorageError:
            with suppress(StorageError), Translated(self.path, action):
                self._log.refresh()  # fails if the store is unavailable
                for commit in self._log.table.history(_LATEST_COMMITS):
                    if commit.get(_MARK) == mark:
                        return commit.get("operationMetrics")
            raise

    def _query(self, schema: pa.Schema, where: str) -> Iterator[pa.RecordBatch]:
        # Not to_pyarrow_table(): it returns nulls for the columns of a table with column mapping, and rejects deletion vectors.
        names = ", ".join(map(quote_name, schema.names))
        found = QueryBuilder().register("t", self._log.table).execute(f"SELECT {names} FROM t WHERE {where}")
        return (pa.record_batch(batch).cast(schema) for batch in found)

    def _schema(self, columns: Sequence[str]) -> pa.Schema:
        types = self.columns
        return pa.schema([pa.field(name, arrow_type(types[name])) for name in columns])

    def compact(self, cluster_by: Sequence[str] = ()) -> None:
        if self._log.is_mapped:
            self._mapped.compact(self.path, cluster_by)
            self._log.refresh()
            return
        if not cluster_by and self._log.may_have_vectors and merge_on_read_refusal(self._log.snapshot) is None:
            self._fold(COMPACTION_STEPS)
            return
        self._refuse_unescaped_paths()
        optimize = self._log.table.optimize
        rewrite = partial(optimize.z_order, cluster_by) if cluster_by else optimize.compact
        self._commit("the table cannot be compacted", rewrite)

    def fold(self) -> bool:
        if self._log.is_mapped or not self._log.may_have_vectors or not must_fold(self._log.snapshot):
            return False
        if merge_on_read_refusal(self._log.snapshot) is not None:
            return False
        return self._fold(1)

    @property
    def vectors(self) -> VectorState | None:
        files, deleted, folded_ms = self._log.vector_counts
        folded_us = None if folded_ms is None else folded_ms * 1000
        if self._on_read is not None:
            return VectorState(self._on_read.strategy, files, deleted, self._on_read.index.size_bytes, folded_us)
        return VectorState("rewrite", files, deleted, 0, folded_us) if files else None

    def _fold(self, steps: int) -> bool:
        with self._committing("the table's files cannot be merged"):
            done = fold(self._log.snapshot, steps=steps)
        if done.commits:
            self._log.refresh()
            found = (self.path, done.removed, done.added, done.deleted)
            _LOGGER.info("%s: merged %d files into %d, removing %d deleted rows", *found)
        return done.commits > 0

    def vacuum(self, kept_us: int) -> None:
        self._log.vacuum(kept_us)

    def count_values(self, column: str) -> int | None:
        return self._log.count_values(column)


@contextmanager
def _copied(rows: Iterator[pa.RecordBatch], schema: pa.Schema, path: Path) -> Iterator[pa.RecordBatchReader]:
    """Yield a table's rows with other types, from a copy in a local file.

    A thread of deltalake's runtime waits for the rows that it writes. Reading the table's files requires another thread of the
    runtime, which has as many threads as cores, and a waiting thread can hold Python's lock. Thus, without the copy, widening as
    many tables as cores at the same time would cause a deadlock.
    """
    with pa.ipc.new_stream(str(path), schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        for batch in rows:
            writer.write_batch(batch.cast(schema))
    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as reader:
        yield reader


def _spark_type(field: Field) -> str:
    text = str(getattr(field.type, "type", field.type))
    return _SPARK_TYPES.get(text, text.upper())
