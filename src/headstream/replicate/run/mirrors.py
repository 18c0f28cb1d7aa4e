"""Mirrors a pipeline's tables to Iceberg in a separate thread.

a table has a new version, or the run begins  ->  offered  ->  committed to Iceberg, or retried after a pause
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headstream.errors import EnvironmentSetupError, MissingExtraError, SchemaError
from headstream.replicate.parked.ledger import Table
from headstream.replicate.run.background_work import ATTEMPT_S, BackgroundWork
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.tables.table_places import place_table

if TYPE_CHECKING:
    from headstream.replicate.iceberg.mirror import TableMirror

_LOGGER: Final = logging.getLogger("headstream.replicate")
SUPPORTED: Final = "0.12"
"""The versions of pyiceberg with which iceberg/access.py was tested, `major.minor`."""


class MirrorOpener:
    """Opens the mirrors of a pipeline's tables; the catalog is opened with the first mirror.

    Raises:
        MissingExtraError: pyiceberg is not installed.
        EnvironmentSetupError: pyiceberg has a version that was not tested.
    """

    def __init__(self, config: ReplicateConfig) -> None:
        try:
            from pyiceberg import __version__
        except ImportError:
            raise MissingExtraError("pyiceberg is not installed", advice="Run: pip install 'headstream[iceberg]'") from None
        if not __version__.startswith(f"{SUPPORTED}."):
            what, advice = f"pyiceberg {__version__} is not a supported version", f"Run: pip install 'pyiceberg~={SUPPORTED}.0'"
            raise EnvironmentSetupError(what, where="iceberg", advice=advice)
        assert config.iceberg is not None, "the settings have no Iceberg tables"
        self._config, self._settings = config, config.iceberg
        self._catalog: Any = None

    def identify(self, table: Table) -> tuple[str, ...] | None:
        """Return the namespace and name of a table in Iceberg; None if the table has no mirror."""
        return self._settings.identify(*table)

    def open(self, table: Table) -> TableMirror:
        """Open the mirror of a table; errors of the catalog are not translated."""
        from headstream.replicate.iceberg.catalog import open_catalog
        from headstream.replicate.iceberg.mirror import TableMirror

        if self._catalog is None:
            self._catalog = open_catalog(self._settings, self._config.tables)
        place, identifier = place_table(self._config.tables, *table), self.identify(table)
        assert identifier is not None, "the table has no mirror, see identify()"
        kept_us = self._config.vacuum_kept_us
        return TableMirror(self._catalog, place, identifier, most_snapshots=self._settings.snapshots, kept_us=kept_us)


@dataclass(slots=True)
class _State:
    """The state of one table's mirror.

    Args:
        since_us: Time since which Iceberg may lack versions, microseconds since 1970 UTC; or None.
        version: The Delta version that Iceberg has; None if unknown.
        refused: The reason why the newest Delta version cannot be mirrored (a column without an equivalent), or None.
        synced_us: Start of the last attempt that updated or refused the table, microseconds since 1970 UTC; 0 if none did.
        vacuum_us: Time since which a vacuum waits for the mirror, microseconds since 1970 UTC, or None.
    """

    since_us: int | None = None
    offered_us: int = 0
    version: int | None = None
    refused: str | None = None
    synced_us: int = 0
    vacuum_us: int | None = None


class IcebergMirrors:
    """Updates Iceberg tables until each table has its newest version; thread-safe."""

    def __init__(self, config: ReplicateConfig, clock_us: Callable[[], int], *, first_pause_s: float | None = None) -> None:
        self._opener = MirrorOpener(config)
        self._now_us = clock_us
        self._work = BackgroundWork(self._sync, "an Iceberg table is not up to date", "headstream-iceberg", first_pause_s)
        self._states: dict[Table, _State] = {}
        self._mirrors: dict[Table, TableMirror] = {}
        self._is_silent = False

    def offer(self, tables: Iterable[Table]) -> None:
        """Schedule the update of tables; return immediately. Tables that the settings do not select are skipped."""
        with self._work.changed:
            chosen = [table for table in tables if self._opener.identify(table) is not None]
            for table in chosen:
                state = self._states.setdefault(table, _State())
                state.offered_us = self._now_us()
                state.since_us = state.offered_us if state.since_us is None else state.since_us
            self._work.ask(chosen)

    def may_vacuum(self, table: Table, *, wait: bool = False) -> bool:
        """Return whether no snapshot needs files that vacuum removes. With `wait`, wait at most a minute for an update.

        A failing catalog defers vacuum, since its tables would lose files. Tables without a mirror never defer vacuum. After a
        catalog has not responded within the minute, later calls do not wait.
        """
        if self._opener.identify(table) is None:
            return True
        changed = self._work.changed
        with changed:
            state = self._states.setdefault(table, _State())
            if state.vacuum_us is None:
                state.vacuum_us = self._now_us()
                self._work.ask([table])
            asked_us = state.vacuum_us
            if wait and not self._is_silent:
                is_tried = changed.wait_for(lambda: state.synced_us >= asked_us or table in self._work.reasons, ATTEMPT_S)
                self._is_silent = not is_tried
            if state.synced_us < asked_us:
                return False
            state.vacuum_us = None
            return True

    def status(self) -> dict[str, Any]:
        """Return the status of the Iceberg tables as a JSON object."""
        with self._work.changed:
            now_us = self._now_us()
            tables = [
                {
                    "table": ".".join(table),
                    "name": ".".join(self._opener.identify(table) or ()),
                    "delta_version": state.version,
                    "lag_seconds": 0.0 if state.since_us is None else round((now_us - state.since_us) / 1e6, 3),
                    "refused": state.refused is not None,
                    "reason": state.refused or self._work.reasons.get(table),
                }
                for table, state in sorted(self._states.items())
            ]
            return {"tables": tables, "waiting": sum(state.since_us is not None for state in self._states.values())}

    def finish(self, *, every_table: bool) -> None:
        """Try pending updates one last time, and stop; see BackgroundWork.finish()."""
        self._work.finish("Iceberg tables are behind their Delta tables", every_table=every_table)

    def close(self) -> None:
        """Stop without further attempts; a running attempt continues."""
        self._work.close()

    def _sync(self, table: Table) -> None:
        began_us, version, refused = self._now_us(), None, None
        if table not in self._mirrors:
            self._mirrors[table] = self._opener.open(table)
        try:
            version = self._mirrors[table].sync()
        except SchemaError as error:  # not retried before the table has a new version
            refused = str(error)
        with self._work.changed:
            state = self._states[table]
            if refused is not None and refused != state.refused:
                _LOGGER.warning("the Iceberg table of %s.%s was not updated: %s", *table, refused)
            state.refused, state.synced_us, self._is_silent = refused, began_us, False
            if refused is None:
                state.version, state.since_us = version, state.offered_us if state.offered_us > began_us else None
