"""A source database that Spark reads over JDBC. Headstream never writes to the database.

postgresql://user:password@host:port/database      mariadb://…, mysql://…      with a set of jars for the driver
jdbc:sqlserver://…                                 any other database; pass the driver's jar to Spark (spark.jars)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from headstream.errors import InvalidInputError

_POSTGRESQL: Final = ("jdbc:postgresql", "", "org.postgresql.Driver", "postgresql")
# Spark's dialect of MySQL quotes names as MariaDB reads them, but only for this scheme.
_MARIADB: Final = ("jdbc:mysql", "permitMysqlScheme", "org.mariadb.jdbc.Driver", "mariadb")
_SCHEMES: Final = {"postgresql": _POSTGRESQL, "postgres": _POSTGRESQL, "mariadb": _MARIADB, "mysql": _MARIADB}
_TEXT_TYPES: Final = {"jdbc:postgresql": "TEXT", "jdbc:mysql": "CHAR"}
_FETCH_ROWS: Final = "10000"
"""Rows per round trip; by default the drivers read whole tables into memory."""


@dataclass(frozen=True, slots=True)
class JdbcAccess:
    """Spark's access to a database.

    Args:
        url: `jdbc:…`, without a password.
        options: Options of Spark's JDBC source: driver, user and password.
        jar_set: The set of jars with the driver; None if the user passes the driver to Spark.
    """

    url: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    jar_set: str | None = None

    @classmethod
    def parse(cls, url: str) -> JdbcAccess:
        """Return the access for a URL; raise InvalidInputError if it is not a database URL."""
        if url.startswith("jdbc:"):
            return cls(url)
        parts = urlsplit(url)
        if parts.scheme not in _SCHEMES or not parts.hostname or len(parts.path) < 2:
            raise InvalidInputError(
                "the URL does not name a source database",
                advice="Write postgresql://user:password@host:5432/database, mariadb://…, or jdbc:…",
            )
        scheme, flag, driver, jar_set = _SCHEMES[parts.scheme]
        port = "" if parts.port is None else f":{parts.port}"
        query = "&".join(filter(None, (flag, parts.query)))
        options = {"driver": driver}
        options |= {} if parts.username is None else {"user": unquote(parts.username)}
        options |= {} if parts.password is None else {"password": unquote(parts.password)}
        return cls(f"{scheme}://{parts.hostname}{port}{parts.path}{'?' if query else ''}{query}", options, jar_set)


@dataclass(frozen=True, slots=True)
class Partitions:
    """Division of a read among several connections, by equal ranges of a column's values.

    Args:
        column: A numeric or date column of the result.
        low: The lowest value, as an SQL literal without quotes.
        high: The highest value, as an SQL literal without quotes.
        count: Number of connections.
    """

    column: str
    low: str
    high: str
    count: int


class SourceDatabase:
    """The tables of a database.

    Attributes:
        has_iso_dates: Whether the string form of a date is `2026-01-31`.
    """

    def __init__(self, spark: SparkSession, access: JdbcAccess) -> None:
        self._spark = spark
        self._access = access
        jvm: Any = spark.sparkContext._jvm
        self._dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(access.url)
        text_type = next((kind for url, kind in _TEXT_TYPES.items() if access.url.startswith(url)), None)
        self._text_type = text_type or "VARCHAR(4000)"
        self.has_iso_dates = text_type is not None

    def quote(self, name: str) -> str:
        """Return a name as an SQL identifier."""
        quoted: str = self._dialect.quoteIdentifier(name)
        return quoted

    def as_text(self, name: str) -> str:
        """Return SQL that converts a column to a string."""
        return f"CAST({self.quote(name)} AS {self._text_type})"

    def array_as_json(self, name: str) -> str | None:
        """Return SQL that converts an array to JSON as Debezium does; None if the database cannot convert arrays."""
        is_postgresql = self._access.url.startswith("jdbc:postgresql")
        return f"CAST(array_to_json({self.quote(name)}) AS TEXT)" if is_postgresql else None

    def columns(self, schema: str, table: str) -> StructType:
        """Return the columns of a table, in Spark's types.

        Raises:
            PySparkException: the table does not exist, or the database cannot be reached.
        """
        return self._load(f"(SELECT * FROM {self._place(schema, table)} WHERE 1 = 0) hs").schema

    def read(
        self,
        schema: str,
        table: str,
        columns: Mapping[str, str],
        where: str | None = None,
        partitions: Partitions | None = None,
    ) -> DataFrame:
        """Return rows of a table.

        Args:
            columns: Name in the result -> SQL expression.
        """
        chosen = ", ".join(f"{sql} AS {self.quote(name)}" for name, sql in columns.items())
        condition = "" if where is None else f" WHERE {where}"
        return self._load(f"(SELECT {chosen} FROM {self._place(schema, table)}{condition}) hs", partitions)

    def _place(self, schema: str, table: str) -> str:
        return ".".join(self.quote(part) for part in (schema, table) if part)

    def _load(self, relation: str, partitions: Partitions | None = None) -> DataFrame:
        options = {"url": self._access.url, "dbtable": relation, "fetchsize": _FETCH_ROWS, "preferTimestampNTZ": "true"}
        if partitions is not None:
            bounds = {"lowerBound": partitions.low, "upperBound": partitions.high, "numPartitions": str(partitions.count)}
            options |= {"partitionColumn": partitions.column} | bounds
        return self._spark.read.format("jdbc").options(**options, **self._access.options).load()
