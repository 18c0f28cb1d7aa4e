"""Tables with column names that Parquet cannot store (`order date`). Delta maps such names; only Spark can write the tables.

The engine merges into these tables as into other tables; this module creates a table and changes its columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headstream.replicate.engines.plan import quote_name
from headstream.replicate.engines.spark_store import explain
from headstream.replicate.storage.delta_log import VECTORS_PROPERTY
from headstream.replicate.storage.places import Place, StorePlace, failure, shown_cause

_UNMAPPED_NAME: Final = re.compile(r"[^ ,;{}()\n\t=]+")


def needs_column_mapping(names: Iterable[str]) -> bool:
    """Return whether Delta needs column mapping for columns with these names."""
    return not all(_UNMAPPED_NAME.fullmatch(name) for name in names)


def path_properties(columns: Mapping[str, str], partition_by: Iterable[str]) -> dict[str, str]:
    """Return the table properties that keep partition values out of the paths that Spark writes; empty if paths are ASCII anyway.

    Spark writes `city=Zürich/...` to the log; to remove the file, deltalake would write `city=Z%C3%BCrich/...`. A value can also
    be longer than a directory name.
    """
    has_text = any(columns.get(name) == "STRING" or not name.isascii() for name in partition_by)
    return {"delta.randomizeFilePrefixes": "true"} if has_text else {}


class MappedTables(Protocol):
    """Changes the columns of a table with column mapping."""

    def create(self, path: Place, columns: Mapping[str, str], partition_by: Sequence[str] = ()) -> None:
        """Create an empty table from column names and Spark types."""

    def map_columns(self, path: Place) -> None:
        """Enable column mapping."""

    def add_columns(self, path: Place, columns: Mapping[str, str]) -> None:
        """Add columns, null in the existing rows."""

    def widen(self, path: Place, columns: Mapping[str, str]) -> None:
        """Widen column types."""

    def compact(self, path: Place, cluster_by: Sequence[str] = ()) -> None:
        """Merge small files; sort all rows by the columns in `cluster_by`, if there are any."""


class SparkMappedTables:
    """MappedTables that uses Spark's Delta."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = open_session(spark)

    def create(self, path: Place, columns: Mapping[str, str], partition_by: Sequence[str] = (), *, mapped: bool = True) -> None:
        """Create an empty table from column names and Spark types, without deletion vectors, optionally partitioned."""
        divided = f"PARTITIONED BY ({', '.join(map(quote_name, partition_by))}) " if partition_by else ""
        properties = {VECTORS_PROPERTY: "false", **path_properties(columns, partition_by)}
        if mapped:
            properties["delta.columnMapping.mode"] = "name"
        columns_sql = f"{_table(path)} ({_specification(columns)})"
        self._run(path, f"CREATE TABLE {columns_sql} USING delta {divided}TBLPROPERTIES ({_settings(properties)})")

    def map_columns(self, path: Place) -> None:
        """Enable column mapping."""
        self.set_properties(path, {"delta.columnMapping.mode": "name"})

    def set_properties(self, path: Place, properties: Mapping[str, str]) -> None:
        """Set properties of a table."""
        self._run(path, f"ALTER TABLE {_table(path)} SET TBLPROPERTIES ({_settings(properties)})")

    def add_columns(self, path: Place, columns: Mapping[str, str]) -> None:
        """Add columns, null in the existing rows."""
        self._allow_types(path, columns)
        self._run(path, f"ALTER TABLE {_table(path)} ADD COLUMNS ({_specification(columns)})")

    def _allow_types(self, path: Place, columns: Mapping[str, str]) -> None:
        """Enable the table feature that TIMESTAMP_NTZ needs, which Delta enables itself only in a new table."""
        if "TIMESTAMP_NTZ" in columns.values():
            self._run(path, f"ALTER TABLE {_table(path)} SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported')")

    def widen(self, path: Place, columns: Mapping[str, str]) -> None:
        """Rewrite the table with columns of wider types."""
        self._allow_types(path, columns)
        with translated(path, "the table cannot be changed"):
            rows = self._spark.read.format("delta").load(spark_path(path))
            casts = [
                f"CAST({quote_name(name)} AS {columns[name]}) AS {quote_name(name)}" if name in columns else quote_name(name)
                for name in rows.columns
            ]
            writer = rows.selectExpr(*casts).write.format("delta").mode("overwrite").option("overwriteSchema", "true")
            writer.save(spark_path(path))

    def compact(self, path: Place, cluster_by: Sequence[str] = ()) -> None:
        """Merge small files; sort all rows by the columns in `cluster_by`, if there are any."""
        clustered = f" ZORDER BY ({', '.join(map(quote_name, cluster_by))})" if cluster_by else ""
        self._run(path, f"OPTIMIZE {_table(path)}{clustered}")

    def _run(self, path: Place, statement: str) -> None:
        with translated(path, "the table cannot be changed"):
            self._spark.sql(statement)


def open_session(spark: SparkSession) -> SparkSession:
    """Return a session with its own settings and views, configured for tables that other readers share."""
    session = spark.newSession()
    # Timestamps are passed and read as instants.
    session.conf.set("spark.sql.session.timeZone", "UTC")
    # deltalake reads Spark's default, INT96, as nanoseconds, and misreads years before 1677 and after 2262.
    session.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    # No substitution in statements: a value or name can contain `${`.
    session.conf.set("spark.sql.variable.substitute", "false")
    # Executors must join changes to the newest rows; a session can be configured to read an older version of a table.
    session.conf.set("spark.databricks.delta.stalenessLimit", "0")
    session.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "false")
    return session


def _table(path: Place) -> str:
    return f"delta.{quote_name(spark_path(path))}"


def spark_path(path: Place) -> str:
    """Return a table's directory or URI in Spark's format."""
    return path.hadoop_uri if isinstance(path, StorePlace) else str(path.resolve())


def _settings(properties: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())


def _specification(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{quote_name(name)} {kind}" for name, kind in columns.items())


@contextmanager
def translated(path: Place, action: str) -> Iterator[None]:
    """Convert exceptions of Spark and deltalake to StorageError."""
    try:
        yield
    except Py4JJavaError as error:
        raise failure(path, action, explain(str(error.java_exception.getMessage()), path)) from shown_cause(path, error)
    except (PySparkException, DeltaError, OSError) as error:
        raise failure(path, action, explain(str(error), path)) from shown_cause(path, error)
