"""Unit tests of headstream.replicate.columns.key_buckets."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from headstream.replicate.codec import metadata_message
from headstream.replicate.columns import key_buckets
from headstream.replicate.columns.key_buckets import divide_changes
from tests.support.replicate.pipeline_work import Work
from tests.unit.replicate.columns.test_large_values import TABLE, changes


def test_divide_changes_keeps_transactions_whole_and_does_not_depend_on_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = Work(tmp_path)
    work.send(metadata_message(TABLE))
    values = [v for t in range(20) for v in changes(3, 600, transaction_id=f"t{t}")] + changes(20, 600)
    decoded = work.decoder.decode(work.raw(values).combine_chunks().to_batches()[0])
    rows = pa.Table.from_batches(decoded.changes[TABLE.schema_id])
    monkeypatch.setattr(key_buckets, "MAX_UNIT_BYTES", rows.nbytes // 3)
    parts = dict(divide_changes(rows))
    backwards = dict(divide_changes(rows.take(pa.array(range(rows.num_rows - 1, -1, -1)))))
    assert len(parts) > 2
    assert sum(part.num_rows for part in parts.values()) == rows.num_rows
    owners: dict[str, str] = {}
    for name, part in parts.items():
        assert set(part["_hs_offset"].to_pylist()) == set(backwards[name]["_hs_offset"].to_pylist())
        for transaction in part["_hs_transaction"].to_pylist():
            assert not transaction or owners.setdefault(transaction, name) == name
    work.close()
