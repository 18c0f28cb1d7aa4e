"""Unit tests of headstream.replicate.iceberg.mirror, with real Delta tables and a real catalog in SQLite."""

from __future__ import annotations

import datetime
import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from headstream.errors import ReplicateError, SchemaError, StorageError
from headstream.replicate.iceberg.files import FOLDER
from headstream.replicate.iceberg.mirror import DELTA_VERSION
from tests.support.crashes import fail_with
from tests.support.replicate.iceberg_tables import IDENTIFIER, delta_rows, iceberg_rows, make_mirror, sql_catalog
from tests.support.replicate.plain_engine import open_plain_engine


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with sql_catalog(tmp_path) as found:
        yield found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tables" / "SHOP" / "order lines %u"


def make_rows(first: int, count: int) -> pa.Table:
    days = [datetime.date(2026, 1, 1 + number % 3) for number in range(first, first + count)]
    cities = [(None, "c/d e", "Zürich")[number % 3] for number in range(first, first + count)]
    return pa.table({"id": pa.array(range(first, first + count), pa.int64()), "day": days, "city": cities})


def write(path: Path, rows: pa.Table, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_deltalake(path, rows, mode="append", **options)


def commit_mapped(path: Path, version: int, names: dict[int, str], partition: int = 0) -> None:
    """Commit columns of a table with column mapping, by their ids, and a file of one row."""
    (path / "_delta_log").mkdir(parents=True, exist_ok=True)
    key, columns = "delta.columnMapping", [number for number in names if number != partition]
    fields = [
        {"name": name, "type": "long", "nullable": True, "metadata": {f"{key}.id": number, f"{key}.physicalName": f"p{number}"}}
        for number, name in names.items()
    ]
    settings = {f"{key}.mode": "name", f"{key}.maxColumnId": "9"}
    metadata = {"id": "1", "format": {"provider": "parquet", "options": {}}, "createdTime": 1, "configuration": settings}
    metadata |= {"partitionColumns": [names[partition]] if partition else []}
    metadata |= {"schemaString": json.dumps({"type": "struct", "fields": fields})}
    file = path / f"{version}.parquet"
    pq.write_table(pa.table({f"p{number}": [version] for number in columns}), file)
    add = {"path": file.name, "size": file.stat().st_size, "modificationTime": 0, "dataChange": True}
    add |= {"partitionValues": {f"p{partition}": str(version)} if partition else {}, "stats": json.dumps({"numRecords": 1})}
    actions: list[dict[str, Any]] = [{"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}] if version == 0 else []
    actions += [{"metaData": metadata}, {"add": add}]
    (path / f"_delta_log/{version:020d}.json").write_text("\n".join(map(json.dumps, actions)))


def loaded(catalog: Catalog) -> Table:
    return catalog.load_table(IDENTIFIER)


def test_sync_makes_one_snapshot_of_several_versions_and_none_without_a_new_one(catalog: Catalog, path: Path) -> None:
    write(path, make_rows(0, 9), partition_by=["city", "day"])
    mirror = make_mirror(catalog, path)
    assert mirror.sync() == 0
    DeltaTable(path).delete("id = 4")
    write(path, make_rows(20, 6))
    assert [mirror.sync(), mirror.sync(), make_mirror(catalog, path).sync()] == [2, 2, 2]
    table = loaded(catalog)
    assert iceberg_rows(table) == delta_rows(path)
    assert len(table.metadata.snapshots) == 2
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    assert snapshot.summary[DELTA_VERSION] == "2"
    assert snapshot.summary["total-records"] == "14"
    assert iceberg_rows(table, table.metadata.snapshots[0].snapshot_id) == delta_rows(path, 0), "time travel"
    assert table.properties["gc.enabled"] == "false"
    assert mirror.check().is_equal


def test_sync_prunes_by_partitions_and_by_statistics(catalog: Catalog, path: Path) -> None:
    for first in (0, 100, 200):
        write(path, make_rows(first, 9), partition_by=["city"])
    make_mirror(catalog, path).sync()
    table = loaded(catalog)
    planned = {text: list(table.scan(row_filter=text).plan_files()) for text in ("city = 'c/d e'", "city is null", "id = 105")}
    assert [len(files) for files in planned.values()] == [3, 3, 3]
    assert len(list(table.scan(row_filter="id >= 203 and id < 204 and city is null").plan_files())) == 1
    assert len(list(table.scan().plan_files())) == 9


def test_sync_commits_columns_of_every_change_with_its_rows(catalog: Catalog, path: Path) -> None:
    write(path, pa.table({"id": pa.array([1, 2], pa.int32()), "a": ["x", "y"]}))
    mirror = make_mirror(catalog, path)
    mirror.sync()
    write(path, pa.table({"id": pa.array([3], pa.int32()), "b": [1.5]}), schema_mode="merge")
    mirror.sync()
    assert iceberg_rows(loaded(catalog)) == delta_rows(path)
    open_plain_engine(path).widen({"id": "BIGINT"})
    mirror.sync()
    table = loaded(catalog)
    assert iceberg_rows(table) == delta_rows(path)
    assert {field.name: field.field_id for field in table.schema().fields} == {"id": 1, "a": 2, "b": 3}
    older = table.metadata.snapshots[0].snapshot_id
    assert iceberg_rows(table, older) == delta_rows(path, 0), "an older snapshot has the columns of its time"
    # text in place of numbers: no reader of Iceberg would read the old files so, and older snapshots end
    rows = pa.table({"id": ["one"], "a": ["x"], "b": [2.5]})
    write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite")
    mirror.sync()
    table = loaded(catalog)
    assert iceberg_rows(table) == delta_rows(path)
    assert table.schema().find_field("id").field_id == 4
    assert len(table.metadata.snapshots) == 1
    assert mirror.check().is_equal


def test_sync_takes_the_schema_up_again_that_the_table_had_before_when_a_column_has_its_old_name(
    catalog: Catalog, path: Path
) -> None:
    for number, name in enumerate(("a", "b", "a", "c")):
        commit_mapped(path, number, {1: name})
        make_mirror(catalog, path).sync()
        assert [field.name for field in loaded(catalog).schema().fields] == [name]
    table = loaded(catalog)
    assert [schema.schema_id for schema in table.metadata.schemas] == [0, 1, 2]
    assert [snapshot.schema_id for snapshot in table.metadata.snapshots] == [0, 1, 0, 2]


def test_sync_commits_rows_of_partitions_whose_column_has_any_id_and_another_name_later(catalog: Catalog, path: Path) -> None:
    for number, names in enumerate(({3: "a", 7: "größe"}, {3: "a", 7: "b"}, {7: "b", 8: "größe"})):
        commit_mapped(path, number, names, partition=7)
        make_mirror(catalog, path).sync()
        table = loaded(catalog)
        assert iceberg_rows(table) == delta_rows(path)
        assert [(field.source_id, field.name) for field in table.spec().fields] == [(7, "gr_xF6_xDFe")], "DuckDB needs ASCII"


def test_sync_commits_the_files_of_a_restored_backup_that_has_reached_the_version_again(catalog: Catalog, path: Path) -> None:
    write(path, make_rows(0, 9))
    make_mirror(catalog, path).sync()
    backup = shutil.copytree(path / "_delta_log", path.parent / "backup")
    write(path, make_rows(9, 9))
    mirror = make_mirror(catalog, path)
    mirror.sync()
    shutil.rmtree(path / "_delta_log")
    shutil.copytree(backup, path / "_delta_log")
    with pytest.raises(ReplicateError, match="has Delta version 1, but the newest version of the Delta table is 0"):
        make_mirror(catalog, path).sync()
    write(path, make_rows(9, 9))
    assert make_mirror(catalog, path).sync() == 1
    assert iceberg_rows(loaded(catalog)) == delta_rows(path)
    assert make_mirror(catalog, path).check().is_equal
    shutil.rmtree(path / "_delta_log")
    write(path, make_rows(0, 1))
    with pytest.raises(ReplicateError, match="was not created from the Delta table at"):  # a mirror that knows the former log
        mirror.sync()


def test_sync_refuses_a_column_without_an_equivalent(catalog: Catalog, path: Path) -> None:
    write(path, pa.table({"id": [1], "tags": [["a"]]}))
    with pytest.raises(SchemaError, match="column 'tags' has the type array"):
        make_mirror(catalog, path).sync()
    assert not catalog.table_exists(IDENTIFIER)


def test_sync_gives_up_when_others_commit_first_five_times(catalog: Catalog, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, make_rows(0, 9))
    mirror = make_mirror(catalog, path)
    mirror.sync()
    write(path, make_rows(9, 9))
    with monkeypatch.context() as patched:
        patched.setattr(catalog, "commit_table", fail_with(CommitFailedException("too late")))
        with pytest.raises(StorageError, match="changed the table during each of 5 attempts to commit"):
            mirror.sync()
    assert mirror.sync() == 1
    assert iceberg_rows(loaded(catalog)) == delta_rows(path)


def test_sync_refuses_a_table_that_another_writer_or_another_delta_table_has_made(
    catalog: Catalog, path: Path, tmp_path: Path
) -> None:
    write(path, make_rows(0, 9))
    mirror = make_mirror(catalog, path)
    mirror.sync()
    with loaded(catalog).transaction() as transaction, transaction.update_snapshot().fast_append():
        pass
    write(path, make_rows(9, 9))
    with pytest.raises(ReplicateError, match="another writer has committed snapshot"):
        mirror.sync()
    assert mirror.check().reason is not None
    mirror.repair()
    assert iceberg_rows(loaded(catalog)) == delta_rows(path)
    write(tmp_path / "b", make_rows(0, 1))
    with pytest.raises(ReplicateError, match="was not created from the Delta table at"):
        make_mirror(catalog, tmp_path / "b").sync()
    catalog.drop_table(IDENTIFIER)
    catalog.create_table(IDENTIFIER, pa.schema([("x", pa.int64())]), location=f"file://{tmp_path}/own")
    with pytest.raises(ReplicateError, match="Headstream did not create this Iceberg table"):
        mirror.repair()
    assert "own" in loaded(catalog).location()


def test_snapshots_expire_by_number_and_before_vacuum_removes_their_files(catalog: Catalog, path: Path) -> None:
    mirror = make_mirror(catalog, path, most_snapshots=3)
    for first in range(0, 60, 10):
        write(path, make_rows(first, 10))
        mirror.sync()
    kept = [each.summary[DELTA_VERSION] for each in loaded(catalog).metadata.snapshots if each.summary is not None]
    assert kept == ["3", "4", "5"]
    DeltaTable(path).optimize.compact()
    mirror.sync()
    make_mirror(catalog, path, kept_us=0).sync()  # without a new version: what vacuum is about to remove
    assert len(loaded(catalog).metadata.snapshots) == 1
    open_plain_engine(path).vacuum(0)
    assert iceberg_rows(loaded(catalog)) == delta_rows(path)


def test_clean_removes_old_files_that_no_snapshot_needs_and_nothing_else(catalog: Catalog, path: Path) -> None:
    mirror = make_mirror(catalog, path, most_snapshots=2)
    for first in range(0, 300, 10):
        write(path, make_rows(first, 10))
        mirror.sync()
    folder = path / FOLDER
    left = folder / "left by a crash.avro"
    left.write_bytes(b"x")
    data = {file.name for file in path.glob("*.parquet")}
    mirror.clean()
    assert left.exists(), "a young file can be one of a commit under way"
    month_ago = time.time() - 30 * 86_400
    for file in folder.iterdir():
        os.utime(file, (month_ago, month_ago))
    make_mirror(catalog, path).clean()
    assert not left.exists()
    assert len(list(folder.iterdir())) < 60, "29 commits have left more than two files each"
    assert iceberg_rows(loaded(catalog)) == delta_rows(path)
    for snapshot in loaded(catalog).metadata.snapshots:
        assert iceberg_rows(loaded(catalog), snapshot.snapshot_id)
    assert {file.name for file in path.glob("*.parquet")} == data
    open_plain_engine(path).vacuum(0)
    assert iceberg_rows(loaded(catalog)) == delta_rows(path), "Delta's vacuum passes over Iceberg's directory"


def test_check_counts_what_differs_and_repair_makes_the_table_anew_without_touching_data(catalog: Catalog, path: Path) -> None:
    write(path, make_rows(0, 9))
    mirror = make_mirror(catalog, path)
    assert make_mirror(catalog, path).check().reason == "there is no Iceberg table"
    mirror.sync()
    write(path, make_rows(9, 3))
    found = mirror.check()
    assert (found.missing, found.surplus, found.delta_rows, found.iceberg_rows) == (1, 0, 12, 9)
    mirror.sync()
    before, data = delta_rows(path), {file: file.stat().st_mtime_ns for file in path.glob("*.parquet")}
    for file in (path / FOLDER).glob("*.avro"):
        file.unlink()
    assert not make_mirror(catalog, path).check().is_equal
    make_mirror(catalog, path).repair()
    for file in (path / FOLDER).glob("*.json"):
        file.unlink()
    assert not make_mirror(catalog, path).check().is_equal
    make_mirror(catalog, path).repair()
    assert make_mirror(catalog, path).check().is_equal
    assert iceberg_rows(loaded(catalog)) == delta_rows(path) == before
    assert {file: file.stat().st_mtime_ns for file in path.glob("*.parquet")} == data, "repair has touched data files"
