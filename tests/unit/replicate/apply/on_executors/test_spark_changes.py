"""Changes that stay where they were decoded, seen by the driver: their statistics are enough until rows are needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from headstream.errors import StorageError
from headstream.replicate.apply.on_executors.spark_changes import SparkChanges
from headstream.replicate.apply.on_executors.stored_batch import StoredBatch
from headstream.replicate.codec import data_message, metadata_message
from headstream.replicate.columns.change_statistics import ChangeStatistics, statistics_of
from headstream.replicate.columns.raw import CHANGE_COORDINATES, COORDINATE_COLUMNS, coordinates_table, leave_out, match_rows
from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.run import decoded_storage
from headstream.replicate.settings.table_settings import TableRules, TableSettings
from headstream.replicate.tables.target_table import TargetTable
from headstream.testing import SourceDatabase, repeat, shuffle
from headstream.testing.source_capture import SourceMessage
from tests.support.crashes import fail_with
from tests.support.replicate.bucketed_changes import Bucketed
from tests.support.replicate.pipeline_work import Work, plain
from tests.support.replicate.replicate_messages import make_change, make_table


@dataclass
class Kept:
    """The changes of a micro-batch, where they were decoded."""

    changes: dict[str, list[pa.RecordBatch]]
    left_out: pa.Table | None = None
    fetched: list[str] = field(default_factory=list)

    def open(self, schema_id: str, statistics: ChangeStatistics) -> KeptChanges:
        return KeptChanges(self, schema_id, statistics)


@dataclass
class KeptChanges:
    """StoredChanges of this process."""

    batch: Kept
    schema_id: str
    statistics: ChangeStatistics

    def _rows(self) -> pa.Table:
        rows = pa.Table.from_batches(self.batch.changes[self.schema_id])
        return rows if self.batch.left_out is None else leave_out(rows, CHANGE_COORDINATES, self.batch.left_out)

    def fetch(self) -> pa.Table:
        self.batch.fetched.append(self.schema_id)
        return self._rows()

    def leave_out(self, coordinates: pa.Table) -> None:
        self.batch.left_out = coordinates

    def coordinates(self, wanted: pa.Table | None = None) -> pa.Table:
        rows = self._rows().select(list(CHANGE_COORDINATES))
        if wanted is None:
            return rows
        return rows.take(match_rows(rows.rename_columns(list(COORDINATE_COLUMNS)), wanted)[0])


class StoringWork(Work):
    """A pipeline's work whose micro-batches keep their changes where they were decoded."""

    kept: Kept

    def process(self, raw: pa.Table, batch_id: int) -> None:
        parts = [self.decoder.decode(batch) for batch in raw.combine_chunks().to_batches(40)]
        rows = pa.Table.from_batches([part.to_batch(with_statistics=True) for part in parts])
        self.kept = Kept({})
        for part in parts:
            for schema_id, batches in part.changes.items():
                self.kept.changes.setdefault(schema_id, []).extend(batches)
        decoded = Decoded.from_table(rows.filter(pc.not_equal(rows["kind"], "changes")), self.kept.open)
        assert decoded.message_count == raw.num_rows
        self.processor.process(decoded, lambda wanted: raw, batch_id, self.read_until_us(raw, batch_id))


def values(messages: Iterable[SourceMessage], role: str) -> list[bytes]:
    return [message.value for message in messages if message.role == role]


def test_tables_equal_the_source_when_changes_stay_where_they_were_decoded(tmp_path: Path) -> None:
    source = SourceDatabase(3, rows=20, transactions=60)
    messages = list(repeat(shuffle(plain(source), seed=1), seed=1, fraction=0.1))
    work = StoringWork(tmp_path)
    for start in range(0, len(messages), 150):
        work.send(*[message.value for message in messages[start : start + 150]])
        work.now_us += 1_000_000
    work.processor.sweep(last=True)
    for table in ("order_lines", "customers"):
        assert work.digest(source, "SHOP", table), table
    work.close()


def test_changes_are_not_fetched_when_executors_have_decoded_fewer_of_them_again(tmp_path: Path) -> None:
    """An executor was lost with its stored changes, and the log does not have all of their messages any more."""
    work = Work(tmp_path)
    table = make_table()
    work.send(metadata_message(table))
    raw = work.raw([data_message(table, make_change(number)) for number in (1, 2, 3)])
    decoded = work.decoder.decode(raw.combine_chunks().to_batches()[0])
    changes = pa.Table.from_batches(decoded.changes[table.schema_id])

    class Lessened(StoredBatch):
        left_out = None

        def __init__(self) -> None:
            """Not stored by Spark."""

        def has_at_hand(self, schema_ids: Sequence[str]) -> bool:
            return False

        def contents(self, schema_ids: Sequence[str]) -> Any:
            return schema_ids

        def fetch(self, frame: Any) -> list[pa.Table]:
            return [changes.slice(1)]

        def note_fetched(self, rows: int) -> None:
            """Nobody counts them."""

    with pytest.raises(StorageError, match="a micro-batch of 3 changes has 2 when it is decoded again"):
        SparkChanges(Lessened(), (table.schema_id,), statistics_of(changes)).fetch()
    work.close()


def test_parts_of_transactions_are_set_aside_also_when_too_many_wait_to_be_sent_to_executors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All stored changes come to the driver then, without those that wait."""
    source = SourceDatabase(1, rows=12, transactions=25, key_changes=False)
    messages = list(shuffle(plain(source), seed=1, window=40))

    def run(kind: type[Work]) -> tuple[list[int], list[str]]:
        work = kind(tmp_path / kind.__name__, atomic=True, change_tables=tmp_path / kind.__name__ / "changes")
        waiting = []
        for start in range(0, len(messages), 60):
            work.send(*[message.value for message in messages[start : start + 60]])
            work.now_us += 1_000_000
            waiting.append(sum(work.count_waiting().values()))
        work.processor.sweep(last=True)
        rows = work.rows("SHOP", "order_lines", tmp_path / kind.__name__ / "changes")
        work.close()
        return waiting, sorted(repr(sorted(row.items())) for row in rows)

    wanted = run(Work)
    monkeypatch.setattr(decoded_storage, "_MOST_SENT", 0)
    assert max(wanted[0]) > 0
    assert run(Bucketed) == wanted


def test_the_row_that_a_late_change_of_key_moves_is_kept_when_executors_merge_the_next_row_of_its_key(tmp_path: Path) -> None:
    """The table has had changes that omit columns, so the driver logs the changes of a key that an insert takes over."""
    kit = make_table()

    def change(number: int, at: int, operation: str = "INSERT", **changed: Any) -> bytes:
        return data_message(kit, make_change(number, operation, change_sequence=f"{at:035d}", **changed))

    only_id = {"column_mask": b"\x01"}
    work = Bucketed(tmp_path)
    work.send(metadata_message(kit))
    work.send(change(1, 1), change(9, 2), change(9, 3, "UPDATE", data={"id": 9}, **only_id))
    work.send(change(1, 8, data={"id": 1, "name": "next"}))
    assert work.merged == ["fold", "join", "join"]
    work.send(change(2, 5, "UPDATE", data={"id": 2}, before={"id": 1}, **only_id))
    assert sorted((row["id"], row["name"]) for row in work.rows("shop", "kit")) == [(1, "next"), (2, "n1"), (9, "n9")]
    work.close()


@pytest.mark.parametrize("kind", [Work, Bucketed])
def test_a_history_counts_no_change_that_waits_when_all_others_are_ignored_deletions(tmp_path: Path, kind: type[Work]) -> None:
    """The deletion of a row, and of another one in a transaction of which the rest is missing."""
    kit = make_table()

    def delete(number: int, transaction: str, *, last: bool) -> bytes:
        change = make_change(number, "DELETE", transaction_id=transaction, transaction_event_counter=1)
        return data_message(kit, replace(change, transaction_last_event=last))

    rules = TableRules(defaults=TableSettings(scd_type=2, deletes="skip"))
    work = kind(tmp_path, rules=rules, atomic=True)
    work.send(metadata_message(kit))
    work.send(delete(1, "a", last=True), delete(2, "b", last=False))
    assert sum(work.count_waiting().values()) == 1
    assert work.summary.changes == 1
    work.close()


def test_a_failing_table_parks_its_stored_changes_by_their_coordinates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SourceDatabase(3, rows=20, transactions=30)
    messages = plain(source)
    work = StoringWork(tmp_path)
    work.send(*values(messages, "metadata"))
    merge = TargetTable.merge

    data = values(messages, "data")
    with monkeypatch.context() as patched:
        patched.setattr(TargetTable, "merge", fail_with(StorageError("no table can be written now")))
        work.send(*data)
    assert sum(work.count_waiting().values()) == len(data)
    assert TargetTable.merge is merge
    work.now_us += 600_000_000
    work.processor.sweep(last=True)
    for table in ("order_lines", "customers"):
        assert work.digest(source, "SHOP", table), table
    work.close()


def test_fetching_stored_changes_puts_them_before_those_that_the_driver_decoded(tmp_path: Path) -> None:
    first, second = (pa.record_batch({"n": [number]}) for number in (1, 2))
    empty = ChangeStatistics(
        1, None, "", 0, pa.table({"_hs_operation": pa.array([3], pa.int8()), "_hs_sequence": [""], "_hs_logged_us": [0]})
    )
    kept = Kept({"id": [first]})
    decoded = Decoded(changes={"id": [second]}, stored={"id": kept.open("id", empty)})
    assert decoded.message_count == 2
    decoded = decoded.fetch(["id"])
    assert pa.Table.from_batches(decoded.changes["id"])["n"].to_pylist() == [1, 2]
    assert (decoded.stored, decoded.message_count) == ({}, 2)


def test_fetching_stored_changes_adds_nothing_when_all_of_them_are_left_out() -> None:
    """A repeat leaves out what its first run set aside; an empty list of batches is no table."""
    places = {"_hs_topic": ["t"], "_hs_partition": pa.array([1], pa.int32()), "_hs_offset": [7]}
    trace = pa.table({"_hs_operation": pa.array([3], pa.int8()), "_hs_sequence": [""], "_hs_logged_us": [0]})
    kept = Kept({"id": [pa.record_batch(places)]}, left_out=coordinates_table([("t", 1, 7)]))
    decoded = Decoded(stored={"id": kept.open("id", ChangeStatistics(1, None, "", 0, trace))})
    decoded = decoded.fetch(["id"])
    assert (decoded.changes, decoded.stored) == ({}, {})


def test_changes_that_are_left_out_are_not_fetched_when_all_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    places = [
        pa.record_batch({"_hs_topic": ["t"] * 2, "_hs_partition": pa.array([1, 1], pa.int32()), "_hs_offset": offsets})
        for offsets in ([1, 2], [3, 4])
    ]
    trace = pa.table({"_hs_operation": pa.array([3], pa.int8()), "_hs_sequence": [""], "_hs_logged_us": [0]})
    kept = Kept({"a": [places[0]], "b": [places[1]]})
    decoded = Decoded(stored={name: kept.open(name, ChangeStatistics(2, None, "", 0, trace)) for name in ("a", "b")})
    monkeypatch.setattr(decoded_storage, "_MOST_SENT", 1)
    decoded = decoded_storage.leave_out_stored(decoded, [pa.Table.from_batches([batch.slice(1)]) for batch in places])
    found = {name: pa.Table.from_batches(batches)["_hs_offset"].to_pylist() for name, batches in decoded.changes.items()}
    assert (found, decoded.stored) == ({"a": [1], "b": [3]}, {})
