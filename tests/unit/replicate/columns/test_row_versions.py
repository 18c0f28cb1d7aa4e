"""Unit tests of headstream.replicate.columns.row_versions."""

from __future__ import annotations

from hypothesis import given, settings

from headstream.replicate.columns.row_merge import KnownRow
from headstream.replicate.columns.row_versions import read_versions, write_versions
from tests.support.replicate.change_tables import sequence
from tests.unit.replicate.columns.test_versions import rows, sequences


@settings(max_examples=100)
@given(rows, sequences)
def test_versions_of_a_row_come_back_from_their_text(row: KnownRow, deletion: str) -> None:
    text = write_versions(row, sequence(9), deletion)
    again, floor = read_versions(text, sequence(9), [], 3)
    assert again.base.version == row.base.version
    assert {name: written.version for name, written in again.columns.items()} == {n: w.version for n, w in row.columns.items()}
    assert floor in (deletion, "")
    assert write_versions(again, sequence(9), deletion) == text
