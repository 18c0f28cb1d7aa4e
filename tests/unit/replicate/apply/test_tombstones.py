from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from headstream.replicate.apply.tombstones import Tombstones
from tests.support.replicate.change_tables import sequence


def deletions(*rows: tuple[int, int], kind: pa.DataType | None = None) -> pa.Table:
    keys = pa.array([key for key, _ in rows], kind or pa.int64())
    return pa.table({"ID": keys, "_hs_sequence": [sequence(at) for _, at in rows]})


def found(tombstones: Tombstones, lowest: int, most: int = 100) -> dict[int, str] | None:
    rows = tombstones.above(sequence(lowest) if lowest else "", most)
    return None if rows is None else {row["ID"]: row["_hs_deletion"] for row in rows.to_pylist()}


def test_above_returns_the_highest_tombstone_of_each_key_above_a_sequence(tmp_path: Path) -> None:
    tombstones = Tombstones(tmp_path / "t", ["ID"])
    assert found(tombstones, 0) == {}
    tombstones.record(deletions((1, 5), (2, 7), (1, 9)))
    tombstones.record(deletions((3, 8)))
    assert found(tombstones, 0) == {1: sequence(9), 2: sequence(7), 3: sequence(8)}
    assert found(tombstones, 7) == {1: sequence(9), 3: sequence(8)}
    assert found(tombstones, 9) == {}


def test_above_returns_none_when_there_are_more_tombstones_than_can_be_sent(tmp_path: Path) -> None:
    tombstones = Tombstones(tmp_path / "t", ["ID"])
    tombstones.record(deletions((1, 5), (2, 7), (3, 9)))
    assert found(tombstones, 5, most=2) == {2: sequence(7), 3: sequence(9)}
    assert found(tombstones, 0, most=2) is None
