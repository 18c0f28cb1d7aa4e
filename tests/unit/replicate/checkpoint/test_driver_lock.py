"""A checkpoint in a directory has one run at a time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headstream.errors import ReplicateError
from headstream.replicate.checkpoint.checkpoint_store import LocalCheckpointStore


def test_the_second_run_is_refused_by_name_until_the_first_has_ended(tmp_path: Path) -> None:
    first, second = LocalCheckpointStore(tmp_path / "checkpoint"), LocalCheckpointStore(tmp_path / "checkpoint")
    first.begin()
    first.begin()
    with pytest.raises(ReplicateError, match=f"process {os.getpid()} runs with this checkpoint"):
        second.begin()
    second.close()
    first.close()
    second.begin()
    second.close()
