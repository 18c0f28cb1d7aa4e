"""Unit tests of headstream.replicate.parked.requests."""

from __future__ import annotations

from pathlib import Path

from headstream.replicate.codec import data_message, metadata_message
from headstream.replicate.parked.requests import Requests, Selection
from headstream.replicate.settings.table_settings import TableRules, TableSettings
from headstream.testing import SourceDatabase
from tests.support.replicate.pipeline_work import LINES, Work, plain
from tests.support.replicate.replicate_messages import make_change, make_table


def test_processor_brings_dead_messages_back_when_asked_and_their_schema_has_come(tmp_path: Path) -> None:
    source = SourceDatabase(33, rows=5, transactions=5)
    work = Work(tmp_path, schema_wait_us=0, on_missing_schema="dead-letter")
    messages = plain(source)
    work.process(work.raw([m.value for m in messages if m.role == "data"] + [b"hopeless"]), 0)
    work.processor.sweep()
    dead = work.ledger.counts()["dead"]
    assert dead == sum(m.role == "data" for m in messages) + 1
    work.process(work.raw([m.value for m in messages if m.role == "metadata"]), 1)
    assert work.ledger.counts() == {"dead": dead}
    selection = Selection(states=("dead",), table=LINES)
    chosen = selection.find(work.ledger, work.decoder.target_of)
    assert 0 < sum(parked_batch.count for parked_batch in chosen) < dead
    requests = Requests(work.ledger)
    number = requests.ask("redrive", selection.to_document(), work.now_us)
    work.restart()
    work.processor.sweep()
    done = Requests(work.ledger).find(number)
    assert done is not None
    assert done.result == {"messages": sum(parked_batch.count for parked_batch in chosen)}
    assert work.digest(source, *LINES)
    Requests(work.ledger).ask("redrive", Selection().to_document(), work.now_us)
    work.processor.sweep()
    assert work.digest(source, "SHOP", "customers")
    assert work.ledger.counts() == {"dead": 1}, "what cannot be read is dead again"
    work.close()


def test_processor_brings_back_what_it_gave_up_of_one_table_when_asked_for_that_table(tmp_path: Path) -> None:
    kit, other = make_table(), make_table(schema_id="F" * 32, table="other")
    rules = TableRules(defaults=TableSettings(scd_type=2))
    work = Work(tmp_path, max_dead_rate=1.0, rules=rules)
    bare = make_change(3, "UPDATE", data={"id": 3}, before={"id": 1}, column_mask=b"\x01")  # a history cannot be told from it
    for table in (kit, other):
        keyless = make_change(2, data={"id": None})
        messages = [data_message(table, change) for change in (make_change(1), bare, keyless)]
        work.send(metadata_message(table), *messages, data_message(table, keyless, form="json"))
    assert work.dead_count() == 6
    for name, count in (("kit", 3), ("other", 3), ("none", 0)):
        chosen = Selection(states=("dead",), table=("shop", name)).find(work.ledger, work.decoder.target_of)
        assert sum(parked_batch.count for parked_batch in chosen) == count
    work.close()
