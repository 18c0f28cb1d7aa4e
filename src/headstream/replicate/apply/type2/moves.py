"""Determines the row that each departure takes if rows change their keys within one transaction (SCD type 2).

`UPDATE t SET id = id + 1` makes a key update for each row, in any order. The row from key 1 can arrive at key 2 before the older
row departs from key 2. The departure takes the older row, and the arrived row stays; in the history, the departure takes effect
at the arrival's sequence, at which deletions are applied first. If no row had the key before the transaction, the departure takes
the row that arrived. A deletion in between removes all rows of the key, so the departure takes the first row after the deletion.

Key updates are logged without values (key_log.py), since the history has the values. The result depends on the set of applied
changes, not on their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from headstream.replicate.apply.moved_keys.key_log import KeyLog
from headstream.replicate.apply.moved_keys.logged_rows import LOGGED
from headstream.replicate.apply.type2.replay import SequenceEvent
from headstream.replicate.columns.changes import OLD_PREFIX
from headstream.replicate.columns.row_merge import Key, KeyEvent
from headstream.replicate.columns.versions import load_floor


def keep_moves(log: KeyLog, moves: pa.Table | None, keys: Sequence[str], types: Mapping[str, pa.DataType]) -> None:
    """Log key updates durably. Call keep_moves() before the key updates are merged."""
    if moves is None or not moves.num_rows:
        return
    count = moves.num_rows
    constants = {"_hs_kind": pa.array(["move"] * count), "_hs_versions": pa.nulls(count, pa.string())}
    names = [*keys, *(OLD_PREFIX + key for key in keys), *(field.name for field in LOGGED)]
    columns = [constants[name] if name in constants else moves[name] for name in names]
    kinds = [types[key] for key in keys] * 2 + [field.type for field in LOGGED]
    log.add(pa.table([column.cast(kind) for column, kind in zip(columns, kinds, strict=True)], names=names))


def crossings(log: KeyLog, key: Key) -> list[list[KeyEvent]]:
    """Return the key's moves, in order, for each transaction in which a row arrived at the key before another row departed."""
    units: dict[str, list[KeyEvent]] = {}
    _, places = log.select([key])
    for event in sorted(log.events(places), key=lambda event: event.order):
        units.setdefault(event.unit, []).append(event)
    return [moves for moves in units.values() if _crosses(moves, key)]


def crossed_keys(log: KeyLog) -> list[Key]:
    """Return the keys for which crossings() finds a transaction."""
    units: dict[str, list[KeyEvent]] = {}
    for event in log.events(range(len(log))):
        units.setdefault(event.unit, []).append(event)
    found: dict[Key, None] = {}
    for moves in units.values():
        moves.sort(key=lambda event: event.order)
        arrived: set[Key] = set()
        for move in moves:
            if move.before in arrived:
                found[move.before] = None
            arrived.add(move.key)
    return list(found)


def _crosses(moves: Iterable[KeyEvent], key: Key) -> bool:
    arrived = False
    for move in moves:
        if arrived and move.before == key:
            return True
        arrived = arrived or move.key == key
    return False


def place_departures(
    known: dict[str, SequenceEvent], values: Mapping[str, Any], units: Iterable[list[KeyEvent]], ends: Sequence[str]
) -> None:
    """Move a key's departures to the sequences at which they take effect; modifies `known`, the events by sequence."""
    key = tuple(values.values())
    for moves in sorted(units, key=lambda moves: moves[0].sequence):
        departures = {move.sequence for move in moves if move.before == key}
        arrivals = {move.sequence for move in moves if move.key == key}
        for at in departures & known.keys():
            known[at].deletes = False
        first, last = moves[0].sequence, moves[-1].sequence
        rows = [""] if _is_there(known, first, ends) else []  # sequences at which the key's rows arrived, oldest first
        between = {at for at in (*known, *ends) if first < at < last}
        for at in sorted(departures | arrivals | between):
            if at in departures:
                del rows[:1]
                place = rows[0] if rows else at
                known.setdefault(place, SequenceEvent(place, values=dict(values))).deletes = True
            if at in arrivals:
                rows.append(at)
            elif at in ends:
                rows.clear()
            elif at in known:
                _follow(rows, known[at])
    for at in [at for at, event in known.items() if not event.deletes and not event.upserts]:
        del known[at]


def _is_there(known: Mapping[str, SequenceEvent], before: str, ends: Iterable[str]) -> bool:
    """Return whether a row exists just before a sequence: neither a deletion nor the end of a load has removed it."""
    # A departure that takes effect at another sequence leaves an event without effect.
    last = max((at for at, event in known.items() if at < before and (event.deletes or event.upserts)), default=None)
    return last is not None and known[last].upserts and not any(last < end < before for end in ends)


def _follow(rows: list[str], event: SequenceEvent) -> None:
    """Apply an event, other than a key update, to the rows that have the key."""
    if load_floor(event.sequence) is not None:  # not part of the transaction: only the newest row remains
        del rows[:-1]
    if event.upserts:  # ignores a deletion at the same sequence, which stored versions do not record
        rows[:] = rows or [event.sequence]
    elif event.deletes:
        rows.clear()
