"""Rows of more bytes than one Arrow array can have: taken in pieces, and merged in parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest

from headstream.replicate.codec import ColumnMetadata, data_message, metadata_message
from headstream.replicate.columns import large_values
from headstream.replicate.columns.large_values import take_rows
from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.settings.table_settings import TableRules, TableSettings
from tests.support.replicate.low_limits import lower_limits
from tests.support.replicate.pipeline_work import SECOND_US, Work
from tests.support.replicate.replicate_messages import make_change, make_table

TABLE = make_table(ColumnMetadata("id", 1, "INT4", primary_key_position=1), ColumnMetadata("name", 2, "NCLOB"))
KIB = 1024


def changes(count: int, size: int, **changed: Any) -> list[bytes]:
    return [
        data_message(TABLE, make_change(number, data={"id": number, "name": f"{number:06d}" * (size // 6)}, **changed))
        for number in range(1, count + 1)
    ]


@pytest.mark.parametrize("limit", [1, 50, 333, 10_000])
def test_take_rows_gives_what_arrow_gives_when_columns_are_taken_in_pieces(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    chosen = np.random.default_rng(limit)
    texts = [None if number % 7 == 0 else "é" * int(chosen.integers(0, 40)) for number in range(100)]
    chunks = [pa.array(texts[:30]), pa.array(texts[30:31]), pa.array([], pa.string()), pa.array(texts[31:])]
    blobs = pa.chunked_array([pa.array([None if text is None else text.encode() for text in texts])])
    rows = pa.table({"n": range(100), "text": pa.chunked_array(chunks), "blob": blobs})
    places = pa.array([*chosen.integers(0, 100, 150).tolist(), None, 99, 0])
    expected = rows.take(places)
    monkeypatch.setattr(large_values, "MAX_ARRAY_BYTES", limit)
    found = take_rows(rows, places)
    assert found.equals(expected)
    assert take_rows(rows, pa.array([], pa.int64())).num_rows == 0
    if limit == 50:
        assert found["text"].num_chunks > 10


@pytest.mark.parametrize("scd_type", [1, 2])
@pytest.mark.parametrize("is_parked", [False, True], ids=["at once", "parked"])
def test_a_unit_is_merged_in_parts_when_it_has_more_bytes_than_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_parked: bool, scd_type: Literal[1, 2]
) -> None:
    lower_limits(monkeypatch, 8 * KIB, 32 * KIB)
    changed = tmp_path / "changed"
    rules = TableRules(defaults=TableSettings(scd_type=scd_type))
    work = Work(tmp_path, rules=rules, change_tables=changed)
    values = [*changes(100, KIB), *changes(100, KIB, operation="UPDATE", change_sequence=f"{1000:035d}")]
    if is_parked:
        work.send(*values)
        assert work.ledger.waiting().count == 200
        assert len(work.ledger.parked_batches("parked")) > 10
        work.send(metadata_message(TABLE))
    else:
        work.send(metadata_message(TABLE), *values)
    again = work.next_batch - 1
    rows = [row for row in work.rows("shop", "kit") if row.get("_hs_current", True)]
    assert {row["id"]: row["name"][:6] for row in rows} == {number: f"{number:06d}" for number in range(1, 101)}
    assert (work.summary.changes, work.ledger.waiting().count, work.dead_count()) == (200, 0, 0)
    assert work.summary.merges > 3
    if not is_parked:  # a rerun after a crash, which divides it in another number of parts
        lower_limits(monkeypatch, 8 * KIB, 40 * KIB)
        work.ledger.set_mark("batch", str(again))
        raw = work.raw([metadata_message(TABLE), *values]).set_column(2, "offset", pa.array(range(201), pa.int64()))
        work.process(raw.cast(work.raw([]).schema), again)
    told = work.rows("shop", "kit", changed)
    assert len(told) == len({(row["_hs_offset"]) for row in told}) == 200
    work.close()


@pytest.mark.soak
def test_changes_of_more_than_2_gib_of_text_are_merged_when_their_schema_comes_late(tmp_path: Path) -> None:
    size = 8 << 20
    work = Work(tmp_path)
    for number in range(1, 301):
        row = {"id": number, "name": f"{number:06d}" + "x" * size}
        work.send(data_message(TABLE, make_change(number, data=row)))
    work.send(metadata_message(TABLE))
    work.now_us += 400 * SECOND_US
    work.processor.sweep()
    assert (work.summary.changes, work.ledger.waiting().count, work.dead_count()) == (300, 0, 0)
    work.close()


@pytest.mark.soak
def test_a_micro_batch_of_more_than_2_gib_of_text_is_merged(tmp_path: Path) -> None:
    work = Work(tmp_path)
    work.send(metadata_message(TABLE))
    parts = []
    for start in range(0, 300, 10):
        values = [
            data_message(TABLE, make_change(n, data={"id": n, "name": f"{n:06d}" + "x" * (8 << 20)}))
            for n in range(start, start + 10)
        ]
        parts.append(work.decoder.decode(work.raw(values).combine_chunks().to_batches()[0]))
    work.processor.process(Decoded.join(parts), lambda wanted: work.raw([]), 1)
    assert (work.summary.changes, work.ledger.waiting().count, work.dead_count()) == (300, 0, 0)
    work.close()
