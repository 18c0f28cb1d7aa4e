"""Engines for tests that have no Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from headstream.spark.replicate.apply.deltalake import DeltaLakeEngine


class NoMappedTables:
    """These tables have plain names: asking for column mapping would be a fault."""

    def create(self, path: Path, columns: Mapping[str, str], partition_by: Sequence[str] = ()) -> None:
        raise AssertionError(path)

    def map_columns(self, path: Path) -> None:
        raise AssertionError(path)

    def add_columns(self, path: Path, columns: Mapping[str, str]) -> None:
        raise AssertionError(path)

    def compact(self, path: Path, cluster_by: Sequence[str] = ()) -> None:
        raise AssertionError(path)

    widen = add_columns


def open_plain_engine(path: Path, kind: str = "auto") -> DeltaLakeEngine:
    """Open a table whose column names need no mapping."""
    assert kind != "spark"
    return DeltaLakeEngine(path, NoMappedTables())
