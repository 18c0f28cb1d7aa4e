"""Unit tests of headstream.replicate.columns.load_marks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headstream.replicate.columns import loads as module
from headstream.replicate.columns.loads import Load, Loads
from tests.unit.replicate.columns.test_loads import GAP_US, Event, batch, places, sequence


def test_marks_stay_few_when_a_partition_is_read_ahead_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_MARKS", 32)
    loads = Loads()
    for start in range(0, 2000, 50):
        loads.observe(batch(*(Event(at_us, sequence(at_us)) for at_us in range(start, start + 50))), 0, GAP_US)
    assert len(loads.marks) <= 32
    loads.observe(batch(Event(1990, "")), 5000, GAP_US)
    assert sequence(1900) < loads.loads[-1].floor <= sequence(1989)
    assert len(loads.past) <= module.MOST_PAST_MARKS


def test_from_document_brings_up_what_an_older_version_kept() -> None:
    old: dict[str, Any] = {
        "loads": [[1, 4, ""], [100, 120, sequence(9)]],
        "marks": [[50, sequence(9)], [130, sequence(12)], [140, sequence(11)]],
        "changed_us": 125,
        "settled": sequence(9),
    }
    loads = Loads.from_document(old)
    assert loads.place(batch(Event(3, sequence(9)), Event(110, ""))).num_rows == 1, "what was removed stays away"
    assert places(loads, Event(2, ""), Event(110, ""), Event(110, sequence(10))) == [
        f".{2:016d}", f"{sequence(9)}.{110:016d}", sequence(10)
    ]  # fmt: skip
    loads.observe(batch(Event(500, "")), 600, GAP_US)
    assert loads.loads[-1] == Load(500, 500, sequence(12))
    again = Loads.from_document(json.loads(json.dumps(loads.to_document())))
    assert again == loads
