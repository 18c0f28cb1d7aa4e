"""A source table and its target, with columns in a common form, so that Spark finds equal values equal.

Values are read in the type of the target's column. Values that databases, capture tools and Spark write differently are brought
to the same form on both sides:

    times and numbers that are strings in the target  without trailing zeros of the fraction
    CHAR(n)                                           without padding
    times without a zone                              as UTC, as in the pipeline
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, BooleanType, DecimalType, IntegralType, StringType, StructField

from headstream.errors import ReplicateError
from headstream.replicate.compare.source_database import Partitions, SourceDatabase
from headstream.replicate.engines.plan import DELETED, quote_name
from headstream.replicate.engines.spark_store import configure_store
from headstream.replicate.schemas.schemas import TableSchema
from headstream.replicate.storage.places import Place, StorePlace

SEQUENCE: Final = "_hs_sequence"
"""Column of the target with the sequence of the change that wrote a row."""
RANGE_NUMBER: Final = "_hs_number"
_CURRENT: Final = "_hs_current"
_OPENED: Final = "_hs_valid_from"
_TEXTS: Final = frozenset({"STRING", "WSTRING", "CLOB", "NCLOB"})
_WHOLE: Final = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT"})
_PADDED: Final = "__CHAR_VARCHAR_TYPE_STRING"
"""Key of the field metadata in which Spark records that a column is CHAR(n)."""


@dataclass(frozen=True, slots=True)
class ComparedTable:
    """The two sides of a comparison.

    Args:
        columns: Target names of the compared columns -> Spark type; key columns first.
        left_out: Columns of the target's schema that one side lacks.
        selected: Column -> SQL expression in the source.
        trimmed: Columns compared without trailing zeros of a fraction.
        padded: Columns compared without trailing blanks.
        range_key: An integer or date key column, by which ranges are read from the source; None if there is none.
    """

    database: SourceDatabase
    lake: DataFrame
    schema: TableSchema
    columns: dict[str, str]
    left_out: tuple[str, ...]
    selected: dict[str, str]
    trimmed: frozenset[str]
    padded: frozenset[str]
    range_key: str | None

    @property
    def keys(self) -> list[str]:
        """The columns that identify a row."""
        return list(self.schema.metadata.key_columns)

    def source_rows(self, where: str | None = None, partitions: Partitions | None = None) -> DataFrame:
        """Return the rows of the source that match a condition in the source's SQL."""
        lineage = self.schema.metadata.lineage
        rows = self.database.read(lineage.schema, lineage.table, self.selected, where, partitions)
        return rows.select(*(self._normal(name, sf.col(quote_name(name)).try_cast(kind)) for name, kind in self.columns.items()))

    def lake_rows(self, *, with_sequence: bool = False) -> DataFrame:
        """Return the current rows of the target, optionally with SEQUENCE."""
        chosen = [self._normal(name, sf.col(quote_name(name)).cast(kind)) for name, kind in self.columns.items()]
        opened = SEQUENCE if SEQUENCE in self.lake.columns else _OPENED
        return self.lake.select(*chosen, *([sf.col(opened).alias(SEQUENCE)] if with_sequence else []))

    def numbered(self, rows: DataFrame) -> DataFrame:
        """Return rows with RANGE_NUMBER, the integer of the range key; for a date, days since 1970-01-01."""
        assert self.range_key is not None
        key = sf.col(quote_name(self.range_key))
        number = sf.unix_date(key) if self.columns[self.range_key] == "DATE" else key
        return rows.withColumn(RANGE_NUMBER, number.cast("bigint"))

    def range_literal(self, number: int) -> str:
        """Return a value of the range key as an SQL literal without quotes."""
        if self.range_key is not None and self.columns[self.range_key] == "DATE":
            from datetime import date, timedelta

            return (date(1970, 1, 1) + timedelta(days=number)).isoformat()
        return str(number)

    def range_condition(self, begin: int, until: int) -> str:
        """Return the source's SQL for a half-open range of the range key."""
        assert self.range_key is not None
        is_date = self.columns[self.range_key] == "DATE"
        low, high = (f"DATE '{self.range_literal(n)}'" if is_date else str(n) for n in (begin, until - 1))
        return f"{self.selected[self.range_key]} BETWEEN {low} AND {high}"

    def _normal(self, name: str, value: Column) -> Column:
        if name in self.trimmed:
            value = sf.regexp_replace(sf.regexp_replace(value, r"(\.\d*?)0+$", "$1"), r"\.$", "")
            value = sf.translate(value, "T", " ") if name in self.schema.datetimes else value
        return (sf.rtrim(value) if name in self.padded else value).alias(name)


def open_compared(spark: SparkSession, database: SourceDatabase, schema: TableSchema, place: Place) -> ComparedTable:
    """Return a source table and its target for a comparison.

    Raises:
        ReplicateError: the table has no key, or one side lacks a key column.
        PySparkException: one of the tables cannot be read.
    """
    lineage, keys = schema.metadata.lineage, list(schema.metadata.key_columns)
    if not keys:
        raise ReplicateError("the table has no key, so its rows cannot be compared", advice="Set the key columns in `keys`")
    fields = {field.name: field for field in database.columns(lineage.schema, lineage.table).fields}
    if isinstance(place, StorePlace):
        configure_store(spark, place)
    lake = spark.read.format("delta").load(place.hadoop_uri if isinstance(place, StorePlace) else str(place))
    there = [name for name in schema.types if schema.fields[name] in fields and name in lake.columns]
    lacking = [name for name in keys if name not in there]
    if lacking:
        raise ReplicateError(f"the key column {lacking[0]!r} is missing in the source table or in the target table")
    if _CURRENT in lake.columns:
        lake = lake.filter(sf.col(_CURRENT))
    if DELETED in lake.columns:
        lake = lake.filter(~sf.coalesce(sf.col(DELETED), sf.lit(False)))
    columns = {name: schema.types[name] for name in [*keys, *(name for name in there if name not in keys)]}
    sources = {name: schema.fields[name] for name in columns}
    kinds = {column.name: column.type.upper() for column in schema.metadata.columns}
    spelled = frozenset(name for name, kind in columns.items() if kind == "STRING" and kinds[name] not in _TEXTS)
    texts = {name for name in columns if name in spelled or _needs_text(columns[name], fields[sources[name]])}
    whole = [name for name in keys if (columns[name] in _WHOLE or columns[name] == "DATE") and name not in texts]
    if database.has_iso_dates:  # JDBC's own dates before 1582-10-15 use another calendar
        texts |= {name for name, kind in columns.items() if kind == "DATE" and name not in whole[:1]}
    selected = {name: (database.as_text if name in texts else database.quote)(field) for name, field in sources.items()}
    arrays = {name: database.array_as_json(field) for name, field in sources.items() if _is_plain_array(fields[field])}
    selected |= {name: sql for name, sql in arrays.items() if sql is not None}
    padded = {name for name in columns if fields[sources[name]].metadata.get(_PADDED, "").startswith("char")}
    left_out = tuple(name for name in schema.types if name not in columns)
    range_key = whole[0] if whole else None
    return ComparedTable(database, lake, schema, columns, left_out, selected, spelled, frozenset(padded), range_key)


def _needs_text(kind: str, field: StructField) -> bool:
    """Return whether Spark must read a column as a string, because Spark's type would lose digits or change the form."""
    if kind == "STRING":
        return not isinstance(field.dataType, StringType)
    return (
        isinstance(field.dataType, DecimalType) and kind.startswith("DECIMAL") and field.dataType.simpleString().upper() != kind
    )


def _is_plain_array(field: StructField) -> bool:
    """Return whether a database and Debezium write the array's elements as the same JSON."""
    kind = field.dataType
    return isinstance(kind, ArrayType) and isinstance(kind.elementType, (BooleanType, IntegralType, StringType))
