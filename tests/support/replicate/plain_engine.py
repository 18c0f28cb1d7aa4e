"""Engines for tests that have no Spark."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

from headstream.replicate.engines.deltalake import DeltaLakeEngine
from headstream.replicate.settings.merge_settings import MergeSettings, MergeStrategy
from headstream.replicate.storage.places import Place

STRATEGY = "HEADSTREAM_TEST_MERGE_STRATEGY"
"""The environment variable with the strategy of merges in tests; `auto` then takes deletion vectors whatever the size."""

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


def merging_of_tests(path: Place) -> tuple[MergeStrategy, MergeSettings]:
    """Return how a test's tables are merged: by STRATEGY, with key indexes for every other table."""
    strategy = os.environ.get(STRATEGY, "rewrite")
    if strategy != "rewrite":
        DeltaTable.to_pyarrow_table = read_with_vectors  # type: ignore[method-assign, assignment]
    index = path.parent / "_keys" if isinstance(path, Path) and sum(path.name.encode()) % 2 else None
    return cast(MergeStrategy, strategy), MergeSettings(rewrite_below=0, key_index=index)


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
