"""JSON without schema ids across ALTER TABLE: any cut into micro-batches, and any order, gives the rows of the source."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headstream.replicate.codec import Change, ColumnMetadata, TableMetadata, data_message, metadata_message
from headstream.replicate.parked.requests import Requests, Selection
from tests.support.replicate.pipeline_work import SECOND_US, Work
from tests.support.replicate.replicate_messages import make_table

TOPICS = {"cdc/data": "shop.kit"}
COLUMNS = ("name", "old", "extra", "more")
ALTERED = (("name", "old"), ("name",), ("name", "extra"), ("name", "extra", "more"), ("name", "more"))
"""The columns beside the key, from ALTER to ALTER: dropped, added, added, dropped."""


def make_versions() -> list[TableMetadata]:
    versions = []
    for number, names in enumerate(ALTERED, start=1):
        columns = [ColumnMetadata("id", 1, "INT4", primary_key_position=1)]
        columns += [ColumnMetadata(name, place, "WSTRING", 20) for place, name in enumerate(names, start=2)]
        versions.append(make_table(*columns, schema_id=f"{number:032d}", table_version=number))
    return versions


def make_history(chosen: random.Random) -> tuple[list[bytes], dict[int, dict[str, Any]]]:
    """Return the messages of a source, and its rows at the end: a dropped column stays in rows that only updates change."""
    messages: list[bytes] = []
    rows: dict[int, dict[str, Any]] = {}
    sequence = 0
    for version, names in zip(make_versions(), ALTERED, strict=True):
        messages.append(metadata_message(version))
        for _ in range(chosen.randrange(8)):
            sequence, key = sequence + 1, chosen.randrange(4)
            operation = "INSERT" if key not in rows else chosen.choice(["UPDATE", "UPDATE", "DELETE"])
            data = {name: f"{name} {sequence}" if chosen.random() < 0.8 else None for name in names}
            change = Change(operation, {"id": key, **data}, None, f"{sequence:035d}")
            if operation == "DELETE":
                del rows[key]
                change = replace(change, before=change.data)
            else:
                rows[key] = {**rows.get(key, {}), **data}
            messages.append(data_message(version, change, form="json", schema_id=None))
    return messages, rows


def read(work: Work) -> dict[int, dict[str, Any]]:
    if not work.decoder.target_of("table:shop/kit") or not (work.tables_directory / "shop" / "kit").exists():
        return {}
    return {row["id"]: {name: row[name] for name in COLUMNS if row.get(name) is not None} for row in work.rows("shop", "kit")}


def check(seed: int, directory: Path) -> None:
    chosen = random.Random(seed)
    messages, rows = make_history(chosen)
    expected = {key: {name: value for name, value in row.items() if value is not None} for key, row in rows.items()}
    for number in range(2):
        sent = messages if number == 0 else chosen.sample(messages, len(messages))
        work = Work(directory / f"{seed}-{number}", topic_tables=TOPICS, schema_wait_us=chosen.choice([0, 60 * SECOND_US]))
        while sent:
            count = chosen.randint(1, len(sent))
            work.send(*sent[:count])
            sent = sent[count:]
            work.processor.sweep()
        assert (work.dead_count(), work.ledger.waiting().count) == (0, 0), f"seed {seed}, reading {number}"
        assert read(work) == expected, f"seed {seed}, reading {number}"
        work.close()


@pytest.mark.parametrize("seed", range(3))
def test_tables_equal_the_source_when_json_without_ids_is_cut_and_shuffled_across_alters(tmp_path: Path, seed: int) -> None:
    check(seed, tmp_path)


@pytest.mark.soak
def test_tables_equal_the_source_when_json_without_ids_is_cut_and_shuffled_across_many_alters(tmp_path: Path) -> None:
    for seed in range(100, 250):
        check(seed, tmp_path)


def test_a_row_whose_value_no_version_takes_is_applied_when_it_is_redriven_after_the_metadata(tmp_path: Path) -> None:
    """A change of type keeps the columns: without times in the messages nothing tells that the row is of the later version."""
    key = ColumnMetadata("id", 1, "INT4", primary_key_position=1)
    narrow, wide = (
        make_table(key, ColumnMetadata("n", 2, kind), schema_id=letter * 32, table_version=version)
        for version, (letter, kind) in enumerate((("A", "INT4"), ("B", "INT8")), start=1)
    )
    work = Work(tmp_path, topic_tables=TOPICS)
    row = data_message(wide, Change("INSERT", {"id": 1, "n": 2**40}, None, f"{1:035d}"), form="json", schema_id=None)
    work.send(metadata_message(narrow), row)
    assert work.dead_count() == 1
    work.send(metadata_message(wide))
    Requests(work.ledger).ask("redrive", Selection().to_document(), work.now_us)
    work.processor.sweep()
    assert [found["n"] for found in work.rows("shop", "kit")] == [2**40]
    work.close()
