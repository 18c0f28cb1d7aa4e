"""Rows of SCD type 1 that one whole image does not tell: read what is stored of their keys, join the changes to it.

Nearly every change is a whole image that is newer than its row, and is merged by the engine without being looked at
(plan.py). Of the others the driver reads the rows, and gives the engine what they come to:

    keys with changes that leave columns out, or are of a schema that has dropped some
    keys that changes of key connect                          told anew from the changes kept (key_log.py)
    keys whose columns have versions, and that a change is not newer than
    softly deleted keys with other changes in the batch       the deleted row keeps its last values

What a key comes to is row_merge.py; values stay in Arrow tables, and each is taken from the row that wrote it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headstream.spark.replicate.apply.engine import TableEngine
from headstream.spark.replicate.apply.key_log import KeyLog, stacked
from headstream.spark.replicate.apply.key_ranges import key_ranges, ranges_sql
from headstream.spark.replicate.apply.soft import DELETED
from headstream.spark.replicate.apply.state_rows import key_table, log_rows, shifted, taken
from headstream.spark.replicate.apply.tombstones import Tombstones
from headstream.spark.replicate.changes import OLD_PREFIX, OPERATIONS, Collapsed
from headstream.spark.replicate.conversion import arrow_type
from headstream.spark.replicate.row_merge import NO_SOURCE, Event, Key, KeyState, Row, Written, join_key, replay, sequence_of
from headstream.spark.replicate.row_versions import read_versions, write_versions
from headstream.spark.replicate.versions import ABSENT_VERSION, version_of

__all__ = ["Resolved", "Resolver"]

_LOGGER: Final = logging.getLogger("headstream.replicate")
_UPDATE: Final = OPERATIONS.index("UPDATE")
_BOOKKEEPING: Final = ["_hs_sequence", "_hs_versions"]


@dataclass(frozen=True, slots=True)
class Resolved:
    """What keys come to.

    Args:
        rows: Those to be written: key columns, the table's columns, `_hs_delete`, `_hs_sequence`, `_hs_versions`.
        deletions: What must be remembered of deletions first: key columns, `_hs_sequence`.
        same: Columns whose values are in the table already, for all of these rows.
    """

    rows: pa.Table
    deletions: pa.Table
    same: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Stored:
    """A row of the table: its place, its columns, whether it is deleted, the deletion that its columns came after, its number."""

    sequence: str
    row: Row
    deleted: bool
    floor: str
    number: int

    @property
    def upsert(self) -> str:
        """The place of its newest insert or update; "" if that is not known."""
        if not self.deleted:
            return self.sequence
        place = sequence_of(self.row.version)
        return place if place < self.sequence else ""


class Resolver:
    """The part of a table's merge that is done in the driver.

    Args:
        engine: What reads the table.
        keys: Its key columns.
        tombstones: Its deletions.
        log: The changes of keys that changes of key connect.
        soft: Whether deleted rows stay, marked.
    """

    def __init__(self, engine: TableEngine, keys: list[str], tombstones: Tombstones, log: KeyLog, *, soft: bool) -> None:
        self._engine = engine
        self._keys = keys
        self._tombstones = tombstones
        self._log = log
        self._soft = soft

    def find_late(self, changes: pa.Table) -> pa.Array:
        """Return the places of whole changes that are not newer than a row whose columns have versions.

        Args:
            changes: One a key, in the table's types.
        """
        where = "_hs_versions IS NOT NULL"
        if self._soft:
            where = f"({where} OR coalesce({DELETED}, false))"
        found = self.read([*self._keys, "_hs_sequence"], changes.select(self._keys), [where])
        numbered = changes.select([*self._keys, "_hs_sequence"]).append_column("_hs_place", _numbers(changes.num_rows))
        both = numbered.join(found.rename_columns([*self._keys, "_hs_stored"]), self._keys, join_type="inner")
        return both.filter(pc.less_equal(both["_hs_sequence"], both["_hs_stored"]))["_hs_place"].combine_chunks().sort()

    def read(self, columns: Sequence[str], wanted: pa.Table, conditions: Sequence[str] = ()) -> pa.Table:
        """Read columns, the key columns among them, of the table's rows that have one of some keys.

        Raises:
            StorageError: the table cannot be read.
        """
        wanted = wanted.group_by(self._keys).aggregate([])
        where = " AND ".join([*ranges_sql(key_ranges(wanted, self._keys)), *conditions])
        return self._engine.read_keys(columns, where or "TRUE", wanted)

    def resolve(self, events: pa.Table | None, late: pa.Table, collapsed: Collapsed) -> Resolved | None:
        """Return what keys come to; None if none is asked for. What changes of key connect is kept durably first.

        Args:
            events: As Collapsed.events, in the table's types.
            late: Whole changes that find_late() has found.
            collapsed: Where they are from.
        """
        batch = _Batch(events, late, self._keys, collapsed)
        if not batch.rows.num_rows:
            return None
        connected = self._log.connected(batch.keys)
        types = {name: arrow_type(kind) for name, kind in self._engine.columns.items()}
        read_columns = [name for name in (*self._keys, *collapsed.columns) if name in types]
        read_columns = [*dict.fromkeys(read_columns), *_BOOKKEEPING, *([DELETED] if self._soft else [])]
        wanted = key_table(batch.keys | connected, self._keys, types)
        rows = self.read(read_columns, wanted)
        stored = self._stored(rows)
        told = batch.events(rows.num_rows)
        values = [rows, batch.rows]
        states: dict[Key, KeyState] = {}
        moved = {key for event in told if event.kind == "move" for key in (event.key, event.before) if key is not None}
        kept = moved | connected
        if kept:
            self._keep([event for event in told if event.key in kept], stacked(values, types), stored, moved)
            logged, places = self._log.select(self._log.connected(kept))
            assert logged is not None
            offset = sum(part.num_rows for part in values)
            incomplete: list[Event] = []
            states = replay(shifted(self._log.events(places), offset), incomplete)
            values.append(logged)
            self._warn(incomplete, {event.sequence for event in told})
        buried = self._buried(batch.rows)
        by_key: dict[Key, list[Event]] = {}
        for event in told:
            if event.key not in kept:
                by_key.setdefault(event.key, []).append(event)
        for key, facts in by_key.items():
            state = _joined(facts, stored.get(key), buried.get(key, ""))
            if state is not None:
                states[key] = state
        return self._written(states, stored, buried, values, types)

    def _warn(self, incomplete: Iterable[Event], sequences: set[str]) -> None:
        """Say which rows lack columns, and what they wait for, when the changes that brought them to their keys come."""
        for event in incomplete:
            if event.sequence in sequences:
                _LOGGER.warning(
                    "table %s: the row of key %s has nulls for the columns that change %s of its key leaves out, until the "
                    "insert, or all updates, of key %s before that change come",
                    self._engine.path.name,
                    event.key,
                    event.sequence,
                    event.before,
                )

    def _stored(self, rows: pa.Table) -> dict[Key, _Stored]:
        """Return the rows of the table by key."""
        columns = [name for name in self._engine.columns if not name.startswith("_hs_") or name in self._keys]
        found = {}
        names = [*self._keys, *_BOOKKEEPING, *([DELETED] if self._soft else [])]
        for number, row in enumerate(rows.select(names).to_pylist()):
            sequence, text = row["_hs_sequence"], row["_hs_versions"]
            known, floor = read_versions(text, sequence, columns, number)
            deleted = bool(row.get(DELETED))
            found[tuple(row[key] for key in self._keys)] = _Stored(sequence, known, deleted, floor, number)
        return found

    def _keep(self, told: list[Event], values: pa.Table, stored: Mapping[Key, _Stored], moved: set[Key]) -> None:
        """Keep changes, and what is known of keys that nothing is kept of yet."""
        facts = self._known({key for key in moved if key not in self._log}, values.schema, stored)
        self._log.add(log_rows([*facts, *told], values, self._keys))

    def _known(self, keys: set[Key], types: pa.Schema, stored: Mapping[Key, _Stored]) -> list[Event]:
        """Return what the table and its tombstones know of keys, as events."""
        facts: list[Event] = []
        asked = key_table(keys, self._keys, types)
        found = self._tombstones.find(asked.append_column("_hs_sequence", pa.array([""] * len(keys), pa.string())))
        for row in found.to_pylist():
            facts.append(Event("delete", tuple(row[key] for key in self._keys), row["_hs_buried"]))
        for key, known in ((key, stored[key]) for key in keys if key in stored):
            if known.deleted:
                facts.append(Event("delete", key, known.sequence))
            if known.floor:
                facts.append(Event("delete", key, known.floor))
            if known.upsert:
                facts.append(Event("upsert", key, known.upsert, known.row))
        return facts

    def bring_old_moves(self) -> None:
        """Keep the changes of key that older versions of Headstream kept, with what is known of their keys now."""
        moves = self._log.old_moves()
        if not moves:
            return
        types = {name: arrow_type(kind) for name, kind in self._engine.columns.items()}
        keys = {key for move in moves for key in (move.key, move.before) if key is not None and key not in self._log}
        names = [name for name in types if not name.startswith("_hs_") or name in self._keys]
        rows = self.read([*names, *_BOOKKEEPING, *([DELETED] if self._soft else [])], key_table(keys, self._keys, types))
        left = {(move.before, move.sequence) for move in moves}  # their tombstones are the departures themselves
        facts = self._known(keys, rows.schema, self._stored(rows))
        facts = [fact for fact in facts if fact.kind != "delete" or (fact.key, fact.sequence) not in left]
        self._log.add(log_rows([*facts, *moves], rows, self._keys))
        self._log.drop_old()

    def _buried(self, rows: pa.Table) -> dict[Key, str]:
        """Return the deletions that are remembered of keys, as far as they are above the lowest change."""
        if not rows.num_rows:
            return {}
        found = self._tombstones.find(rows.select([*self._keys, "_hs_sequence"]))
        return {tuple(row[key] for key in self._keys): row["_hs_buried"] for row in found.to_pylist()}

    def _written(
        self,
        states: Mapping[Key, KeyState],
        stored: Mapping[Key, _Stored],
        buried: Mapping[Key, str],
        values: list[pa.Table],
        types: Mapping[str, pa.DataType],
    ) -> Resolved:
        """Return the rows that states come to, without those that are in the table already."""
        chosen: list[tuple[Key, KeyState]] = []
        deletions: list[tuple[Key, str]] = []
        for key, state in states.items():
            if not self._soft and state.deletion > buried.get(key, ""):
                deletions.append((key, state.deletion))
            if self._differs(state, stored.get(key)):
                chosen.append((key, state))
        names = [name for name in values[0].schema.names if not name.startswith("_hs_") and name not in self._keys]
        rows, sources = taken(chosen, stacked(values, types).select(names), self._keys, types)
        numbers = np.array([stored[key].number if key in stored else -1 for key, _ in chosen], np.int64)
        updates = np.array([state.exists or self._soft for _, state in chosen], np.bool_)
        same: set[str] = set()
        if (numbers >= 0).all():
            same = {name for name in names if np.array_equal(sources(name)[updates], numbers[updates])}
        states_of = [state for _, state in chosen]
        sequences = [state.upsert or state.deletion for state in states_of]
        floors = [state.floor if self._soft else "" for state in states_of]
        versions = [write_versions(s.row, q, f) for s, q, f in zip(states_of, sequences, floors, strict=True)]
        rows = rows.append_column("_hs_delete", pa.array([not state.exists for state in states_of], pa.bool_()))
        rows = rows.append_column("_hs_sequence", pa.array(sequences, pa.string()))
        rows = rows.append_column("_hs_versions", pa.array(versions, pa.string()))
        remembered = key_table([key for key, _ in deletions], self._keys, types)
        remembered = remembered.append_column("_hs_sequence", pa.array([at for _, at in deletions], pa.string()))
        return Resolved(rows, remembered, frozenset(same))

    def _differs(self, state: KeyState, known: _Stored | None) -> bool:
        """Return whether a state is not what is stored."""
        if known is None:
            return state.exists or (self._soft and bool(state.deletion))
        if not state.exists and not self._soft:
            return True
        sequence = state.upsert or state.deletion
        text = write_versions(state.row, sequence, state.floor if self._soft else "")
        before = write_versions(known.row, known.sequence, known.floor)
        return (state.exists, sequence, text) != (not known.deleted, known.sequence, before)


class _Batch:
    """The changes of a batch that are resolved, as rows and as events."""

    def __init__(self, events: pa.Table | None, late: pa.Table, keys: list[str], collapsed: Collapsed) -> None:
        self._keys = keys
        self._present = collapsed.present
        self._columns = frozenset(collapsed.columns) - frozenset(keys)
        carried = set(late.schema.names)
        self._dropped = {name: Written(ABSENT_VERSION, NO_SOURCE) for name in self._columns if name not in carried}
        parts = [part for part in (events, late) if part is not None]
        self.rows = stacked(parts[::-1])
        names = [*keys, "_hs_sequence", "_hs_delete"]
        more = [
            *(OLD_PREFIX + key for key in keys),
            "_hs_operation",
            "_hs_moved",
            "_hs_partial",
            "_hs_columns",
            "_hs_transaction",
            "_hs_event",
        ]
        self._told = self.rows.select([*names, *(name for name in more if name in self.rows.schema.names)]).to_pylist()
        self.keys = {self._key(row) for row in self._told}
        self.keys |= {self._before(row) for row in self._told if row.get("_hs_moved")}

    def _key(self, row: Mapping[str, Any]) -> Key:
        return tuple(row[name] for name in self._keys)

    def _before(self, row: Mapping[str, Any]) -> Key:
        return tuple(row[OLD_PREFIX + name] for name in self._keys)

    def events(self, first: int) -> list[Event]:
        """Return the changes as events.

        Args:
            first: The number of the first row as a source.
        """
        found = []
        for number, row in enumerate(self._told, first):
            key, sequence = self._key(row), row["_hs_sequence"]
            transaction, place = row.get("_hs_transaction") or "", row.get("_hs_event") or 0
            if row["_hs_delete"]:
                found.append(Event("delete", key, sequence, transaction=transaction, number=place))
                continue
            written = Written(version_of(sequence), number)
            if row.get("_hs_partial"):
                columns = dict.fromkeys(self._present(row["_hs_columns"]) & self._columns, written)
                image = Row(columns=columns)
            elif row.get("_hs_operation") == _UPDATE:
                image = Row(written, self._dropped)
            else:
                image = Row(written)
            if row.get("_hs_moved"):
                found.append(Event("move", key, sequence, image, self._before(row), transaction, place))
            else:
                found.append(Event("upsert", key, sequence, image, None, transaction, place))
        return found


def _joined(facts: Iterable[Event], known: _Stored | None, buried: str) -> KeyState | None:
    deletions = [event.sequence for event in facts if event.kind == "delete"]
    upserts = [(event.sequence, event.row) for event in facts if event.kind != "delete"]
    if known is not None:
        upserts.insert(0, (known.upsert, known.row))
        deletions += [known.floor, *([known.sequence] if known.deleted else [])]
    return join_key([*deletions, buried], upserts)


def _numbers(count: int) -> pa.Array:
    return pa.array(np.arange(count))
