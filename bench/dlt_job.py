"""What beside_dlt.py runs in dlt's own environment: loads into a Delta table, by dlt's merge with the strategy `upsert`.

Each line of the standard input is a load: the name, the key, and the rows or a Parquet file. Each line of the output has
the seconds and the processor seconds of the load; the first line has versions.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dlt
import pyarrow.parquet as pq


def load(directory: Path, name: str, key: str, rows: Any, order: str, deleted: str) -> None:
    """Merge rows into a table.

    Args:
        directory: Where the table is made, at `<name>/rows`.
        name: The pipeline.
        key: The key's column.
        rows: Rows, or a table of Arrow.
        order: The column that orders changes.
        deleted: The column that marks deletions.
    """
    pipeline = dlt.pipeline(
        name,
        pipelines_dir=str(directory / "pipelines"),
        destination=dlt.destinations.filesystem(str(directory)),
        dataset_name=name,
    )
    resource_of_rows = dlt.resource(
        rows,
        name="rows",
        primary_key=key,
        write_disposition={"disposition": "merge", "strategy": "upsert"},
        table_format="delta",
        columns={deleted: {"hard_delete": True, "data_type": "bool"}, order: {"dedup_sort": "desc"}},
    )
    pipeline.run(resource_of_rows).raise_on_failed_jobs()


def processor_seconds() -> float:
    """Return those of this process and its children."""
    used = [resource.getrusage(which) for which in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main(lines: Iterable[str], directory: Path) -> None:
    """Run the loads of the standard input."""
    os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"
    os.environ["RUNTIME__LOG_LEVEL"] = "CRITICAL"
    print(f"dlt {version('dlt')}, deltalake {version('deltalake')}, pyarrow {version('pyarrow')}", flush=True)
    for line in lines:
        asked = json.loads(line)
        rows = asked["rows"] if "rows" in asked else pq.read_table(asked["file"])
        began, used, failure = time.perf_counter(), processor_seconds(), ""
        try:
            load(directory, asked["name"], asked["key"], rows, asked["order"], asked["deleted"])
        except Exception as error:  # a case that dlt refuses is a result
            failure = str(error).splitlines()[0]
        spent = {"seconds": time.perf_counter() - began, "processor": processor_seconds() - used, "failure": failure}
        print(json.dumps(spent), flush=True)


if __name__ == "__main__":
    main(sys.stdin, Path(sys.argv[1]))
