"""dlt beside Headstream, the same changes in one run: results/beside_dlt.txt.

cases    changes that pipelines often get wrong (change_cases.py): which tables are the source's in the end
speed    inserts of new keys into an empty table, then 80 % updates, 10 % inserts, 10 % deletes with keys anywhere

Both write Delta tables with deltalake. dlt loads with the disposition `merge` and the strategy `upsert`, as it must for Delta
tables, with `hard_delete`. It gets rows that are decoded, and of which only the last one of each key is left in a load, since
`upsert` does not remove the others; Headstream reads messages of a log, decodes them and picks the last. Seconds are those of a
whole load or run, warmed up by a small one; processor time is that of all processes. dlt runs in an environment of its own:

    python -m venv /tmp/dlt && /tmp/dlt/bin/pip install "dlt[deltalake]==1.31.0"
    python -m bench.beside_dlt [--quick] [--parts cases,speed] [--python /tmp/dlt/bin/python]
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from bench.change_cases import CASES, Row, find_difference, plain_rows, run_cases
from bench.cluster_meter import find_processes
from bench.machine import Report
from bench.replicate_apply import run_ours
from bench.replicate_messages import Envelopes, load_then_mix, make_log, make_sequence, make_table, make_values, send, table_types
from headstream.replicate.columns.conversion import arrow_type
from headstream.spark import session, stop

_PARTS: Final = ("load", "merge")


class Loader:
    """A process of dlt's.

    Args:
        python: The interpreter of dlt's environment.
        directory: Where it makes tables.
    """

    def __init__(self, python: Path, directory: Path) -> None:
        job = Path(__file__).with_name("dlt_job.py")
        self._directory = directory
        self._process = subprocess.Popen(
            [python, job, directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.versions = self._answer().strip()

    def load(self, name: str, **asked: Any) -> dict[str, Any]:
        """Run a load, and return what it used.

        Args:
            name: The table.
            asked: What dlt_job.py needs besides.
        """
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"name": name, **asked}) + "\n")
        self._process.stdin.flush()
        used: dict[str, Any] = json.loads(self._answer())
        return used

    def table(self, name: str) -> DeltaTable:
        """Open a table that it has made."""
        return DeltaTable(str(self._directory / name / "rows"))

    def end(self) -> None:
        """End it."""
        self._process.communicate()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def last_of_each_key(rows: Iterable[Row]) -> list[Row]:
    """Return the last change of each key."""
    last: dict[int, Row] = {}
    for row in sorted(rows, key=lambda row: row["seq"]):
        last[row["id"]] = row
    return list(last.values())


def bench_cases(report: Report, directory: Path, loader: Loader) -> None:
    """Run the cases by both."""
    spark = session(master="local[2]", config={"spark.log.level": "ERROR"})
    ours = run_cases(spark, directory)
    stop(spark)
    width = max(len(case.title) for case in CASES)
    report.line(f"{'':{width}}  {'Headstream':10}  dlt")
    for number, (case, our) in enumerate(zip(CASES, ours, strict=True)):
        failure = ""
        for events in case.runs:
            rows = last_of_each_key(plain_rows(events))
            failure = failure or loader.load(f"case{number}", key="id", rows=rows, order="seq", deleted="deleted")["failure"]
        found = loader.table(f"case{number}").to_pyarrow_table().to_pylist()
        report.line(f"{case.title:{width}}  {our:10}  {failure or find_difference(case, found)}")


def decoded_rows(changes: Iterable[tuple[str, int, int]]) -> pa.Table:
    """Return changes as dlt gets them."""
    fields = [pa.field(name, arrow_type(kind)) for name, kind in table_types().items()]
    schema = pa.schema([*fields, pa.field("sequence", pa.string()), pa.field("is_deletion", pa.bool_())])
    rows = [[*make_values(key, at), make_sequence(at), verb == "DELETE"] for verb, key, at in changes]
    return pa.table(
        [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)], schema=schema
    )


def processor_seconds() -> float:
    """Return those of this process and its descendants."""
    return sum(seconds for _, seconds in find_processes().values())


def bench_speed(report: Report, directory: Path, loader: Loader, rows: int, changes: int) -> None:
    """Load and merge by both."""
    used: dict[tuple[str, str], dict[str, float]] = {}
    envelopes = Envelopes(make_table(0))
    spark = session(master="local[2]", config={"spark.driver.memory": "3g", "spark.log.level": "ERROR"})
    for name, sizes in (("warm", (3000, 1000)), ("measured", (rows, changes))):
        place = directory / name
        make_log((place / "log").as_uri(), [make_table(0)])
        for part, planned in zip(_PARTS, load_then_mix(*sizes), strict=True):
            send((place / "log").as_uri(), (envelopes.write(*change) for change in planned))
            before = processor_seconds()
            seconds = run_ours(spark, place, "ours").seconds
            used["headstream", part] = {"seconds": seconds, "processor": processor_seconds() - before}
            file = directory / f"{name}-{part}.parquet"
            pq.write_table(decoded_rows(planned), file)
            used["dlt", part] = loader.load(name, key="c0", file=str(file), order="sequence", deleted="is_deletion")
            assert not used["dlt", part]["failure"], used["dlt", part]["failure"]
    stop(spark)
    ours = DeltaTable(str(directory / "measured/ours/shop/table0")).to_pyarrow_table(columns=["c0", "c2", "_hs_sequence"])
    theirs = loader.table("measured").to_pyarrow_table(columns=["c0", "c2", "sequence"]).rename_columns(ours.column_names)
    assert theirs.cast(ours.schema).sort_by("c0").equals(ours.sort_by("c0")), "both must come to the same table"
    report.line(f"{'':34} {'a run':>8} {'changes/s':>12} {'processor time a change':>26}")
    for (way, part), spent in used.items():
        count = rows if part == "load" else changes
        rate, cost = count / spent["seconds"], spent["processor"] / count * 1e6
        report.line(f"{f'{part} of {count:,}, {way}':34} {spent['seconds']:6.1f} s {rate:12,.0f} {cost:23.1f} us")
    report.line("both came to the same table")


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the changes, nothing written")
    parser.add_argument("--python", type=Path, default=Path("/tmp/dlt/bin/python"), help="the interpreter of dlt's environment")
    parser.add_argument("--parts", default="cases,speed", help="which; nothing is written unless it is all of them")
    given = parser.parse_args()
    parts = given.parts.split(",")
    logging.disable()
    scale = 10 if given.quick else 1
    with (
        tempfile.TemporaryDirectory(prefix="headstream-bench-") as name,
        Report("beside_dlt", write=not given.quick and len(parts) == 2) as report,
    ):
        loader = Loader(given.python, Path(name) / "dlt")
        report.line(f"{loader.versions}\n")
        if "cases" in parts:
            bench_cases(report, Path(name) / "cases", loader)
            report.line("")
        if "speed" in parts:
            bench_speed(report, Path(name) / "speed", loader, 200_000 // scale, 100_000 // scale)
        loader.end()


if __name__ == "__main__":
    main()
