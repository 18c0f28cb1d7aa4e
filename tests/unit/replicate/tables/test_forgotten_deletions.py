"""Keys that are used again after their deletion was forgotten."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.support.replicate.change_tables import change
from tests.support.replicate.target_tables import Target

USES: dict[str, dict[str, Any]] = {
    "insert": change("INSERT", 1, "new", None, "of the new row", at=20),
    "whole change of key": change("UPDATE", 1, "new", None, "of the new row", at=20, old=2),
    "partial change of key": change("UPDATE", 1, "new", at=20, old=2, present={"ID", "name"}),
}


def forget_deletion(directory: Path, *changes: dict[str, Any]) -> Target:
    """A table in which row 1 was deleted, which has been forgotten, and row 2 exists."""
    target = Target(directory)
    target.apply(change("INSERT", 2, "other", None, "of the new row", at=1), *changes)
    target.apply(change("DELETE", 1, at=10))
    assert not target.forget(kept_us=80, now_us=100)
    assert target.forget(kept_us=80, now_us=200)
    return target


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("is_known", [True, False])
def test_a_key_is_used_again_after_its_deletion_was_forgotten(tmp_path: Path, use: str, is_known: bool) -> None:
    old_row = change("INSERT", 1, "old", "1", "of the old row", at=5)
    target = forget_deletion(tmp_path, *([old_row] if is_known else []))
    target.apply(USES[use])
    expected = ("new", None, "of the new row")
    assert target.rows()[1] == expected
    target.reopen()
    late = [change("UPDATE", 1, total="2", at=6, present={"ID", "total"}), change("UPDATE", 1, "late", "3", at=7), old_row]
    for one in late:
        assert not target.apply(one).rejected
        assert target.rows()[1] == expected, "nothing of the deleted row comes back"
    target.apply(change("UPDATE", 1, total="4", at=30, present={"ID", "total"}), change("DELETE", 1, at=10))
    assert target.rows()[1] == ("new", Decimal("4.00"), "of the new row")


def test_columns_of_a_deleted_row_fill_a_new_one_until_its_insert_comes_when_the_deletion_was_forgotten(tmp_path: Path) -> None:
    target = forget_deletion(tmp_path)
    target.apply(change("UPDATE", 1, name="newer", at=30, present={"ID", "name"}))
    target.apply(change("UPDATE", 1, "late", "3", "of the old row", at=7))
    assert target.rows()[1] == ("newer", Decimal("3.00"), "of the old row")
    target.apply(USES["insert"])
    assert target.rows()[1] == ("newer", None, "of the new row")
