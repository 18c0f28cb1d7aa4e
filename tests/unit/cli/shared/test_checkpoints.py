"""Unit tests of headstream.cli.shared.checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headstream.cli.replicate.command import replicate
from headstream.replicate.run.status import note_status
from headstream.replicate.settings.config_file import load_checkpoint
from headstream.replicate.storage.places import StorePlace
from headstream.testing import SourceDatabase
from tests.support.replicate.pipeline_work import Work, plain
from tests.unit.cli.replicate.test_operation import run


def test_schemas_are_found_from_any_directory_and_when_the_checkpoint_was_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work(tmp_path)
    work.process(work.raw(message.value for message in plain(SourceDatabase(42, rows=1, transactions=1))), 0)
    monkeypatch.chdir(tmp_path)
    note_status(work.ledger, "ended", work.summary, work.schema_store.directory.relative_to(tmp_path), work.now_us)
    monkeypatch.chdir("/")
    found = run(work, "schemas")
    assert {row["table"] for row in found} == {"SHOP.customers", "SHOP.order_lines"}
    work.close()
    moved = work.config.state_directory.rename(tmp_path / "moved")
    result = CliRunner().invoke(replicate, ["schemas", "--checkpoint", str(moved), "--output", "json"], catch_exceptions=False)
    assert json.loads(result.output) == found


def test_commands_take_the_checkpoint_and_its_store_from_the_pipelines_file(tmp_path: Path) -> None:
    work = Work(tmp_path)
    note_status(work.ledger, "ended", work.summary, work.schema_store.directory, work.now_us)
    file = tmp_path / "pipeline.toml"
    file.write_text('checkpoint = "checkpoint"\ntopics = ["cdc/data"]\n')  # the rest is on the command line of `run`

    def invoke(command: str, *arguments: str) -> Any:
        return CliRunner().invoke(replicate, [command, *arguments, "--config", str(file), "--output", "json"])

    for command, *arguments in (["status"], ["parked"], ["schemas"], ["reload", "SHOP.orders"]):
        assert invoke(command, *arguments).exit_code == 0
    assert [request["kind"] for request in run(work, "status")["requests"]] == ["reload"]
    work.close()

    file.write_text('checkpoint = "nowhere"\n')
    assert "there is no checkpoint yet" in str(invoke("status").exception)
    file.write_text('checkpoint = "s3://lake/cdc"\n[storage]\nregion = 7\n')
    assert "storage.region: a string is required" in str(invoke("status").exception)
    file.write_text("")
    assert "checkpoint: the setting is missing" in str(invoke("status").exception)
    asked = CliRunner().invoke(replicate, ["status"])
    assert asked.exit_code == 2
    assert "--config" in asked.output


def test_a_checkpoint_in_a_store_gets_the_settings_of_the_files_section(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text('checkpoint = "s3://lake/cdc"\n[storage]\nendpoint = "http://127.0.0.1:9"\nregion = "north-1"\n')
    place = load_checkpoint(file)
    assert isinstance(place, StorePlace)
    assert (str(place), place.storage.endpoint, place.storage.region) == ("s3://lake/cdc", "http://127.0.0.1:9", "north-1")
    other = load_checkpoint(file, StorePlace("lake", "other"))
    assert isinstance(other, StorePlace)
    assert (str(other), other.storage.region) == ("s3://lake/other", "north-1")
