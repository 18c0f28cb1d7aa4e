"""The tables of a small source that is loaded again and again, what its histories have in them, and what its messages say."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from headstream.replicate.codec import ColumnMetadata, Lineage, TableMetadata, data_schema

LOAD_GAP_US: Final = 1_000_000
MS_US: Final = 1_000
START_US: Final = 1_700_000_000_000_000
MOST_KEYS: Final = 7
"""Keys of a table: few, so that they are used again and again."""

Row: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a history has in it; drawn by the seed where it is not given.

    Args:
        partitions: Partitions of the log.
        routing: By what messages are spread over them.
        evolves: Whether the columns of `t` change.
        partial: Whether updates leave columns out.
        key_changes: Whether keys change, and whether such a change leaves columns out.
        shifts: Whether all keys are shifted, or two swapped, within a transaction.
        resends: Whether the log has some messages twice.
        unseen: Whether the source changes without a capture before a load.
        fuzzy: Whether a load's rows are as they are when each is read.
        late_metadata: Whether metadata may come long after the data.
        overtaken: Whether it may even come after later loads; only where it is given.
        bare_json: Whether some messages are JSON without an envelope.
        flat: Whether some messages are of the flat JSON form before version 6, which has no masks and no event numbers.
        registry: Whether all messages have a schema registry's framing, so that no metadata is in the log.
        keyless: Whether the table without a key is there.
        ties: Whether a change may be logged in the very millisecond of a load's last row.
        abandoned: Whether the last loads of a table may begin and never end; its rows are then those that the model tells.
        repeats: Whether a producer sends stretches of a partition again, rows of loads among them, perhaps loads later; the rows
            of all tables are then those that the model tells.
        steps: Loads and stretches of changes after the first loads.
    """

    partitions: int
    routing: Literal["random", "key", "table"]
    evolves: bool
    partial: bool
    key_changes: Literal["none", "whole", "partial"]
    shifts: bool
    resends: bool
    unseen: bool
    fuzzy: bool
    late_metadata: bool
    overtaken: bool
    bare_json: bool
    flat: bool
    registry: bool
    keyless: bool
    ties: bool
    abandoned: bool
    repeats: bool
    steps: int

    @classmethod
    def draw(cls, random: Random, forms: Random, ends: Random, **given: Any) -> Scenario:
        """Return a scenario whose other fields are drawn.

        The forms of messages by `forms`, last loads that never end and repeats by `ends`, all else by `random`.
        """
        drawn: dict[str, Any] = {
            "partitions": random.randint(1, 4),
            "routing": random.choice(["random", "key", "table"]),
            "evolves": random.random() < 0.4,
            "partial": random.random() < 0.6,
            "key_changes": random.choice(["none", "whole", "whole", "partial"]),
            "shifts": random.random() < 0.3,
            "resends": random.random() < 0.4,
            "unseen": random.random() < 0.7,
            "fuzzy": random.random() < 0.5,
            "late_metadata": random.random() < 0.4,
            "bare_json": random.random() < 0.2,
            "keyless": random.random() < 0.5,
            "ties": random.random() < 0.3,
            "steps": random.randint(2, 6),
            "overtaken": False,
            "registry": forms.random() < 0.15,
            "flat": forms.random() < 0.25,
            "abandoned": ends.random() < 0.4,
            "repeats": ends.random() < 0.4,
        } | given
        if drawn["key_changes"] == "partial":  # what a row read late says of other columns is not what the change left out
            drawn["fuzzy"] = False
        if drawn["registry"]:
            drawn["bare_json"] = drawn["flat"] = drawn["late_metadata"] = False
        if drawn["bare_json"] or drawn["flat"]:  # such a message is read by its table's newest schema, whichever that is
            drawn["evolves"] = False
        return cls(**drawn)


class Fact(NamedTuple):
    """What a data message says.

    `values` are the columns that it carries, `columns` all of its schema; `load` counts the loads of its table from 1, and
    `transaction` the transactions of the source; both are 0 where there is none. `idle` is an update whose change mask says that
    it changed nothing.
    """

    table: str
    operation: str
    sequence: str
    key: Key
    before: Key | None
    values: Row
    columns: tuple[str, ...]
    load: int
    logged_us: int
    transaction: int
    idle: bool


@dataclass(slots=True)
class LogMessage:
    """A message in the log; `fact` is None for metadata, which has the table and the columns that it describes."""

    partition: int
    logged_us: int
    value: bytes
    fact: Fact | None
    key: bytes | None = None
    offset: int = -1
    describes: tuple[str, tuple[str, ...]] | None = None


@dataclass(frozen=True, slots=True)
class History:
    """A log by partition, and what the source has at its end.

    Args:
        seed: That it was drawn by.
        scenario: What the history contains.
        partitions: Messages by partition, each in the order of its offsets.
        rows: Table -> its rows at the end, by key; of `n` by a number. Of abandoned loads and repeats as the model tells them.
        columns: Table -> its columns at the end.
        keys: Table -> its key columns.
        schemas: Number -> Avro schema, of the registry that messages with its framing name.
    """

    seed: int
    scenario: Scenario
    partitions: list[list[LogMessage]]
    rows: dict[str, dict[Key, Row]]
    columns: dict[str, tuple[str, ...]]
    keys: dict[str, tuple[str, ...]]
    schemas: dict[int, str]

    @property
    def metadata_count(self) -> int:
        """How many of the messages are metadata."""
        return sum(message.fact is None for part in self.partitions for message in part)

    @property
    def facts(self) -> list[Fact]:
        """What all data messages say, in no order that means anything."""
        return [message.fact for part in self.partitions for message in part if message.fact is not None]


def _column(name: str, ordinal: int, kind: str, key: int = 0) -> ColumnMetadata:
    return ColumnMetadata(name, ordinal, kind, 20, 0, 0, key, nullable=not key)


T_COLUMNS: Final = (("id", "INT8", 1), ("a", "INT4", 0), ("b", "WSTRING", 0), ("c", "INT4", 0))
T_LATER: Final = (
    (*T_COLUMNS, ("d", "INT4", 0)),
    (("id", "INT8", 1), ("a", "INT8", 0), ("b", "WSTRING", 0), ("c", "INT4", 0)),
    (("id", "INT8", 1), ("a", "INT4", 0), ("b", "WSTRING", 0)),
    (("id", "INT8", 1), ("a", "INT8", 0), ("b", "WSTRING", 0), ("e", "INT4", 0), ("d", "WSTRING", 0)),
)
U_COLUMNS: Final = (("x", "WSTRING", 1), ("y", "INT4", 2), ("v", "INT4", 0), ("w", "WSTRING", 0))
N_COLUMNS: Final = (("p", "INT4", 0), ("q", "WSTRING", 0))


@dataclass(slots=True)
class LoadedTable:
    """One table of the source while its history is drawn."""

    name: str
    versions: list[TableMetadata]
    form: Literal["avro", "json"]
    rows: dict[Key, Row] = field(default_factory=dict)
    version: int = 0
    loads: int = 0
    next_row: int = 0

    @property
    def metadata(self) -> TableMetadata:
        return self.versions[self.version]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.metadata.columns)

    @property
    def keys(self) -> tuple[str, ...]:
        return self.metadata.key_columns

    def values(self, random: Random) -> Row:
        """New values of all columns that are not in the key."""
        kinds = {column.name: column.type for column in self.metadata.columns if not column.primary_key_position}
        self.next_row += 1
        return {name: _value(kind, self.next_row, random) for name, kind in kinds.items()}

    def free_keys(self) -> list[Key]:
        if not self.keys:
            return [(self.next_row,)]
        return [key for key in map(self.key_at, range(MOST_KEYS)) if key not in self.rows]

    def key_at(self, number: int) -> Key:
        return (number,) if self.name == "t" else ("xyz'"[number % 4], number)


def _value(kind: str, number: int, random: Random) -> Any:
    if random.random() < 0.15:
        return None
    return f"{kind[0]}'{number}" if kind == "WSTRING" else number


def make_table(random: Random, name: str, shapes: Iterable[tuple[tuple[str, str, int], ...]]) -> LoadedTable:
    versions = []
    for number, shape in enumerate(shapes, start=1):
        columns = tuple(_column(column, place, kind, key) for place, (column, kind, key) in enumerate(shape, start=1))
        schema_id = hashlib.md5(f"{name} {number}".encode(), usedforsecurity=False).hexdigest().upper()
        lineage = Lineage("source", "task", "shop", name, number, "")
        versions.append(TableMetadata(schema_id, lineage, columns, data_schema(columns, logical_types=True)))
    return LoadedTable(name, versions, random.choice(["avro", "json"]))
