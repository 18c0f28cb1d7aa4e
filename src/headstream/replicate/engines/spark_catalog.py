"""Registers tables in a Spark catalog: the session catalog (Hive metastore) or a catalog configured by spark.sql.catalog.*."""

from __future__ import annotations

import re
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headstream.errors import ReplicateError
from headstream.replicate.engines.job_labels import JobLabels
from headstream.replicate.engines.mapped import open_session, spark_path
from headstream.replicate.engines.plan import quote_name
from headstream.replicate.engines.spark_store import explain
from headstream.replicate.settings.catalog_names import CatalogName, show_catalog_name
from headstream.replicate.storage.places import Place, failure, shown_cause

_DETAILS: Final = "# Detailed Table Information"
"""The row of DESCRIBE TABLE EXTENDED after which rows are properties of the table, not columns."""
_FILE: Final = re.compile(r"file:/*(?=/)")
_STORE: Final = re.compile(r"s3[an]?://")
_ANOTHER: Final = "Drop the other table, or set another name for this table with the setting `catalog`"


class SparkCatalog:
    """The catalogs of a session.

    Args:
        spark: A session with Delta. SparkCatalog uses a separate session, so the caller's current catalog and schema do not
            matter, and catalogs configured after the session's start are not known.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = open_session(spark)
        self._labels = JobLabels(spark)

    def register(self, name: CatalogName, place: Place) -> None:
        """Register a Delta table under a name, as an external table, unless it is already registered under the name.

        A missing schema is created. The table is not changed and gets no commit.

        Raises:
            ReplicateError: the name belongs to another table or to a view.
            StorageError: the catalog cannot be reached or refuses the name.
        """
        full = ".".join(map(quote_name, name))
        try:
            with self._labels.writing(f"{show_catalog_name(name)}: register in the catalog"):
                if not self._spark.catalog.tableExists(full):
                    self._create(name, spark_path(place))
                properties = self._describe(full)
        except (PySparkException, Py4JError, ConnectionError) as error:
            what = f"the table cannot be registered as {show_catalog_name(name)}"
            raise failure(place, what, explain(_text(error), place)) from shown_cause(place, error)
        if "Location" not in properties:
            raise ReplicateError(f"{show_catalog_name(name)} is a view in the catalog", where=str(place), advice=_ANOTHER)
        if not is_same_location(properties["Location"], spark_path(place)):
            raise ReplicateError(
                f"in the catalog, {show_catalog_name(name)} is a different table, located at {properties['Location']}",
                where=str(place),
                advice=_ANOTHER,
            )
        if properties.get("Provider", "delta").lower() != "delta":
            raise ReplicateError(
                f"{show_catalog_name(name)} is registered as a table of {properties['Provider']}, not delta",
                where=str(place),
                advice=_ANOTHER,
            )

    def _create(self, name: CatalogName, location: str) -> None:
        full, schema = (".".join(map(quote_name, part)) for part in (name, name[:-1]))
        quoted = location.replace("\\", "\\\\").replace("'", "\\'")
        statement = f"CREATE TABLE {full} USING delta LOCATION '{quoted}'"
        try:
            self._spark.sql(statement)
        except PySparkException as error:
            if error.getCondition() != "SCHEMA_NOT_FOUND" or not schema:
                raise
            # Not earlier: creating a schema can require a separate permission, even if the schema exists.
            self._spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            self._spark.sql(statement)

    def _describe(self, full: str) -> dict[str, str]:
        rows = [(row[0], row[1]) for row in self._spark.sql(f"DESCRIBE TABLE EXTENDED {full}").collect()]
        first = next((number for number, row in enumerate(rows) if row[0] == _DETAILS), len(rows))
        return dict(rows[first + 1 :])


def is_same_location(first: str, second: str) -> bool:
    """Return whether two paths or URIs of tables are the same, in any form that catalogs use."""
    return _normal(first) == _normal(second)


def _normal(location: str) -> str:
    return _STORE.sub("s3://", _FILE.sub("", location, count=1), count=1).rstrip("/")


def _text(error: Exception) -> str:
    try:
        return str(error)
    except Exception:  # a Py4JJavaError queries its JVM, which may have ended
        return "Spark's Java process does not respond"
