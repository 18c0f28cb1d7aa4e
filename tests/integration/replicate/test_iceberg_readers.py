"""Iceberg tables of a pipeline as DuckDB and Spark read them, in Iceberg's own REST catalog; tests/campaigns have pyiceberg."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog

from headstream.errors import ReplicateError
from headstream.replicate.iceberg import access
from headstream.replicate.iceberg.catalog import open_catalog
from headstream.replicate.iceberg.mirror import DELTA_VERSION, TableMirror
from headstream.replicate.run.mirrors import IcebergMirrors
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.iceberg_settings import IcebergSettings
from headstream.testing import PostgresServer
from tests.campaigns.iceberg_histories import IcebergHistory
from tests.campaigns.iceberg_rounds import IcebergReadersHistory, IcebergRoundsHistory
from tests.support.replicate.iceberg_readers import (
    DuckReader,
    FaultyCatalog,
    ReaderProcesses,
    RestCatalogServer,
    SparkReader,
    as_compared,
)
from tests.support.replicate.iceberg_tables import delta_rows, iceberg_rows
from tests.support.waiting import run_together

pytestmark = pytest.mark.nightly
WEEK_US = 7 * 86_400_000_000
_names = itertools.count()


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalogServer]:
    with RestCatalogServer(tmp_path_factory.mktemp("rest")) as server:
        yield server


@pytest.fixture(scope="module")
def duck(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckReader]:
    with DuckReader(tmp_path_factory.mktemp("duckdb")) as reader:
        yield reader


@pytest.fixture(scope="module")
def spark_reader(rest: RestCatalogServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkReader]:
    with SparkReader(tmp_path_factory.mktemp("spark"), rest.uri) as reader:
        yield reader


@pytest.fixture
def schema() -> str:
    """A namespace that no other test has."""
    return f"shop{next(_names)}"


def open_rest(uri: str, directory: Path) -> Catalog:
    return open_catalog(IcebergSettings(catalog={"type": "rest", "uri": uri}), directory)


def mirror_of(catalog: Catalog, path: Path, schema: str) -> TableMirror:
    return TableMirror(catalog, path, (schema, path.name), most_snapshots=100, kept_us=WEEK_US)


def append(path: Path, *ids: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_deltalake(path, pa.table({"id": list(ids), "city": ["Zürich"] * len(ids)}), mode="append")


def versions_of(catalog: Catalog, *name: str) -> list[str]:
    return [
        each.summary.additional_properties[DELTA_VERSION]
        for each in catalog.load_table(name).metadata.snapshots
        if each.summary is not None
    ]


@pytest.mark.parametrize("seed", [3, 8])
def test_tables_have_the_same_rows_by_three_readers_when_the_process_is_killed_and_columns_change(
    rest: RestCatalogServer, duck: DuckReader, spark_reader: SparkReader, seed: int
) -> None:
    history = IcebergReadersHistory(seed, 12, ReaderProcesses(rest, duck, spark_reader))
    history.run()
    for what in ("compared after a kill", "compared with spark, older snapshots", "compared with duckdb, older snapshots"):
        assert history.counts[what], what


def test_duckdb_reads_the_rows_of_the_model_when_catalog_and_writers_fail(duck: DuckReader) -> None:
    def read(_: Path, location: str) -> list[Any]:
        found = duck.query(f"SELECT id AS a, seq AS b, city AS c, value AS d FROM iceberg_scan('{location}')")
        return list(found[1:])

    assert run_with(read).counts["compared with duckdb"] > 10


def run_with(read: Callable[[Path, str], list[Any]]) -> IcebergHistory:
    history = IcebergHistory(7, 30, {"duckdb": read})
    history.run()
    return history


def test_values_of_every_type_and_their_bounds_are_equal_by_three_readers(
    rest: RestCatalogServer, duck: DuckReader, spark_reader: SparkReader, tmp_path: Path, schema: str
) -> None:
    def rows(first: int, count: int) -> pa.Table:
        numbers, utc = range(first, first + count), datetime.UTC
        day, moment = datetime.date(2026, 1, 1), datetime.datetime(1969, 12, 31, 23, 59, 59)
        return pa.table({
            "i8": pa.array([number % 100 for number in numbers], pa.int8()),
            "i32": pa.array(numbers, pa.int32()),
            "i64": [number << 40 for number in numbers],
            "f32": pa.array([number / 2 for number in numbers], pa.float32()),
            "f64": [number / 3 for number in numbers],
            "yes": [number % 2 == 0 for number in numbers],
            "bytes": [bytes([number]) for number in numbers],
            "text": [f"ü{number}" for number in numbers],
            "day": [day + datetime.timedelta(number) for number in numbers],
            "ts": pa.array([moment.replace(microsecond=number, tzinfo=utc) for number in numbers], pa.timestamp("us", "UTC")),
            "ntz": pa.array([moment.replace(microsecond=number) for number in numbers], pa.timestamp("us")),
            "big": pa.array([Decimal(number).scaleb(-2) for number in numbers], pa.decimal128(38, 2)),
            "größe.p": [("c/d e", "Zür", None)[number % 3] for number in numbers],
            "pd": [day + datetime.timedelta(number % 2) for number in numbers],
        })  # fmt: skip

    path, catalog = tmp_path / "a b" / "t%u0020", open_rest(rest.uri, tmp_path)
    path.parent.mkdir()
    identifier = (f"{schema}.ä", 'T "1" é.x')
    mirror = TableMirror(catalog, path, identifier, most_snapshots=10, kept_us=WEEK_US)
    for first, count in ((0, 30), (30, 10)):
        write_deltalake(path, rows(first, count), mode="append", partition_by=["größe.p", "pd"])
        mirror.sync()
    table, name = catalog.load_table(identifier), ".".join(f"`{part}`" for part in identifier)
    columns, *values = delta_rows(path)
    expected = as_compared(list(columns), values)
    assert duck.read(table.metadata_location) == expected
    assert spark_reader.read(name) == expected
    ends = [
        f"{end}({column}) AS {end}_{column}"
        for column in columns
        if column not in ("größe.p", "pd", "yes", "bytes")
        for end in ("min", "max")
    ]
    by_spark = spark_reader.query(f"SELECT count(*) AS n, {', '.join(ends)} FROM lake.{name}")
    assert by_spark == duck.query(f"SELECT count(*) AS n, {', '.join(ends)} FROM iceberg_scan('{table.metadata_location}')")
    assert by_spark[1][-1] == 40


def test_spark_removes_no_file_of_a_table(
    rest: RestCatalogServer, spark_reader: SparkReader, tmp_path: Path, schema: str
) -> None:
    path, catalog = tmp_path / "t", open_rest(rest.uri, tmp_path)
    append(path, 1, 2)
    mirror_of(catalog, path, schema).sync()
    for statement in (
        f"CALL lake.system.expire_snapshots(table => '{schema}.t')",
        f"CALL lake.system.remove_orphan_files(table => '{schema}.t')",
        f"DROP TABLE lake.{schema}.t PURGE",
    ):
        with pytest.raises(RuntimeError, match="GC is disabled"):
            spark_reader.query(statement)
    assert delta_rows(path) == iceberg_rows(catalog.load_table((schema, "t")))


def test_a_commit_of_spark_is_an_error_that_repair_ends(
    rest: RestCatalogServer, spark_reader: SparkReader, tmp_path: Path, schema: str
) -> None:
    path, catalog = tmp_path / "t", open_rest(rest.uri, tmp_path)
    append(path, 1, 2)
    mirror = mirror_of(catalog, path, schema)
    mirror.sync()
    spark_reader.query(f"INSERT INTO lake.{schema}.t VALUES (9, 'foreign')")
    append(path, 3)
    with pytest.raises(ReplicateError, match="another writer has committed snapshot"):
        mirror.sync()
    assert "another writer" in str(mirror.check().reason)
    mirror.repair()
    columns, *rows = delta_rows(path)
    assert spark_reader.read(f"{schema}.t") == as_compared(list(columns), rows)


def test_mirrors_that_commit_at_once_make_one_snapshot_of_a_version(rest: RestCatalogServer, tmp_path: Path, schema: str) -> None:
    path = tmp_path / "t"
    catalogs = [open_rest(rest.uri, tmp_path) for _ in range(3)]
    mirrors = [mirror_of(catalog, path, schema) for catalog in catalogs]
    append(path, 0)
    mirrors[0].sync()
    for number in range(1, 12):
        append(path, number)
        run_together(*(mirror.sync for mirror in mirrors[: 2 + number % 2]))  # the third one is stale at times
        assert iceberg_rows(catalogs[0].load_table((schema, "t"))) == delta_rows(path)
    versions = versions_of(catalogs[0], schema, "t")
    assert versions == sorted(set(versions), key=int)


@pytest.mark.parametrize("fault", FaultyCatalog.FAULTS)
def test_a_rest_catalog_that_fails_is_told_and_made_up_for(
    rest: RestCatalogServer, tmp_path: Path, schema: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "ANSWER_S", 1.0)
    with FaultyCatalog(rest.uri) as faulty:
        settings = IcebergSettings(catalog={"type": "rest", "uri": faulty.uri})
        config = ReplicateConfig(
            source=None, topics=("cdc",), iceberg=settings, tables=tmp_path, checkpoint=tmp_path / "checkpoint"
        )
        mirrors, path = (
            IcebergMirrors(config, itertools.count(0, 1_000_000).__next__, first_pause_s=0.01),
            tmp_path / schema / "t",
        )
        append(path, 0)
        mirrors.offer([(schema, "t")])
        wait_for(mirrors, lambda: not mirrors.status()["waiting"])
        faulty.fault = fault
        append(path, 1)
        mirrors.offer([(schema, "t")])
        wait_for(mirrors, lambda: bool(mirrors._work.reasons) or not mirrors.status()["waiting"])
        assert faulty.met[0] == fault
        (told,) = mirrors.status()["tables"]
        assert (told["reason"] is None) == (told["lag_seconds"] == 0.0)
        append(path, 2)  # a merge waits for nothing
        mirrors.offer([(schema, "t")])
        faulty.fault = None
        wait_for(mirrors, lambda: not mirrors.status()["waiting"])
        mirrors.close()
    catalog = open_rest(rest.uri, tmp_path)
    assert isinstance(catalog, RestCatalog)
    assert iceberg_rows(catalog.load_table((schema, "t"))) == delta_rows(path)
    versions = versions_of(catalog, schema, "t")
    assert versions == sorted(set(versions), key=int)
    assert versions[-1] == "2"


def wait_for(mirrors: IcebergMirrors, is_so: Callable[[], bool]) -> None:
    with mirrors._work.changed:
        assert mirrors._work.changed.wait_for(is_so, 60)


def test_a_catalog_in_postgresql_has_the_rows_of_the_delta_tables() -> None:
    with PostgresServer() as server:
        address = server.url.replace("postgresql://", "postgresql+psycopg://")
        history = IcebergRoundsHistory(5, 4, catalog={"type": "sql", "uri": address})
        history.run()
    assert history.counts["compared with pyiceberg"] > 4
