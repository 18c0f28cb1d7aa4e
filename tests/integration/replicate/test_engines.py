"""What a table is after changes does not depend on the engine that merged them: one suite, run by each and by both in turn."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headstream.errors import StorageError
from headstream.replicate.apply.tombstones import Tombstones
from headstream.replicate.apply.type1.merge import Scd1Table
from headstream.replicate.apply.type2.events import read_events
from headstream.replicate.apply.type2.merge import Scd2Table
from headstream.replicate.columns.conversion import arrow_type
from headstream.replicate.engines import delta_spark
from headstream.replicate.engines.delta_spark import DeltaSparkEngine
from headstream.replicate.engines.deltalake import DeltaLakeEngine
from headstream.replicate.engines.engine import RowCounts, TableEngine
from headstream.replicate.engines.mapped import SparkMappedTables
from headstream.replicate.engines.plan import MergePlan, quote_name
from headstream.replicate.settings.merge_settings import MergeSettings, MergeStrategy
from headstream.replicate.storage.delta_log import LogSnapshot
from tests.campaigns.vector_histories import VectorHistory
from tests.support.replicate.change_tables import METADATA, NAMES, TYPES, change, sequence, table
from tests.support.replicate.histories import amount, current, deliver, random_history, tell
from tests.support.replicate.moving_rows import MovingSource
from tests.support.replicate.partition_histories import PartitionHistory
from tests.unit.replicate.apply.test_widening import GROWTHS

pytestmark = pytest.mark.spark

Open = Callable[[str], TableEngine]


@pytest.fixture(params=["deltalake", "spark"])
def open_engine(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> Open:
    """Open a table by name, by one engine, or by one and the other in turn."""
    kinds: Iterator[str] = itertools.cycle(["spark", "deltalake"] if request.param == "in turn" else [request.param])

    def open_engine(name: str) -> TableEngine:
        if next(kinds) == "spark":
            return DeltaSparkEngine(tmp_path / name, spark)
        return DeltaLakeEngine(tmp_path / name, SparkMappedTables(spark))

    return open_engine


BOTH = pytest.mark.parametrize(
    "open_engine", [*(pytest.param(kind, marks=pytest.mark.nightly) for kind in ("deltalake", "spark")), "in turn"], indirect=True
)
"""For tests of several merges: each engine finds what the other wrote."""


class Rows:
    """A table of either SCD type whose engine is opened anew for every merge."""

    def __init__(
        self, open_engine: Open, directory: Path, *, history: bool = False, soft: bool = False, mapped: bool = False
    ) -> None:
        self._open = open_engine
        self._soft = soft
        self._directory = directory
        self._history = history
        self._mapped = mapped
        self._version = 0

    def merge(self, *changes: dict[str, Any], version: int | None = None) -> RowCounts:
        number = self._version if version is None else version
        self._version = number + 1
        if self._history:
            history = Scd2Table(self._open("t"), ["ID"], mapped=self._mapped)
            history.prepare(TYPES)
            return history.merge(read_events(table(*changes), METADATA, NAMES), "test", number)
        tombstones = Tombstones(self._directory / "tombstones", ["ID"])
        rows = Scd1Table(self._open("t"), ["ID"], tombstones, soft=self._soft, mapped=self._mapped)
        rows.prepare(TYPES)
        return rows.merge(rows.collapse(table(*changes), METADATA), "test", number)

    def content(self) -> dict[int, tuple[Any, ...]]:
        rows = self._open("t").read(NAMES, "NOT _hs_deleted" if self._soft else "true").to_pylist()
        assert len({row["ID"] for row in rows}) == len(rows)
        return {row["ID"]: (row["name"], row["total"], row["note"]) for row in rows}

    def versions(self) -> dict[int, list[tuple[Any, ...]]]:
        columns = [*NAMES, "_hs_valid_from", "_hs_valid_to", "_hs_deleted"]
        rows = self._open("t").read(columns, "_hs_valid_to IS NULL OR _hs_valid_from < _hs_valid_to")
        found: dict[int, list[tuple[Any, ...]]] = {}
        for row in rows.sort_by("_hs_valid_from").to_pylist():
            values = (row["name"], row["total"], row["note"], row["_hs_deleted"])
            found.setdefault(row["ID"], []).append((row["_hs_valid_from"], row["_hs_valid_to"], *values))
        return found


@BOTH
def test_rows_follow_changes_whatever_their_order(open_engine: Open, tmp_path: Path) -> None:
    rows = Rows(open_engine, tmp_path)
    assert rows.merge(change("REFRESH", 1, "a", "1"), change("REFRESH", 2, "b")) == RowCounts(inserted=2)
    assert rows.merge(change("UPDATE", 1, "a9", "9", at=9), change("DELETE", 2, at=8)) == RowCounts(updated=1, deleted=1)
    late = [change("UPDATE", 1, "a3", at=3), change("INSERT", 2, "b4", at=4), change("UPDATE", 1, "a9", "9", at=9)]
    assert rows.merge(*late) == RowCounts()
    assert rows.content() == {1: ("a9", amount("9"), None)}
    assert rows.merge(change("UPDATE", 1, note="n", at=12, present={"ID", "note"})) == RowCounts(updated=1)
    assert rows.merge(change("UPDATE", 1, "a11", "11", "x", at=11)) == RowCounts(updated=1)
    assert rows.content() == {1: ("a11", amount("11"), "n")}


@pytest.mark.nightly
@pytest.mark.parametrize("strategy", ["auto", "deletion-vectors"])
def test_both_engines_in_turn_write_deletion_vectors_into_one_table_where_the_strategy_says_so(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: MergeStrategy
) -> None:
    monkeypatch.setattr(delta_spark, "_LEAST_BYTES", 0)
    kinds = itertools.cycle(["spark", "deltalake"])
    settings = MergeSettings(rewrite_below=0, key_index=tmp_path / "keys")

    def open_engine(name: str) -> TableEngine:
        if next(kinds) == "spark":
            return DeltaSparkEngine(tmp_path / name, spark, strategy)
        return DeltaLakeEngine(tmp_path / name, SparkMappedTables(spark), strategy, settings)

    rows = Rows(open_engine, tmp_path)
    rows.merge(*(change("INSERT", key, "a", at=key) for key in range(100)))
    expected = dict.fromkeys(range(100), ("a", None, None))
    for number in range(2, 5):
        rows.merge(change("UPDATE", number, f"b{number}", at=100 * number), change("DELETE", 10 * number, at=100 * number))
        expected[number] = (f"b{number}", None, None)
        del expected[10 * number]
        snapshot = LogSnapshot.read(tmp_path / "t")
        assert any(file.deleted for file in snapshot.files.values())
    assert rows.content() == expected
    engines = {
        action["commitInfo"]["engineInfo"][:5]
        for version in range(1, snapshot.version + 1)
        for action in snapshot.read_commit(version)
        if action.get("commitInfo", {}).get("operation") == "MERGE"
    }
    assert engines == {"Heads", "Apach"}


@BOTH
def test_merge_is_remembered_whichever_engine_comes_next(open_engine: Open, tmp_path: Path) -> None:
    rows = Rows(open_engine, tmp_path)
    rows.merge(change("INSERT", 1, "a", at=1), version=7)
    assert open_engine("t").last_applied("test") == 7
    assert open_engine("t").last_applied("other") is None
    assert rows.merge(change("INSERT", 2, "b", at=2), version=7) == RowCounts()
    assert rows.merge(change("INSERT", 3, "c", at=3), version=8) == RowCounts(inserted=1)
    assert set(rows.content()) == {1, 3}


@pytest.mark.nightly
@BOTH
def test_rows_are_those_of_the_sorted_history_when_changes_are_shuffled(open_engine: Open, tmp_path: Path) -> None:
    changes = random_history(5, 45)
    rows = Rows(open_engine, tmp_path)
    rows.merge(*changes[20:])
    rows.merge(*changes[:20])
    assert rows.content() == current(tell(changes))


@pytest.mark.parametrize("soft", [pytest.param(False, marks=pytest.mark.nightly), True])
@pytest.mark.parametrize("open_engine", [pytest.param("spark", marks=pytest.mark.nightly), "in turn"], indirect=True)
def test_rows_equal_the_source_when_they_change_keys_and_batches_are_swapped(
    open_engine: Open, tmp_path: Path, soft: bool
) -> None:
    source = MovingSource(1003)
    source.live(12)
    rows = Rows(open_engine, tmp_path, soft=soft)
    middle = len(source.changes) // 2
    rows.merge(*source.changes[middle:])
    rows.merge(*source.changes[:middle])
    assert rows.merge(*source.changes) == RowCounts()
    assert rows.content() == source.expected()


def test_rows_do_not_carry_a_column_of_an_older_schema_that_comes_late(open_engine: Open, tmp_path: Path) -> None:
    tombstones = Tombstones(tmp_path / "tombstones", ["ID"])
    newer = replace(METADATA, columns=METADATA.columns[:3])
    rows = Scd1Table(open_engine("t"), ["ID"], tombstones)
    rows.prepare({name: TYPES[name] for name in NAMES[:3]})
    rows.merge(rows.collapse(table(change("UPDATE", 1, "b", at=2)), newer), "test", 0)
    rows.prepare(TYPES, older=True)
    rows.merge(rows.collapse(table(change("INSERT", 1, "a", None, "7", at=1)), METADATA), "test", 1)
    assert rows.engine.read(["name", "note"], "true").to_pylist() == [{"name": "b", "note": "7"}]


@pytest.mark.parametrize("open_engine", ["in turn"], indirect=True)
def test_history_is_the_sorted_one_when_changes_are_shuffled(open_engine: Open, tmp_path: Path) -> None:
    changes = random_history(6, 45)
    rows = Rows(open_engine, tmp_path, history=True)
    rows.merge(*next(deliver(changes, 6)))
    rows.merge(*changes[20:])
    rows.merge(*changes[:20])
    assert rows.merge(*changes) == RowCounts()
    assert rows.versions() == tell(changes)


@BOTH
def test_history_closes_what_a_full_load_did_not_bring(open_engine: Open, tmp_path: Path) -> None:
    rows = Rows(open_engine, tmp_path, history=True)
    rows.merge(change("INSERT", 1, "a", at=1), change("INSERT", 2, "b", at=2), change("INSERT", 3, "c", at=5))
    floor, at = sequence(2), f"{sequence(2)}.1690000000000000"
    assert Scd2Table(open_engine("t"), ["ID"]).end_loads([(f"{floor}.", at)], [at], "loads", 1) == RowCounts(updated=2)
    assert Scd2Table(open_engine("t"), ["ID"]).end_loads([(f"{floor}.", at)], [at], "loads", 1) == RowCounts()
    assert {key: found[0][1] for key, found in rows.versions().items()} == {1: at, 2: at, 3: None}
    times = open_engine("t").read(["_hs_valid_to_time"], "ID = 1")["_hs_valid_to_time"].to_pylist()
    assert times == [datetime.fromtimestamp(1_690_000_000, UTC)]


def test_columns_are_added_and_grow(open_engine: Open) -> None:
    open_engine("t").create({"ID": "INT", "name": "STRING", "part": "STRING"}, ["part"])
    engine = open_engine("t")
    engine.append(pa.table({"ID": pa.array([1], pa.int32()), "name": pa.array(["a"]), "part": pa.array(["p"])}), "test", 1)
    engine.widen({"ID": "BIGINT"})
    engine.add_columns({"total": "DECIMAL(10,2)"})
    again = open_engine("t")
    assert again.columns == {"ID": "BIGINT", "name": "STRING", "part": "STRING", "total": "DECIMAL(10,2)"}
    assert again.read(["ID", "name", "part", "total"], "ID = 1").to_pylist() == [
        {"ID": 1, "name": "a", "part": "p", "total": None}
    ]
    assert again.count_values("total") in (0, None)


def test_columns_of_every_type_grow_without_loss(open_engine: Open) -> None:
    names = {f"c{number}": types for number, types in enumerate(GROWTHS)}
    engine = open_engine("t")
    engine.create({name: narrow for name, (narrow, _) in names.items()})
    rows = pa.table({name: pa.array([GROWTHS[types], None]).cast(arrow_type(types[0])) for name, types in names.items()})
    open_engine("t").append(rows, "test", 1)
    open_engine("t").widen({name: wide for name, (_, wide) in names.items()})
    again = open_engine("t")
    assert again.columns == {name: wide for name, (_, wide) in names.items()}
    found = again.read(list(names), "true").sort_by("c0")
    assert found.to_pylist() == rows.cast(pa.schema([(name, arrow_type(wide)) for name, (_, wide) in names.items()])).to_pylist()


def test_column_that_needs_mapping_is_added_to_a_table_without(open_engine: Open) -> None:
    open_engine("t").create({"ID": "INT", "name": "STRING"})
    engine = open_engine("t")
    engine.append(pa.table({"ID": pa.array([1], pa.int32()), "name": pa.array(["a"])}), "test", 1)
    engine.add_columns({"order date": "DATE"})
    rows = {"ID": pa.array([1, 2], pa.int32()), "name": pa.array(["b", "c"]), "order date": pa.array([date(2024, 2, 29)] * 2)}
    columns = ["ID", "name", "`order date`"]
    plan = MergePlan(
        match=["ID"],
        where=[],
        delete_when=None,
        update_when="true",
        update={name: f"s.{name}" for name in columns},
        insert_when="true",
        insert={name: f"s.{name}" for name in columns},
    )
    engine.add_columns({"more, or less": "INT"})
    assert open_engine("t").merge(plan, pa.table(rows), "test", 2) == RowCounts(inserted=1, updated=1)
    found = open_engine("t").read(["ID", "name", "order date", "more, or less"], "true").sort_by("ID").to_pylist()
    assert found == [
        {"ID": number, "name": name, "order date": date(2024, 2, 29), "more, or less": None}
        for number, name in ((1, "b"), (2, "c"))
    ]


@BOTH
@pytest.mark.parametrize("history", [pytest.param(False, marks=pytest.mark.nightly), True])
def test_table_is_created_with_column_mapping_by_its_setting_and_merged_like_any_other(
    open_engine: Open, tmp_path: Path, history: bool
) -> None:
    rows = Rows(open_engine, tmp_path, history=history, mapped=True)
    rows.merge(change("INSERT", 1, "a", at=1), change("INSERT", 2, "b", at=2), change("INSERT", 3, "c", at=3))
    rows.merge(change("UPDATE", 1, "a2", at=4), change("DELETE", 2, at=5))
    if history:
        assert {key: [version[2] for version in found] for key, found in rows.versions().items()} == {
            1: ["a", "a2"],
            2: ["b"],
            3: ["c"],
        }
    else:
        assert {key: name for key, (name, *_) in rows.content().items()} == {1: "a2", 3: "c"}
    assert DeltaTable(str(tmp_path / "t")).metadata().configuration["delta.columnMapping.mode"] == "name"


VALUES: dict[str, list[Any]] = {
    "TINYINT": [-128, 127],
    "SMALLINT": [-32768, 32767],
    "INT": [-(1 << 31), (1 << 31) - 1],
    "BIGINT": [-(1 << 63), (1 << 63) - 1],
    "FLOAT": [-1.5, 3.25],
    "DOUBLE": [-1e300, 0.1],
    "BOOLEAN": [False, True],
    "BINARY": [b"", bytes(range(256))],
    "STRING": ["", "Łódź 🌊 'quoted' \\ back"],
    "DATE": [date(1, 1, 1), date(9999, 12, 31)],
    "TIMESTAMP": [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC)],
    "DECIMAL(20,0)": [Decimal(0), Decimal(2**64 - 1)],
    "DECIMAL(38,10)": [Decimal("-9999999999999999999999999999.9999999999"), Decimal("1.0000000000")],
}


@pytest.mark.parametrize("open_engine", [pytest.param("deltalake", marks=pytest.mark.nightly), "in turn"], indirect=True)
@pytest.mark.parametrize("names", [pytest.param("plain", marks=pytest.mark.nightly), "difficult"])
def test_every_type_keeps_its_values(open_engine: Open, tmp_path: Path, names: str) -> None:
    column = {kind: (f"c{place}" if names == "plain" else f"a {kind}.`\"'(") for place, kind in enumerate(VALUES)}
    engine = open_engine("t")
    engine.create({"id": "INT", **{column[kind]: kind for kind in VALUES}})
    rows = {
        "id": pa.array([1, 2, 3], pa.int32()),
        **{column[kind]: pa.array([*values, None], arrow_type(kind)) for kind, values in VALUES.items()},
    }
    every = {quote_name(name): f"s.{quote_name(name)}" for name in rows}
    plan = MergePlan(["id"], [], None, "true", every, "true", every)
    assert engine.merge(plan, pa.table(rows), "test", 1) == RowCounts(inserted=3)
    assert open_engine("t").merge(plan, pa.table(rows), "test", 2) == RowCounts(updated=3)
    assert open_engine("t").read(list(rows), "true").sort_by("id").to_pydict() == pa.table(rows).to_pydict()
    open_engine("t").append(pa.table({name: values.slice(2) for name, values in rows.items()}), "test", 3)
    open_engine("t").compact(["id"] if names == "difficult" else [])
    open_engine("t").vacuum(0)
    assert len(list((tmp_path / "t").rglob("*.parquet"))) == 1
    assert open_engine("t").last_applied("test") == 3
    assert open_engine("t").read(list(rows), "id < 3").sort_by("id").to_pydict() == pa.table(rows).slice(0, 2).to_pydict()
    assert open_engine("t").delete("id < 3") == 2


def test_merge_says_which_table_when_it_cannot_be_read(open_engine: Open, tmp_path: Path) -> None:
    rows = Rows(open_engine, tmp_path)
    rows.merge(change("INSERT", 1, "a", at=1))
    for file in (tmp_path / "t").glob("*.parquet"):
        file.unlink()
    with pytest.raises(StorageError, match="the merge failed") as raised:
        rows.merge(change("UPDATE", 1, "b", at=2))
    assert raised.value.where == str(tmp_path / "t")


def test_tables_with_deletion_vectors_are_merged_widened_and_vacuumed_by_both_engines(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark writes the vectors, as it does wherever a user has enabled them."""
    path = tmp_path / "t"
    by_spark = DeltaSparkEngine(path, spark, "deletion-vectors")
    by_spark.create(TYPES | {"_hs_sequence": "STRING", "_hs_versions": "STRING"})
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    tombstones = Tombstones(tmp_path / "tombstones", ["ID"])

    def merge(engine: TableEngine, version: int, *changes: dict[str, Any]) -> RowCounts:
        rows = Scd1Table(engine, ["ID"], tombstones)
        rows.prepare(TYPES)
        return rows.merge(rows.collapse(table(*changes), METADATA), "test", version)

    inserts = [change("INSERT", key, "a", at=key) for key in range(1, 9)]
    assert merge(by_spark, 1, *inserts) == RowCounts(inserted=8)
    assert merge(by_spark, 2, change("DELETE", 3, at=20)) == RowCounts(deleted=1)
    assert len(list(path.rglob("deletion_vector_*.bin"))) == 1
    by_deltalake = DeltaLakeEngine(path, SparkMappedTables(spark))
    by_deltalake.vacuum(0)
    assert len(list(path.rglob("deletion_vector_*.bin"))) == 1
    assert by_spark.read(["ID"], "TRUE").num_rows == 7
    assert merge(by_deltalake, 3, change("UPDATE", 4, "b", at=21)) == RowCounts(updated=1)
    by_deltalake.widen({"ID": "DECIMAL(20,0)"})
    by_deltalake.vacuum(0)
    assert not list(path.rglob("deletion_vector_*.bin"))
    rows = DeltaSparkEngine(path, spark).read(["ID", "name"], "TRUE").sort_by("ID").to_pylist()
    assert [(row["ID"], row["name"]) for row in rows] == [(key, "b" if key == 4 else "a") for key in range(1, 9) if key != 3]


@pytest.mark.parametrize("seeds", [range(7, 8), pytest.param(range(1000, 1020), marks=pytest.mark.soak)])
@pytest.mark.timeout(1800)
def test_spark_reads_and_changes_tables_with_our_deletion_vectors(spark: SparkSession, seeds: range) -> None:
    def rows_by_spark(path: Path) -> list[Any]:
        return [tuple(row) for row in spark.sql(f"SELECT id, seq, city, value FROM delta.`{path}`").collect()]

    for seed in seeds:
        history = VectorHistory(seed, 15, {"Spark": rows_by_spark}, spark)
        history.run()
        assert history.counts["compared with Spark"] == 1


@pytest.mark.parametrize("open_engine", ["in turn"], indirect=True)
def test_partitioned_rows_equal_the_model_when_engines_take_turns(open_engine: Open, spark: SparkSession, tmp_path: Path) -> None:
    history = PartitionHistory(tmp_path, 4, lambda: open_engine("t"))
    history.run(2, maintenance=1)
    history.compare(DeltaSparkEngine(tmp_path / "t", spark))
    history.compare_by_pyarrow()


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("scd_type", [1, 2])
@pytest.mark.parametrize("city_is_key", [False, True])
@pytest.mark.parametrize("open_engine", ["spark", "in turn"], indirect=True)
def test_partitioned_rows_equal_the_model_in_long_histories_by_both_engines(
    open_engine: Open, tmp_path: Path, seed: int, scd_type: int, city_is_key: bool
) -> None:
    history = PartitionHistory(tmp_path, seed, lambda: open_engine("t"), scd_type=scd_type, city_is_key=city_is_key)
    history.run(15)
    history.compare_by_pyarrow()


def test_spark_writes_no_values_into_the_paths_of_a_table_that_an_older_version_created(
    spark: SparkSession, tmp_path: Path
) -> None:
    path, types = tmp_path / "t", {"ID": "BIGINT", "city": "STRING"}
    schema = pa.schema([pa.field(name, arrow_type(kind)) for name, kind in types.items()])
    DeltaTable.create(str(path), schema=schema, partition_by=["city"])
    for version in (1, 2):
        DeltaSparkEngine(path, spark).append(pa.table({"ID": [version], "city": ["Zürich"]}, schema=schema), "test", version)
    engine = DeltaLakeEngine(path, SparkMappedTables(spark))
    assert engine.update({"ID": "3"}, "ID = 1") == 1
    assert sorted(DeltaSparkEngine(path, spark).read(["ID"], "TRUE")["ID"].to_pylist()) == [2, 3]
