"""What keys come to, as rows: the values of each are taken from the rows that wrote them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from headstream.spark.replicate.apply.key_log import LOGGED, KeyLog
from headstream.spark.replicate.changes import OLD_PREFIX
from headstream.spark.replicate.row_merge import Event, Key, KeyState, Row, Written, replay
from headstream.spark.replicate.row_versions import write_versions

__all__ = ["fold_log", "key_table", "log_rows", "shifted", "taken"]


def shifted(events: Iterable[Event], offset: int) -> list[Event]:
    """Return events whose sources are higher by an offset: the rows they name stand behind others."""

    def moved(written: Written) -> Written:
        return Written(written.version, written.source + offset) if written.source >= 0 else written

    found = []
    for event in events:
        row = Row(moved(event.row.base), {name: moved(written) for name, written in event.row.columns.items()})
        found.append(Event(event.kind, event.key, event.sequence, row, event.before, event.transaction, event.number))
    return found


def taken(
    states: Sequence[tuple[Key, KeyState]], values: pa.Table, keys: list[str], types: Mapping[str, pa.DataType]
) -> tuple[pa.Table, Callable[[str], Any]]:
    """Return rows with the values that states name, and for a column the numbers of the rows they are taken from.

    Args:
        states: Keys and what they come to.
        values: The rows that sources are numbers of; without key columns.
        keys: The key columns.
        types: The table's types.
    """
    base = np.array([state.row.base.source for _, state in states], np.int64)
    own: dict[str, list[tuple[int, int]]] = {}
    for place, (_, state) in enumerate(states):
        for name, written in state.row.columns.items():
            own.setdefault(name, []).append((place, written.source))

    def sources(name: str) -> Any:
        if name not in own:
            return base
        found = base.copy()
        places, numbers = zip(*own[name], strict=True)
        found[list(places)] = numbers
        return found

    rows = key_table([key for key, _ in states], keys, types)
    for name in values.schema.names:
        chosen = sources(name)
        rows = rows.append_column(name, values[name].take(pa.array(chosen, mask=chosen < 0)))
    return rows, sources


def log_rows(events: Sequence[Event], values: pa.Table, keys: list[str]) -> pa.Table:
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
    told: dict[str, list[Any]] = {
        "_hs_kind": [event.kind for event in events],
        "_hs_sequence": [event.sequence for event in events],
        "_hs_transaction": [event.transaction for event in events],
        "_hs_event": [event.number for event in events],
        "_hs_versions": [write_versions(event.row, event.sequence) for event in events],
    }
    for field in LOGGED:
        rows = rows.append_column(field, pa.array(told[field.name], field.type))
    return rows


def key_table(keys: Iterable[Key], names: list[str], types: Mapping[str, pa.DataType] | pa.Schema) -> pa.Table:
    """Return keys as a table of key columns."""
    listed = list(keys)
    kinds = [types.field(name).type if isinstance(types, pa.Schema) else types[name] for name in names]
    columns = [pa.array([key[place] for key in listed], kind) for place, kind in enumerate(kinds)]
    return pa.table(columns, names=names)


def fold_log(log: KeyLog, keys: list[str], until: str, *, vanished: bool = False) -> None:
    """Put the kept changes up to a sequence together: one row a key, and its deletion, as of then.

    Keys of which nothing newer is kept are connected no more; their rows are in the table, their deletions are remembered.

    Args:
        log: The kept changes.
        keys: The key columns.
        until: The highest sequence that is put together.
        vanished: Whether changes up to it count no more at all.
    """
    facts: list[Event] = []
    left = set(log.keys())
    values, _ = log.select(())
    while left and values is not None:
        connected = log.connected([left.pop()])
        left -= connected
        events = log.events(log.select(connected)[1])
        newer = [event for event in events if event.sequence > until]
        if not newer:
            continue
        older = [] if vanished else [event for event in events if event.sequence <= until]
        for key, state in replay(older).items():
            if state.deletion:
                facts.append(Event("delete", key, state.deletion))
            if state.upsert:
                facts.append(Event("upsert", key, state.upsert, state.row))
        facts += newer
    log.replace(log_rows(facts, values, keys) if facts and values is not None else None)
