"""Rows that change their keys within one transaction (SCD type 2): which departure takes which row.

`UPDATE t SET id = id + 1` is a change of key for each row, in any order. At key 2 the row that was at key 1 may arrive before
the one that stood there departs; the departure takes the older one, and the arrival stays. In a history the departure then
counts at the arrival's sequence: at one sequence a deletion comes first. If nothing stood at the key before the transaction, the
departure takes the row that arrived, as the next step of its way.

Changes of key are kept beside the tombstones (key_log.py), without values, which are in the history; so this depends on which
changes were applied, and not on when they came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from headstream.spark.replicate.apply.key_log import LOGGED, KeyLog
from headstream.spark.replicate.apply.scd2_replay import Event as RowEvent
from headstream.spark.replicate.changes import OLD_PREFIX
from headstream.spark.replicate.row_merge import Event, Key

__all__ = ["crossings", "keep_moves", "place_departures"]


def keep_moves(log: KeyLog, moves: pa.Table | None, keys: Sequence[str], types: Mapping[str, pa.DataType]) -> None:
    """Keep changes of key, durably; must be done before they are merged.

    Args:
        log: Where they are kept.
        moves: As Events.moves.
        keys: The key columns.
        types: The table's types.
    """
    if moves is None or not moves.num_rows:
        return
    count = moves.num_rows
    told = {"_hs_kind": pa.array(["move"] * count), "_hs_versions": pa.nulls(count, pa.string())}
    names = [*keys, *(OLD_PREFIX + key for key in keys), *(field.name for field in LOGGED)]
    columns = [told[name] if name in told else moves[name] for name in names]
    kinds = [types[key] for key in keys] * 2 + [field.type for field in LOGGED]
    log.add(pa.table([column.cast(kind) for column, kind in zip(columns, kinds, strict=True)], names=names))


def crossings(log: KeyLog, key: Key) -> list[list[Event]]:
    """Return, for each transaction in which a row arrived at a key before one departed, its moves of that key in their order."""
    units: dict[str, list[Event]] = {}
    _, places = log.select([key])
    for event in sorted(log.events(places), key=lambda event: event.order):
        units.setdefault(event.unit, []).append(event)
    return [moves for moves in units.values() if _crosses(moves, key)]


def _crosses(moves: Iterable[Event], key: Key) -> bool:
    arrived = False
    for move in moves:
        if arrived and move.before == key:
            return True
        arrived = arrived or move.key == key
    return False


def place_departures(known: dict[str, RowEvent], key: Key, units: Iterable[list[Event]]) -> None:
    """Put the departures of a key to the places at which they count.

    Args:
        known: All events of the key by sequence; changed in place.
        key: The key.
        units: As crossings() gives them.
    """
    for moves in sorted(units, key=lambda moves: moves[0].sequence):
        for move in moves:
            if move.before == key and move.sequence in known:
                known[move.sequence].deletes = False
        first = moves[0].sequence
        waiting = [""] if _is_there(known, first) else []
        for move in moves:
            if move.before == key:
                del waiting[:1]
                at = waiting[0] if waiting else move.sequence
                known.setdefault(at, RowEvent(at)).deletes = True
            if move.key == key:
                waiting.append(move.sequence)
    for at in [at for at, event in known.items() if not event.deletes and not event.upserts]:
        del known[at]


def _is_there(known: Mapping[str, RowEvent], before: str) -> bool:
    """Return whether a row is there just before a sequence."""
    last = max((at for at in known if at < before), default=None)
    return last is not None and known[last].upserts
