"""Key indexes: the rows that a scan of the keys finds, whatever their types; without or with a damaged index it is the same."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headstream.replicate.engines import key_index
from headstream.replicate.engines.key_index import KeyIndex, SearchedKeys, find_rows

KINDS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "number": (pa.int64(), lambda n: n * (-1) ** n << 40),
    "small": (pa.int32(), lambda n: n - 20),
    "text": (pa.string(), lambda n: f"key-{n}é"),
    "bytes": (pa.binary(), lambda n: bytes([n])),
    "date": (pa.date32(), lambda n: datetime.date(1960, 1, 1) + datetime.timedelta(n * 200)),
    "time": (
        pa.timestamp("us", "UTC"),
        lambda n: datetime.datetime(1960, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(n * 200),
    ),
    "decimal": (pa.decimal128(10, 2), lambda n: Decimal(n - 20) / 4),
    "flag": (pa.bool_(), lambda n: n % 2 == 0),
}


def keys_of(numbers: list[int | None], columns: tuple[str, ...]) -> pa.Table:
    """Keys of one or several columns; of several, each pair occurs once only."""
    made = {}
    for place, name in enumerate(columns):
        kind, value = KINDS[name]
        parts = [None if n is None else n if len(columns) == 1 else (n // 7, n % 7)[place % 2] for n in numbers]
        made[f"{name} {place}"] = pa.array([None if part is None else value(part) for part in parts], kind)
    return pa.table(made)


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("columns", [*((name,) for name in KINDS if name != "flag"), ("small", "text"), ("date", "decimal")])
def test_find_rows_finds_each_row_with_a_sought_key(
    tmp_path: Path, columns: tuple[str, ...], index: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(len(columns))
    for number in range(20):
        monkeypatch.setattr(key_index, "_LEAST_FILTERED", 1 if number < 10 else 256)
        stored: list[int | None] = rng.sample(
            [*range(49)] * 2, rng.choice([0, 5, 80])
        )  # a deleted row and a live one share a key
        stored += [None] * (number % 2)
        searched: list[int | None] = rng.sample(range(49), rng.choice([0, 3, 49]))
        searched += [None] * (number % 3 == 0)
        known = KeyIndex(tmp_path if index else None, "table", 1 << 20)
        keys = keys_of(stored, columns)
        built = known.build(f"file {number}", keys)
        read = KeyIndex(tmp_path, "table", 1 << 20).find(f"file {number}", len(stored), keys.column_names)
        assert (read is not None) == index
        places = {key: place for place, key in enumerate(searched) if key is not None}
        expected = [(place, places[key]) for place, key in enumerate(stored) if key in places]
        for file in (built, *([read] if read is not None else [])):
            positions, rows = find_rows(file, SearchedKeys(keys_of(searched, columns)))
            assert list(zip(positions.tolist(), rows.tolist(), strict=True)) == expected


def test_find_rows_compares_the_keys_themselves_when_hashes_collide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "_numbers", lambda keys: np.full(keys.num_rows, 7, np.uint64))
    keys = KeyIndex(tmp_path, "table", 1 << 20).build("file", keys_of([3, 1, 2], ("text",)))
    positions, rows = find_rows(keys, SearchedKeys(keys_of([9, 2, 3], ("text",))))
    assert (positions.tolist(), rows.tolist()) == ([0, 2], [2, 1])


@pytest.mark.parametrize("damage", ["cut", "bit", "empty", "none"])
def test_find_gives_no_index_that_is_damaged_or_of_other_rows(tmp_path: Path, damage: str) -> None:
    KeyIndex(tmp_path, "table", 1 << 20).build("file", keys_of([3, 1, 2], ("number",)))
    (file,) = tmp_path.rglob("*.keys")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes({"cut": bytes(content[:-9]), "bit": bytes(content), "empty": b"", "none": file.read_bytes()}[damage])
    index = KeyIndex(tmp_path, "table", 1 << 20)
    assert index.find("file", 4 if damage == "none" else 3, ["number 0"]) is None


def test_index_is_bounded_and_loses_what_is_of_no_present_file(tmp_path: Path) -> None:
    keys = keys_of([*range(40)], ("number",))
    index = KeyIndex(tmp_path, "table", 64 * 1024)
    for number in range(100):
        index.build(f"file {number}", keys)
    count = len(list(tmp_path.rglob("*.keys")))
    assert 20 < count < 90
    assert index.size_bytes <= 64 * 1024
    index.keep(["file 1", "file 99"], keys.column_names)
    assert index.find("file 1", 40, keys.column_names) is not None
    assert index.find("file 0", 40, keys.column_names) is None
    index.build("file 99", keys)
    assert KeyIndex(tmp_path, "table", 0).find("file 99", 40, keys.column_names) is not None
