"""Unit tests of headstream.replicate.apply.type2.moves."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.support.replicate.change_tables import change, sequence
from tests.support.replicate.histories import current
from tests.unit.replicate.apply.type2.test_merge import content, merge, open_history


def test_history_moves_a_row_when_its_key_changes(tmp_path: Path) -> None:
    target = open_history(tmp_path)
    merge(target, 0, change("INSERT", 1, "a", at=1))
    merge(target, 1, change("UPDATE", 2, "a", at=3, old=1))
    assert content(tmp_path) == {
        1: [(sequence(1), sequence(3), "a", None, None, False)],
        2: [(sequence(3), None, "a", None, None, False)],
    }


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("size", [1, 2, 6])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("inserted", [False, True], ids=["arrives again", "is inserted again"])
def test_a_departure_takes_the_row_after_a_deletion_that_took_the_rows_before(
    tmp_path: Path, inserted: bool, seed: int, size: int, soft: bool
) -> None:
    unit = [change("UPDATE", 1, "a", at=36, old=4), change("DELETE", 1, at=37)]
    unit += [change("INSERT", 1, "b", at=38) if inserted else change("UPDATE", 1, "b", at=38, old=5)]
    unit += [change("UPDATE", 3, "b", at=39, old=1)]
    changes = [one | {"_hs_transaction": "T", "_hs_event": number} for number, one in enumerate(unit, start=1)]
    if inserted:  # over a row whose end the source has not told
        changes.append(change("INSERT", 1, "old", at=9))
    if seed:
        random.Random(seed).shuffle(changes)
    target = open_history(tmp_path, soft=soft)
    for start in range(0, len(changes), size):
        merge(target, start, *changes[start : start + size])
    found = content(tmp_path)
    versions = [(sequence(9), sequence(36), "old")] if inserted else []
    versions += [(sequence(36), sequence(37), "a"), (sequence(38), sequence(39), "b")]
    assert [row[:3] for row in found[1] if not row[5]] == versions
    assert current(found) == {3: ("b", None, None)}
