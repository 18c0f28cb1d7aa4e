"""The step that puts schemas into the schema store, and what it makes of a unit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from headstream.replicate.codec import data_message, metadata_message
from headstream.replicate.run.schema_storage import SchemaStorage
from tests.support.replicate.pipeline_work import Work
from tests.support.replicate.replicate_messages import make_change, make_table, reasons_of, rows_of, waiting_of

KIT = make_table()


def test_learn_returns_a_unit_without_metadata_and_leaves_the_given_one_as_it_is(tmp_path: Path) -> None:
    work = Work(tmp_path)
    damaged = metadata_message(KIT)[:-4]
    unit = work.unit(metadata_message(KIT), metadata_message(KIT), damaged)
    given = unit.decoded
    learned = SchemaStorage(work.context).store_schemas(unit)
    assert work.schema_store.find(KIT.schema_id) is not None
    assert work.summary.schemas == 1
    assert not learned.decoded.metadata
    assert reasons_of(learned.decoded).keys() == {2}
    assert unit.decoded is given
    assert (sum(batch.num_rows for batch in given.metadata) + sum(batch.num_rows for batch in given.dead)) == 3
    work.close()


def test_decode_waiting_gives_changes_when_their_schema_is_in_the_same_unit(tmp_path: Path) -> None:
    work = Work(tmp_path)
    other = make_table(schema_id="F" * 32, table="box")
    unit = work.unit(data_message(KIT, make_change(1)), data_message(other, make_change(2)), metadata_message(KIT))
    step = SchemaStorage(work.context)
    assert waiting_of(unit.decoded).keys() == {0, 1}
    unit = step.decode_waiting(step.store_schemas(unit))
    assert [row["id"] for row in rows_of(unit.decoded)] == [1]
    assert waiting_of(unit.decoded) == {1: other.schema_id}
    work.close()


def test_learn_metadata_tells_that_messages_must_be_decoded_again_when_a_second_table_has_the_schema_id(tmp_path: Path) -> None:
    work = Work(tmp_path)
    step = SchemaStorage(work.context)
    first, again, second = (
        step.store_metadata(work.unit(metadata_message(table)).decoded.metadata)
        for table in (KIT, KIT, replace(KIT, lineage=replace(KIT.lineage, table="box")))
    )
    assert (first.count, first.shares_ids) == (1, False)
    assert (again.count, again.shares_ids) == (0, False)
    assert (second.count, second.shares_ids) == (1, True)
    work.close()
