"""Columns of targets through the versions of a table: each keeps its name, whatever joins or leaves."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from headstream.replicate.codec import ColumnMetadata, TableMetadata, data_message
from headstream.replicate.schemas.target_columns import choose_columns
from headstream.replicate.settings.table_settings import TableSettings
from tests.support.replicate.replicate_messages import make_change, make_decoder, make_table, raw_messages, rows_of


def version(number: int, *names: str) -> TableMetadata:
    """A version of a table with the key `id` and some columns."""
    columns = [ColumnMetadata("id", 1, "INT4", primary_key_position=1)]
    columns += [ColumnMetadata(name, at, "WSTRING", 20) for at, name in enumerate(names, 2)]
    return make_table(*columns, schema_id=f"{number:032X}", table_version=number)


def names_of(*versions: TableMetadata, **settings: Any) -> list[dict[str, str]]:
    """Source column -> its name in the target, of each version."""
    found = []
    for number, metadata in enumerate(versions):
        chosen = choose_columns(metadata, TableSettings(**settings), versions[:number])
        found.append({source: name for name, source in chosen.sources.items() if source != "id"})
    return found


@pytest.mark.parametrize(
    ("versions", "names"),
    [
        ([("name", "NAME"), ("NAME",)], {"NAME": "NAME_2"}),
        ([("name", "NAME"), ("NAME",), ("Name", "NAME")], {"Name": "Name_3", "NAME": "NAME_2"}),
        ([("name",), ("NAME", "name")], {"name": "name", "NAME": "NAME_2"}),
        ([("name",), ("NAME",)], {"NAME": "NAME"}),
        ([("name",), ("NAME",), ("name", "NAME")], {"NAME": "NAME", "name": "name_2"}),
        ([("name",), (), ("NAME",)], {"NAME": "NAME_2"}),
        ([("name", "NAME"), ("NAME",), ("name", "NAME")], {"name": "name", "NAME": "NAME_2"}),
        ([("name", "NAME"), ("name",), ("name", "NAME_2")], {"name": "name", "NAME_2": "NAME_2_2"}),
        ([("a", "b"), ("b",), ("b", "a", "c")], {"a": "a", "b": "b", "c": "c"}),
    ],
)
def test_choose_columns_keeps_the_name_of_a_column_whatever_joins_or_leaves(
    versions: list[tuple[str, ...]], names: dict[str, str]
) -> None:
    assert names_of(*(version(number, *each) for number, each in enumerate(versions, 1)))[-1] == names


def test_choose_columns_numbers_no_column_when_the_other_one_is_not_wanted() -> None:
    versions = [version(1, "name", "NAME"), version(2, "name", "NAME", "more")]
    assert names_of(*versions, exclude_columns=("name",)) == [{"NAME": "NAME"}, {"NAME": "NAME", "more": "more"}]
    assert names_of(*versions, rename_columns={"NAME": "title"})[1] == {"name": "name", "NAME": "title", "more": "more"}


@pytest.mark.parametrize("seed", range(50))
def test_choose_columns_gives_no_name_to_two_columns_of_any_history(seed: int) -> None:
    random = Random(seed)
    pool = ["ab", "Ab", "AB", "ab_2", "AB_3", "c"]
    versions, owners = [version(1, *random.sample(pool, 3))], dict[str, str]()
    for number in range(2, 12):
        here = [column.name for column in versions[-1].columns[1:]]
        here = [name for name in here if random.random() > 0.2]
        joined = [
            name
            for name in pool
            if random.random() < 0.3
            and all(name.lower() != other.lower() or other in here for other in [column.name for column in versions[-1].columns])
        ]
        here += [name for name in joined if name not in here]
        random.shuffle(here)
        versions.append(version(number, *here))
    for names in names_of(*versions):
        assert len({name.lower() for name in names.values()}) == len(names)
        for source, name in names.items():
            assert owners.setdefault(name.lower(), source) == source


def test_decoder_writes_a_column_to_its_own_place_when_one_that_differs_in_case_was_dropped(tmp_path: Path) -> None:
    versions = [version(1, "name", "NAME"), version(2, "NAME")]
    decoder = make_decoder(tmp_path, *versions)
    values = [
        data_message(versions[0], make_change(1, data={"id": 1, "name": "a", "NAME": "b"})),
        data_message(versions[1], make_change(2, data={"id": 1, "NAME": "c"})),
    ]
    rows = rows_of(decoder.decode(raw_messages(values)))
    assert [(row.get("name"), row["NAME_2"]) for row in rows] == [("a", "b"), (None, "c")]
