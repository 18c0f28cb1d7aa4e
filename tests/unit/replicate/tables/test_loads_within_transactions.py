from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.replicate.change_tables import change, sequence
from tests.support.replicate.target_tables import Target


def load(key: int, name: str, *, logged_us: int) -> dict[str, Any]:
    return change("REFRESH", key, name, logged_us=logged_us)


def move(before: int, key: int, name: str, *, at: int, event: int) -> dict[str, Any]:
    return change("UPDATE", key, name, at=at, old=before, logged_us=at) | {"_hs_transaction": "T", "_hs_event": event}


@pytest.mark.parametrize("contained", [True, False])
@pytest.mark.parametrize("load_is_late", [True, False])
@pytest.mark.parametrize("settings", [{}, {"scd_type": 2}, {"scd_type": 2, "deletes": "soft"}], ids=["1", "2", "2, soft"])
def test_a_row_departs_when_a_load_has_begun_since_it_arrived_in_that_transaction(
    tmp_path: Path, settings: dict[str, Any], load_is_late: bool, contained: bool
) -> None:
    target = Target(tmp_path, **settings)
    first = [load(key, name, logged_us=key) for key, name in ((1, "old"), (4, "a"), (5, "b"))]
    target.apply(*first, change("UPDATE", 5, "b", at=10, logged_us=10))
    arrives, departs = move(4, 1, "a", at=20, event=1), move(1, 3, "c", at=22, event=2)
    reload = [load(1, "c", logged_us=21)] * contained + [load(5, "b", logged_us=21)]
    for batch in ([arrives, departs], reload) if load_is_late else ([arrives], reload, [departs]):
        target.apply(*batch)
        target.tables.remove_vanished_rows()
    rows = [row for row in target.stored() if not row.get("_hs_deleted")]
    assert {row["ID"]: row["name"] for row in rows if row.get("_hs_current", True)} == {3: "c", 5: "b"}
    if settings:
        of_load = [("a", f"{sequence(20)}.{21:016d}"), ("c", sequence(22))]
        found = sorted((row["_hs_valid_from"], row["name"], row["_hs_valid_to"]) for row in rows if row["ID"] == 1)
        assert [row[1:] for row in found] == [("old", sequence(20)), *(of_load if contained else [("a", sequence(22))])]
