"""Micro-batches and what waits, on real tables and a real log, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headstream.errors import ReplicateError, StorageError
from headstream.replicate.codec import data_message, metadata_message
from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.engines.deltalake import DeltaLakeEngine
from headstream.replicate.run.metrics import describe_pipeline
from headstream.replicate.run.status import note_status, read_status
from headstream.testing import SourceDatabase
from tests.support.crashes import fail_with
from tests.support.replicate.pipeline_work import LINES, SECOND_US, Work, plain
from tests.support.replicate.replicate_messages import make_change, make_table


def break_table(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    original = DeltaLakeEngine.merge

    def merge(self: DeltaLakeEngine, *arguments: Any, **options: Any) -> Any:
        if self.path.name == name:
            raise StorageError("no space left", where=str(self.path))
        return original(self, *arguments, **options)

    monkeypatch.setattr(DeltaLakeEngine, "merge", merge)


def test_processor_lets_a_failing_table_wait_and_heals_it_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SourceDatabase(31, rows=10, transactions=30)
    work = Work(tmp_path)
    values = [message.value for message in plain(source)]
    parts = [work.raw(values[start::3]) for start in range(3)]
    with monkeypatch.context() as patch:
        break_table(patch, "order_lines")
        for batch_id, part in enumerate(parts[:2]):
            work.process(part, batch_id)
        assert work.processor.health.failing.keys() == {LINES}
        assert work.digest(source, "SHOP", "customers") is False  # the third part has not come
        waiting = work.count_waiting()
        assert waiting["table", LINES] > 0
        assert waiting["load", ("SHOP", "customers")] > 0, "logged after data without schema: no longer than schema_wait"
        work.restart()
        for _ in range(6):
            work.now_us += 400 * SECOND_US
            work.processor.sweep()
        assert work.processor.health.failing[LINES].is_poisoned
        rows = {("table", LINES): waiting["table", LINES] + waiting["load", LINES], ("schema", None): waiting["schema", None]}
        assert work.count_waiting() == rows, "nothing is lost and nothing is kept twice"
    work.process(parts[2], 2)
    work.now_us += 400 * SECOND_US
    work.processor.sweep()
    assert work.processor.health.failing == {}
    assert work.ledger.waiting().count == 0
    assert work.digest(source, *LINES)
    assert work.digest(source, "SHOP", "customers")
    work.close()


def test_processor_goes_on_when_a_failing_table_gets_bad_messages_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table()
    work = Work(tmp_path, max_dead_rate=1.0)
    with monkeypatch.context() as patch:
        break_table(patch, "kit")
        work.send(metadata_message(table), data_message(table, make_change(1)))
        work.send(data_message(table, make_change(2, change_sequence="")))
    assert (work.dead_count(), work.ledger.waiting().count) == (1, 1)
    work.processor.sweep(last=True)
    assert [row["name"] for row in work.rows("shop", "kit")] == ["n1"]
    work.close()


@pytest.mark.parametrize(
    "runs",
    [
        [(True, 5, 0), (True, 6, 2)],
        [(True, 5, 0), (False, 5, 0), (False, 6, 2)],
        [(True, 5, None), (False, 6, 0), (False, 6, 0)],
        [(True, 5, 0), (True, 5, None), (False, 6, 0)],
    ],
)
def test_processor_sets_nothing_aside_twice_when_a_micro_batch_is_read_again_under_another_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs: list[tuple[bool, int, int | None]]
) -> None:
    """Each run accepts recreated topics or not, is killed, and reads messages from the first or the third on, or none."""
    known, late = make_table(), make_table(schema_id="F" * 32, table="late")
    values = [metadata_message(known), data_message(known, make_change(1)), data_message(late, make_change(2)), b"junk"]
    work = Work(tmp_path, max_dead_rate=1.0)
    with monkeypatch.context() as patch:
        break_table(patch, "kit")
        raw = work.raw(values)
        work.process(raw, 0)  # Spark does not record its end
    for accepts, batch_id, part in runs:
        work.options["accept_recreated"] = accepts
        work.restart()
        if part is not None:
            work.process(raw.slice(part), batch_id)
        assert (work.ledger.waiting("schema").count, work.dead_count()) == (1, 1)
    work.restart()
    work.next_offset, work.now_us = 0, work.now_us + SECOND_US
    work.process(work.raw(values), 7)  # a topic that was created again has other messages there
    assert (work.ledger.waiting("schema").count, work.dead_count()) == (2, 2)
    work.close()


def test_processor_ends_when_the_source_has_lost_messages_that_were_not_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retention can delete a segment while a table fails: its changes were neither merged nor could they wait."""
    table = make_table()
    work = Work(tmp_path, max_dead_rate=1.0)
    work.send(metadata_message(table))
    raw = work.raw([data_message(table, make_change(1)), b"not a message", data_message(table, make_change(2))])
    with monkeypatch.context() as patch:
        break_table(patch, "kit")
        with pytest.raises(StorageError, match="1 messages that were not applied are no longer in the source"):
            work.processor.process(work.decoder.decode(raw.combine_chunks().to_batches()[0]), lambda wanted: raw.slice(1), 1)
    work.process(raw.slice(1), 1)  # as the source has it now
    assert work.dead_count() == 1
    assert [row["name"] for row in work.rows("shop", "kit")] == ["n2"]
    work.close()


@pytest.mark.parametrize("step", ["hold", "dead_letter", "finish_release", "end_batch"])
def test_processor_ends_the_same_when_it_crashes_while_a_table_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    source = SourceDatabase(32, rows=6, transactions=8)
    work = Work(tmp_path)
    raw = work.raw([*(message.value for message in plain(source)), b"not a message"])

    with monkeypatch.context() as patch:
        break_table(patch, "order_lines")
        if step == "finish_release":
            work.process(raw, 0)
            work.now_us += 400 * SECOND_US
        patch.setattr(type(work.processor.parking), step, fail_with(MemoryError()))
        with pytest.raises(MemoryError):
            work.processor.sweep() if step == "finish_release" else work.process(raw, 0)
    work.restart()
    work.process(raw, 0)
    work.now_us += 400 * SECOND_US
    work.processor.sweep()
    assert work.ledger.waiting().count == 0
    assert work.digest(source, *LINES)
    assert work.digest(source, "SHOP", "customers")
    assert work.dead_count() == 1
    work.close()


def test_processor_stops_before_it_gives_up_too_many_messages(tmp_path: Path) -> None:
    work = Work(tmp_path, dead_rate_messages=50, max_dead_rate=0.2)
    good = [message.value for message in plain(SourceDatabase(34, rows=30, transactions=10))]
    work.process(work.raw([*good[:45], *[b"bad"] * 5]), 0)
    with pytest.raises(ReplicateError, match=r"more than 20%: 40 times: .*not a Replicate"):
        work.process(work.raw([*good[45:55], *[b"bad"] * 40]), 1)
    assert work.ledger.counts()["dead"] == 5
    work.close()


def test_processor_passes_tombstones_over_and_counts_them_when_a_topic_is_compacted(tmp_path: Path) -> None:
    table = make_table()
    work = Work(tmp_path, dead_rate_messages=10)
    raw = work.raw([metadata_message(table), data_message(table, make_change(1)), *[b""] * 20])
    payload = pa.array([*raw["payload"].to_pylist()[:2], *[None] * 20], pa.binary())
    raw = raw.set_column(raw.schema.get_field_index("payload"), raw.schema.field("payload"), payload)
    decoded = Decoded.from_table(pa.Table.from_batches([work.decoder.decode(raw.to_batches()[0]).to_batch()]))
    work.processor.process(decoded, lambda wanted: raw, 0)
    assert (work.summary.messages, work.summary.tombstones, work.dead_count()) == (22, 20, 0)
    note_status(work.ledger, "running", work.summary, work.schema_store.directory, work.now_us)
    status = read_status(work.ledger, work.now_us)
    assert status["run"]["tombstones"] == 20
    counted = {sample.name: sample.value for metric in describe_pipeline(status) for sample in metric.samples}
    assert counted["headstream_replicate_tombstones_total"] == 20
    work.close()


def test_processor_stops_reading_when_too_many_messages_wait(tmp_path: Path) -> None:
    source = SourceDatabase(35, rows=10, transactions=5)
    work = Work(tmp_path, max_parked_count=3)
    messages = plain(source)
    data = work.raw(m.value for m in messages if m.role == "data")
    with pytest.raises(ReplicateError, match="would wait for"):
        work.process(data, 0)
    assert work.ledger.counts() == {}
    work.restart()
    work.process(pa.concat_tables([work.raw(m.value for m in messages if m.role == "metadata"), data]), 0)
    assert work.digest(source, *LINES)
    work.close()
