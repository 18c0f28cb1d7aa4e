"""The report of a pipeline for people, of a real checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headstream.errors import StorageError
from headstream.replicate.codec import ColumnMetadata, metadata_message
from headstream.replicate.engines.deltalake import DeltaLakeEngine
from headstream.replicate.run.report import PipelineReport
from headstream.replicate.run.status import note_status, note_targets
from headstream.replicate.settings.table_settings import TableRules
from headstream.testing import SourceDatabase
from tests.support.crashes import fail_to_write
from tests.support.replicate.pipeline_work import Work, plain
from tests.support.replicate.replicate_messages import COLUMNS, make_table


def read(work: Work) -> Any:
    note_status(work.ledger, "running", work.summary, work.schema_store.directory, work.now_us)
    note_targets(work.ledger, work.schema_store, TableRules())
    return PipelineReport(lambda: work.config.state_directory).read()


def test_report_has_rows_lag_last_change_and_versions_of_each_table(tmp_path: Path) -> None:
    work = Work(tmp_path)
    work.process(work.raw(message.value for message in plain(SourceDatabase(36, rows=5, transactions=20))), 0)
    report = read(work)
    assert report["run"]["changes"] == work.summary.changes
    tables = {one["table"]: one for one in report["tables"]}
    assert tables.keys() == {"SHOP.customers", "SHOP.order_lines"}
    for (schema, name), counts in work.summary.tables.items():
        table = tables[f"{schema}.{name}"]
        assert (table["inserted"], table["updated"], table["deleted"]) == (counts.inserted, counts.updated, counts.deleted)
        assert table["lag_seconds"] == pytest.approx(work.summary.lags_us[schema, name] / 1e6, abs=0.001)
        assert table["last_change_us"] == work.now_us - work.summary.lags_us[schema, name]
        assert (table["waiting"], table["dead"], table["failing"]) == (0, 0, None)
        versions = table["versions"]
        assert len(versions) == table["versions_count"] == len(work.schema_store.history(schema, name))
        assert versions[-1]["differences"] is None  # nothing came before the first version
        assert versions[0]["version"] == max(one["version"] for one in versions)
    work.close()


def test_report_names_what_a_failing_table_waits_for_and_when_it_is_retried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work(tmp_path)
    monkeypatch.setattr(DeltaLakeEngine, "merge", fail_to_write)
    work.process(work.raw([*(one.value for one in plain(SourceDatabase(41, rows=5, transactions=5))), b"not a message"]), 0)
    tables = {one["table"]: one for one in read(work)["tables"]}
    lines = tables["SHOP.order_lines"]
    assert "no space left" in lines["failing"]["reason"]
    assert lines["failing"]["next_us"] > lines["failing"]["since_us"]
    assert (lines["waits_for"], lines["waiting"] > 0, lines["waiting_bytes"] > 0) == ("table", True, True)
    assert lines["waiting_since_us"] == work.now_us
    unknown = tables[""]  # a message that names no table
    assert (unknown["dead"], unknown["waiting"]) == (1, 0)
    assert "not a Replicate" in unknown["dead_reason"]
    assert sum(one["waiting"] for one in tables.values()) == work.ledger.waiting().count
    work.close()


def test_report_sees_versions_that_arrive_later_with_their_differences(tmp_path: Path) -> None:
    work = Work(tmp_path)
    report = PipelineReport(lambda: work.config.state_directory)
    work.send(metadata_message(make_table()))
    note_status(work.ledger, "running", work.summary, work.schema_store.directory, work.now_us)
    (table,) = report.read()["tables"]
    assert (table["versions_count"], table["inserted"]) == (1, 0)
    added = ColumnMetadata("note", len(COLUMNS) + 1, "WSTRING", length=40)
    work.send(metadata_message(make_table(*COLUMNS, added, schema_id="f" * 32, table_version=2)))
    (table,) = report.read()["tables"]
    assert table["versions_count"] == 2
    assert [one["change"] for one in table["versions"][0]["differences"]] == ["added"]
    work.close()


def test_a_checkpoint_without_a_ledger_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        PipelineReport(lambda: tmp_path).read()
