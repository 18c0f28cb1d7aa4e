"""Registers the pipeline's tables in a catalog, in a thread of its own: a catalog that is slow or away delays no merge.

a table has its first commit, or the run begins  ->  offered  ->  registered, or tried again after a pause
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from pyspark.sql import SparkSession

from headstream.replicate.engines.spark_catalog import SparkCatalog
from headstream.replicate.engines.spark_store import require_store
from headstream.replicate.parked.ledger import Table
from headstream.replicate.schemas.zone import SchemaZone
from headstream.replicate.settings.catalog_names import CatalogName, make_catalog_name, show_catalog_name
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.table_settings import TableRules
from headstream.replicate.storage.places import Place, StorePlace
from headstream.replicate.tables.table_places import has_table, place_table

__all__ = ["CatalogEntry", "CatalogTables", "Registration", "find_catalog_names"]

_LOGGER: Final = logging.getLogger("headstream.replicate")
_FIRST_PAUSE_S: Final = 5.0
_LONGEST_PAUSE_S: Final = 300.0
_ATTEMPT_S: Final = 60.0
"""How long the end of a run waits for one attempt; a catalog that takes longer is left to the next run."""


class CatalogEntry(NamedTuple):
    """A table to be registered: the target's schema and table, its name in the catalog, and its place."""

    table: Table
    name: CatalogName
    place: Place


class Registration:
    """Registers tables until each one has its name.

    Args:
        register: Registers one table; raises a HeadstreamError if it cannot.
        first_pause_s: Seconds between two attempts, doubled after each one without success.
    """

    def __init__(self, register: Callable[[CatalogName, Place], None], *, first_pause_s: float = _FIRST_PAUSE_S) -> None:
        self._register = register
        self._first_pause_s = first_pause_s
        self._changed = threading.Condition()
        self._waiting: dict[Table, CatalogEntry] = {}
        self._reasons: dict[Table, str] = {}
        self._registered: set[Table] = set()
        self._attempts = 0
        self._is_asked = self._is_busy = self._is_closed = False
        self._thread: threading.Thread | None = None

    def offer(self, entries: Iterable[CatalogEntry]) -> None:
        """Register tables soon, except those that are registered or wait for it; returns at once.

        Args:
            entries: The tables; one without a commit is forgotten, and has to be offered again.
        """
        with self._changed:
            known = self._registered | self._waiting.keys()
            new = {entry.table: entry for entry in entries if entry.table not in known}
            if new and not self._is_closed:
                self._waiting |= new
                self._ask()

    def status(self) -> dict[str, Any]:
        """Return the number of registered and of waiting tables, and those whose last attempt failed, as a JSON object."""
        with self._changed:
            failing = [
                {"table": ".".join(table), "name": show_catalog_name(self._waiting[table].name), "reason": reason}
                for table, reason in sorted(self._reasons.items())
            ]
            return {"registered": len(self._registered), "waiting": len(self._waiting), "failing": failing}

    def finish(self, *, every_table: bool) -> None:
        """Try what waits once more, and end.

        Args:
            every_table: Whether to wait until each table was tried; otherwise for one attempt at most.
        """
        with self._changed:
            if self._waiting:
                self._ask()
            while self._is_working():
                began = self._attempts
                if not self._changed.wait_for(functools.partial(self._has_moved, began), _ATTEMPT_S) or not every_table:
                    break
            left = len(self._waiting)
        self.close()
        if left:
            _LOGGER.warning("%d tables are not registered in the catalog; the next run tries them again", left)

    def close(self) -> None:
        """End without further attempts."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _is_working(self) -> bool:
        return self._is_asked or self._is_busy

    def _has_moved(self, began: int) -> bool:
        return self._attempts > began or not self._is_working()

    def _ask(self) -> None:
        self._is_asked = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="headstream-catalog", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _work(self) -> None:
        pause_s = self._first_pause_s
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_asked or self._is_closed, pause_s if self._waiting else None)
                if self._is_closed:
                    return
                self._is_asked, self._is_busy = False, True
                entries = list(self._waiting.values())
            succeeded = self._try_all(entries)
            pause_s = self._first_pause_s if succeeded else min(pause_s * 2, _LONGEST_PAUSE_S)
            with self._changed:
                self._is_busy = False
                self._changed.notify_all()

    def _try_all(self, entries: list[CatalogEntry]) -> bool:
        """Try to register tables; return whether one was."""
        failures: list[str] = []
        for entry in entries:
            if self._is_closed:
                return False
            reason, exists = None, True
            try:
                exists = has_table(entry.place)
                if exists:
                    self._register(entry.name, entry.place)
            except Exception as error:  # of any kind: a catalog's implementation is not ours
                reason = str(error)
            with self._changed:
                self._attempts += 1
                before = self._reasons.pop(entry.table, None)
                if reason is not None:
                    self._reasons[entry.table] = reason
                else:
                    del self._waiting[entry.table]
                    self._registered |= {entry.table} if exists else set()
                self._changed.notify_all()
            if reason is not None and reason != before:
                failures.append(reason)
        if failures:
            more = f" (and {len(failures) - 1} more: see the status)" if len(failures) > 1 else ""
            _LOGGER.warning("a table is not registered in the catalog, which is tried again: %s%s", failures[0], more)
        return len(entries) > len(self._reasons)


class CatalogTables:
    """The tables of one pipeline in the catalog; without a catalog in its settings, nothing is done.

    Raises:
        EnvironmentSetupError: the session lacks the jars for the object store of the tables.
    """

    def __init__(self, spark: SparkSession, config: ReplicateConfig, zone: SchemaZone) -> None:
        self._config = config
        self._zone = zone
        self._names: Mapping[Table, CatalogName] = {}
        self._registration: Registration | None = None
        if config.rules.has_catalog:
            if isinstance(config.tables, StorePlace):
                require_store(spark, config.tables, f"the tables at {config.tables} are registered in a catalog by Spark")
            self._registration = Registration(SparkCatalog(spark).register)

    def follow_zone(self) -> None:
        """Take the names of the tables from the schema store, after it has changed."""
        self._names = find_catalog_names(self._zone, self._config.rules)

    def offer(self, tables: Iterable[Table]) -> None:
        """Register tables soon; those with no name in the catalog, or registered already, are skipped."""
        if self._registration is not None:
            named = [table for table in tables if table in self._names]
            entries = [CatalogEntry(t, self._names[t], place_table(self._config.tables, *t)) for t in named]
            self._registration.offer(entries)

    def status(self) -> dict[str, Any] | None:
        """Return what Registration.status() does; None if there is no catalog."""
        return None if self._registration is None else self._registration.status()

    def finish(self, tables: Iterable[Table], *, every_table: bool) -> None:
        """Register tables at the end of a run; see Registration.finish()."""
        if self._registration is not None:
            self.offer(tables)
            self._registration.finish(every_table=every_table)

    def close(self) -> None:
        """End without further attempts."""
        if self._registration is not None:
            self._registration.close()


def find_catalog_names(zone: SchemaZone, rules: TableRules) -> Mapping[Table, CatalogName]:
    """Return the target tables of a zone that are to be registered, and their names in the catalog.

    Args:
        rules: The settings of its tables.
    """
    names: dict[Table, CatalogName] = {}
    for (schema, table), history in zone.tables().items():
        settings = rules.settings_of(schema, table)
        for entry in history if settings.catalog else ():
            lineage = entry.metadata.lineage
            target = settings.target_name(schema=schema, table=table, task=lineage.task, server=lineage.server)
            names[target] = make_catalog_name(settings.catalog, *target)
    return names
