"""Rounds of a pipeline with an Iceberg table beside each Delta table, in a process that is killed between the two commits.

    python -m tests.campaigns iceberg-kills --seeds 1-20
    python -m tests.campaigns iceberg-readers --seeds 1-10

A round is a micro-batch, merged into the Delta tables, with a commit to Iceberg after it. A process (iceberg_process.py) runs one
round after another, and ends itself in some of them by SIGKILL, at a random line of the mirror or of pyiceberg's files and
catalogs; another process goes on where it was. After each round both formats have the same rows, and after each kill what readers
see is the Delta version that the Iceberg snapshot names.

    columns     added, dropped, renamed, widened, made text, at random times; in a table with column mapping too
    tables      type 1 and 2, partitions, soft deletions; updates of keys; deletion vectors, folds, compaction
    readers     pyiceberg, in `iceberg-readers` DuckDB and Spark too; older snapshots have the rows of their Delta version
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

from headstream.replicate.iceberg.catalog import open_catalog
from headstream.replicate.iceberg.mirror import DELTA_VERSION
from headstream.replicate.settings.iceberg_settings import IcebergSettings
from tests.support.replicate.iceberg_readers import ReaderProcesses, as_compared, shared_readers
from tests.support.replicate.iceberg_tables import delta_rows, iceberg_rows

__all__ = ["IcebergReadersHistory", "IcebergRoundsHistory"]

RoundReader = Callable[[str, str, int | None], list[tuple[Any, ...]]]
"""A table's name, the location of its metadata, a snapshot's id or None for the newest -> its rows as as_compared() has them."""
_MEMORY = "/dev/shm"
_NOT_KILLED = 1 << 60


class IcebergRoundsHistory:
    """One history.

    Args:
        seed: Determines the tables, their changes and the kills.
        steps: Number of rounds.
        readers: Name -> another reader of Iceberg tables; pyiceberg is always among them.
        catalog: Properties of the catalog; by default one in a SQLite file.
    """

    def __init__(
        self, seed: int, steps: int = 20, readers: dict[str, RoundReader] | None = None, catalog: dict[str, str] | None = None
    ) -> None:
        self._seed = seed
        self._rng = random.Random(seed)
        self._rounds = steps
        self._readers = readers or {}
        self._catalog = catalog
        self._columns: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self.trail: list[str] = []
        self.counts: Counter[str] = Counter()

    def run(self) -> None:
        """Run it, and raise AssertionError at the first difference."""
        directory = tempfile.mkdtemp(prefix="iceberg-", dir=_MEMORY if Path(_MEMORY).is_dir() else None)
        try:
            self._run(Path(directory))
        finally:
            if self._process is not None:
                self._end(self._process)
            shutil.rmtree(directory, ignore_errors=True)

    def _run(self, directory: Path) -> None:
        catalog = self._catalog or {"type": "sql", "uri": f"sqlite:///{directory / 'catalog.db'}"}
        steps = 1000
        for number in range(self._rounds):
            wants_kill = self._rng.random() < 0.4
            while True:
                kill_at = self._rng.randint(1, steps) if wants_kill else _NOT_KILLED
                answer = self._ask(directory, catalog, number, kill_at)
                if answer is not None:
                    break
                self.counts["kills"] += 1
                self._compare_killed(directory, catalog)
                wants_kill = self._rng.random() < 0.3
            steps = max(answer["steps"], 100)
            self.counts["rounds"] += 1
            self.trail.append(f"round {number}: {answer['steps']} steps, {answer['did']}")
            for what in answer["did"]:
                self.counts[what] += 1
            for table in answer["tables"]:
                self._compare(directory, table)

    def _ask(self, directory: Path, catalog: dict[str, str], number: int, kill_at: int) -> dict[str, Any] | None:
        """Have a process run a round; return its answer, None if it was killed."""
        if self._process is None:
            command = [
                sys.executable,
                "-m",
                "tests.campaigns.iceberg_process",
                str(directory),
                str(self._seed),
                str(self._rounds),
            ]
            with (directory / "errors.txt").open("ab") as errors:
                self._process = subprocess.Popen(
                    [*command, json.dumps(catalog)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    cwd=Path(__file__).parents[2],
                    env={**os.environ, "TZ": "UTC"},
                    start_new_session=True,
                )
        sent, came = cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)
        sent.write(f"{number} {kill_at}\n".encode())
        sent.flush()
        line = came.readline()
        assert line, f"round {number}: {(directory / 'errors.txt').read_text(errors='replace')[-4000:]}"
        return cast("dict[str, Any] | None", json.loads(line))

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdin, process.stdout):
            cast(IO[bytes], stream).close()

    def _compare_killed(self, directory: Path, properties: dict[str, str]) -> None:
        """Compare what readers see before another process goes on."""
        with open_catalog(IcebergSettings(catalog=properties), directory) as catalog:
            for name in catalog.list_tables("SHOP") if catalog.namespace_exists("SHOP") else ():
                table = catalog.load_table(name)
                snapshot = table.current_snapshot()
                if snapshot is not None and snapshot.summary is not None:
                    version = int(snapshot.summary.additional_properties[DELTA_VERSION])
                    found = {"schema": name[0], "name": name[1], "location": table.metadata_location, "version": version}
                    expected = delta_rows(directory / "tables" / name[0] / name[1], version)
                    assert iceberg_rows(table) == expected, f"{name} after a kill, by pyiceberg"
                    self._compare(directory, {**found, "columns": str(table.schema()), "older": None})
                    self.counts["compared after a kill"] += 1

    def _compare(self, directory: Path, table: dict[str, Any]) -> None:
        """Compare a table by the other readers; the process has compared it by pyiceberg."""
        before = self._columns.get(table["name"], table["columns"])
        self.counts["changed columns"] += before != table["columns"]
        self._columns[table["name"]] = table["columns"]
        self.counts["compared with pyiceberg"] += 1
        self.counts["older snapshots"] += table["older"] is not None
        for name, read in self._readers.items():
            for snapshot, version in (None, table["version"]), table["older"] or (None, None):
                if version is not None:
                    columns, *rows = delta_rows(directory / "tables" / table["schema"] / table["name"], version)
                    expected = as_compared(list(columns), rows)
                    found = read(f"{table['schema']}.{table['name']}", table["location"], snapshot)
                    assert found == expected, f"{table['name']}, snapshot {snapshot}, by {name}: {_first(found, expected)}"
                    self.counts[f"compared with {name}" + (", older snapshots" if snapshot else "")] += 1


class IcebergReadersHistory(IcebergRoundsHistory):
    """One history that DuckDB and Spark read too, by Iceberg's REST catalog server.

    Args:
        processes: Those; by default ones that are started by the first history and end with the program.
    """

    def __init__(self, seed: int, steps: int = 20, processes: ReaderProcesses | None = None) -> None:
        used = shared_readers() if processes is None else processes
        readers: dict[str, RoundReader] = {
            "duckdb": lambda _, at, snapshot: used.duck.read(at, snapshot),
            "spark": lambda name, _, snapshot: used.spark.read(name, snapshot),
        }
        super().__init__(seed, steps, readers, {"type": "rest", "uri": used.rest.uri})

    def _run(self, directory: Path) -> None:
        assert self._catalog is not None
        try:
            super()._run(directory)
        finally:
            catalog = open_catalog(IcebergSettings(catalog=self._catalog), directory)
            for name in catalog.list_tables("SHOP"):  # another seed has tables of the same names
                catalog.drop_table(name)


def _first(found: list[Any], expected: list[Any]) -> str:
    """Tell the first difference."""
    for one, other in zip(found, expected, strict=False):
        if one != other:
            return f"{one} instead of {other}"
    return f"it has {len(found)} rows, not {len(expected)}"
