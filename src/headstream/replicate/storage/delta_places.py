"""Opens Delta tables with deltalake, and converts storage options and errors."""

from __future__ import annotations

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from headstream.errors import HeadstreamError
from headstream.replicate.storage.places import Place, StorePlace, failure, shown_cause
from headstream.replicate.storage.store_files import StoreFiles


class Translated:
    """Converts exceptions of deltalake to StorageError."""

    def __init__(self, path: Place, what: str) -> None:
        self._path = path
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        # deltalake raises its own, Arrow's and built-in errors; any of these must fail only this table.
        if isinstance(error, Exception) and not isinstance(error, HeadstreamError):
            raise failure(self._path, self._what, str(error)) from shown_cause(self._path, error)


def open_table(place: Place) -> DeltaTable | None:
    """Return the Delta table at a location; None if there is none."""
    if isinstance(place, StorePlace):
        # Not is_deltatable(): it holds the GIL while it waits for the store.
        try:
            return DeltaTable(str(place), storage_options=place.delta_options)
        except TableNotFoundError:
            return None
    return DeltaTable(str(place)) if DeltaTable.is_deltatable(str(place)) else None


def delta_options(place: Place) -> dict[str, str] | None:
    """Return deltalake's `storage_options` for a location; None for a path."""
    return place.delta_options if isinstance(place, StorePlace) else None


def make_parent(place: Place) -> None:
    """Create the parent directory of a new table; does nothing in an object store."""
    if not isinstance(place, StorePlace):
        place.parent.mkdir(parents=True, exist_ok=True)


def remove_file(table: Place, name: str) -> None:
    """Delete a file at a path within a table if it exists."""
    if isinstance(table, StorePlace):
        StoreFiles(table / name).remove()
    else:
        (table / name).unlink(missing_ok=True)
