"""A table with deletion vectors has the rows of a model, whatever else writes it and whenever its writers end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headstream.replicate.storage import delta_commit
from headstream.replicate.storage.delta_log import LogSnapshot
from tests.campaigns.runner import run_history
from tests.campaigns.vector_histories import VectorHistory


def run_some() -> None:
    for seed in range(20):
        run_history(VectorHistory, seed, 15)


def test_rows_of_a_table_with_deletion_vectors_are_those_of_the_model() -> None:
    counts = run_history(VectorHistory, 24, 25).counts
    for name in ("merges", "kills", "lost answers", "overtaken", "folded files", "vacuumed files", "compared with deltalake"):
        assert counts[name], f"the history has no {name}"


@pytest.mark.nightly
def test_a_vacuum_that_does_not_know_deletion_vectors_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogSnapshot, "vector_names", lambda *_: set())
    with pytest.raises(AssertionError, match=r"seed \d+: .*deletion_vector"):
        run_some()


@pytest.mark.nightly
def test_a_commit_that_replaces_another_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(table: Path, path: str, content: bytes) -> bool:
        (table / path).write_bytes(content)
        return True

    monkeypatch.setattr(delta_commit, "create_file", replace)
    with pytest.raises(AssertionError, match=r"seed \d+"):
        run_some()


@pytest.mark.nightly
def test_a_lost_answer_that_is_taken_for_a_conflict_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    own: Any = delta_commit._is_created

    def forget(snapshot: LogSnapshot, number: int, content: bytes, txn: str) -> bool:
        return bool(own(snapshot, number, content, f"not {txn}"))

    monkeypatch.setattr(delta_commit, "_is_created", forget)
    with pytest.raises(AssertionError, match=r"seed \d+"):
        run_some()
