"""The engine for a cluster: Spark's own MERGE. Also used for tables that only Spark can change.

deltalake reads the table's log (columns, applied versions, statistics) in the driver, without a Spark job.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headstream.errors import StorageError
from headstream.replicate.columns.conversion import arrow_type
from headstream.replicate.engines.deltalake import LoggedTable, TableLog
from headstream.replicate.engines.engine import RowCounts, VectorState
from headstream.replicate.engines.mapped import SparkMappedTables, needs_column_mapping, open_session, spark_path, translated
from headstream.replicate.engines.merge_on_read import OWN_TABLE, log_enabled
from headstream.replicate.engines.plan import MergePlan, quote_name
from headstream.replicate.settings.merge_settings import MergeStrategy
from headstream.replicate.storage.delta_log import VECTORS_PROPERTY
from headstream.replicate.storage.places import Place

_APP_ID: Final = "spark.databricks.delta.write.txnAppId"
_VERSION: Final = "spark.databricks.delta.write.txnVersion"
_SOURCE: Final = "headstream_changes"
_LEAST_BYTES: Final = 128 << 20
"""Size of a table above which Spark's merges are faster with deletion vectors: twice as fast at 230 MB, not faster at 25 MB."""
_KEYS: Final = "headstream_keys"


class DeltaSparkEngine(LoggedTable):
    """TableEngine that uses Spark.

    Args:
        spark: A session with Delta. Each engine works in a separate session, so engines in several threads do not share settings
            and views.
        strategy: The merge strategy; Spark writes deletion vectors itself.
    """

    def __init__(self, log: TableLog | Place, spark: SparkSession, strategy: MergeStrategy = "rewrite") -> None:
        self._spark = open_session(spark)
        self._strategy = strategy
        if strategy == "rewrite":  # also in a table that has the feature
            self._spark.conf.set("spark.databricks.delta.merge.deletionVectors.persistent", "false")
        self._tables = SparkMappedTables(self._spark)
        super().__init__(log if isinstance(log, TableLog) else _open_log(log))

    def create(self, columns: Mapping[str, str], partition_by: Sequence[str] = (), *, mapped: bool = False) -> None:
        self._tables.create(self.path, columns, partition_by, mapped=mapped or needs_column_mapping(columns))
        if self._strategy == "auto":
            self._tables.set_properties(self.path, OWN_TABLE)
        self._refresh()

    def add_columns(self, added: Mapping[str, str]) -> None:
        if needs_column_mapping(added) and not self._log.is_mapped:
            self._tables.map_columns(self.path)
        self._tables.add_columns(self.path, added)
        self._refresh()

    def widen(self, widened: Mapping[str, str]) -> None:
        self._hide_partitions()
        self._tables.widen(self.path, widened)
        self._refresh()

    @property
    def takes_frames(self) -> bool:
        return True

    def last_applied(self, app_id: str) -> int | None:
        with translated(self.path, "the table's log cannot be read"):
            return self._log.last_applied(app_id)

    def merge(self, plan: MergePlan, changes: pa.Table | DataFrame, app_id: str, version: int) -> RowCounts:
        if self.is_empty:
            return self._insert(plan, changes, app_id, version)
        self._allow_vectors()
        updates = ", ".join(f"t.{name} = {value}" for name, value in plan.update.items())
        clauses = [
            f"MERGE INTO {self._name} AS t USING {_SOURCE} AS s ON {plan.predicate}",
            f"WHEN MATCHED AND {plan.delete_when} THEN DELETE" if plan.delete_when is not None else "",
            f"WHEN MATCHED AND {plan.update_when} THEN UPDATE SET {updates}",
            f"WHEN NOT MATCHED AND {plan.insert_when} THEN",
            f"INSERT ({', '.join(plan.insert)}) VALUES ({', '.join(plan.insert.values())})",
        ]
        done = []
        with (
            self._committing("the merge failed", app_id, version),
            self._remembering(app_id, version),
            self._own(changes) as frame,
        ):
            frame.createOrReplaceTempView(_SOURCE)
            done = self._spark.sql("\n".join(filter(None, clauses))).collect()
        # The result has no row if the log already recorded the merge, or if the response to its commit was lost.
        return (
            RowCounts(done[0]["num_inserted_rows"], done[0]["num_updated_rows"], done[0]["num_deleted_rows"])
            if done
            else RowCounts()
        )

    def _allow_vectors(self) -> None:
        """Enable deletion vectors of the table if the strategy allows them and the table is large enough."""
        properties = self._log.table.metadata().configuration
        if self._strategy == "rewrite" or properties.get(VECTORS_PROPERTY) == "true":
            return
        is_own = OWN_TABLE.items() <= properties.items() and self._log.size_bytes >= _LEAST_BYTES
        if self._strategy == "deletion-vectors" or is_own:
            log_enabled(self.path)
            self._tables.set_properties(self.path, {VECTORS_PROPERTY: "true"})
            self._refresh()

    def _insert(self, plan: MergePlan, changes: pa.Table | DataFrame, app_id: str, version: int) -> RowCounts:
        """Run a merge into an empty table as an append, which, unlike a merge, does not compute the source twice."""
        self._refresh()
        if not self.is_empty:
            return self.merge(plan, changes, app_id, version)
        partitions = ", ".join(map(quote_name, self._log.table.metadata().partition_columns))
        columns = ", ".join(f"{value} AS {name}" for name, value in plan.insert.items())
        hint = f"/*+ REBALANCE({partitions}) */ " if partitions else ""  # otherwise one file per task and partition
        with self._committing("the merge failed", app_id, version), self._own(changes) as frame:
            frame.createOrReplaceTempView(_SOURCE)
            rows = self._spark.sql(f"SELECT {hint}{columns} FROM {_SOURCE} AS s WHERE {plan.insert_when}")
            self._write(rows, app_id, version)
        return RowCounts(inserted=self._count_rows())

    def _count_rows(self) -> int:
        known = self._log.count_rows()
        if known is not None:
            return known
        with translated(self.path, "the table cannot be read"):
            return int(self._spark.table(self._name).count())

    def append(self, rows: pa.Table | DataFrame, app_id: str, version: int) -> RowCounts:
        with self._committing("the rows cannot be appended", app_id, version), self._own(rows) as frame:
            self._write(frame, app_id, version)
        return RowCounts(inserted=rows.num_rows if isinstance(rows, pa.Table) else 0)

    def update(self, assignments: Mapping[str, str], where: str) -> int:
        updates = ", ".join(f"{name} = {value}" for name, value in assignments.items())
        return self._change(f"UPDATE {self._name} SET {updates} WHERE {where}", "the rows cannot be changed")

    def delete(self, where: str) -> int:
        return self._change(f"DELETE FROM {self._name} WHERE {where}", "the rows cannot be deleted")

    def read(self, columns: Sequence[str], where: str) -> pa.Table:
        names = ", ".join(map(quote_name, columns))
        with translated(self.path, "the table cannot be read"):
            rows = self._spark.sql(f"SELECT {names} FROM {self._name} WHERE {where}").toArrow()
        types = self.columns
        return rows.cast(pa.schema([pa.field(name, arrow_type(types[name])) for name in columns]))

    def frame(self, columns: Sequence[str], where: str) -> DataFrame:
        names = ", ".join(map(quote_name, columns))
        with translated(self.path, "the table cannot be read"):
            return self._spark.sql(f"SELECT {names} FROM {self._name} WHERE {where}")

    def read_keys(self, columns: Sequence[str], where: str, keys: pa.Table) -> pa.Table:
        """Return the given columns of the rows with one of the given keys; executors find the rows."""
        names = ", ".join(f"t.{quote_name(name)}" for name in columns)
        same = " AND ".join(f"t.{quote_name(name)} = k.{quote_name(name)}" for name in keys.column_names)
        with translated(self.path, "the table cannot be read"):
            self._frame(keys).createOrReplaceTempView(_KEYS)
            table = f"(SELECT * FROM {self._name} WHERE {where})"
            rows = self._spark.sql(f"SELECT {names} FROM {table} AS t LEFT SEMI JOIN {_KEYS} AS k ON {same}").toArrow()
        types = self.columns
        return rows.cast(pa.schema([pa.field(name, arrow_type(types[name])) for name in columns]))

    def compact(self, cluster_by: Sequence[str] = ()) -> None:
        self._hide_partitions()
        self._tables.compact(self.path, cluster_by)
        self._refresh()

    def fold(self) -> bool:
        """Do nothing: OPTIMIZE rewrites files with many deleted rows."""
        return False

    @property
    def vectors(self) -> VectorState | None:
        """None: the driver does not read Spark's deletion vectors."""
        return None

    def vacuum(self, kept_us: int) -> None:
        self._log.vacuum(kept_us)

    def count_values(self, column: str) -> int | None:
        """Return the number of rows with a value in a column, from the file statistics or, if missing, from the files."""
        with translated(self.path, "the table's log cannot be read"):
            known = self._log.count_values(column)
        if known is not None:
            return known
        with translated(self.path, "the table cannot be read"):  # Spark writes statistics of only 32 columns
            return int(self._spark.sql(f"SELECT count({quote_name(column)}) AS count FROM {self._name}").collect()[0]["count"])

    def _hide_partitions(self) -> None:
        """Set the table properties that keep partition values out of file paths, as in new tables."""
        missing = self._log.missing_properties
        if missing:
            self._tables.set_properties(self.path, missing)
            self._refresh()

    def _write(self, rows: DataFrame, app_id: str, version: int) -> None:
        options = {"txnAppId": app_id, "txnVersion": str(version)}
        rows.write.format("delta").mode("append").options(**options).save(spark_path(self.path))

    def _change(self, statement: str, action: str) -> int:
        self._hide_partitions()
        with translated(self.path, action):
            count = int(self._spark.sql(statement).collect()[0]["num_affected_rows"])
        self._refresh()
        return count

    @property
    def _name(self) -> str:
        return f"delta.{quote_name(spark_path(self.path))}"

    def _frame(self, rows: pa.Table) -> DataFrame:
        return self._spark.createDataFrame(rows)

    @contextmanager
    def _own(self, rows: pa.Table | DataFrame) -> Iterator[DataFrame]:
        """Yield rows as a frame of the engine's session; rows of another session are passed in a global view."""
        if isinstance(rows, pa.Table):
            yield self._frame(rows)
            return
        view = f"headstream_{uuid.uuid4().hex}"
        rows.createGlobalTempView(view)
        try:
            yield self._spark.table(f"global_temp.{view}")
        finally:
            self._spark.catalog.dropGlobalTempView(view)

    def _refresh(self) -> None:
        with translated(self.path, "the table's log cannot be read"):
            self._log.refresh()

    @contextmanager
    def _committing(self, action: str, app_id: str, version: int) -> Iterator[None]:
        """Translate errors and refresh the log; a failed commit is successful if the log contains it.

        If the response of an object store to a commit is lost, the request is repeated and refused, because the commit exists.
        """
        self._hide_partitions()
        try:
            with translated(self.path, action):
                yield
        except StorageError:
            with suppress(StorageError):
                self._log.refresh()
                if self._log.last_applied(app_id) == version:
                    return
            raise
        self._refresh()

    @contextmanager
    def _remembering(self, app_id: str, version: int) -> Iterator[None]:
        self._spark.conf.set(_APP_ID, app_id)
        self._spark.conf.set(_VERSION, str(version))
        try:
            yield
        finally:
            self._spark.conf.unset(_APP_ID)
            self._spark.conf.unset(_VERSION)


def _open_log(path: Place) -> TableLog:
    with translated(path, "the table's log cannot be read"):
        return TableLog(path)
