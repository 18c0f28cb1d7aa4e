"""Histories of a Delta table and the Iceberg table beside it: after each step both have the rows of the model.

    python -m tests.campaigns iceberg --seeds 1-200

The steps are those of vector_histories.py: merges by deletion vectors of several writers, folds, rewrites, restores, vacuum.
After each one a mirror, one of two that do not know of each other, brings the Iceberg table up to date:

    kills       before the commit, after it, or when some of its files are written; another mirror goes on
    catalog     another mirror commits first; the answer to a commit is lost; the catalog is down for some steps
    readers     pyiceberg, and others that are given; older snapshots have the rows of their time
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException

from headstream.errors import StorageError
from headstream.replicate.iceberg import access, files
from headstream.replicate.iceberg.mirror import TableMirror
from tests.campaigns.vector_histories import Killed, Model, Row, VectorHistory
from tests.support.replicate.iceberg_tables import IDENTIFIER, iceberg_rows, make_mirror, sql_catalog

IcebergReader = Callable[[Path, str], list[Row]]
"""The directory of the tables and the location of the newest metadata -> the rows."""


class IcebergHistory(VectorHistory):
    """One history.

    Args:
        seed: Determines the history.
        steps: Number of steps.
        iceberg_readers: Name -> another reader of Iceberg tables; pyiceberg is always among them.
    """

    def __init__(
        self, seed: int, steps: int = 40, iceberg_readers: dict[str, IcebergReader] | None = None, **options: Any
    ) -> None:
        super().__init__(seed, steps, **options)
        self._iceberg_readers = iceberg_readers or {}
        self._catalog: Catalog | None = None
        self._mirrors: list[TableMirror] = []
        self._snapshots: dict[int, Model] = {}
        self._down = 0

    def _run(self) -> None:
        self._catalog = sql_catalog(self._table.parent)
        self._mirrors = [make_mirror(self._catalog, self._table, most_snapshots=10) for _ in range(2)]
        super()._run()
        self._mirrors[0].sync()
        self._compare_iceberg()
        found = self._mirrors[1].check()
        assert found.is_equal, found

    def _note(self, step: str) -> None:
        super()._note(step)
        self._mirror()

    def _vacuum(self) -> None:
        super()._vacuum()
        self._snapshots.clear()  # they are kept for as long as vacuum keeps files, here not at all

    def _mirror(self) -> None:
        """Bring the Iceberg table up to date, whatever happens meanwhile, and compare."""
        if self._down:
            self._down -= 1
            return
        fault = self._rng.choices([None, *_FAULTS], [6, *[1] * len(_FAULTS)])[0]
        place = self._rng.randrange(2)
        if fault == "down":
            self._down = self._rng.randint(1, 3)
        with self._failing(fault, self._mirrors[1 - place]):
            try:
                self._mirrors[place].sync()
            except Killed:
                assert self._catalog is not None
                self._mirrors[place] = make_mirror(self._catalog, self._table, most_snapshots=10)
            except StorageError:
                assert fault in ("down", "lost"), fault
            else:
                assert fault != "down"
        if fault is not None:
            self.counts[fault] += 1
        if not self._down:
            self._mirrors[self._rng.randrange(2)].sync()
            self._compare_iceberg()

    @contextmanager
    def _failing(self, fault: str | None, other: TableMirror) -> Iterator[None]:
        """Have the first commit within meet a fault."""
        assert self._catalog is not None
        commit = self._catalog.commit_table
        met: list[str | None] = []

        def meet(*arguments: Any) -> Any:
            if met:
                return commit(*arguments)
            met.append(fault)
            if fault == "overtaken":
                other.sync()
            elif fault in ("killed before", "down"):
                raise Killed if fault != "down" else ConnectionError("the catalog is down")
            answer = commit(*arguments)
            if fault == "killed after":
                raise Killed
            if fault == "lost":
                raise CommitFailedException("no answer") if self._sequence % 2 else ConnectionError("no answer")
            return answer

        with ExitStack() as stack:
            if fault == "killed among files":
                written = itertools.count()
                own, last = access.make_file, self._rng.randrange(3)

                def make(*arguments: Any, **options: Any) -> Any:
                    if next(written) == last:
                        raise Killed
                    return own(*arguments, **options)

                stack.enter_context(mock.patch.object(files, "make_file", make))
            elif fault == "down":
                stack.enter_context(mock.patch.object(self._catalog, "load_table", meet))
            elif fault is not None:
                stack.enter_context(mock.patch.object(self._catalog, "commit_table", meet))
            yield

    def _compare_iceberg(self) -> None:
        assert self._catalog is not None
        table = self._catalog.load_table(IDENTIFIER)
        snapshot = table.current_snapshot()
        assert snapshot is not None
        self._snapshots[snapshot.snapshot_id] = dict(self._model)
        expected = sorted(self._model.values())
        assert _rows_of(iceberg_rows(table)) == expected, "by pyiceberg"
        self.counts["compared with pyiceberg"] += 1
        for name, read in self._iceberg_readers.items():
            assert sorted(read(self._table.parent, table.metadata_location)) == expected, f"by {name}"
            self.counts[f"compared with {name}"] += 1
        kept = {each.snapshot_id for each in table.metadata.snapshots} & self._snapshots.keys()
        older = self._rng.choice(sorted(kept))
        assert _rows_of(iceberg_rows(table, older)) == sorted(self._snapshots[older].values()), f"snapshot {older}"
        self.counts["older snapshots"] += older != snapshot.snapshot_id


_FAULTS = ("killed before", "killed after", "killed among files", "overtaken", "lost", "down")


def _rows_of(listed: list[tuple[Any, ...]]) -> list[Row]:
    names, *rows = listed
    places = [names.index(name) for name in ("id", "seq", "city", "value")] if names else []
    return sorted(tuple(row[place] for place in places) for row in rows)
