"""Rows as they are (SCD type 1) against every version of them (SCD type 2), side by side; results in
results/replicate_history.txt.

batches of 10,000 changes (80 % updates, 10 % inserts, 10 % deletes) into a table, keys beside each other or anywhere: in
order, and again with every tenth batch late; with the last batches of a growing history
"""

from __future__ import annotations

import random
import time
from pathlib import Path
from statistics import median

import pyarrow as pa

from bench.machine import Report, run_benchmark
from bench.replicate_messages import change_batch, make_table, mix, table_types
from bench.replicate_sizes import NoMappedTables
from headstream.replicate.apply.tombstones import Tombstones
from headstream.replicate.apply.type1.merge import Scd1Table
from headstream.replicate.apply.type2.events import read_events
from headstream.replicate.apply.type2.merge import Scd2Table
from headstream.replicate.engines.deltalake import DeltaLakeEngine

TABLE = make_table(0)
TYPES = table_types()


def make_batches(rows: int, count: int, size: int, *, clustered: bool) -> list[pa.Table]:
    """Batches of changes in the order of their sequences."""
    rng = random.Random(1)
    batches = []
    for number in range(count):
        kinds = mix(size)
        first = rng.randrange(rows - size)
        old = iter(range(first, first + size) if clustered else rng.sample(range(rows), size))
        new = iter(range(rows + number * size, rows + (number + 1) * size))
        keys = [next(new) if kind == "INSERT" else next(old) for kind in kinds]
        batches.append(change_batch(kinds, keys, 1 + number * size))
    return batches


def bench(report: Report, directory: Path, rows: int, size: int, count: int) -> None:
    """Both types, the same batches."""
    for clustered in (True, False):
        for late in (False, True):
            place = directory / f"{clustered}{late}"
            ones = Scd1Table(DeltaLakeEngine(place / "1", NoMappedTables()), ["c0"], Tombstones(place / "tombstones", ["c0"]))
            twos = Scd2Table(DeltaLakeEngine(place / "2", NoMappedTables()), ["c0"])
            for table in (ones, twos):
                table.prepare(TYPES)
            batches = make_batches(rows, count, size, clustered=clustered)
            if late:
                for number in range(5, len(batches), 10):
                    batches[number - 3], batches[number] = batches[number], batches[number - 3]
            load = [change_batch(["REFRESH"] * rows, list(range(rows)), 0)]
            one_s, two_s = [], []
            for version, batch in enumerate(load + batches):
                began = time.perf_counter()
                ones.merge(ones.collapse(batch, TABLE), "bench", version)
                between = time.perf_counter()
                twos.merge(read_events(batch, TABLE, list(TYPES)), "bench", version)
                one_s.append(between - began)
                two_s.append(time.perf_counter() - between)
            keys = "keys beside each other" if clustered else "keys anywhere"
            order = "every 10th batch late" if late else "in order"
            quarter = max(1, count // 4)
            rates = [size / median(part) / 1000 for part in (one_s[1:], two_s[1:], one_s[-quarter:], two_s[-quarter:])]
            report.line(
                f"{keys:22}, {order:21}: type 1 {rates[0]:4.0f} thousand changes/s, type 2 {rates[1]:4.0f}; "
                f"last quarter {rates[2]:4.0f}, {rates[3]:4.0f}"
            )


def main() -> None:
    """Run all of it."""
    with run_benchmark("replicate_history", __doc__, "a tenth of the work, nothing written") as (report, directory, quick):
        bench(report, directory, *((100_000, 10_000, 8) if quick else (1_000_000, 10_000, 40)))


if __name__ == "__main__":
    main()
