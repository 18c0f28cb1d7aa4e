"""CPU seconds of merges into a table of 1,000 columns and 1,000 rows; results in results/replicate_wide.txt.

whole     whole updates of every row, in order: written without reading the rows
partial   updates of every row that omit columns: all but 10, or every second one
late      whole updates of every row that are older than these, so that every column is joined by its version

The seconds are those of the process and all its threads (time.process_time), so other work on the machine hardly changes them.

    python -m bench.replicate_wide [--quick]
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from bench.machine import Report, run_benchmark
from bench.replicate_messages import make_sequence
from bench.replicate_sizes import NoMappedTables
from headstream.replicate.apply.tombstones import Tombstones
from headstream.replicate.apply.type1.merge import Scd1Table
from headstream.replicate.codec import ColumnMetadata, Lineage, TableMetadata
from headstream.replicate.columns.changes import BOOKKEEPING, OLD_PREFIX, OPERATIONS
from headstream.replicate.engines.deltalake import DeltaLakeEngine

COLUMNS: Final = 1000
KEY: Final = "c0"


def make_table(columns: int) -> TableMetadata:
    """Return a table whose first column is its key; the others are texts."""
    made = [ColumnMetadata(KEY, 1, "INT8", 0, 0, 0, 1)]
    made += [ColumnMetadata(f"c{n}", n + 1, "WSTRING", 40, 0, 0, 0) for n in range(1, columns)]
    return TableMetadata("0" * 32, Lineage("server", "task", "shop", "wide", 1, ""), tuple(made), "")


def make_changes(operation: str, rows: int, columns: int, at: int, carried: Iterable[int] | None = None) -> pa.Table:
    """Return one decoded change of every row.

    Args:
        operation: The verb.
        rows: How many rows the table has.
        columns: How many columns.
        at: The place of the first change in the order of all.
        carried: The columns that the changes carry, the key among them; None: all.
    """
    numbers = set(range(columns) if carried is None else carried)
    mask = None if carried is None else sum(1 << n for n in numbers).to_bytes((columns + 7) // 8, "little")
    made: dict[str, Any] = {KEY: pa.array(range(rows), pa.int64())}
    for n in range(1, columns):
        values = [f"{operation} {at + row} {n}" for row in range(rows)] if n in numbers else [None] * rows
        made[f"c{n}"] = pa.array(values, pa.string())
    book: dict[str, list[Any]] = {
        "_hs_operation": [OPERATIONS.index(operation)] * rows,
        "_hs_sequence": [make_sequence(at + row) for row in range(rows)],
        "_hs_columns": [mask] * rows,
        "_hs_topic": ["t"] * rows,
        "_hs_partition": [1] * rows,
        "_hs_offset": list(range(at, at + rows)),
    }
    made |= {field.name: pa.array(book.get(field.name, [None] * rows), field.type) for field in BOOKKEEPING}
    return pa.table({**made, OLD_PREFIX + KEY: pa.nulls(rows, pa.int64())})


class Merges:
    """Merges into one new table, and the CPU seconds that each took.

    Args:
        directory: Where the table is made.
        rows: How many rows it has.
        columns: How many columns.
    """

    def __init__(self, directory: Path, rows: int, columns: int) -> None:
        self._metadata = make_table(columns)
        tombstones = Tombstones(directory / "tombstones", [KEY])
        self._table = Scd1Table(DeltaLakeEngine(directory / "table", NoMappedTables()), [KEY], tombstones)
        self._table.prepare({column.name: "BIGINT" if column.name == KEY else "STRING" for column in self._metadata.columns})
        self._count = 0
        self.merge(make_changes("INSERT", rows, columns, 0))

    def merge(self, changes: pa.Table) -> float:
        """Merge one batch and return its CPU seconds."""
        self._count += 1
        began = time.process_time()
        self._table.merge(self._table.collapse(changes, self._metadata), "bench", self._count)
        return time.process_time() - began


def bench(report: Report, directory: Path, rows: int, columns: int) -> None:
    """Each table gets whole updates, updates that omit columns, and late whole ones between these."""
    for name, carried in (("10 columns", range(10)), ("every second column", range(0, columns, 2))):
        merges = Merges(directory / name.replace(" ", "_"), rows, columns)
        whole = merges.merge(make_changes("UPDATE", rows, columns, 10_000))
        partial = merges.merge(make_changes("UPDATE", rows, columns, 30_000, carried))
        late = merges.merge(make_changes("UPDATE", rows, columns, 20_000))
        again = merges.merge(make_changes("UPDATE", rows, columns, 30_000, carried))
        report.line(
            f"{rows:,} rows of {columns:,} columns, updates that carry {name:19}: whole {whole:5.1f} CPU s, "
            f"partial {partial:5.1f}, late whole {late:5.1f}, the partial ones again {again:5.1f}"
        )


def main() -> None:
    """Run all of it."""
    with run_benchmark("replicate_wide", __doc__, "a tenth of the columns, nothing written") as (report, directory, quick):
        bench(report, directory, 1000, COLUMNS // 10 if quick else COLUMNS)


if __name__ == "__main__":
    main()
