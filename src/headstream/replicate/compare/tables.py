"""Compares the tables of a pipeline with their sources, one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headstream.errors import HeadstreamError, InvalidInputError
from headstream.replicate.compare.compared_table import open_compared
from headstream.replicate.compare.comparison import CompareSettings, PipelineProgress, TableResult, compare_table
from headstream.replicate.compare.repair import newest_sequence
from headstream.replicate.compare.source_database import JdbcAccess, SourceDatabase
from headstream.replicate.parked.ledger import Ledger
from headstream.replicate.run.report import find_schema_store
from headstream.replicate.run.status import read_status
from headstream.replicate.schemas.schema_store import SchemaStore
from headstream.replicate.schemas.schemas import TableSchema, table_schema
from headstream.replicate.settings.table_settings import TableRules
from headstream.replicate.storage.places import Place
from headstream.replicate.tables.table_places import place_table


@dataclass(frozen=True, slots=True)
class Compared:
    """A compared table."""

    result: TableResult
    schema: TableSchema


def find_schemas(schema_store: SchemaStore, rules: TableRules, chosen: tuple[str, ...] = ()) -> list[TableSchema]:
    """Return the newest schema of each source table that has a target.

    Args:
        chosen: Targets, `schema.table`; empty for all.

    Raises:
        InvalidInputError: a chosen target is unknown.
        SchemaError: a schema cannot be used.
    """
    schema_store.scan()
    found: dict[str, TableSchema] = {}
    for (name, table), history in sorted(schema_store.tables().items()):
        if rules.wants(name, table):
            newest, *earlier = [entry.metadata for entry in reversed(history)]
            schema = table_schema(newest, rules.settings_of(name, table), earlier=earlier[::-1], avro=False)
            found[".".join(schema.table)] = schema
    unknown = [name for name in chosen if name not in found]
    if unknown:
        raise InvalidInputError(f"the pipeline has no table {unknown[0]!r}", advice=f"Use one of {', '.join(found) or 'none'}")
    return [schema for name, schema in found.items() if not chosen or name in chosen]


def compare_tables(
    spark: SparkSession,
    access: JdbcAccess,
    tables: Place,
    rules: TableRules,
    read: Callable[[], Path],
    *,
    chosen: tuple[str, ...] = (),
    settings: CompareSettings | None = None,
    show: Callable[[str], None] = lambda text: None,
) -> Iterator[Compared]:
    """Compare a pipeline's tables with their sources, and yield the results, with an error for a table that cannot be compared.

    Args:
        tables: Location of the pipeline's tables.
        read: Returns a directory with the newest state of the pipeline's checkpoint.
        chosen: Targets, `schema.table`; empty for all.

    Raises:
        InvalidInputError: a chosen target is unknown.
        StorageError: the checkpoint cannot be read.
    """
    own = spark.newSession()
    own.conf.set("spark.sql.session.timeZone", "UTC")
    database, progress, settings = SourceDatabase(own, access), PipelineProgress(read), settings or CompareSettings()
    with closing(Ledger(read() / "ledger.sqlite", read_only=True)) as ledger:
        schema_store = SchemaStore(find_schema_store(read(), read_status(ledger, 0)["zone"]))
    for schema in find_schemas(schema_store, rules, chosen):
        lineage, name = schema.metadata.lineage, ".".join(schema.table)
        result = TableResult(name, ".".join(filter(None, (lineage.schema, lineage.table))))
        try:
            table = open_compared(own, database, schema, place_table(tables, *schema.table))
            compare_table(
                own,
                table,
                result,
                settings,
                progress,
                lambda target=schema.table: newest_sequence(read(), target),  # type: ignore[misc]
                lambda text, name=name: show(f"{name}: {text}"),  # type: ignore[misc]
            )
        except HeadstreamError as error:
            result.error = str(error)
        except (PySparkException, Py4JError) as error:
            result.error = _first_line(error)
        yield Compared(result, schema)


def _first_line(error: Exception) -> str:
    """Return the message of a Spark or driver error, without the Java stack trace."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else str(java.toString())
    return next((line for line in text.splitlines() if line.strip()), type(error).__name__)
