"""Registers the pipeline's tables in a catalog in a separate thread, so that a slow or unavailable catalog does not delay merges.

a table has its first commit, or the run begins  ->  offered  ->  registered, or retried after a pause
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from headstream.replicate.engines.spark_catalog import SparkCatalog
from headstream.replicate.engines.spark_store import require_store
from headstream.replicate.parked.ledger import Table
from headstream.replicate.run.background_work import BackgroundWork
from headstream.replicate.schemas.schema_store import SchemaStore
from headstream.replicate.settings.catalog_names import CatalogName, make_catalog_name, show_catalog_name
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.table_settings import TableRules
from headstream.replicate.storage.places import Place, StorePlace
from headstream.replicate.tables.table_places import has_table, place_table


class CatalogEntry(NamedTuple):
    """A table to register: the target's schema and table, the name in the catalog, and the table's location."""

    table: Table
    name: CatalogName
    place: Place


class Registration:
    """Registers tables, retrying until each table is registered."""

    def __init__(self, register: Callable[[CatalogName, Place], None], *, first_pause_s: float | None = None) -> None:
        self._register = register
        failure = "a table is not registered in the catalog"
        self._work = BackgroundWork(self._try, failure, "headstream-catalog", first_pause_s)
        self._entries: dict[Table, CatalogEntry] = {}
        self._registered: set[Table] = set()

    def offer(self, entries: Iterable[CatalogEntry]) -> None:
        """Schedule the registration of new tables. A table without a commit must be offered again."""
        with self._work.changed:
            known = self._registered | self._work.waiting.keys()
            new = {entry.table: entry for entry in entries if entry.table not in known}
            self._entries |= new
            self._work.ask(new)

    def status(self) -> dict[str, Any]:
        """Return the numbers of registered and waiting tables, and the tables whose last attempt failed, as a JSON object."""
        with self._work.changed:
            failing = [
                {"table": ".".join(table), "name": show_catalog_name(self._entries[table].name), "reason": reason}
                for table, reason in sorted(self._work.reasons.items())
            ]
            return {"registered": len(self._registered), "waiting": len(self._work.waiting), "failing": failing}

    def finish(self, *, every_table: bool) -> None:
        """Try pending registrations one last time, and stop; see BackgroundWork.finish()."""
        self._work.finish("tables are not registered in the catalog", every_table=every_table)

    def close(self) -> None:
        """Stop without further attempts."""
        self._work.close()

    def _try(self, table: Table) -> None:
        entry = self._entries[table]
        if has_table(entry.place):
            self._register(entry.name, entry.place)
            self._registered.add(table)


class CatalogTables:
    """Registers the tables of one pipeline in the catalog; does nothing if the settings have no catalog."""

    def __init__(self, spark: SparkSession, config: ReplicateConfig, schema_store: SchemaStore) -> None:
        self._config = config
        self._schema_store = schema_store
        self._names: Mapping[Table, CatalogName] = {}
        self._registration: Registration | None = None
        if config.rules.has_catalog:
            if isinstance(config.tables, StorePlace):
                require_store(spark, config.tables, f"the tables at {config.tables} are registered in a catalog by Spark")
            self._registration = Registration(SparkCatalog(spark).register)

    def follow_schemas(self) -> None:
        """Read the names of the tables from the schema store after a change of the store."""
        self._names = find_catalog_names(self._schema_store, self._config.rules)

    def offer(self, tables: Iterable[Table]) -> None:
        """Schedule the registration of tables; tables without a name in the catalog and registered tables are skipped."""
        if self._registration is not None:
            named = [table for table in tables if table in self._names]
            entries = [CatalogEntry(t, self._names[t], place_table(self._config.tables, *t)) for t in named]
            self._registration.offer(entries)

    def status(self) -> dict[str, Any] | None:
        """Return the result of Registration.status(); None if there is no catalog."""
        return None if self._registration is None else self._registration.status()

    def finish(self, tables: Iterable[Table], *, every_table: bool) -> None:
        """Register tables at the end of a run; see Registration.finish()."""
        if self._registration is not None:
            self.offer(tables)
            self._registration.finish(every_table=every_table)

    def close(self) -> None:
        """Stop without further attempts."""
        if self._registration is not None:
            self._registration.close()


def find_catalog_names(schema_store: SchemaStore, rules: TableRules) -> Mapping[Table, CatalogName]:
    """Return the target tables of a schema store that must be registered, with their names in the catalog."""
    names: dict[Table, CatalogName] = {}
    for (schema, table), history in schema_store.tables().items():
        settings = rules.settings_of(schema, table)
        for entry in history if settings.catalog else ():
            lineage = entry.metadata.lineage
            target = settings.target_name(schema=schema, table=table, task=lineage.task, server=lineage.server)
            names[target] = make_catalog_name(settings.catalog, *target)
    return names
