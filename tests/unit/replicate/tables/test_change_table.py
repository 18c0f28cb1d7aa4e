"""Every change as it came, once, whatever fails or is killed; on real tables, without Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from headstream.errors import StorageError
from headstream.replicate.codec import ColumnMetadata, data_message, metadata_message
from headstream.replicate.engines.deltalake import DeltaLakeEngine
from headstream.replicate.settings.table_settings import TableRule, TableRules, TableSettings
from headstream.replicate.tables.tables import table_path
from tests.support.replicate.pipeline_work import SECOND_US, Work
from tests.support.replicate.replicate_messages import COLUMNS, make_change, make_table

KIT = make_table()
SEQUENCE = "2023032121341658{:019d}"


def changed(number: int, operation: str = "INSERT", **fields: Any) -> bytes:
    change = make_change(number, operation, change_sequence=SEQUENCE.format(number), **fields)
    return data_message(KIT, change)


def changes_of(work: Work, table: str = "kit") -> list[dict[str, Any]]:
    assert work.config.change_tables is not None
    rows = work.rows("shop", table, work.config.change_tables)
    return sorted(rows, key=lambda row: int(row["_hs_offset"]))


def test_change_table_has_all_of_each_change(tmp_path: Path) -> None:
    work = Work(tmp_path, change_tables=tmp_path / "changes")
    update = make_change(
        1, "UPDATE", data={"id": 1, "name": None}, before={"id": 1, "name": "old"}, change_sequence=SEQUENCE.format(7),
        stream_position="0a:1", transaction_id="T9", transaction_event_counter=2, transaction_last_event=True,
        column_mask=b"\x01", change_mask=b"\x00",
    )  # fmt: skip
    sent = [data_message(KIT, update, headers={"region": "eu"}), changed(8, "DELETE", data={"id": 1})]
    work.send(metadata_message(KIT), *sent, data_message(KIT, make_change(3, "REFRESH", change_sequence="")))
    first, second, third = changes_of(work)
    logged = datetime.fromtimestamp(work.now_us / 1e6, UTC)
    assert first == {
        "id": 1, "name": None, "_hs_operation": "UPDATE", "_hs_sequence": SEQUENCE.format(7),
        "_hs_commit_time": datetime(2023, 3, 21, 21, 34, 16, 580_000, UTC), "_hs_timestamp": update.timestamp,
        "_hs_stream_position": "0a:1", "_hs_transaction": "T9", "_hs_event": 2, "_hs_last_event": True,
        "_hs_present": ["id"], "_hs_changed": [], "_hs_envelope_headers": [("region", "eu")],
        "_hs_topic": "cdc/data", "_hs_partition": 1, "_hs_offset": 1, "_hs_logged_time": logged,
        "_hs_before_id": 1, "_hs_before_name": "old",
    }  # fmt: skip
    assert (second["_hs_operation"], second["id"], second["_hs_present"], second["_hs_before_id"]) == ("DELETE", 1, None, None)
    assert (third["_hs_operation"], third["_hs_sequence"], third["_hs_commit_time"]) == ("REFRESH", "", None)
    assert {row["id"] for row in work.rows("shop", "kit")} == {3}
    work.close()


@pytest.mark.every_combination
@pytest.mark.parametrize("method", ["merge", "append"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", ["crash", "failure"])
def test_change_table_has_each_change_once_when_a_step_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, when: str, kind: str
) -> None:
    work = Work(tmp_path, change_tables=tmp_path / "changes")
    work.send(metadata_message(KIT), changed(1))
    raw = work.raw([changed(2), changed(3), b"no message"])
    original = getattr(DeltaLakeEngine, method)

    def fail(self: DeltaLakeEngine, *arguments: Any) -> None:
        if when == "after":
            original(self, *arguments)
        raise MemoryError if kind == "crash" else StorageError("no space left", where=str(self.path))

    with monkeypatch.context() as patch:
        patch.setattr(DeltaLakeEngine, method, fail)
        if kind == "crash":
            with pytest.raises(MemoryError):
                work.process(raw, 1)
        else:
            work.process(raw, 1)
            answer_lost = (method, when) == ("append", "after")
            assert work.ledger.waiting().count == (0 if answer_lost else 2)
    work.restart()
    if kind == "crash":
        work.process(raw, 1)
    work.now_us += 400 * SECOND_US
    work.processor.sweep()
    assert [row["id"] for row in changes_of(work)] == [1, 2, 3]
    assert {row["id"] for row in work.rows("shop", "kit")} == {1, 2, 3}
    work.close()


def test_change_table_has_the_messages_of_a_topic_that_was_created_again_when_their_unit_can_repeat(tmp_path: Path) -> None:
    """They are at the places of messages of the old topic, which the table has."""
    work = Work(tmp_path, change_tables=tmp_path / "changes")
    work.send(metadata_message(KIT), changed(1), changed(2))
    work.options["accept_recreated"] = True
    work.restart()
    work.next_offset, work.now_us = 1, work.now_us + SECOND_US
    work.send(changed(3), changed(4))
    assert sorted(row["id"] for row in changes_of(work)) == [1, 2, 3, 4]
    work.close()


def test_change_table_has_each_change_once_when_a_micro_batch_is_read_again_under_another_number(tmp_path: Path) -> None:
    work = Work(tmp_path, change_tables=tmp_path / "changes")
    raw = work.raw([metadata_message(KIT), changed(1), changed(2)])
    work.process(raw, 0)  # Spark does not record its end
    work.options["accept_recreated"] = True
    work.restart()
    work.process(raw, 1)
    assert [row["id"] for row in changes_of(work)] == [1, 2]
    work.close()


def test_change_table_follows_the_schema_and_takes_rows_of_older_ones(tmp_path: Path) -> None:
    wider = (replace(COLUMNS[0], type="INT8"), COLUMNS[1], ColumnMetadata("city", 3, "WSTRING", 20))
    second = make_table(*wider, schema_id="F" * 32, table_version=2)
    work = Work(tmp_path, change_tables=tmp_path / "changes")
    work.send(metadata_message(KIT), changed(1))
    row = make_change(2, data={"id": 2**40, "name": "b", "city": "Oslo"})
    work.send(metadata_message(second), data_message(second, row), changed(3))
    assert [(row["id"], row["city"], row["_hs_before_city"]) for row in changes_of(work)] == [
        (1, None, None), (2**40, "Oslo", None), (3, None, None),
    ]  # fmt: skip
    work.close()


def test_change_table_holds_what_waited_and_not_what_is_dead(tmp_path: Path) -> None:
    keyless = make_table(*(replace(column, primary_key_position=0) for column in COLUMNS))
    work = Work(tmp_path, change_tables=tmp_path / "changes")
    work.send(data_message(keyless, make_change(1)), data_message(keyless, make_change(2, "UPDATE")))
    assert not (tmp_path / "changes").exists()
    work.send(metadata_message(keyless))
    assert [row["id"] for row in changes_of(work)] == [1]
    assert work.dead_count() == 1
    work.close()


def test_change_tables_are_for_the_tables_that_want_them_and_are_cared_for(tmp_path: Path) -> None:
    other = make_table(table="other", schema_id="F" * 32)
    rules = TableRules(defaults=TableSettings(), rules=(TableRule("shop.other", {"changes": False}),))
    work = Work(
        tmp_path, change_tables=tmp_path / "changes", rules=rules, compact_every_us=1, vacuum_every_us=1, vacuum_kept_us=0
    )
    work.send(metadata_message(KIT), metadata_message(other), changed(1), data_message(other, make_change(1)))
    work.send(changed(2))
    work.processor.sweep(last=True)
    place = table_path(tmp_path / "changes", "shop", "kit")
    assert [path.name for path in (tmp_path / "changes" / "shop").iterdir()] == ["kit"]
    assert DeltaTable(str(place)).file_uris() == [str(path) for path in place.glob("*.parquet")]
    assert len(list(place.glob("*.parquet"))) == 1
    assert len(changes_of(work)) == 2
    work.close()
