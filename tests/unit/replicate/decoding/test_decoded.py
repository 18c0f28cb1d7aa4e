"""The results of decoding as values: joined, and sent as rows."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pyarrow as pa
import pytest

from headstream.replicate.columns.loads import TableNotice
from headstream.replicate.columns.raw import RAW_SCHEMA
from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.decoding.frame_times import PartitionTimes


def raw(offset: int) -> pa.RecordBatch:
    row = {"topic": "s/t", "partition": 1, "offset": offset, "timestamp_us": 0, "payload": b"x"}
    return pa.RecordBatch.from_pylist([row], schema=RAW_SCHEMA)


WHOLE = Decoded(
    events=[],
    metadata=[raw(1)],
    waiting=[raw(2), raw(3)],
    dead=[raw(4)],
    changes={"A": [raw(5), raw(6)], "B": [raw(7)]},
    unwanted=2,
    tombstones=3,
    size_bytes=100,
    findings={"table s.t: a column is left out": 4},
    times=[PartitionTimes("s/t", 1, 5, 9, 0, 12)],
    contexts=["00-é"],
    notices=[TableNotice("s", "t", "truncated", "7", 5)],
)


def test_from_table_gives_what_to_batch_was_given() -> None:
    sent = pa.Table.from_batches(
        [WHOLE.to_batch(), Decoded(unwanted=1, findings={"table s.t: a column is left out": 1}).to_batch()]
    )
    assert Decoded.from_table(sent) == replace(WHOLE, unwanted=3, findings={"table s.t: a column is left out": 5})


def test_to_batch_names_a_schema_id_for_changes_alone() -> None:
    rows = WHOLE.to_batch().to_pylist()
    assert {(row["kind"], row["schema_id"]) for row in rows if row["schema_id"]} == {("changes", "A"), ("changes", "B")}


def test_join_leaves_the_parts_as_they_are() -> None:
    part = Decoded(changes={"A": [raw(8)]})
    joined = Decoded.join([WHOLE, part])
    assert (joined.message_count, WHOLE.message_count, part.message_count) == (13, 12, 1)
    assert [batch["offset"].to_pylist() for batch in joined.changes["A"]] == [[5], [6], [8]]
    with pytest.raises(FrozenInstanceError):
        joined.changes = {}  # type: ignore[misc]


def test_with_changes_drops_a_schema_without_changes() -> None:
    table = pa.Table.from_batches([raw(9)])
    assert WHOLE.with_changes({"A": RAW_SCHEMA.empty_table(), "B": table}).changes == {"B": [raw(9)]}
    assert WHOLE.without({"A"}).changes == {"B": WHOLE.changes["B"]}
