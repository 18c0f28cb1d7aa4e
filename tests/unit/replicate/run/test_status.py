"""Unit tests of headstream.replicate.run.status."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from headstream.cli.replicate.command import replicate
from headstream.errors import StorageError
from headstream.replicate.run.status import HEARTBEAT_US, note_status, read_status
from tests.support.replicate.pipeline_work import Work


def test_status_says_when_a_run_is_not_heard_of_any_more(tmp_path: Path) -> None:
    work = Work(tmp_path)
    assert read_status(work.ledger, work.now_us)["state"] == "has not run"
    note_status(work.ledger, "running", work.summary, work.schema_store.directory, work.now_us)
    assert read_status(work.ledger, work.now_us + HEARTBEAT_US)["state"] == "running"
    assert read_status(work.ledger, work.now_us + 10 * HEARTBEAT_US)["state"] == "not reporting"
    work.close()


def test_status_refuses_a_directory_without_a_pipeline(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="ledger cannot be opened"):
        CliRunner().invoke(replicate, ["status", "--checkpoint", str(tmp_path)], catch_exceptions=False)
