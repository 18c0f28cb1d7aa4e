"""Unit tests of headstream.testing.source_tables."""

from __future__ import annotations

import dataclasses

import pytest

from headstream.errors import InvalidInputError
from headstream.testing import LOB_TYPES, REPLICATE_TYPES, SourceColumn, SourceDatabase, SourceTable

KEY = SourceColumn("id", "INT4", key_position=1, nullable=False)
NAME = SourceColumn("name", "STRING", length=20)


def test_source_database_takes_other_tables() -> None:
    wide = tuple(SourceColumn(f"c{number}", "INT4") for number in range(100))
    table = SourceTable("S", "wide", versions=((KEY, *wide), (KEY, NAME), (KEY,)))
    source = SourceDatabase(4, tables=[table], rows=5, transactions=30)
    assert {change.version for change in source.changes} == {0, 1, 2}
    assert next(change.transaction for change in source.changes if change.version == 1) == 11
    assert {tuple(row) for row in source.final_state("S", "wide").values()} == {("id",)}
    assert [len(version.columns) for version in source.versions("S", "wide")] == [101, 2, 1]


@pytest.mark.parametrize(
    ("versions", "reason"),
    [
        ((), "at least one version"),
        (((NAME,),), "primary key"),
        (((KEY, KEY),), "duplicate column name"),
        (((dataclasses.replace(KEY, key_position=2),),), "key_position 1, 2"),
        (((dataclasses.replace(KEY, nullable=True),),), "cannot be in a key"),
        (((dataclasses.replace(KEY, type="CLOB"),),), "cannot be in a key"),
        (((KEY, SourceColumn("x", "INT3")),), "unknown type"),
        (((KEY, SourceColumn("x", "NUMERIC", precision=39)),), "precision"),
        (((KEY, SourceColumn("x", "NUMERIC", precision=4, scale=5)),), "scale"),
        (((KEY,), (dataclasses.replace(KEY, type="INT8"),)), "differ between versions"),
    ],
)
def test_source_table_refuses_what_cannot_be_simulated(versions: tuple[tuple[SourceColumn, ...], ...], reason: str) -> None:
    with pytest.raises(InvalidInputError, match=rf"{reason}.*S\.t"):
        SourceTable("S", "t", versions=versions)


def test_lob_types_are_types() -> None:
    assert LOB_TYPES < REPLICATE_TYPES
