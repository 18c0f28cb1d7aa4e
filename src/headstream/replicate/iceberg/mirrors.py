"""The mirrors of a pipeline's tables, in a thread of their own: a catalog that is slow or away delays no merge.

a table has a new version, or the run begins  ->  offered  ->  committed to Iceberg, or tried again after a pause
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headstream.errors import HeadstreamError, SchemaError
from headstream.replicate.iceberg.access import check_pyiceberg, open_catalog
from headstream.replicate.iceberg.mirror import TableMirror
from headstream.replicate.settings.iceberg_settings import IcebergSettings
from headstream.replicate.storage.places import Place

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

__all__ = ["IcebergMirrors", "open_mirror"]

_LOGGER: Final = logging.getLogger("headstream.replicate")
_FIRST_PAUSE_S: Final = 5.0
_LONGEST_PAUSE_S: Final = 300.0
_END_S: Final = 60.0
"""How long the end of a run, and its last vacuum, wait for the next table; a catalog that takes longer is left to the next run."""
Name: TypeAlias = tuple[str, str]


def open_mirror(
    catalog: Catalog, settings: IcebergSettings, identifier: tuple[str, ...], path: Place, kept_us: int
) -> TableMirror:
    """Return the mirror of a table.

    Args:
        kept_us: How long vacuum keeps files, microseconds.
    """
    return TableMirror(catalog, path, identifier, most_snapshots=settings.snapshots, kept_us=kept_us)


@dataclass(slots=True)
class _State:
    """What is known of a table.

    Args:
        waiting_us: Since when a version may not be in Iceberg, microseconds since 1970 UTC; None if it is up to date.
        version: The Delta version that Iceberg has; None if not known.
        reason: Why the last attempt failed.
        is_refused: Whether that was a column without an equivalent: it is not tried again before the next version.
        synced_us: When it was last found to be up to date.
        vacuum_us: Since when a vacuum waits for that; None if none does.
    """

    waiting_us: int | None = None
    version: int | None = None
    reason: str | None = None
    is_refused: bool = False
    synced_us: int = 0
    vacuum_us: int | None = None


class IcebergMirrors:
    """Brings Iceberg tables up to date, until each has its newest version; any thread.

    Args:
        tables: The place of the Delta tables.
        kept_us: How long vacuum keeps files, microseconds.
        place_of: Returns the place of a Delta table.
        clock_us: The time, microseconds since 1970 UTC.
        first_pause_s: Seconds between two attempts after a failure, doubled after each further one.

    Raises:
        EnvironmentSetupError: pyiceberg is not installed, or in a version that was not tested.
    """

    def __init__(
        self,
        settings: IcebergSettings,
        tables: Place,
        kept_us: int,
        place_of: Callable[[Name], Place],
        clock_us: Callable[[], int],
        *,
        first_pause_s: float = _FIRST_PAUSE_S,
    ) -> None:
        check_pyiceberg()
        self._settings = settings
        self._tables = tables
        self._kept_us = kept_us
        self._place_of = place_of
        self._now_us = clock_us
        self._first_pause_s = first_pause_s
        self._changed = threading.Condition()
        self._states: dict[Name, _State] = {}
        self._due: dict[Name, None] = {}
        self._failed: dict[Name, None] = {}
        self._mirrors: dict[Name, TableMirror] = {}
        self._catalog: Catalog | None = None
        self._attempts = 0
        self._is_busy = self._is_closed = False
        self._thread: threading.Thread | None = None

    def offer(self, names: Iterable[Name]) -> None:
        """Bring tables up to date soon; returns at once. Those that the settings do not choose are skipped."""
        with self._changed:
            for name in names:
                if not self._is_closed and self._settings.identify(*name) is not None:
                    state = self._states.setdefault(name, _State())
                    state.waiting_us = self._now_us() if state.waiting_us is None else state.waiting_us
                    self._ask(name)

    def may_vacuum(self, name: Name, *, wait: bool = False) -> bool:
        """Return whether the snapshots that need files which vacuum removes have expired; otherwise that is done soon.

        A catalog that fails defers vacuum, since its tables would lose files; a refused table does not.

        Args:
            wait: Whether to wait for it, for a minute.
        """
        with self._changed:
            if self._settings.identify(*name) is None or self._is_closed:
                return True
            state = self._states.setdefault(name, _State())
            if state.vacuum_us is None:
                state.vacuum_us = self._now_us()
                self._ask(name)
            asked_us = state.vacuum_us
            if wait:
                self._changed.wait_for(lambda: state.synced_us >= asked_us or state.is_refused or name in self._failed, _END_S)
            if not (state.is_refused or state.synced_us >= asked_us):
                return False
            state.vacuum_us = None
            return True

    def status(self) -> dict[str, Any]:
        """Return how far the Iceberg tables are, as a JSON object."""
        with self._changed:
            now_us = self._now_us()
            tables = [
                {
                    "table": ".".join(name),
                    "name": ".".join(self._settings.identify(*name) or ()),
                    "delta_version": state.version,
                    "lag_seconds": 0.0 if state.waiting_us is None else round((now_us - state.waiting_us) / 1e6, 3),
                    "refused": state.is_refused,
                    "reason": state.reason,
                }
                for name, state in sorted(self._states.items())
            ]
        waiting = sum(state["lag_seconds"] > 0 for state in tables)
        return {"tables": tables, "waiting": waiting}

    def finish(self, *, every_table: bool) -> None:
        """Try once more what waits, and end.

        Args:
            every_table: Whether to wait until each table was tried; otherwise for one attempt at most.
        """
        with self._changed:
            for name in list(self._failed):
                self._ask(name)
            while self._due or self._is_busy:
                began = self._attempts
                moved = self._changed.wait_for(lambda began=began: self._attempts > began or self._is_closed, _END_S)  # type: ignore[misc]
                if not moved or not every_table:
                    break
            left = sum(state.waiting_us is not None for state in self._states.values())
        self.close()
        if left:
            _LOGGER.warning("%d Iceberg tables are behind their Delta tables; the next run brings them up to date", left)

    def close(self) -> None:
        """End without further attempts; one that is under way ends by itself."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _ask(self, name: Name) -> None:
        self._failed.pop(name, None)
        self._due[name] = None
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="headstream-iceberg", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _work(self) -> None:
        pause_s = self._first_pause_s
        while True:
            with self._changed:
                is_asked = self._changed.wait_for(lambda: self._due or self._is_closed, pause_s if self._failed else None)
                if self._is_closed:
                    return
                if not is_asked:
                    pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
                    self._due, self._failed = self._failed, {}
                name = next(iter(self._due))
                del self._due[name]
                self._is_busy = True
                began_us = self._now_us()
            version, error = self._try(name)
            with self._changed:
                self._note(name, began_us, version, error)
                if error is None:
                    pause_s = self._first_pause_s
                self._attempts += 1
                self._is_busy = False
                self._changed.notify_all()

    def _try(self, name: Name) -> tuple[int | None, Exception | None]:
        try:
            if self._catalog is None:
                self._catalog = open_catalog(self._settings, self._tables)
            if name not in self._mirrors:
                identifier = self._settings.identify(*name)
                assert identifier is not None, "offer() has asked"
                self._mirrors[name] = open_mirror(self._catalog, self._settings, identifier, self._place_of(name), self._kept_us)
            return self._mirrors[name].sync(), None
        except Exception as error:  # of any kind: a catalog's implementation is not ours
            return None, error

    def _note(self, name: Name, began_us: int, version: int | None, error: Exception | None) -> None:
        state, before = self._states[name], self._states[name].reason
        if error is None:
            state.version, state.reason, state.is_refused, state.synced_us = version, None, False, began_us
            if name not in self._due:
                state.waiting_us = None
            return
        state.reason = str(error) if isinstance(error, HeadstreamError) else f"{type(error).__name__}: {error}"
        state.is_refused = isinstance(error, SchemaError)
        if not state.is_refused and name not in self._due:
            self._failed[name] = None
        if state.reason != before:
            again = "not tried again before its next version" if state.is_refused else "tried again"
            _LOGGER.warning("the Iceberg table of %s.%s is not brought up to date, which is %s: %s", *name, again, state.reason)
