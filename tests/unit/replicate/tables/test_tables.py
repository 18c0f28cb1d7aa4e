"""What once stopped a table for good: names that differ in case alone, keys that are NaN, texts that SQL reads otherwise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from headstream.replicate.apply.tombstones import Tombstones
from headstream.replicate.codec import ColumnMetadata, TableMetadata, data_message, metadata_message
from headstream.replicate.engines.plan import quote_text
from headstream.replicate.settings.table_settings import TableRules, TableSettings
from tests.support.replicate.change_tables import change, sequence
from tests.support.replicate.pipeline_work import Work
from tests.support.replicate.replicate_messages import make_change, make_table
from tests.support.replicate.target_tables import Target

MEASURED = make_table(ColumnMetadata("id", 1, "REAL8", primary_key_position=1), ColumnMetadata("name", 2, "WSTRING", 20))
TYPES: tuple[Literal[1, 2], ...] = (1, 2)


def make_work(directory: Path, **settings: Any) -> Work:
    rules = TableRules(defaults=TableSettings(**settings))
    return Work(directory, change_tables=directory / "changes", rules=rules)


def respelled(number: int, *names: str) -> TableMetadata:
    columns = (ColumnMetadata(names[0], 1, "INT4", primary_key_position=1), ColumnMetadata(names[1], 2, "WSTRING", 20))
    return make_table(*columns, schema_id=str(number) * 32, table_version=number)


def current(work: Work) -> dict[Any, Any]:
    return {row["id"]: row["name"] for row in work.rows("shop", "kit") if row.get("_hs_current", True)}


@pytest.mark.parametrize("scd_type", TYPES)
@pytest.mark.parametrize("names", [("id", "NAME"), ("ID", "name"), ("ID", "Name")])
def test_a_column_renamed_in_case_alone_stays_the_column_that_it_is(
    tmp_path: Path, names: tuple[str, str], scd_type: Any
) -> None:
    work = make_work(tmp_path, scd_type=scd_type)
    old, new = respelled(1, "id", "name"), respelled(2, *names)
    work.send(metadata_message(old), data_message(old, make_change(1)), data_message(old, make_change(2)))
    key, name = names
    later = [
        replace(make_change(1, "UPDATE"), data={key: 1, name: "new"}, change_sequence=f"{11:035d}"),
        replace(
            make_change(2, "UPDATE"), data={key: 5, name: "moved"}, before={key: 2, name: "n2"}, change_sequence=f"{12:035d}"
        ),
        replace(make_change(3, "INSERT"), data={key: 3, name: "n3"}, change_sequence=f"{13:035d}"),
    ]
    work.send(metadata_message(new), *(data_message(new, one) for one in later))
    work.restart()
    work.send(data_message(old, make_change(2)), data_message(new, replace(later[2], change_sequence=f"{14:035d}")))
    assert work.processor.health.failing == {}
    assert current(work) == {1: "new", 5: "moved", 3: "n3"}
    columns = DeltaTable(str(work.config.tables / "shop" / "kit")).schema().fields
    assert [field.name for field in columns][:2] == ["id", "name"]
    told = work.rows("shop", "kit", tmp_path / "changes")
    assert sorted(row["name"] for row in told if row["_hs_operation"] == "UPDATE") == ["moved", "new"]
    assert {row["_hs_before_name"] for row in told} == {None, "n2"}
    work.close()


def test_a_column_renamed_in_case_alone_waits_where_the_policy_says_so(tmp_path: Path) -> None:
    work = make_work(tmp_path, on_column_renamed="park")
    old, new = respelled(1, "id", "name"), respelled(2, "id", "NAME")
    work.send(metadata_message(old), data_message(old, make_change(1)))
    work.send(metadata_message(new), data_message(new, replace(make_change(2), data={"id": 2, "NAME": "x"})))
    assert "column 'name' is now 'NAME', but on_column_renamed is park" in work.processor.health.failing["shop", "kit"].reason
    assert current(work) == {1: "n1"}
    work.close()


@pytest.mark.parametrize("scd_type", TYPES)
def test_a_key_that_is_no_number_is_refused_row_by_row(tmp_path: Path, scd_type: Any) -> None:
    work = make_work(tmp_path, scd_type=scd_type)
    nan = float("nan")
    rows = [make_change(1), replace(make_change(2), data={"id": nan, "name": "x"}), make_change(3)]
    rows += [
        replace(make_change(4, "UPDATE"), data={"id": 4.0, "name": "x"}, before={"id": nan, "name": "x"}),
        replace(make_change(5, "DELETE"), data={"id": nan}),
    ]
    work.send(metadata_message(MEASURED), *(data_message(MEASURED, row) for row in rows))
    assert work.processor.health.failing == {}
    assert current(work) == {1.0: "n1", 3.0: "n3"}
    reasons = {parked_batch.reason for parked_batch in work.ledger.parked_batches("dead")}
    assert reasons == {f"the key column 'id' {verb} NaN, which cannot identify a row" for verb in ("is", "was")}
    assert work.dead_count() == 3
    work.close()


@pytest.mark.parametrize("scd_type", TYPES)
def test_the_two_zeros_of_a_key_are_one_row(tmp_path: Path, scd_type: Any) -> None:
    work = make_work(tmp_path, scd_type=scd_type)
    for number, zero in enumerate((0.0, -0.0, 0.0, -0.0), start=1):
        row = replace(make_change(number, "UPDATE"), data={"id": zero, "name": f"n{number}"}, before={"id": -zero, "name": "x"})
        work.send(metadata_message(MEASURED), data_message(MEASURED, row))
    assert current(work) == {0.0: "n4"}
    work.close()


@pytest.mark.parametrize("settings", [{}, {"scd_type": 2}, {"deletes": "soft"}, {"scd_type": 2, "deletes": "soft"}])
def test_a_change_sequence_may_have_any_letters_in_it(tmp_path: Path, settings: dict[str, Any]) -> None:
    target = Target(tmp_path, load_gap_us=0, **settings)
    sequence = "2023' OR 'a'='a\\{}${{x}}"
    rows = [change("INSERT", 1, "a", at=1), change("INSERT", 2, "b", at=2), change("DELETE", 2, at=3)]
    rows += [change("UPDATE", 1, "late", at=0), change("UPDATE", 1, "last", at=5)]
    for place, row in enumerate(rows):
        number = row["_hs_offset"]
        target.apply({**row, "_hs_sequence": sequence.format(number), "_hs_logged_us": place})
    for place, row in enumerate((change("REFRESH", 3, "c"), change("INSERT", 4, "d", at=6))):
        given = {} if place == 0 else {"_hs_sequence": sequence.format(6)}
        target.apply({**row, **given, "_hs_logged_us": 100 + place})
    target.tables.remove_vanished_rows()
    target.forget(kept_us=0, now_us=10)
    stored = [row for row in target.stored() if row.get("_hs_current", True) and not row.get("_hs_deleted")]
    assert {row["ID"]: row["name"] for row in stored} == {3: "c", 4: "d"}


@pytest.mark.parametrize("mark", [".", " ", "-"])
def test_a_change_sequence_that_looks_like_that_of_a_load_is_refused(tmp_path: Path, mark: str) -> None:
    work = make_work(tmp_path)
    kit = make_table()
    odd = make_change(2, change_sequence=f"20230321{mark}0000000000000002")
    work.send(metadata_message(kit), *(data_message(kit, row) for row in (make_change(1), odd, make_change(3))))
    assert current(work) == {1: "n1", 3: "n3"}
    assert work.dead_count() == 1
    work.close()


def test_deletions_are_found_by_any_sequence_after_others_were_forgotten(tmp_path: Path) -> None:
    tombstones = Tombstones(tmp_path, ["ID"])
    sequences = {number: sequence(number) for number in range(1, 5)}
    keys, texts = pa.array(sequences, pa.int64()), list(sequences.values())
    tombstones.record(pa.table({"ID": keys, "_hs_sequence": texts, "_hs_delete": [True] * 4}))
    tombstones.prune(sequences[1])
    for at in range(5):
        found = tombstones.find(pa.table({"ID": keys, "_hs_sequence": [sequence(at)] * 4}))
        expected = {number: text for number, text in sequences.items() if number > max(at, 1)}
        assert dict(zip(found["ID"].to_pylist(), found["_hs_deletion"].to_pylist(), strict=True)) == expected


def test_quote_text_gives_a_backslash_by_its_number() -> None:
    assert quote_text("it's") == "'it''s'"
    assert quote_text("a\\b'") == "concat('a', chr(92), 'b''')"
