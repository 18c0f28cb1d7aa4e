from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from headstream.replicate.tables.maintenance import Schedule
from headstream.replicate.tables.table_places import place_table, table_path
from tests.support.replicate.change_tables import METADATA, change
from tests.support.replicate.target_tables import Target, schema_of

LONG = "\u4e2d" * 90
NAMES = [
    ("", "A"), ("A", "B"), ("", ""), ("A", ""), ("", "_delta_log"), ("A", "_delta_log"), ("_delta_log", "A"), ("%none", "A"),
    ("A", "_moves"), ("", LONG), (LONG, LONG), (LONG, f"{LONG}2"), (LONG, f"{'/' * 90}"), ("a", "b"),
]  # fmt: skip
"""Schemas and tables whose directories would meet, or could not be made, if they were called as they are."""


def test_no_table_is_in_the_directory_of_another_whatever_the_names(tmp_path: Path) -> None:
    target = Target(tmp_path)
    schemas = {name: replace(schema_of(METADATA), table=name) for name in NAMES}
    ids = {name: "/".join(name) for name in NAMES}
    for unit in range(2):  # deletions are remembered in directories of the same names
        rows = [change("INSERT", unit, f"n{unit}", at=2 * unit), change("DELETE", 0, at=2 * unit + 1)]
        changes = {ids[name]: [pa.RecordBatch.from_pylist(rows, schema=schemas[name].changes)] for name in NAMES}
        applied = target.tables.apply(changes, {ids[name]: schemas[name] for name in NAMES}, "test", unit)
        assert not applied.failed
        schedule = Schedule(tombstones_kept_us=None, compact_every_us=1, vacuum_every_us=1, vacuum_kept_us=0)
        for name in NAMES:
            target.tables.maintain(name, schedule, 10 * unit + 10, may_forget=False)
    paths = [table_path(tmp_path / "tables", *name) for name in NAMES]
    for path in paths:
        assert sorted(DeltaTable(str(path)).to_pyarrow_table()["ID"].to_pylist()) == [1]
        assert not any(path in other.parents for other in paths)
    assert len(set(paths)) == len(NAMES)


def test_a_table_stays_where_an_older_headstream_has_made_it(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "tables" / "A"), pa.table({"id": [1]}))
    assert place_table(tmp_path / "tables", "", "A") == tmp_path / "tables" / "A"
    assert place_table(tmp_path / "other", "", "A") == table_path(tmp_path / "other", "", "A") == tmp_path / "other/%none/A"


def test_a_directory_without_commits_is_no_table_of_an_older_headstream(tmp_path: Path) -> None:
    (tmp_path / "A" / "_delta_log" / "a table of the schema A").mkdir(parents=True)
    assert place_table(tmp_path, "", "A") == table_path(tmp_path, "", "A")


def test_table_path_cuts_a_long_name_at_a_character(tmp_path: Path) -> None:
    names = [table_path(tmp_path, "s", text).name for text in (LONG, "/" * 90, "\u4e2d" * 85, f"x{LONG}")]
    assert [len(name.encode()) <= 255 for name in names] == [True] * 4
    assert names[2] == "\u4e2d" * 85, "255 bytes are a name"
    assert names[1].startswith("%u002F" * 36 + "%h")
    assert len(set(names)) == 4
