"""Histories of a small source that is loaded again and again, as its log holds them; drawn to find what a pipeline gets wrong.

    table t   id | a b c, its columns change half-way in some histories
    table u   x y | v w, a key of two columns
    table n   p q, no key: rows are only inserted and loaded

A history is a log of several partitions, each with rising log times, and the source's rows at its end. Between two of its steps
the log is quiet for longer than LOAD_GAP_US, so that it is plain where a load begins:

    load       perhaps after changes that were never captured; perhaps cut off and begun again, or given up; changes of all
               tables go on meanwhile; rows are read as they were when it began, or as they are when each is read
    changes    transactions over all tables: inserts, whole and partial updates, updates of nothing, deletions, deletions
               followed by inserts, changes of key, all keys shifted by one, two keys swapped

A load's last row is followed by a change of its table, which says that the load is over. `Fact` is what a message says, for
load_model.py, which tells from the facts alone what the tables must come to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from headstream.codec.json_text import encode_json
from headstream.codec.replicate import (
    Change,
    ColumnMetadata,
    Lineage,
    TableMetadata,
    data_message,
    data_schema,
    metadata_message,
)

__all__ = ["LOAD_GAP_US", "Fact", "History", "LogMessage", "Traits", "draw_history"]

LOAD_GAP_US: Final = 1_000_000
_MS: Final = 1_000
_START_US: Final = 1_700_000_000_000_000
_KEYS: Final = 7
"""Keys of a table: few, so that they are used again and again."""

Row: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Traits:
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
        bare_json: Whether some messages are JSON without an envelope.
        keyless: Whether the table without a key is there.
        ties: Whether a change may be logged in the very millisecond of a load's last row.
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
    bare_json: bool
    keyless: bool
    ties: bool
    steps: int

    @classmethod
    def draw(cls, random: Random, **given: Any) -> Traits:
        """Return traits, those that are not given drawn."""
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
        } | given
        if drawn["key_changes"] == "partial":  # what a row read late says of other columns is not what the change left out
            drawn["fuzzy"] = False
        if drawn["bare_json"]:  # such a message is read by its table's newest schema, whichever that is
            drawn["evolves"] = False
        return cls(**drawn)


class Fact(NamedTuple):
    """What a data message says.

    `values` are the columns that it carries, `columns` all of its schema; `load` counts the loads of its table from 1, and
    `transaction` the transactions of the source; both are 0 where there is none.
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


@dataclass(slots=True)
class LogMessage:
    """A message in the log; `fact` is None for metadata."""

    partition: int
    logged_us: int
    value: bytes
    fact: Fact | None
    offset: int = -1


@dataclass(frozen=True, slots=True)
class History:
    """A log by partition, and what the source has at its end.

    Args:
        seed: That it was drawn by.
        traits: What it has in it.
        partitions: Messages by partition, each in the order of its offsets.
        rows: Table -> its rows at the end, by key; of `n` by a number.
        columns: Table -> its columns at the end.
        keys: Table -> its key columns.
    """

    seed: int
    traits: Traits
    partitions: list[list[LogMessage]]
    rows: dict[str, dict[Key, Row]]
    columns: dict[str, tuple[str, ...]]
    keys: dict[str, tuple[str, ...]]

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


_T: Final = (("id", "INT8", 1), ("a", "INT4", 0), ("b", "WSTRING", 0), ("c", "INT4", 0))
_T_LATER: Final = (
    (*_T, ("d", "INT4", 0)),
    (("id", "INT8", 1), ("a", "INT8", 0), ("b", "WSTRING", 0), ("c", "INT4", 0)),
    (("id", "INT8", 1), ("a", "INT4", 0), ("b", "WSTRING", 0)),
    (("id", "INT8", 1), ("a", "INT8", 0), ("b", "WSTRING", 0), ("e", "INT4", 0), ("d", "WSTRING", 0)),
)
_U: Final = (("x", "WSTRING", 1), ("y", "INT4", 2), ("v", "INT4", 0), ("w", "WSTRING", 0))
_N: Final = (("p", "INT4", 0), ("q", "WSTRING", 0))


@dataclass(slots=True)
class _Table:
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
        return [key for key in map(self.key_at, range(_KEYS)) if key not in self.rows]

    def key_at(self, number: int) -> Key:
        return (number,) if self.name == "t" else ("xyz'"[number % 4], number)


def _value(kind: str, number: int, random: Random) -> Any:
    if random.random() < 0.15:
        return None
    return f"{kind[0]}'{number}" if kind == "WSTRING" else number


def _make_table(random: Random, name: str, shapes: Iterable[tuple[tuple[str, str, int], ...]]) -> _Table:
    versions = []
    for number, shape in enumerate(shapes, start=1):
        columns = tuple(_column(column, place, kind, key) for place, (column, kind, key) in enumerate(shape, start=1))
        schema_id = hashlib.md5(f"{name} {number}".encode(), usedforsecurity=False).hexdigest().upper()
        lineage = Lineage("source", "task", "shop", name, number, "")
        versions.append(TableMetadata(schema_id, lineage, columns, data_schema(columns, logical_types=True)))
    return _Table(name, versions, random.choice(["avro", "json"]))


def draw_history(seed: int, **given: Any) -> History:
    """Return the history of a seed.

    Args:
        seed: Any.
        given: Traits that are not to be drawn.
    """
    random = Random(seed)
    traits = Traits.draw(random, **given)
    source = _Source(random, traits)
    source.live()
    tables = source.tables.values()
    return History(
        seed,
        traits,
        source.partitions(),
        {table.name: table.rows for table in tables},
        {table.name: table.columns for table in tables},
        {table.name: table.keys for table in tables},
    )


class _Source:
    """The source, its capture and the log."""

    def __init__(self, random: Random, traits: Traits) -> None:
        self.random, self.traits = random, traits
        shapes = [_T, random.choice(_T_LATER)] if traits.evolves else [_T]
        made = [_make_table(random, "t", shapes), _make_table(random, "u", [_U])]
        made += [_make_table(random, "n", [_N])] if traits.keyless else []
        self.tables = {table.name: table for table in made}
        self._log: list[LogMessage] = []
        self._now_us = _START_US
        self._change_number = 0
        self._transaction = 0

    def partitions(self) -> list[list[LogMessage]]:
        """The log by partition, with offsets."""
        parts: list[list[LogMessage]] = [[] for _ in range(self.traits.partitions)]
        for message in sorted(self._log, key=lambda message: message.logged_us):
            message.offset = len(parts[message.partition])
            parts[message.partition].append(message)
        return parts

    def live(self) -> None:
        random = self.random
        for table in self.tables.values():
            self._publish(table)
        loaded = [table for table in self.tables.values() if random.random() < 0.7]
        for table in random.sample(loaded, len(loaded)):
            for _ in range(random.randint(1, _KEYS - 1)):
                self._insert(table)
            self._load(table)
        alter_at = random.randint(0, self.traits.steps) if self.traits.evolves else -1
        for step in range(self.traits.steps):
            if step == alter_at:
                self._alter(self.tables["t"])
            if random.random() < 0.6:
                self._load(random.choice(list(self.tables.values())))
            else:
                self._changes(random.randint(1, 6))
        if alter_at == self.traits.steps:
            self._alter(self.tables["t"])
        self._rest()
        for table in self.tables.values():  # says of each that its last load is over
            self._transact([partial(self._insert, table)])

    def _rest(self) -> None:
        """Let everything that is under way reach the log, and then be quiet for longer than the gap."""
        latest = max((message.logged_us for message in self._log if message.logged_us < _START_US * 2), default=0)
        self._now_us = max(self._now_us, latest) + 3 * LOAD_GAP_US

    def _publish(self, table: _Table) -> None:
        delays = [0, 0, 2, 6, 15, 40] if self.traits.late_metadata else [0]
        at = self._now_us + self.random.choice(delays) * LOAD_GAP_US
        value = metadata_message(table.metadata, form=table.form)
        self._log.append(LogMessage(self.random.randrange(self.traits.partitions), at, value, None))

    def _alter(self, table: _Table) -> None:
        table.version += 1
        table.rows = {key: {name: row.get(name) for name in table.columns} for key, row in table.rows.items()}
        self._publish(table)

    # what happens to rows; each returns the drafts of messages

    def _put(self, table: _Table, key: Key) -> Key:
        """Put a row into a table without a word."""
        row = table.values(self.random)
        table.rows[key] = row | (dict(zip(table.keys, key, strict=True)) if table.keys else {})
        return key

    def _insert(self, table: _Table) -> list[_Draft]:
        free = table.free_keys()
        if not free:
            return self._delete(table)
        key = self._put(table, self.random.choice(free))
        return [_Draft(table, "INSERT", None, table.rows[key], key, None)]

    def _delete(self, table: _Table) -> list[_Draft]:
        if not table.rows or not table.keys:
            return self._insert(table)
        key = self.random.choice(list(table.rows))
        return [_Draft(table, "DELETE", table.rows.pop(key), None, key, None)]

    def _update(self, table: _Table) -> list[_Draft]:
        if not table.rows or not table.keys:
            return self._insert(table)
        key = self.random.choice(list(table.rows))
        before = table.rows[key]
        names = self.random.sample(list(table.values(Random(0))), self.random.randint(0, 2))
        fresh = table.values(self.random)
        table.rows[key] = before | {name: fresh[name] for name in names}
        return [_Draft(table, "UPDATE", before, table.rows[key], key, None)]

    def _replace(self, table: _Table) -> list[_Draft]:
        drafts = self._delete(table)
        if drafts[0].operation == "DELETE":
            key = self._put(table, drafts[0].key)
            drafts.append(_Draft(table, "INSERT", None, table.rows[key], key, None))
        return drafts

    def _move(self, table: _Table) -> list[_Draft]:
        free = table.free_keys() if table.keys else []
        if self.traits.key_changes == "none" or not table.rows or not free:
            return self._update(table)
        return [self._moved(table, self.random.choice(list(table.rows)), self.random.choice(free))]

    def _moved(self, table: _Table, old: Key, new: Key) -> _Draft:
        before = table.rows.pop(old)
        fresh = table.values(self.random)
        names = self.random.sample(list(fresh), self.random.randint(0, 1))
        after = before | dict(zip(table.keys, new, strict=True)) | {name: fresh[name] for name in names}
        table.rows[new] = after
        return _Draft(table, "UPDATE", before, after, new, old)

    def _shift(self, table: _Table) -> list[_Draft]:
        """Give every row the next key, or swap two: in one transaction, so that a key is left after it was taken."""
        if not self.traits.shifts or self.traits.key_changes == "none" or len(table.rows) < 2 or not table.keys:
            return self._move(table)
        numbers = {table.key_at(number): number for number in range(2 * _KEYS)}
        keys = sorted(table.rows, key=numbers.__getitem__)
        if self.random.random() < 0.5:
            first, second = self.random.sample(keys, 2)
            pairs = [(first, second), (second, first)]
        else:
            pairs = [(key, table.key_at((numbers[key] + 1) % (2 * _KEYS))) for key in keys]
        old = {key: table.rows[key] for key, _ in pairs}
        for key, _ in pairs:
            del table.rows[key]
        drafts = []
        for key, new in pairs:
            after = old[key] | dict(zip(table.keys, new, strict=True))
            table.rows[new] = after
            drafts.append(_Draft(table, "UPDATE", old[key], after, new, key))
        return drafts

    def _changes(self, count: int, *, without: _Table | None = None) -> None:
        tables = [table for table in self.tables.values() if table is not without]
        verbs = [self._insert, self._update, self._update, self._delete, self._replace, self._move, self._shift]
        for _ in range(count):
            chosen = [(self.random.choice(verbs), self.random.choice(tables)) for _ in range(self.random.randint(1, 3))]
            self._transact([partial(verb, table) for verb, table in chosen])
            self._now_us += self.random.randint(1, 50) * _MS

    def _load(self, table: _Table) -> None:
        """Load a table again, once everything captured of it has reached the log."""
        random, traits = self.random, self.traits
        self._rest()
        self._changes(random.randint(0, 3), without=table)
        if traits.unseen:
            self._change_unseen(table)
        if not table.rows:
            self._put(table, table.free_keys()[0])
        table.loads += 1
        snapshot = dict(table.rows)
        rounds = [list(snapshot)]
        fate = random.random()
        if fate < 0.25 and table.keys:  # cut off, and begun again
            rounds.insert(0, random.sample(rounds[0], random.randint(1, len(snapshot))))
        given_up = 0.25 <= fate < 0.4
        for keys in rounds:
            for key in random.sample(keys, random.randint(1, len(keys)) if given_up else len(keys)):
                self._now_us += random.randint(1, LOAD_GAP_US // _MS // 10) * _MS
                row = table.rows.get(key) if traits.fuzzy and table.keys else snapshot[key]
                if row is not None:
                    self._append(_Draft(table, "REFRESH", None, row, key, None), delay=False)
                if random.random() < 0.2:
                    self._changes(1, without=table if given_up and not table.keys else None)
        if not traits.ties:
            self._now_us += _MS
        self._transact([partial(self._insert, table)])
        if given_up:
            self._changes(random.randint(0, 2))
            self._load(table)

    def _change_unseen(self, table: _Table) -> None:
        verbs = [self._insert, self._update, self._delete, self._delete, self._move]
        if self.random.random() < 0.3:
            table.rows.clear()
        for _ in range(self.random.randint(0, 5)):
            self.random.choice(verbs)(table)

    # messages

    def _transact(self, verbs: list[Callable[[], list[_Draft]]]) -> None:
        drafts = [draft for verb in verbs for draft in verb()]
        self._transaction += 1
        for counter, draft in enumerate(drafts, start=1):
            self._change_number += 1
            sequence = f"2023111422132000{self._change_number:019d}"
            self._append(draft, sequence, counter, last=counter == len(drafts))
        self._now_us += _MS

    def _append(self, draft: _Draft, sequence: str = "", event: int = 0, *, last: bool = False, delay: bool = True) -> None:
        random, traits, table = self.random, self.traits, draft.table
        present = self._present(draft)
        change = self._spell(draft, present, sequence, event, last)
        value = self._encode(table, change, whole=len(present) == len(table.columns))
        logged_us = self._now_us + (random.choice([0, 0, 1, 20, 60]) * _MS if delay else 0)
        row = draft.after if draft.after is not None else draft.before
        assert row is not None
        values = {name: row[name] for name in present} if draft.after is not None else {}
        count = table.loads if draft.operation == "REFRESH" else 0
        fact = Fact(
            table.name,
            draft.operation,
            sequence,
            draft.key,
            draft.old,
            values,
            table.columns,
            count,
            logged_us,
            self._transaction if sequence else 0,
        )
        self._log.append(LogMessage(self._route(draft), logged_us, value, fact))
        if traits.resends and sequence and random.random() < 0.2:
            again_us = logged_us + random.choice([1, 30, 900, 4000]) * _MS
            self._log.append(LogMessage(self._route(draft), again_us, value, fact._replace(logged_us=again_us)))

    def _route(self, draft: _Draft) -> int:
        by = {"key": str(draft.key), "table": draft.table.name, "random": str(self.random.random())}[self.traits.routing]
        return int.from_bytes(hashlib.md5(by.encode(), usedforsecurity=False).digest()[:4], "big") % self.traits.partitions

    def _present(self, draft: _Draft) -> list[str]:
        """The columns that a message carries."""
        columns = draft.table.columns
        partial = self.traits.partial and draft.operation == "UPDATE"
        partial = partial and (draft.old is None or self.traits.key_changes == "partial")
        if not partial or draft.before is None or draft.after is None:
            return list(columns)
        changed = {name for name in columns if draft.before[name] != draft.after[name]} | set(draft.table.keys)
        return [name for name in columns if name in changed or self.random.random() < 0.3]

    def _spell(self, draft: _Draft, present: list[str], sequence: str, event: int, last: bool) -> Change:
        table, random = draft.table, self.random
        data = {name: draft.after[name] for name in present} if draft.after is not None else {}
        before = None
        changed = list(table.columns)
        if draft.operation == "DELETE":
            assert draft.before is not None
            row = {name: draft.before[name] for name in (table.keys if random.random() < 0.5 else table.columns)}
            data, before = (row, None) if random.random() < 0.5 else ({}, row)
            changed = list(table.keys)
        elif draft.operation == "UPDATE":
            assert draft.before is not None
            assert draft.after is not None
            changed = [name for name in table.columns if draft.before[name] != draft.after[name]]
            if draft.old is not None or random.random() < 0.6:
                before = {name: draft.before[name] for name in present}
        if draft.operation == "REFRESH":
            return Change("REFRESH", data)
        whole = len(present) == len(table.columns) and random.random() < 0.5
        return Change(
            draft.operation, data, before, sequence, "2023-11-14T22:13:20.000", f"p{self._change_number}",
            f"{self._transaction:032X}", self._mask(table, changed), None if whole else self._mask(table, present), event, last,
        )  # fmt: skip

    def _mask(self, table: _Table, names: list[str]) -> bytes:
        number = sum(1 << place for place, name in enumerate(table.columns) if name in names)
        return number.to_bytes(1, "little")

    def _encode(self, table: _Table, change: Change, *, whole: bool) -> bytes:
        if not self.traits.bare_json or table.name != "t" or self.random.random() < 0.5:
            return data_message(table.metadata, change, form=table.form)
        headers = {
            "operation": change.operation, "changeSequence": change.change_sequence, "timestamp": change.timestamp,
            "streamPosition": change.stream_position, "transactionId": change.transaction_id,
            "changeMask": None if change.change_mask is None else change.change_mask.hex(),
            "columnMask": None if change.column_mask is None else change.column_mask.hex(),
            "transactionEventCounter": change.transaction_event_counter,
            "transactionLastEvent": change.transaction_last_event,
        }  # fmt: skip
        before = None if change.before is None else dict(change.before)
        return encode_json({"data": dict(change.data) or None, "beforeData": before, "headers": headers})


class _Draft(NamedTuple):
    """A change that is not spelled yet; `old` is the key before, where it is another one."""

    table: _Table
    operation: str
    before: Row | None
    after: Row | None
    key: Key
    old: Key | None
