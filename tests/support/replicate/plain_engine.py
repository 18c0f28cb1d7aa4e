"""Engines for tests that have no Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headstream.replicate.engines.deltalake import DeltaLakeEngine
from headstream.replicate.storage.places import Place


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


def open_plain_engine(path: Place, kind: str = "auto") -> DeltaLakeEngine:
    """Open a table whose column names need no mapping."""
    assert kind != "spark"
    return DeltaLakeEngine(path, NoMappedTables())
