"""Histories of a table that is partitioned by columns of every type that a table can be, with values that paths spell badly.

Engines merge in turn, with maintenance in between; after each step the table's rows are those of a model.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable

from headstream.replicate.apply.tombstones import Tombstones
from headstream.replicate.apply.type1.merge import Scd1Table
from headstream.replicate.apply.type2.events import read_events
from headstream.replicate.apply.type2.merge import Scd2Table
from headstream.replicate.codec import ColumnMetadata, Lineage, TableMetadata, target_type
from headstream.replicate.columns.changes import BOOKKEEPING, OLD_PREFIX, OPERATIONS
from headstream.replicate.columns.conversion import arrow_type
from headstream.replicate.engines.engine import TableEngine
from tests.support.replicate.change_tables import sequence

OpenEngine = Callable[[], TableEngine]

TEXTS: Final = (
    "Zürich", "日本", "😀", "e\u0301", "\x85", "\u2028", "a b", " ", "a ", "a/b", "a:b", "x=y", "ß#?", "'q\"", "a\\b", "[x]",
    "{y}", "a|b^*<>", "${x}", "%", "%zz", "a%20b", "Z%C3%BCrich", "\x01\t\r\n\x7f", ".", "..", "null", "true", "01", "1.0",
    "2024-02-29", "a" * 240, "ü" * 41, "_hs_current=true", "!&;,$@+",
)  # fmt: skip
VALUES: Final[dict[str, tuple[Any, ...]]] = {
    "tiny": (-128, 0, 127),
    "whole": (-(2**31), 2**31 - 1),
    "long": (-(2**63), 2**63 - 1, 0),
    "unsigned": (Decimal(0), Decimal(2**64 - 1)),
    "number": (Decimal(-5), Decimal("-" + "9" * 38), Decimal("9" * 38)),
    "flag": (True, False),
    "day": (date(1, 1, 1), date(1582, 10, 4), date(1969, 12, 31), date(9999, 12, 31)),
    "moment": (
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 500_000, UTC),
        datetime(2024, 3, 31, 1, 30, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
    ),
    "city": TEXTS,
}
"""Columns that the table can be partitioned by, and values of them; each can be null."""
_TYPES: Final = ("INT1", "INT4", "INT8", "UINT8", "NUMERIC", "BOOLEAN", "DATE", "DATETIME", "WSTRING")
_GROWS: Final = ("SMALLINT", "INT", "BIGINT", "DECIMAL(20,0)")
_KEYS: Final = 8


class PartitionHistory:
    """One table and its model.

    Args:
        directory: Where the table and its tombstones are.
        seed: Of all choices.
        open_engine: Opens the table by the engine whose turn it is.
        scd_type: 1 or 2.
        partition_by: Some columns of VALUES.
        city_is_key: Whether the column `city` is part of the key.
    """

    def __init__(
        self,
        directory: Path,
        seed: int,
        open_engine: OpenEngine,
        *,
        scd_type: int = 1,
        partition_by: Sequence[str] = tuple(VALUES),
        city_is_key: bool = False,
    ) -> None:
        self._directory = directory
        self._open = open_engine
        self._rng = random.Random(seed)
        self._scd_type = scd_type
        self._partition_by = partition_by
        self._city_is_key = city_is_key
        columns = [ColumnMetadata("ID", 1, "INT8", 0, 0, 0, 1, False)]
        for ordinal, (name, kind) in enumerate(zip(VALUES, _TYPES, strict=True), start=2):
            is_key = int(city_is_key and name == "city") * 2
            columns.append(ColumnMetadata(name, ordinal, kind, 0, 38 if kind == "NUMERIC" else 0, 0, is_key))
        columns.append(ColumnMetadata("counter", len(columns) + 1, "INT2"))
        lineage = Lineage("s", "task", "shop", "orders", 1, "")
        self._metadata = TableMetadata("8FB9D3C10EA4B25751DF9CC8318F0A02", lineage, tuple(columns), "{}")
        self._types = {column.name: target_type(column) for column in columns}
        self._unit = 0
        self._versions: dict[str, tuple[Any, ...]] = {}
        """Sequence -> the row that the change made."""
        self._current: dict[tuple[Any, ...], str] = {}
        """Key -> the sequence of its row."""
        self._cities: dict[int, str] = {}

    def run(self, steps: int, maintenance: float = 0.6) -> None:
        """Merge batches of changes, with maintenance after some of them, and compare after each step."""
        for _ in range(steps):
            numbers = self._rng.sample(range(1000), self._rng.randint(1, 8))  # a source numbers each change differently
            self._merge([self._change(number) for number in numbers])
            if self._rng.random() < maintenance:
                self._maintain()
            self.compare(self._open())

    def compare(self, engine: TableEngine) -> None:
        """Compare what an engine reads with the model."""
        columns = [*self._types, "_hs_sequence" if self._scd_type == 1 else "_hs_valid_from"]
        self._equal(engine.read(columns, "TRUE").to_pylist(), columns[-1])

    def compare_by_pyarrow(self) -> None:
        """Compare what pyarrow reads with the model."""
        column = "_hs_sequence" if self._scd_type == 1 else "_hs_valid_from"
        path = self._directory / "t"
        self._equal(DeltaTable(str(path)).to_pyarrow_table(columns=[*self._types, column]).to_pylist(), column)

    def _equal(self, rows: list[dict[str, Any]], sequence_column: str) -> None:
        expected = self._versions if self._scd_type == 2 else {at: self._versions[at] for at in self._current.values()}
        found = [(row[sequence_column], tuple(row[name] for name in self._types)) for row in rows]
        assert sorted(found) == sorted(expected.items())

    def _change(self, number: int) -> dict[str, Any]:
        at = sequence(self._unit * 1000 + number)
        key = self._rng.randrange(_KEYS)
        row: dict[str, Any] = {"ID": key, "counter": self._rng.randrange(100)}
        for name, values in VALUES.items():
            row[name] = self._rng.choice([None, *values] if name != "city" else values)
        if self._city_is_key:
            row["city"] = self._cities.setdefault(key, row["city"])
        return row | {"_hs_sequence": at}

    def _merge(self, rows: list[dict[str, Any]]) -> None:
        rows.sort(key=lambda row: row["_hs_sequence"])
        changes = []
        for row in rows:
            key = tuple(row[name] for name in self._metadata.key_columns)
            is_there = key in self._current
            operation = "INSERT" if not is_there else "DELETE" if self._rng.random() < 0.2 else "UPDATE"
            at = row["_hs_sequence"]
            if operation == "DELETE":
                del self._current[key]
            else:
                self._current[key] = at
                self._versions[at] = tuple(row[name] for name in self._types)
            olds = {f"{OLD_PREFIX}{name}": None for name in self._metadata.key_columns}
            coordinates = {"_hs_topic": "cdc/data", "_hs_partition": 1, "_hs_offset": int(at[16:]), "_hs_logged_us": 0}
            changes.append(row | olds | coordinates | {"_hs_operation": OPERATIONS.index(operation)})
        self._unit += 1
        keys = list(self._metadata.key_columns)
        fields = [pa.field(name, arrow_type(kind)) for name, kind in self._types.items()] + BOOKKEEPING
        fields += [pa.field(f"{OLD_PREFIX}{key}", arrow_type(self._types[key])) for key in keys]
        table = pa.Table.from_pylist(changes, schema=pa.schema(fields))
        if self._scd_type == 2:
            history = Scd2Table(self._open(), keys, self._partition_by, memory=self._directory / "memory")
            history.prepare(self._types)
            history.merge(read_events(table, self._metadata, list(self._types)), "test", self._unit)
        else:
            current = Scd1Table(
                self._open(), keys, Tombstones(self._directory / "tombstones", keys), partition_by=self._partition_by
            )
            current.prepare(self._types)
            current.merge(current.collapse(table, self._metadata), "test", self._unit)

    def _maintain(self) -> None:
        engine = self._open()
        step = self._rng.choice(["compact", "cluster", "vacuum", "widen"])
        if step == "compact":
            engine.compact()
        elif step == "cluster":
            engine.compact(["ID"])
        elif step == "vacuum":
            engine.vacuum(0)
        else:
            place = min(_GROWS.index(self._types["counter"]) + 1, len(_GROWS) - 1)
            if self._types["counter"] != _GROWS[place]:
                engine.widen({"counter": _GROWS[place]})
                self._types["counter"] = _GROWS[place]
