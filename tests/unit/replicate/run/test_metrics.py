"""Unit tests of headstream.replicate.run.metrics."""

from __future__ import annotations

from pathlib import Path

from headstream.metrics.families import write_metrics_file
from headstream.replicate.engines.engine import RowCounts, VectorState
from headstream.replicate.run.metrics import describe_pipeline
from headstream.replicate.run.status import note_status, read_status
from headstream.testing import SourceDatabase
from tests.support.replicate.pipeline_work import Work, plain


def test_metrics_are_open_metrics_and_escape_names(tmp_path: Path) -> None:
    work = Work(tmp_path)
    sent = [message.value for message in plain(SourceDatabase(36, rows=3, transactions=3))]
    work.process(work.raw(sent), 0)
    work.summary.tables['S."odd"', "t\n"] = RowCounts(1, 2, 3)
    work.summary.vectors["SHOP", "customers"] = VectorState("auto", 7, 300, 4096, None)
    mirrors = {"waiting": 1, "tables": [{"table": "SHOP.customers", "lag_seconds": 2.5}]}
    note_status(work.ledger, "running", work.summary, work.schema_store.directory, work.now_us, iceberg=mirrors)
    write_metrics_file(tmp_path / "metrics" / "cdc.prom", describe_pipeline(read_status(work.ledger, work.now_us)))
    lines = (tmp_path / "metrics" / "cdc.prom").read_text().splitlines()
    assert lines[-1] == "# EOF"
    assert 'headstream_replicate_rows_total{operation="deleted",table="S.\\"odd\\".t\\n"} 3.0' in lines
    assert "headstream_replicate_parked 0.0" in lines
    assert 'headstream_replicate_iceberg_lag_seconds{table="SHOP.customers"} 2.5' in lines
    for name, value in (("deletion_vector_files", 7.0), ("deleted_rows", 300.0), ("key_index_size", 4096.0)):
        assert f'headstream_replicate_{name}{{table="SHOP.customers"}} {value}' in lines
    assert f"headstream_replicate_changes_total {float(work.summary.changes)}" in lines
    assert work.summary.merges >= 2, "a table and structure each"
    assert f"headstream_replicate_merges_total {float(work.summary.merges)}" in lines
    assert f"headstream_replicate_bytes_total {float(sum(len(value) for value in sent))}" in lines
    assert any(line.startswith('headstream_replicate_lag_seconds{table="SHOP.customers"}') for line in lines)
    work.close()
