"""The merged state of keys, as rows: each value is taken from the row that wrote it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from headstream.replicate.apply.key_log import LOGGED, KeyLog
from headstream.replicate.columns.changes import OLD_PREFIX
from headstream.replicate.columns.row_merge import KNOWN_STATE, Key, KeyEvent, KeyState, replay, sequence_of
from headstream.replicate.columns.row_versions import write_versions

__all__ = ["end_logged", "fold_log", "key_table", "leave_out_same", "log_rows", "shifted", "taken"]


def shifted(events: Iterable[KeyEvent], offset: int) -> list[KeyEvent]:
    """Return events with their sources shifted by an offset: their rows are appended to others."""
    return [replace(event, row=event.row.shifted(offset)) for event in events]


def taken(
    states: Sequence[tuple[Key, KeyState]], values: pa.Table, keys: list[str], types: Mapping[str, pa.DataType]
) -> tuple[pa.Table, Callable[[str], Any]]:
    """Return rows with the values of states, and for a column the numbers of the rows they are taken from.

    Args:
        states: Keys and their merged states.
        values: The rows that sources refer to; without key columns.
        keys: The key columns.
        types: The table's types.
    """
    base = np.array([state.row.base.source for _, state in states], np.int64)
    groups: dict[frozenset[str], list[tuple[int, int]]] = {}
    for place, (_, state) in enumerate(states):
        for written, names in state.row.groups.items():
            groups.setdefault(names, []).append((place, written.source))
    own: dict[str, list[Any]] = {}
    for names, pairs in groups.items():
        placed = np.array(pairs, np.int64)
        for name in names:
            own.setdefault(name, []).append(placed)

    def sources(name: str) -> Any:
        if name not in own:
            return base
        found = base.copy()
        for placed in own[name]:
            found[placed[:, 0]] = placed[:, 1]
        return found

    columns = dict(zip(keys, key_table([key for key, _ in states], keys, types).columns, strict=True))
    places = pa.array(base, mask=base < 0)
    for name, column in zip(values.schema.names, values.columns, strict=True):
        chosen = sources(name)
        columns[name] = column.take(places if chosen is base else pa.array(chosen, mask=chosen < 0))
    return pa.table(columns), sources


def leave_out_same(rows: pa.Table, places: Sequence[int], before: pa.Table) -> pa.Table:
    """Return rows without those that equal the stored ones.

    Args:
        rows: Rows to write.
        places: The numbers of those to compare.
        before: The stored rows of these, in their order: the columns to compare.
    """
    same = np.ones(len(places), np.bool_)
    asked = rows.select(before.schema.names).take(pa.array(places, pa.int64()))
    for name in before.schema.names:  # as values: a stored NaN equals a new one
        pairs = zip(asked[name].to_pylist(), before[name].to_pylist(), strict=True)
        same &= np.array([one == other or (one != one and other != other) for one, other in pairs], np.bool_)
    stays = np.ones(rows.num_rows, np.bool_)
    stays[np.array(places)[same]] = False
    return rows.filter(pa.array(stays))


def log_rows(events: Sequence[KeyEvent], values: pa.Table, keys: list[str]) -> pa.Table:
    """Return events as rows of a key log.

    Args:
        events: Their sources are rows of `values`.
        values: With key columns, in the table's types.
        keys: The key columns.
    """
    types = {field.name: field.type for field in values.schema}
    names = [name for name in values.schema.names if not name.startswith("_hs_") and name not in keys]
    states = [(event.key, KeyState("", event.sequence, event.row)) for event in events]
    rows, _ = taken(states, values.select(names), keys, types)
    nothing = tuple(None for _ in keys)
    for key, kept in zip(
        keys, zip(*(event.before or nothing for event in events), strict=True) if events else [()] * len(keys), strict=True
    ):
        rows = rows.append_column(OLD_PREFIX + key, pa.array(kept, types[key]))
    logged: dict[str, list[Any]] = {
        "_hs_kind": [event.kind for event in events],
        "_hs_sequence": [event.sequence for event in events],
        "_hs_transaction": [event.transaction for event in events],
        "_hs_event": [event.number for event in events],
        "_hs_versions": [write_versions(event.row, event.sequence) for event in events],
    }
    for field in LOGGED:
        rows = rows.append_column(field, pa.array(logged[field.name], field.type))
    return rows


def key_table(keys: Iterable[Key], names: list[str], types: Mapping[str, pa.DataType] | pa.Schema) -> pa.Table:
    """Return keys as a table of key columns."""
    listed = list(keys)
    kinds = [types.field(name).type if isinstance(types, pa.Schema) else types[name] for name in names]
    columns = [pa.array([key[place] for key in listed], kind) for place, kind in enumerate(kinds)]
    return pa.table(columns, names=names)


def end_logged(log: KeyLog, keys: list[str], bound: str) -> None:
    """Log that a full load has removed the rows of logged keys; the changes before it remain, for rows that arrive later.

    Args:
        log: The logged changes.
        keys: The key columns.
        bound: The place below which the load replaces rows.
    """
    ended: list[KeyEvent] = []
    left = set(log.keys())
    while left:
        connected = log.connected([left.pop()])
        left -= connected
        older = [event for event in log.events(log.select(connected)[1]) if event.sequence <= bound]
        ended += [KeyEvent("delete", key, bound) for key, state in replay(older).items() if state.exists]
    values, _ = log.select(())
    if ended and values is not None:
        log.add(log_rows(ended, values, keys))


def fold_log(log: KeyLog, keys: list[str], until: str, *, vanished: bool = False, soft: bool = False) -> None:
    """Fold logged changes up to a sequence: into one row a key, and its deletion, at that time.

    Keys without newer changes are removed from the log; their rows are in the table, their deletions in the tombstones. A
    transaction with a newer change is kept whole: which row a departure takes depends on what arrived in its transaction.

    Args:
        log: The logged changes.
        keys: The key columns.
        until: The highest sequence to fold.
        vanished: Whether changes up to it lose their effect: a full load that has ended deletes their results.
        soft: Whether deleted rows keep their last values.
    """
    facts: list[KeyEvent] = []
    left = set(log.keys())
    values, _ = log.select(())
    border = "" if vanished else log.border(until)
    while left and values is not None:
        connected = log.connected([left.pop()])
        left -= connected
        events = log.events(log.select(connected)[1])
        newer = [event for event in events if event.sequence > until or (border and event.sequence >= border)]
        if not newer:
            continue
        if not vanished:
            older = [event for event in events if event.sequence < border]
        else:
            older = [event for event in events if event.sequence <= until] if soft else []
        for key, state in replay(older).items():
            facts += _facts(key, KeyState(until, "", state.row) if vanished and state.exists else state)
        facts += newer
    log.replace(log_rows(facts, values, keys) if facts and values is not None else None)


def _facts(key: Key, state: KeyState) -> list[KeyEvent]:
    """Return events that produce the same state of a key."""
    facts = [KeyEvent("delete", key, state.deletion, number=KNOWN_STATE)] if state.deletion else []
    place = state.upsert or sequence_of(state.row.version)  # a deleted row keeps its last columns
    if state.upsert or "" < place < state.deletion:
        facts.append(KeyEvent("upsert", key, place, state.row, number=KNOWN_STATE))
    return facts
