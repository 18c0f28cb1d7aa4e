"""Notes of errors in executors: what was done, and to which messages."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from headstream.replicate.columns.raw import CHANGE_COORDINATES, COORDINATE_COLUMNS
from headstream.replicate.columns.task_errors import naming_messages


def places(names: tuple[str, ...], *found: tuple[str, int, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(names, place, strict=True)) for place in found])


def notes(step: str, *rows: pa.Table, **options: Any) -> list[str]:
    with pytest.raises(KeyError) as caught, naming_messages(step, *rows, **options):
        raise KeyError("lost")
    assert caught.value.args == ("lost",)
    return caught.value.__notes__


def test_an_error_names_each_partition_with_the_range_of_its_offsets() -> None:
    parts = [
        places(CHANGE_COORDINATES, ("cdc/data", 2, 9), ("cdc/data", 1, 7), ("cdc/other", 1, 3)),
        places(CHANGE_COORDINATES, ("cdc/data", 1, 4), ("cdc/data", 2, 9)),
    ]
    assert notes("joining changes of SHOP.orders, bucket 3", *parts) == [
        "while joining changes of SHOP.orders, bucket 3: cdc/data partition 1, offsets 4 to 7",
        "while joining changes of SHOP.orders, bucket 3: cdc/data partition 2, offsets 9 to 9",
        "while joining changes of SHOP.orders, bucket 3: cdc/other partition 1, offsets 3 to 3",
    ]


def test_an_error_names_no_more_partitions_than_people_read() -> None:
    rows = places(COORDINATE_COLUMNS, *(("cdc/data", partition, 1) for partition in range(30)))
    found = notes("decoding", rows, columns=COORDINATE_COLUMNS)
    assert (found[0], found[-1]) == (
        "while decoding: cdc/data partition 0, offsets 1 to 1",
        "while decoding: messages of 10 further partitions",
    )
    assert len(found) == 21


def test_an_error_without_messages_names_the_step() -> None:
    assert notes("reading stored rows of SHOP.orders") == ["while reading stored rows of SHOP.orders"]
    assert notes("folding", places(CHANGE_COORDINATES, ("t", 1, 1)).slice(0, 0)) == ["while folding"]
