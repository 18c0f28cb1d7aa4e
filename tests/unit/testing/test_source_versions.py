"""The true history of rows, against the states that the messages lead through."""

from __future__ import annotations

from typing import Any

import pytest

from headstream.errors import NotFoundError
from headstream.testing import RowVersion, SourceDatabase


def at(versions: list[RowVersion], sequence: str) -> list[dict[str, Any]]:
    """Return the rows that are valid at a sequence."""
    return [v.row for v in versions if v.valid_from <= sequence and (v.valid_to is None or sequence < v.valid_to)]


def test_open_versions_are_the_final_state_of_every_table() -> None:
    source = SourceDatabase(3, rows=20, transactions=120)
    for table in source.tables():
        schema, name = table.lineage.schema, table.lineage.table
        final = source.final_state(schema, name)
        opened = [version.row for version in source.row_versions(schema, name) if version.valid_to is None]
        assert len(opened) == len(final)
        for row in opened:
            whole = final[tuple(row[key] for key in table.key_columns)]
            assert whole == {column: row.get(column) for column in whole}


def test_versions_hold_every_state_between_two_changes() -> None:
    source = SourceDatabase(4, rows=10, transactions=80)
    name, keys = "SHOP.order_lines", ("order_id", "line")
    changes = [change for change in source.changes if change.table.qualified_name == name]
    versions = source.row_versions("SHOP", "order_lines")
    state: dict[object, object] = {}
    checked = 0
    for change in changes:
        if change.before is not None:
            del state[tuple(change.before[key] for key in keys)]
        if change.after is not None:
            state[tuple(change.after[key] for key in keys)] = change.after
        if change.operation != "REFRESH":
            rows = at(versions, change.change_sequence)
            assert {tuple(row[key] for key in keys): row for row in rows} == state
            assert len(rows) == len(state)
            checked += 1
    assert checked > 50
    assert len({(tuple(v.row[key] for key in keys), v.valid_from) for v in versions}) == len(versions)
    assert len(versions) < len(changes), "some updates change nothing"


def test_versions_of_an_unknown_table_are_refused() -> None:
    with pytest.raises(NotFoundError, match=r"no table SHOP\.nothing"):
        SourceDatabase(rows=0, transactions=0).row_versions("SHOP", "nothing")
