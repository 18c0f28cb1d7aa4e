"""Converts the merged state of keys to rows; each value is taken from the row that wrote it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from headstream.replicate.apply.moved_keys.logged_rows import LOGGED
from headstream.replicate.columns.changes import OLD_PREFIX
from headstream.replicate.columns.large_values import take_values
from headstream.replicate.columns.row_merge import Key, KeyEvent, KeyState
from headstream.replicate.columns.row_versions import write_versions


def shifted(events: Iterable[KeyEvent], offset: int) -> list[KeyEvent]:
    """Return events with their sources shifted by an offset, after their rows were appended to other rows."""
    return [replace(event, row=event.row.shifted(offset)) for event in events]


def taken(
    states: Sequence[tuple[Key, KeyState]], values: pa.Table, keys: list[str], types: Mapping[str, pa.DataType]
) -> tuple[pa.Table, Callable[[str], Any]]:
    """Return rows with the values of merged states, and a function: column -> the source row in `values` of each row."""
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
        columns[name] = take_values(column, places if chosen is base else pa.array(chosen, mask=chosen < 0))
    return pa.table(columns), sources


def leave_out_same(rows: pa.Table, places: Sequence[int], before: pa.Table) -> pa.Table:
    """Return rows without the rows at `places` that equal the stored rows `before` in the columns of `before`."""
    same = np.ones(len(places), np.bool_)
    asked = rows.select(before.schema.names).take(pa.array(places, pa.int64()))
    for name in before.schema.names:  # compared as values: a stored NaN equals a new NaN
        pairs = zip(asked[name].to_pylist(), before[name].to_pylist(), strict=True)
        same &= np.array([one == other or (one != one and other != other) for one, other in pairs], np.bool_)
    stays = np.ones(rows.num_rows, np.bool_)
    stays[np.array(places)[same]] = False
    return rows.filter(pa.array(stays))


def log_rows(events: Sequence[KeyEvent], values: pa.Table, keys: list[str]) -> pa.Table:
    """Return events as rows of a KeyLog; their sources are rows of `values`, which has key columns in the table's types."""
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
