"""Which table a message belongs to where its schema id alone does not tell: one id of two tables, and topics of tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headstream.replicate.codec import TableMetadata, data_message, metadata_message
from headstream.replicate.schemas.schema_store import SchemaStore
from tests.support.replicate.pipeline_work import Work
from tests.support.replicate.replicate_messages import make_change, make_decoder, make_table, raw_messages

KIT, BOX = make_table(), make_table(table="box")
"""Two tables with one schema id and the same columns."""


def send(work: Work, *sent: tuple[str, bytes]) -> None:
    """Let messages come as one micro-batch, each in a topic of its own."""
    raw = work.raw([value for _, value in sent])
    topics = pa.array([topic for topic, _ in sent], pa.string())
    work.process(raw.set_column(0, raw.schema.field(0), topics), work.next_batch)
    work.next_batch += 1


def ids(work: Work, table: str) -> list[int]:
    return sorted(row["id"] for row in work.rows("shop", table))


def rows_of(table: TableMetadata, number: int, form: Any) -> bytes:
    return data_message(table, make_change(number), form=form)


@pytest.mark.parametrize("form", ["avro", "json"])
@pytest.mark.parametrize("cut", [1, 2, 4])
def test_catalog_finds_the_table_of_each_row_by_the_topic_of_its_metadata_when_two_tables_have_one_id(
    tmp_path: Path, form: Any, cut: int
) -> None:
    work = Work(tmp_path, max_dead_rate=1.0)
    sent = [
        ("cdc/kit", metadata_message(KIT)),
        ("cdc/kit", rows_of(KIT, 1, form)),
        ("cdc/box", metadata_message(BOX)),
        ("cdc/box", rows_of(BOX, 2, form)),
        ("cdc/kit", rows_of(KIT, 3, form)),
    ]
    for start in range(0, len(sent), cut):
        send(work, *sent[start : start + cut])
    assert work.dead_count() == 0, "also the second table's metadata"
    work.restart()
    send(work, ("cdc/kit", rows_of(KIT, 5, form)), ("cdc/box", rows_of(BOX, 6, form)))
    assert (ids(work, "kit"), ids(work, "box")) == ([1, 3, 5], [2, 6])
    work.close()


def test_catalog_lists_a_zone_without_schemas_once_for_a_batch_of_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scans: list[int] = []
    scan = SchemaStore.scan

    def count_scan(store: SchemaStore) -> int:
        scans.append(1)
        return scan(store)

    monkeypatch.setattr(SchemaStore, "scan", count_scan)
    decoder = make_decoder(tmp_path)
    counts = []
    for count in (1, 50):
        scans.clear()
        decoded = decoder.decode(raw_messages([rows_of(KIT, number, "json") for number in range(count)]))
        assert sum(batch.num_rows for batch in decoded.waiting) == count
        counts.append(len(scans))
    assert counts[0] == counts[1]


def test_catalog_decodes_a_micro_batch_again_when_its_metadata_gives_an_id_a_second_table(tmp_path: Path) -> None:
    work = Work(tmp_path, max_dead_rate=1.0)
    send(work, ("cdc/kit", metadata_message(KIT)))
    send(work, ("cdc/box", rows_of(BOX, 2, "avro")), ("cdc/box", metadata_message(BOX)), ("cdc/kit", rows_of(KIT, 1, "avro")))
    assert (ids(work, "kit"), ids(work, "box")) == ([1], [2])
    work.close()


def test_catalog_refuses_rows_when_nothing_tells_which_table_of_an_id_is_meant(tmp_path: Path) -> None:
    work = Work(tmp_path, max_dead_rate=1.0)
    send(work, ("cdc/all", metadata_message(KIT)), ("cdc/all", metadata_message(BOX)), ("cdc/all", rows_of(BOX, 2, "avro")))
    (parked_batch,) = work.ledger.parked_batches("dead")
    assert parked_batch.reason is not None
    assert "belongs to the tables shop.box and shop.kit, but the topic cdc/all does not identify the table" in parked_batch.reason
    work.close()


@pytest.mark.parametrize("form", ["avro", "json"])
def test_catalog_lets_a_row_wait_for_the_table_of_its_topic_when_its_id_is_known_of_another_table(
    tmp_path: Path, form: Any
) -> None:
    work = Work(tmp_path, topic_tables={"cdc/kit": "shop.kit", "cdc/box": "shop.box"})
    send(work, ("cdc/meta", metadata_message(KIT)), ("cdc/box", rows_of(BOX, 2, form)), ("cdc/kit", rows_of(KIT, 1, form)))
    assert (ids(work, "kit"), work.ledger.waiting().count) == ([1], 1)
    send(work, ("cdc/meta", metadata_message(BOX)))
    assert (ids(work, "kit"), ids(work, "box"), work.ledger.waiting().count) == ([1], [2], 0)
    work.close()


@pytest.mark.parametrize("form", ["avro", "json"])
def test_catalog_reads_a_row_by_its_id_when_the_metadata_of_another_table_came_in_its_topic(tmp_path: Path, form: Any) -> None:
    other = replace(BOX, schema_id="F" * 32)
    work = Work(tmp_path, topic_tables={"cdc/all": "shop.kit"})
    send(work, ("cdc/all", metadata_message(KIT)), ("cdc/all", metadata_message(other)), ("cdc/all", rows_of(other, 2, form)))
    assert (ids(work, "box"), work.ledger.waiting().count) == ([2], 0)
    work.close()


def test_catalog_reads_a_row_by_its_own_schema_when_two_tables_have_its_id(tmp_path: Path) -> None:
    own = BOX.data_schema.replace('"name":"DataRecord"', '"name":"DataRecord","namespace":"com.attunity.queue.msg.t.shop.box"')
    work = Work(tmp_path)
    row = data_message(BOX, make_change(2), own_schema=own)
    send(work, ("cdc/all", metadata_message(KIT)), ("cdc/all", metadata_message(BOX)), ("cdc/all", row))
    assert ids(work, "box") == [2]
    assert work.dead_count() == 0
    work.close()
