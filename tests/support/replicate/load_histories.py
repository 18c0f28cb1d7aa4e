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

A load's last row is followed by a change of its table, which says that the load is over. But the last loads of a table may be
abandoned for good (_abandon()), with changes after them or none; and stretches of the log may be there again at later times,
rows of loads among them. The rows of such tables are not the source's, but those that the rule tells. `Fact` is what a message
says, for load_model.py, which tells from the facts alone what the tables must come to.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, NamedTuple

from headstream.replicate.codec import Change, data_message, metadata_message
from tests.support.replicate.load_forms import bare_message, flat_message, framed_message, registry_schemas
from tests.support.replicate.load_model import expected_rows
from tests.support.replicate.load_repeats import repeated
from tests.support.replicate.load_tables import (
    LOAD_GAP_US,
    MOST_KEYS,
    MS_US,
    N_COLUMNS,
    START_US,
    T_COLUMNS,
    T_LATER,
    U_COLUMNS,
    Fact,
    History,
    Key,
    LoadedTable,
    LogMessage,
    Row,
    Scenario,
    make_table,
)

__all__ = ["LOAD_GAP_US", "Fact", "History", "Key", "LogMessage", "Row", "Scenario", "draw_history"]


def draw_history(seed: int, **given: Any) -> History:
    """Return the history of a seed.

    Args:
        seed: Any.
        given: Scenario that are not to be drawn.
    """
    random, forms, ends = Random(seed), Random(f"forms of {seed}"), Random(f"ends of {seed}")
    scenario = Scenario.draw(random, forms, ends, **given)
    source = _Source(random, forms, ends, scenario)
    source.live()
    tables = source.tables.values()
    for table in tables:
        if scenario.repeats or table in source.abandoned:
            table.rows = expected_rows(source.facts, table.name)
    return History(
        seed,
        scenario,
        source.partitions(),
        {table.name: table.rows for table in tables},
        {table.name: table.columns for table in tables},
        {table.name: table.keys for table in tables},
        registry_schemas(tables) if scenario.registry else {},
    )


class _Source:
    """The source, its capture and the log."""

    def __init__(self, random: Random, forms: Random, ends: Random, scenario: Scenario) -> None:
        self.random, self.forms, self.ends, self.scenario = random, forms, ends, scenario
        self.abandoned: list[LoadedTable] = []
        shapes = [T_COLUMNS, random.choice(T_LATER)] if scenario.evolves else [T_COLUMNS]
        made = [make_table(random, "t", shapes), make_table(random, "u", [U_COLUMNS])]
        made += [make_table(random, "n", [N_COLUMNS])] if scenario.keyless else []
        self.tables = {table.name: table for table in made}
        self._log: list[LogMessage] = []
        self._now_us = START_US
        self._change_number = 0
        self._transaction = 0

    @property
    def facts(self) -> list[Fact]:
        """What all messages say that are not metadata."""
        return [message.fact for message in self._log if message.fact is not None]

    def partitions(self) -> list[list[LogMessage]]:
        """The log by partition, with offsets."""
        parts: list[list[LogMessage]] = [[] for _ in range(self.scenario.partitions)]
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
            for _ in range(random.randint(1, MOST_KEYS - 1)):
                self._insert(table)
            self._load(table)
        alter_at = random.randint(0, self.scenario.steps) if self.scenario.evolves else -1
        for step in range(self.scenario.steps):
            if step == alter_at:
                self._alter(self.tables["t"])
            if random.random() < 0.6:
                self._load(random.choice(list(self.tables.values())))
            else:
                self._changes(random.randint(1, 6))
        if alter_at == self.scenario.steps:
            self._alter(self.tables["t"])
        if self.scenario.abandoned:
            self._abandon()
        self._rest()
        for table in self.tables.values():  # says of each that its last load is over
            if table not in self.abandoned or not table.keys or self.ends.random() < 0.5:
                self._transact([partial(self._insert, table)])
        if self.scenario.repeats:
            self._log += repeated(self._log, self.ends, self.scenario.partitions)

    def _rest(self) -> None:
        """Let everything that is under way reach the log, and then be quiet for longer than the gap."""
        waits_for_all = not self.scenario.overtaken
        latest = max((message.logged_us for message in self._log if waits_for_all or message.fact is not None), default=0)
        self._now_us = max(self._now_us, latest) + 3 * LOAD_GAP_US

    def _publish(self, table: LoadedTable) -> None:
        if self.scenario.registry:  # which has the schemas
            return
        delays = [0, 0, 2, 6, 15, 40] if self.scenario.late_metadata else [0]
        at = self._now_us + self.random.choice(delays) * LOAD_GAP_US
        value = metadata_message(table.metadata, form=table.form)
        partition = self.random.randrange(self.scenario.partitions)
        self._log.append(LogMessage(partition, at, value, None, describes=(table.name, table.columns)))

    def _alter(self, table: LoadedTable) -> None:
        table.version += 1
        table.rows = {key: {name: row.get(name) for name in table.columns} for key, row in table.rows.items()}
        self._publish(table)

    # what happens to rows; each returns the drafts of messages

    def _put(self, table: LoadedTable, key: Key) -> Key:
        """Put a row into a table without a word."""
        row = table.values(self.random)
        table.rows[key] = row | (dict(zip(table.keys, key, strict=True)) if table.keys else {})
        return key

    def _insert(self, table: LoadedTable) -> list[_Draft]:
        free = table.free_keys()
        if not free:
            return self._delete(table)
        key = self._put(table, self.random.choice(free))
        return [_Draft(table, "INSERT", None, table.rows[key], key, None)]

    def _delete(self, table: LoadedTable) -> list[_Draft]:
        if not table.rows or not table.keys:
            return self._insert(table)
        key = self.random.choice(list(table.rows))
        return [_Draft(table, "DELETE", table.rows.pop(key), None, key, None)]

    def _update(self, table: LoadedTable) -> list[_Draft]:
        if not table.rows or not table.keys:
            return self._insert(table)
        key = self.random.choice(list(table.rows))
        before = table.rows[key]
        names = self.random.sample(list(table.values(Random(0))), self.random.randint(0, 2))
        fresh = table.values(self.random)
        table.rows[key] = before | {name: fresh[name] for name in names}
        return [_Draft(table, "UPDATE", before, table.rows[key], key, None)]

    def _replace(self, table: LoadedTable) -> list[_Draft]:
        drafts = self._delete(table)
        if drafts[0].operation == "DELETE":
            key = self._put(table, drafts[0].key)
            drafts.append(_Draft(table, "INSERT", None, table.rows[key], key, None))
        return drafts

    def _move(self, table: LoadedTable) -> list[_Draft]:
        free = table.free_keys() if table.keys else []
        if self.scenario.key_changes == "none" or not table.rows or not free:
            return self._update(table)
        return [self._moved(table, self.random.choice(list(table.rows)), self.random.choice(free))]

    def _moved(self, table: LoadedTable, old: Key, new: Key) -> _Draft:
        before = table.rows.pop(old)
        fresh = table.values(self.random)
        names = self.random.sample(list(fresh), self.random.randint(0, 1))
        after = before | dict(zip(table.keys, new, strict=True)) | {name: fresh[name] for name in names}
        table.rows[new] = after
        return _Draft(table, "UPDATE", before, after, new, old)

    def _shift(self, table: LoadedTable) -> list[_Draft]:
        """Give every row the next key, or swap two: in one transaction, so that a key is left after it was taken."""
        if not self.scenario.shifts or self.scenario.key_changes == "none" or len(table.rows) < 2 or not table.keys:
            return self._move(table)
        numbers = {table.key_at(number): number for number in range(2 * MOST_KEYS)}
        keys = sorted(table.rows, key=numbers.__getitem__)
        if self.random.random() < 0.5:
            first, second = self.random.sample(keys, 2)
            pairs = [(first, second), (second, first)]
        else:
            pairs = [(key, table.key_at((numbers[key] + 1) % (2 * MOST_KEYS))) for key in keys]
        old = {key: table.rows[key] for key, _ in pairs}
        for key, _ in pairs:
            del table.rows[key]
        drafts = []
        for key, new in pairs:
            after = old[key] | dict(zip(table.keys, new, strict=True))
            table.rows[new] = after
            drafts.append(_Draft(table, "UPDATE", old[key], after, new, key))
        return drafts

    def _changes(self, count: int, *, without: LoadedTable | None = None) -> None:
        tables = [table for table in self.tables.values() if table is not without]
        verbs = [self._insert, self._update, self._update, self._delete, self._replace, self._move, self._shift]
        for _ in range(count):
            chosen = [(self.random.choice(verbs), self.random.choice(tables)) for _ in range(self.random.randint(1, 3))]
            self._transact([partial(verb, table) for verb, table in chosen])
            self._now_us += self.random.randint(1, 50) * MS_US

    def _load(self, table: LoadedTable) -> None:
        """Load a table again, once everything captured of it has reached the log."""
        random, scenario = self.random, self.scenario
        self._rest()
        self._changes(random.randint(0, 3), without=table)
        if scenario.unseen:
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
                self._now_us += random.randint(1, LOAD_GAP_US // MS_US // 10) * MS_US
                row = table.rows.get(key) if scenario.fuzzy and table.keys else snapshot[key]
                if row is not None:
                    self._append(_Draft(table, "REFRESH", None, row, key, None), delay=False)
                if random.random() < 0.2:
                    self._changes(1, without=table if given_up and not table.keys else None)
        if not scenario.ties:
            self._now_us += MS_US
        self._transact([partial(self._insert, table)])
        if given_up:
            self._changes(random.randint(0, 2))
            self._load(table)

    def _abandon(self) -> None:
        """Begin the last loads of some tables, and give each up: another one or changes follow, or nothing."""
        ends = self.ends
        tables = [table for table in self.tables.values() if table.rows]
        self.abandoned = ends.sample(tables, min(len(tables), ends.randint(1, 2)))
        for table in self.abandoned:
            for _ in range(ends.randint(1, 2)):
                self._rest()
                if ends.random() < 0.5:
                    self._change_unseen(table)
                table.loads += 1
                rows = dict(table.rows)
                for key in ends.sample(list(rows), ends.randint(0, max(0, len(rows) - 1))):
                    self._now_us += ends.randint(1, LOAD_GAP_US // MS_US // 10) * MS_US
                    self._append(_Draft(table, "REFRESH", None, rows[key], key, None), delay=False)
                    if ends.random() < 0.2:
                        self._changes(1, without=None if table.keys else table)
                if ends.random() < 0.6:
                    self._now_us += MS_US
                    self._changes(ends.randint(1, 3))
                if not table.keys:  # without a change between them two loads are one, and a row that both have is there twice
                    self._transact([partial(self._insert, table)])

    def _change_unseen(self, table: LoadedTable) -> None:
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
        self._now_us += MS_US

    def _append(self, draft: _Draft, sequence: str = "", event: int = 0, *, last: bool = False, delay: bool = True) -> None:
        random, scenario, table = self.random, self.scenario, draft.table
        present = self._present(draft)
        change = self._spell(draft, present, sequence, event, last)
        logged_us = self._now_us + (random.choice([0, 0, 1, 20, 60]) * MS_US if delay else 0)
        row = draft.after if draft.after is not None else draft.before
        assert row is not None
        encoded, message_key, is_flat = self._encode(table, change, row)
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
            draft.operation == "UPDATE" and draft.before == draft.after and not is_flat,
        )
        self._log.append(LogMessage(self._route(draft), logged_us, encoded, fact, message_key))
        if scenario.resends and sequence and random.random() < 0.2:
            again_us = logged_us + random.choice([1, 30, 900, 4000]) * MS_US
            again = fact._replace(logged_us=again_us)
            self._log.append(LogMessage(self._route(draft), again_us, encoded, again, message_key))

    def _route(self, draft: _Draft) -> int:
        by = {"key": str(draft.key), "table": draft.table.name, "random": str(self.random.random())}[self.scenario.routing]
        return int.from_bytes(hashlib.md5(by.encode(), usedforsecurity=False).digest()[:4], "big") % self.scenario.partitions

    def _present(self, draft: _Draft) -> list[str]:
        """The columns that a message carries."""
        columns = draft.table.columns
        partial = self.scenario.partial and draft.operation == "UPDATE"
        partial = partial and (draft.old is None or self.scenario.key_changes == "partial")
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

    def _mask(self, table: LoadedTable, names: list[str]) -> bytes:
        number = sum(1 << place for place, name in enumerate(table.columns) if name in names)
        return number.to_bytes(1, "little")

    def _encode(self, table: LoadedTable, change: Change, row: Row) -> tuple[bytes, bytes | None, bool]:
        """Return a message's value and key, in one of the forms that the history has, and whether it is the flat one."""
        if self.scenario.registry:
            return *framed_message(table, change, row), False
        if self.scenario.bare_json and table.name == "t" and self.random.random() >= 0.5:
            return bare_message(change), None, False
        if self.scenario.flat and self.forms.random() < 0.5:
            return flat_message(table, change, self.forms), None, True
        return data_message(table.metadata, change, form=table.form), None, False


class _Draft(NamedTuple):
    """A change that is not spelled yet; `old` is the key before, where it is another one."""

    table: LoadedTable
    operation: str
    before: Row | None
    after: Row | None
    key: Key
    old: Key | None
