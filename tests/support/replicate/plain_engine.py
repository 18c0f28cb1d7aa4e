"""Engines for tests that have no Spark."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder

from headstream.replicate.engines.deltalake import DeltaLakeEngine
from headstream.replicate.settings.merge_settings import MergeSettings, MergeStrategy
from headstream.replicate.storage.places import Place

STRATEGY = "HEADSTREAM_TEST_MERGE_STRATEGY"
"""The environment variable with the strategy of merges in tests: one of MergeStrategy, where `auto` takes deletion vectors
whatever the table's size, or `in turn`: each engine that is opened has another one than the engine before."""

_turns = itertools.cycle(["deletion-vectors", "rewrite"])
_read = DeltaTable.to_pyarrow_table


def read_with_vectors(table: DeltaTable, *arguments: Any, **options: Any) -> pa.Table:
    """Do what DeltaTable.to_pyarrow_table() does, also with a table that has deletion vectors."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return _read(table, *arguments, **options)
    assert not arguments, arguments
    assert options.keys() <= {"columns"}, options
    rows = pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all())
    rows = rows.cast(pa.schema(table.schema().to_arrow()))
    return rows.select(options["columns"]) if options.get("columns") else rows


def next_strategy() -> str | None:
    """Return the strategy that STRATEGY gives to the next engine or pipeline; None if it is not set."""
    strategy = os.environ.get(STRATEGY)
    if strategy not in (None, "rewrite"):
        DeltaTable.to_pyarrow_table = read_with_vectors  # type: ignore[method-assign, assignment]
    return next(_turns) if strategy == "in turn" else strategy


def merging_of_tests(path: Place) -> tuple[MergeStrategy, MergeSettings]:
    """Return how a test's tables are merged: by STRATEGY, with key indexes for every other table."""
    strategy = next_strategy() or "rewrite"
    index = path.parent / "_keys" if isinstance(path, Path) and sum(path.name.encode()) % 2 else None
    return cast(MergeStrategy, strategy), MergeSettings(rewrite_below=0, key_index=index)


def parametrize_strategies(metafunc: pytest.Metafunc, ordinary: Collection[str]) -> None:
    """Run a test with each strategy of merges: with some in the ordinary run, with the others in the nightly one.

    Of a run that has STRATEGY set, all tests have that one.
    """
    if STRATEGY in os.environ or "merge_strategy" not in metafunc.fixturenames:
        return
    others = [name for name in ("rewrite", "auto", "deletion-vectors", "in turn") if name not in ordinary]
    marked = [pytest.param(name, marks=pytest.mark.nightly) for name in others]
    metafunc.parametrize("merge_strategy", [*ordinary, *marked], indirect=True)


@pytest.fixture(autouse=True)
def merge_strategy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have open_plain_engine() merge by a strategy."""
    if hasattr(request, "param"):
        monkeypatch.setenv(STRATEGY, request.param)


class NoMappedTables:
    """These tables have plain names: asking for column mapping would be a fault."""

    def create(self, path: Place, columns: Mapping[str, str], partition_by: Sequence[str] = ()) -> None:
        raise AssertionError(path)

    def map_columns(self, path: Place) -> None:
        raise AssertionError(path)

    def add_columns(self, path: Place, columns: Mapping[str, str]) -> None:
        raise AssertionError(path)

    def compact(self, path: Place, cluster_by: Sequence[str] = ()) -> None:
        raise AssertionError(path)

    widen = add_columns


def open_plain_engine(path: Place, kind: str = "auto", strategy: MergeStrategy = "rewrite") -> DeltaLakeEngine:
    """Open a table whose column names need no mapping."""
    assert kind != "spark"
    return DeltaLakeEngine(path, NoMappedTables(), *merging_of_tests(path))
