"""Merges by deletion vectors: the rows and counts of merges that rewrite files, by every kind of plan, whoever else writes."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headstream.errors import StorageError
from headstream.replicate.apply.type1.soft import soften
from headstream.replicate.engines import merge_on_read
from headstream.replicate.engines.deltalake import DeltaLakeEngine
from headstream.replicate.engines.engine import RowCounts
from headstream.replicate.engines.folding import remove_vectors
from headstream.replicate.engines.plan import MergePlan, plan_merge
from headstream.replicate.settings.merge_settings import MergeSettings, MergeStrategy
from headstream.replicate.storage.delta_commit import Conflict, commit_rows
from headstream.replicate.storage.delta_log import LogSnapshot, open_parquet
from tests.support.replicate.plain_engine import NoMappedTables

KEYS = {"one number": ["n"], "a text": ["s"], "several": ["s", "n", "d"], "the partition": ["p", "n"]}
COLUMNS = {"n": "INT", "s": "STRING", "d": "DATE", "p": "BOOLEAN", "v": "STRING", "mine": "STRING"}
TYPES = {"n": pa.int32(), "s": pa.string(), "d": pa.date32(), "p": pa.bool_(), "v": pa.string()}


def open_engine(path: Path, strategy: MergeStrategy, *, index: bool = False, rewrite_below: int = 0) -> DeltaLakeEngine:
    settings = MergeSettings(rewrite_below=rewrite_below, key_index=path.parent / "keys" if index else None)
    return DeltaLakeEngine(path, NoMappedTables(), strategy, settings)


def create(engine: DeltaLakeEngine) -> None:
    book = {"_hs_sequence": "STRING", "_hs_versions": "STRING", "_hs_deleted": "BOOLEAN"}
    engine.create({**COLUMNS, **book}, ["p"])


def row(number: int, at: int, *, delete: bool = False, resolved: bool = False) -> dict[str, Any]:
    own = {"n": number - 9, "s": f"é{number}", "d": number * 50, "p": number % 3 == 0, "v": f"v{at}"}
    book = {"_hs_sequence": f"{at:035d}", "_hs_versions": None, "_hs_delete": delete, "_hs_resolved": resolved}
    return own | book


def source(rows: list[dict[str, Any]]) -> pa.Table:
    book = {"_hs_sequence": pa.string(), "_hs_versions": pa.string(), "_hs_delete": pa.bool_(), "_hs_resolved": pa.bool_()}
    arrays = {
        name: pa.array([found[name] for found in rows], pa.int32() if name == "d" else kind) for name, kind in TYPES.items()
    }
    arrays["d"] = arrays["d"].cast(pa.date32())
    return pa.table(arrays | {name: pa.array([found[name] for found in rows], kind) for name, kind in book.items()})


def plans(keys: list[str]) -> dict[str, Callable[[], MergePlan]]:
    columns = list(TYPES)
    return {
        "newer": lambda: plan_merge(columns, keys),
        "all": lambda: plan_merge(columns, keys, resolved=True, plain=False, versioned=True),
        "mixed": lambda: plan_merge(columns, keys, resolved=True, versioned=True),
        "load": lambda: plan_merge(columns, keys, loads=True),
        "soft": lambda: soften(plan_merge(columns, keys)),
        "some columns": lambda: plan_merge([name for name in columns if name in (*keys, "v")], keys),
    }


@pytest.mark.parametrize(
    ("keyed_by", "index", "merges"),
    [
        *((name, bool(number % 2), 6) for number, name in enumerate(KEYS)),
        *(pytest.param(name, index, 18, marks=pytest.mark.nightly) for name in KEYS for index in (True, False)),
    ],
)
def test_merge_gives_the_same_rows_and_counts_as_one_that_rewrites_files(
    tmp_path: Path, keyed_by: str, index: bool, merges: int
) -> None:
    keys = KEYS[keyed_by]
    rng = random.Random(f"{keys} {index}")
    engines = [open_engine(tmp_path / "a", "rewrite"), open_engine(tmp_path / "b", "deletion-vectors", index=index)]
    for engine in engines:
        create(engine)
    found = plans(keys)
    for number in range(merges):
        name = rng.choice(list(found))
        chosen = rng.sample(range(25), rng.choice([1, 4, 12]))
        resolved = {"newer": 0.0, "all": 1.0, "mixed": 0.5}.get(name, 0.0)
        at = [max(number + rng.choice([0, 0, 1, -3]), 0) for _ in chosen]
        rows = [row(k, a, delete=rng.random() < 0.3, resolved=rng.random() < resolved) for k, a in zip(chosen, at, strict=True)]
        counts = [engine.merge(found[name](), source(rows), "app", number) for engine in engines]
        assert counts[0] == counts[1], name
        if number % 6 == 4:  # deltalake writes files of its own, and a column that no merge does
            for engine in engines:
                engine.update({"mine": "concat('of ', s)"}, "n < 0")
        tables = [sorted(map(repr, engine.read(list(engine.columns), "TRUE").to_pylist())) for engine in engines]
        assert tables[0] == tables[1], name
    assert LogSnapshot.read(tmp_path / "b").has_vectors
    assert engines[1].last_applied("app") == merges - 1


def test_guard_column_is_read_only_where_statistics_cannot_decide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_engine(tmp_path / "t", "deletion-vectors", index=True)
    create(engine)
    engine.merge(plan_merge(list(TYPES), ["n"]), source([row(number, 5) for number in range(9)]), "app", 1)
    engine.merge(plan_merge(list(TYPES), ["n"]), source([row(1, 1000)]), "app", 2)
    opened = []

    def opens(*given: Any) -> Any:
        opened.append(given)
        return open_parquet(*given)

    monkeypatch.setattr(merge_on_read, "open_parquet", opens)
    assert engine.merge(plan_merge(list(TYPES), ["n"]), source([row(2, 2000)]), "app", 3) == RowCounts(updated=1)
    assert len(opened) == 0, "the only file that can have the key has an index"
    assert engine.merge(plan_merge(list(TYPES), ["n"]), source([row(2, 3)]), "app", 4) == RowCounts()
    assert len(opened) > 0


def test_two_rows_of_one_key_are_an_error_that_names_the_key(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "t", "deletion-vectors")
    create(engine)
    for version in (1, 2):
        rows = source([row(4, 1)]).drop_columns(["_hs_delete", "_hs_resolved"])
        rows = rows.append_column("mine", pa.nulls(1, pa.string())).append_column("_hs_deleted", pa.nulls(1, pa.bool_()))
        engine.append(rows.select(list(engine.columns)), "app", version)
    with pytest.raises(StorageError, match=r"several rows with the key \{'n': -5\}"):
        engine.merge(plan_merge(list(TYPES), ["n"]), source([row(4, 2)]), "app", 3)


def test_merge_is_repeated_when_another_writer_has_changed_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_engine(tmp_path / "t", "deletion-vectors", index=True)
    create(engine)
    engine.merge(plan_merge(list(TYPES), ["n"]), source([row(number, 1) for number in range(6)]), "app", 1)
    others = [lambda t: t.delete("n = -9"), lambda t: t.update({"mine": "'kept'"}, predicate="n = -8")]

    def late(*given: Any, **options: Any) -> int:
        if others:
            others.pop()(DeltaTable(str(tmp_path / "t")))
        return commit_rows(*given, **options)

    monkeypatch.setattr(merge_on_read, "commit_rows", late)
    counts = engine.merge(plan_merge(list(TYPES), ["n"]), source([row(number, 2) for number in range(3)]), "app", 2)
    assert counts == RowCounts(inserted=1, updated=2)
    rows = {found["n"]: (found["v"], found["mine"]) for found in engine.read(["n", "v", "mine"], "TRUE").to_pylist()}
    assert rows == {-9: ("v2", None), -8: ("v2", "kept"), -7: ("v2", None), **dict.fromkeys((-6, -5, -4), ("v1", None))}
    monkeypatch.setattr(merge_on_read, "commit_rows", _always_late)
    with pytest.raises(StorageError, match="during each of 5 attempts"):
        engine.merge(plan_merge(list(TYPES), ["n"]), source([row(3, 3)]), "app", 3)


def _always_late(*given: Any, **options: Any) -> int:
    raise Conflict


def test_auto_rewrites_small_tables_and_leaves_other_programs_tables_without_vectors(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plan, changes = plan_merge(list(TYPES), ["n"]), source([row(number, 1) for number in range(2000)])
    again = source([row(number, 2) for number in range(3)])
    cases: list[tuple[str, MergeStrategy, int, bool]] = [
        *(("a", "auto", 0, True), ("b", "auto", 1 << 20, False), ("c", "rewrite", 0, False))
    ]
    for name, made_by, rewrite_below, has in cases:
        create(open_engine(tmp_path / name, made_by))
        engine = open_engine(tmp_path / name, "auto", rewrite_below=rewrite_below)
        engine.merge(plan, changes, "app", 1)
        assert engine.merge(plan, again, "app", 2) == RowCounts(updated=3)
        assert LogSnapshot.read(tmp_path / name).protocol.has_vectors == has, name
    with caplog.at_level(logging.WARNING):
        open_engine(tmp_path / "c", "deletion-vectors").merge(plan, source([row(1, 3)]), "app", 3)
    assert "enabling deletion vectors" in caplog.text, "the user says so"
    assert LogSnapshot.read(tmp_path / "c").has_vectors


def test_table_that_may_not_have_vectors_is_rewritten_and_the_log_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = open_engine(tmp_path / "t", "deletion-vectors")
    create(engine)
    DeltaTable(str(tmp_path / "t")).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    engine = open_engine(tmp_path / "t", "deletion-vectors")
    for version in (1, 2):
        engine.merge(plan_merge(list(TYPES), ["n"]), source([row(number, version) for number in range(6)]), "app", version)
    assert caplog.text.count("its change data feed") == 1
    assert not LogSnapshot.read(tmp_path / "t").protocol.has_vectors


def test_remove_vectors_makes_the_table_readable_to_old_readers_and_auto_does_not_enable_them_again(tmp_path: Path) -> None:
    create(open_engine(tmp_path / "t", "auto"))
    engine = open_engine(tmp_path / "t", "auto", index=True)
    plan = plan_merge(list(TYPES), ["n"])
    engine.merge(plan, source([row(number, 1) for number in range(2000)]), "app", 1)
    engine.merge(plan, source([row(number, 2, delete=number % 2 == 0) for number in range(60)]), "app", 2)
    before = engine.read(list(engine.columns), "TRUE").sort_by("n")
    assert LogSnapshot.read(tmp_path / "t").has_vectors
    assert remove_vectors(tmp_path / "t").deleted == 60
    table = DeltaTable(str(tmp_path / "t"))
    assert (table.protocol().min_reader_version, table.protocol().min_writer_version) == (1, 2)
    assert table.to_pyarrow_table().select(before.column_names).sort_by("n").to_pylist() == before.to_pylist()
    engine = open_engine(tmp_path / "t", "auto", index=True)
    assert engine.merge(plan, source([row(1, 3)]), "app", 3) == RowCounts(updated=1)
    assert DeltaTable(str(tmp_path / "t")).protocol().min_reader_version == 1
    with pytest.raises(StorageError, match="has no deletion vectors"):
        remove_vectors(tmp_path / "t")
