"""The processes of iceberg_rounds.py: each line of input runs a round, and kills the process at a step of it.

python -m tests.campaigns.iceberg_process DIRECTORY SEED ROUNDS CATALOG < rounds and steps
"""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from headstream.replicate.engines.folding import fold
from headstream.replicate.iceberg.catalog import open_catalog
from headstream.replicate.iceberg.mirror import DELTA_VERSION
from headstream.replicate.run.mirrors import IcebergMirrors
from headstream.replicate.settings.iceberg_settings import IcebergSettings
from headstream.replicate.settings.table_settings import TableRule, TableRules
from headstream.replicate.storage.delta_log import LogSnapshot
from headstream.testing import SourceColumn, SourceDatabase, SourceTable
from tests.support.replicate.iceberg_tables import delta_rows, iceberg_rows
from tests.support.replicate.pipeline_work import SECOND_US, Work
from tests.support.replicate.plain_engine import STRATEGY

_WIDER: Final = {"INT1": "INT2", "INT2": "INT4", "INT4": "INT8", "REAL4": "REAL8", "UINT1": "INT4", "UINT2": "INT8"}
_TYPES: Final = (*_WIDER, "INT8", "REAL8", "NUMERIC", "BOOLEAN", "BYTES", "STRING", "DATE", "DATETIME", "TIME")
_TRACED: Final = ("replicate/iceberg/", "pyiceberg/catalog/", "pyiceberg/io/", "pyiceberg/table/update/")
MAPPED: Final = ("SHOP", "mapped")


def random_column(rng: random.Random, name: str) -> SourceColumn:
    """Return a column of a random type."""
    kind = rng.choice(_TYPES)
    sizes: dict[str, dict[str, Any]] = {
        "NUMERIC": {"precision": rng.randint(1, 18), "scale": rng.randint(0, 1)},
        "STRING": {"length": 20},
        "BYTES": {"length": 9},
    }
    return SourceColumn(name, kind, **sizes.get(kind, {}))


def random_table(rng: random.Random, name: str, alterations: int) -> SourceTable:
    """Return a table whose columns change at random; `id` is its key, and files can be partitioned by `flag`."""
    columns = [SourceColumn("id", "INT8", key_position=1, nullable=False), SourceColumn("flag", "BOOLEAN")]
    columns += [random_column(rng, f"c{number}") for number in range(rng.randint(1, 5))]
    versions = [tuple(columns)]
    for number in range(alterations):
        columns = list(columns)
        free = range(2, len(columns))
        way = rng.choice(["add", "drop", "rename", "widen", "widen"]) if len(free) > 1 else "add"
        place = rng.choice(free) if free else 0
        if way == "add":
            columns.append(random_column(rng, f"added{number}"))
        elif way == "drop":
            del columns[place]
        else:
            old = columns[place]
            wide = old.type == "NUMERIC" and way == "widen"
            columns[place] = SourceColumn(
                f"renamed{number}" if way == "rename" else old.name,
                _WIDER.get(old.type, old.type) if way == "widen" else old.type,
                length=old.length,
                precision=old.precision + 3 if wide else old.precision,
                scale=old.scale,
            )
        versions.append(tuple(columns))
    return SourceTable("SHOP", name, tuple(versions))


class MappedTable:
    """A Delta table with column mapping, whose columns another writer renames and drops; each round is one commit."""

    def __init__(self, path: Path, seed: int) -> None:
        self._path = path
        self._seed = seed

    def change(self, number: int) -> str:
        """Commit a round unless it is committed; return what it did to the columns."""
        columns, did = {1: ("id", "long"), 2: ("city name", "string")}, "created"
        for past in range(1, number + 1):
            rng = random.Random(f"{self._seed}-{past}")
            chosen = rng.choice(sorted(columns)[1:]) if len(columns) > 1 else None
            did = rng.choice(["rename", "drop", "add", "none", "none"])
            if did == "add" or chosen is None:
                columns[past + 10] = (f"n{past}", rng.choice(["long", "string", "date"]))
            elif did == "rename":
                columns[chosen] = (f"renamed {past}", columns[chosen][1])
            elif did == "drop":
                del columns[chosen]
        log = self._path / "_delta_log"
        log.mkdir(parents=True, exist_ok=True)
        if not (log / f"{number:020d}.json").exists():
            protocol: dict[str, Any] = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
            actions = [protocol] if number == 0 else []
            actions += [self._metadata(columns), self._file(columns, number)]
            if number > 3 and number % 3 == 0:
                removed = {"path": f"{number - 2}.parquet", "deletionTimestamp": 0, "dataChange": True}
                actions.append({"remove": removed})
            (log / f"{number:020d}.tmp").write_text("\n".join(map(json.dumps, actions)))
            (log / f"{number:020d}.tmp").rename(log / f"{number:020d}.json")
        return did

    def _metadata(self, columns: dict[int, tuple[str, str]]) -> dict[str, Any]:
        mode = "delta.columnMapping"
        fields = [
            {"name": name, "type": kind, "nullable": True, "metadata": {f"{mode}.id": key, f"{mode}.physicalName": f"col-{key}"}}
            for key, (name, kind) in columns.items()
        ]
        found = {"id": "mapped", "format": {"provider": "parquet", "options": {}}, "partitionColumns": [], "createdTime": 0}
        settings = {f"{mode}.mode": "name", f"{mode}.maxColumnId": "1000000"}
        schema = json.dumps({"type": "struct", "fields": fields})
        return {"metaData": found | {"schemaString": schema, "configuration": settings}}

    def _file(self, columns: dict[int, tuple[str, str]], number: int) -> dict[str, Any]:
        kinds = {"long": pa.int64(), "string": pa.string(), "date": pa.date32()}
        values: dict[str, list[Any]] = {"long": [number, 7], "string": ["ü", None], "date": [None, number]}
        arrays = {
            f"col-{key}": pa.array(values[kind], pa.int32() if kind == "date" else kinds[kind])
            for key, (_, kind) in columns.items()
        }
        rows = pa.table({f"col-{key}": arrays[f"col-{key}"].cast(kinds[kind]) for key, (_, kind) in columns.items()})
        file = self._path / f"{number}.parquet"
        pq.write_table(rows, file)
        add = {"path": file.name, "partitionValues": {}, "size": file.stat().st_size, "modificationTime": 0, "dataChange": True}
        return {"add": add | {"stats": json.dumps({"numRecords": rows.num_rows})}}


class Steps:
    """Counts the lines that run between the commits to Delta and to Iceberg, and ends the process at one of them."""

    def __init__(self) -> None:
        self.count = 0
        self.kill_at = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        return self._line if any(part in frame.f_code.co_filename for part in _TRACED) else None

    def _line(self, _frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self.count += 1
            if self.count == self.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        return self._line


class Rounds:
    """The pipeline of one seed."""

    def __init__(self, directory: Path, seed: int, rounds: int, catalog: dict[str, str]) -> None:
        rng = random.Random(seed)
        self._seed, self._directory = seed, directory
        tables = [random_table(rng, name, rng.randint(1, 6)) for name in ("first", "second")]
        # Strategies of an engine in tests are by a variable, see plain_engine.py.
        os.environ[STRATEGY] = rng.choice(["deletion-vectors", "in turn"])
        rules = [
            TableRule(
                f"SHOP.{table.name}",
                {
                    "scd_type": rng.choice([1, 2]),
                    "deletes": rng.choice(["apply", "soft"]),
                    "partition_by": rng.choice([(), ("flag",)]),
                    "on_type_narrowed": "evolve",
                },
            )
            for table in tables
        ]
        source = SourceDatabase(seed, tables=tables, rows=rng.choice([5, 60]), transactions=rounds * 4)
        self._messages = [message.value for message in source.capture()]
        self._size = -(-len(self._messages) // rounds)
        self._settings = IcebergSettings(catalog=catalog, snapshots=8)
        self._work = Work(directory, rules=TableRules(rules=tuple(rules)), iceberg=self._settings)
        self._catalog = open_catalog(self._settings, directory)
        self._mapped = MappedTable(directory / "tables" / "SHOP" / "mapped", seed)
        self._done = directory / "rounds-in-delta"
        self._steps = Steps()

    def run(self, number: int, kill_at: int) -> dict[str, Any]:
        """Run a round, or only its second half if Delta has the first; return what was done and compared."""
        did = self._change(number)
        names = [*(name for name in self._work.context.tables.names() if self._has(name)), MAPPED]
        self._steps.count, self._steps.kill_at = 0, kill_at
        threading.settrace(self._steps)
        mirrors = IcebergMirrors(self._work.config, lambda: number * SECOND_US, first_pause_s=0.01)
        mirrors.offer(names)
        mirrors.finish(every_table=True)
        threading.settrace(None)
        waiting = [table for table in mirrors.status()["tables"] if table["reason"] is not None]
        assert not waiting, waiting
        return {"steps": self._steps.count, "did": did, "tables": [self._compared(name, number) for name in names]}

    def _has(self, name: tuple[str, str]) -> bool:
        return (self._directory / "tables" / name[0] / name[1] / "_delta_log").exists()

    def _change(self, number: int) -> list[str]:
        done = int(self._done.read_text()) if self._done.exists() else 0
        if done > number:
            return ["rounds continued"]
        rng, did = random.Random(f"{self._seed}-{number}"), list[str]()
        begin = number * self._size
        self._work.next_offset, self._work.next_batch = begin, number
        self._work.send(*self._messages[begin : begin + self._size])
        for name in self._work.context.tables.names():
            path = self._directory / "tables" / name[0] / name[1]
            way = rng.choice(["folds", "compactions", "", "", ""]) if self._has(name) else ""
            if way == "folds":
                fold(LogSnapshot.read(path), steps=3, step_bytes=1 << 30)
            elif way == "compactions":
                DeltaTable(path).optimize.compact()
            did += [way] if way else []
        did.append(f"mapped columns: {self._mapped.change(number)}")
        temporary = self._done.with_suffix(".tmp")
        temporary.write_text(str(number + 1))
        temporary.replace(self._done)
        return did

    def _compared(self, name: tuple[str, str], number: int) -> dict[str, Any]:
        path = self._directory / "tables" / name[0] / name[1]
        table, version = self._catalog.load_table(name), DeltaTable(path).version()
        found, expected = iceberg_rows(table), delta_rows(path, version)
        assert found == expected, f"{name}: {len(found)} and {len(expected)} rows, {_differing(found, expected)}"
        versions = {
            each.snapshot_id: int(each.summary.additional_properties[DELTA_VERSION])
            for each in table.metadata.snapshots
            if each.summary
        }
        assert versions[table.metadata.current_snapshot_id or 0] == version
        assert len(set(versions.values())) == len(versions), f"a Delta version has two snapshots: {versions}"
        older = random.Random(f"{self._seed}-{number}").choice(sorted(versions.items()))
        found, expected = iceberg_rows(table, older[0]), delta_rows(path, older[1])
        assert found == expected, f"{name}, snapshot of version {older[1]}: {_differing(found, expected)}"
        place: dict[str, Any] = {"schema": name[0], "name": name[1], "location": table.metadata_location, "version": version}
        place |= {"columns": str(table.schema())}
        return place | {"older": older if older[1] != version else None}


def _differing(found: Sequence[Any], expected: Sequence[Any]) -> str:
    return str([pair for pair in zip(found, expected, strict=False) if pair[0] != pair[1]][:2])


def main() -> None:
    """Run rounds until the input ends, in one process after another: forks of this one, which has imported all."""
    directory, seed, count, catalog = sys.argv[1:]
    logging.disable(logging.WARNING)
    while True:
        child = os.fork()
        if child == 0:
            rounds = Rounds(Path(directory), int(seed), int(count), json.loads(catalog))
            for line in sys.stdin:
                number, kill_at = map(int, line.split())
                _answer(rounds.run(number, kill_at))
            return
        _, status = os.waitpid(child, 0)
        if status != signal.SIGKILL:
            sys.exit(os.waitstatus_to_exitcode(status))
        _answer(None)


def _answer(found: dict[str, Any] | None) -> None:
    sys.stdout.write(f"{json.dumps(found)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
