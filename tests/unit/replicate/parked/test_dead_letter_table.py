"""Unit tests of headstream.replicate.parked.dead_letter_table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headstream.replicate.parked.dead_letter_table import DeadLetterTable
from tests.support.replicate.pipeline_work import Work


@pytest.mark.parametrize("when", ["before", "after"])
def test_dead_letter_table_has_each_message_once_when_a_crash_hits_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    place = tmp_path / "dead"
    work = Work(tmp_path, dead_letter_table=place)
    raws = [work.raw([b"one", b"two"]), work.raw([b"three"])]
    work.process(raws[0], 0)
    original = DeadLetterTable._append

    def crash(self: DeadLetterTable, messages: pa.Table) -> None:
        if when == "after":
            original(self, messages)
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(DeadLetterTable, "_append", crash)
        with pytest.raises(MemoryError):
            work.process(raws[1], 1)
    work.restart()
    work.process(raws[1], 1)
    rows = DeltaTable(str(place)).to_pyarrow_table().sort_by("dead_letter_offset").to_pylist()
    assert [(row["payload"], row["offset"]) for row in rows] == [(b"one", 0), (b"two", 1), (b"three", 2)]
    assert all("not a Replicate" in row["reason"] and row["topic"] == "cdc/data" for row in rows)
    work.close()
