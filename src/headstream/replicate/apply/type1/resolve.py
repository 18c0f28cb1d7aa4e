"""Resolves SCD type 1 changes that are not one complete image per key, by joining the changes to the stored rows of their keys.

Nearly every change is a complete image that is newer than its row; the engine merges such changes without reading the row first
(plan.py). For all other changes the driver reads the rows and passes resolved rows to the engine:

    keys with changes that omit columns, or with a schema that has dropped columns
    keys that key updates connect                             replayed from logged changes (key_log.py)
    keys whose columns have versions, with a change that is not newer than the row
    softly deleted keys with other changes in the batch       a deleted row keeps its last values

row_merge.py resolves a key. Values stay in Arrow tables; each value is taken from the row that wrote it. Executors resolve a
bucket of keys in the same way (join.py), except keys whose changes must be logged, because only the driver has the log.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.apply.moved_keys.logged_rows import ChangeLog, stacked
from headstream.replicate.apply.moved_keys.stored_rows import Bookkeeping, StoredRow, displaced_keys, joined, without_ended
from headstream.replicate.apply.type1.batch_events import BatchEvents
from headstream.replicate.apply.type1.state_rows import key_table, leave_out_same, log_rows, shifted, taken
from headstream.replicate.columns.changes import OPERATIONS, Collapsed
from headstream.replicate.columns.conversion import arrow_type
from headstream.replicate.columns.row_merge import KNOWN_STATE, Key, KeyEvent, KeyState, KnownRow, replay
from headstream.replicate.columns.row_versions import NO_WHOLE_IMAGE, read_versions, write_versions
from headstream.replicate.columns.versions import ABSENT_VERSION, LOAD_MARK, LOAD_TIME_CHARACTERS
from headstream.replicate.engines.key_ranges import key_ranges, ranges_sql
from headstream.replicate.engines.plan import DELETED, quote_text
from headstream.replicate.storage.places import Place

_LOGGER: Final = logging.getLogger("headstream.replicate")
_LOAD_TIMES: Final = re.compile(rf"{re.escape(LOAD_MARK)}\d{{{LOAD_TIME_CHARACTERS}}}")
_INSERT: Final = OPERATIONS.index("INSERT")
_BOOKKEEPING: Final = ["_hs_sequence", "_hs_versions"]


@dataclass(frozen=True, slots=True)
class Resolved:
    """The result of a resolver.

    Args:
        rows: The rows to write: key columns, the table's columns, `_hs_delete`, `_hs_sequence`, `_hs_versions`.
        deletions: The tombstones to write before the rows: key columns, `_hs_sequence`.
        deferred: Keys that are not resolved, because their changes must be logged first and the resolver has no log.
    """

    rows: pa.Table
    deletions: pa.Table
    same: frozenset[str]
    deferred: frozenset[Key] = frozenset()


class StoredTable(Protocol):
    """Interface through which a resolver reads a table: the table's engine, or the rows of given keys."""

    @property
    def path(self) -> Place:
        """The table's directory or URI."""

    @property
    def columns(self) -> dict[str, str]:
        """All columns and their Spark types, in table order."""

    def read(self, columns: Sequence[str], where: str) -> pa.Table:
        """Return the given columns of the rows that match an SQL condition."""

    def read_keys(self, columns: Sequence[str], where: str, keys: pa.Table) -> pa.Table:
        """Return the given columns of the rows with the given keys; `where` must hold for all of these rows."""


class KnownDeletions(Protocol):
    """Interface through which a resolver reads tombstones."""

    def find(self, rows: pa.Table) -> pa.Table:
        """Return the rows' keys with tombstones newer than the oldest row: key columns, and `_hs_deletion` (the newest)."""


class Resolver:
    """Joins a table's changes to stored rows.

    Args:
        log: The table's log of connected keys; None on executors, where only resolve() and find_late() can be called.
    """

    def __init__(
        self, engine: StoredTable, keys: list[str], tombstones: KnownDeletions, log: ChangeLog | None, *, soft: bool
    ) -> None:
        self._engine = engine
        self._keys = keys
        self._tombstones = tombstones
        self._own_log = log
        self._soft = soft

    @property
    def _log(self) -> ChangeLog:
        assert self._own_log is not None, "the driver has a log"
        return self._own_log

    def find_late(self, changes: pa.Table, *, tracks: bool) -> pa.Array:
        """Return the positions of complete changes that are not newer than a row whose columns have versions.

        With `tracks`, the rows of all keys are read, and changes that displace a row (stored_rows.py) are included.
        """
        where = "_hs_versions IS NOT NULL"
        if self._soft:
            where = f"({where} OR coalesce({DELETED}, false))"
        columns = [*self._keys, "_hs_sequence", "_hs_versions", *([DELETED] if self._soft else [])]
        found = self.read(columns, changes.select(self._keys), [] if tracks else [where])
        if not tracks:  # the engine may have ignored the condition
            chosen = found["_hs_versions"].is_valid()
            chosen = pc.or_(chosen, pc.fill_null(found[DELETED], False)) if self._soft else chosen
            found = found.filter(chosen)
        found = found.select([*self._keys, "_hs_sequence", "_hs_versions"])
        numbered = changes.select([*self._keys, "_hs_sequence", "_hs_operation"])
        numbered = numbered.append_column("_hs_place", pa.array(np.arange(changes.num_rows)))
        both = numbered.join(found.rename_columns([*self._keys, "_hs_stored", "_hs_versions"]), self._keys, join_type="inner")
        late = pc.less_equal(both["_hs_sequence"], both["_hs_stored"])
        if tracks:
            partly_known = pc.fill_null(pc.starts_with(both["_hs_versions"], NO_WHOLE_IMAGE), False)
            late = pc.or_(late, pc.or_(partly_known, pc.equal(both["_hs_operation"], _INSERT)))
        return both.filter(late)["_hs_place"].combine_chunks().sort()

    def read(self, columns: Sequence[str], wanted: pa.Table, conditions: Sequence[str] = ()) -> pa.Table:
        """Read columns, which must include the key columns, of the rows with one of the given keys."""
        wanted = wanted.group_by(self._keys).aggregate([])
        where = " AND ".join([*ranges_sql(key_ranges(wanted, self._keys)), *conditions])
        return self._engine.read_keys(columns, where or "TRUE", wanted)

    def resolve(
        self, events: pa.Table | None, late: pa.Table, collapsed: Collapsed, ended: Sequence[str], *, tracks: bool
    ) -> Resolved | None:
        """Return the resolved keys, or None if there are none. Changes of connected keys are first logged durably.

        Args:
            events: As Collapsed.events, in the table's types.
            tracks: Whether to log changes of keys from which a key update that arrives late can have moved a row.
        """
        batch = BatchEvents(events, late, self._keys, collapsed)
        if not batch.rows.num_rows:
            return None
        connected = set() if self._own_log is None else self._log.connected(batch.keys)
        types = {name: arrow_type(kind) for name, kind in self._engine.columns.items()}
        wanted = key_table(batch.keys | connected, self._keys, types)
        rows = self.read(self._wanted_columns(collapsed.columns, types), wanted)
        stored = self._stored(rows)
        incoming = batch.events(rows.num_rows)
        values = [rows, batch.rows]
        states: dict[Key, KeyState] = {}
        moved = {key for event in incoming if event.kind == "move" for key in (event.key, event.before) if key is not None}
        tombstoned = self._find_tombstones(batch.rows)
        if tracks:
            moved |= displaced_keys(incoming, batch.inserts, stored, tombstoned)
        kept = moved | connected
        if kept and self._own_log is not None:
            together = stacked(values, types)
            known = self._known({key for key in moved if key not in self._log}, together.schema, stored, ended)
            self._log.add(log_rows([*known, *(one for one in incoming if one.key in kept)], together, self._keys))
            logged, places = self._log.select(self._log.connected(kept))
            assert logged is not None
            offset = sum(part.num_rows for part in values)
            incomplete: list[tuple[KeyEvent, KnownRow]] = []
            states = replay(shifted(self._log.events(places), offset), incomplete)
            values.append(logged)
            self._warn(incomplete, {event.sequence for event in incoming}, collapsed.columns)
        by_key: dict[Key, list[KeyEvent]] = {}
        for event in incoming:
            if event.key not in kept:
                by_key.setdefault(event.key, []).append(event)
        for key, facts in by_key.items():
            state = joined(facts, stored.get(key), tombstoned.get(key, ""), ended)
            if state is not None:
                states[key] = state
        resolved = self._written(states, stored, tombstoned, values, types)
        return replace(resolved, deferred=frozenset(kept)) if self._own_log is None else resolved

    def without_ended(self, bound: str, columns: Iterable[str], *, versioned: bool) -> Resolved | None:
        """Return the resolved keys that differ from the table because a full load has ended; None if there are none.

        Logged keys are replayed. In other rows, columns that are older than the load become null, because the load did not
        contain these rows and later changes have written only some of the columns.

        Args:
            bound: The position below which the load replaces rows; logged changes below `bound` must be followed by a deletion.
            columns: The table's columns from its source.
        """
        logged, places = self._log.select(self._log.keys())
        ended = self._partly_ended(bound) if versioned else set()
        if logged is None and not ended:
            return None
        types = {name: arrow_type(kind) for name, kind in self._engine.columns.items()}
        asked = key_table({*ended, *self._log.keys()}, self._keys, types)
        rows = self.read(self._wanted_columns(columns, types), asked)
        tombstoned = self._find_tombstones(asked.append_column("_hs_sequence", pa.array([""] * asked.num_rows, pa.string())))
        stored = self._stored(rows)
        states = replay(shifted(self._log.events(places), rows.num_rows))
        states |= {key: state for key in ended if (state := without_ended(stored[key], bound, soft=self._soft)) is not None}
        return self._written(states, stored, tombstoned, [rows] if logged is None else [rows, logged], types)

    def _partly_ended(self, bound: str) -> set[Key]:
        """Return the keys without logged changes whose rows have columns from below and from above a position."""
        names = [*self._keys, *_BOOKKEEPING, *([DELETED] if self._soft else [])]
        rows = self._engine.read(names, f"_hs_sequence > {quote_text(bound)} AND _hs_versions IS NOT NULL")
        stored = self._stored(rows).items()
        return {key for key, known in stored if key not in self._log and without_ended(known, bound, soft=self._soft)}

    def _wanted_columns(self, columns: Iterable[str], types: Mapping[str, pa.DataType]) -> list[str]:
        """Return the columns to read of stored rows: key columns, columns of the source, bookkeeping."""
        known = dict.fromkeys(name for name in (*self._keys, *columns) if name in types)
        return [*known, *_BOOKKEEPING, *([DELETED] if self._soft else [])]

    def _warn(self, incomplete: Iterable[tuple[KeyEvent, KnownRow]], sequences: set[str], columns: Iterable[str]) -> None:
        """Warn about rows that lack columns, naming the missing changes."""
        for event, row in incomplete:
            missing = [name for name in columns if name not in self._keys and row.at(name).version == ABSENT_VERSION]
            if missing and event.sequence in sequences:
                _LOGGER.warning(
                    "Table %s, key %s: columns %s are NULL because change %s changed the key and did not carry them. They are "
                    "filled when the earlier insert or updates of key %s arrive. If these changes were already applied, "
                    "another row has replaced the row that they wrote: reload the row with the key named first.",
                    self._engine.path.name,
                    event.key,
                    ", ".join(missing),
                    event.sequence,
                    event.before,
                )

    def _stored(self, rows: pa.Table) -> dict[Key, StoredRow]:
        columns = [name for name in self._engine.columns if not name.startswith("_hs_") or name in self._keys]
        found = {}
        names = [*self._keys, *_BOOKKEEPING, *([DELETED] if self._soft else [])]
        for number, row in enumerate(rows.select(names).to_pylist()):
            sequence, text = row["_hs_sequence"], row["_hs_versions"]
            known, floor = read_versions(text, sequence, columns, number)
            deleted = bool(row.get(DELETED))
            found[tuple(row[key] for key in self._keys)] = StoredRow(sequence, known, deleted, floor, number)
        return found

    def _known(self, keys: set[Key], types: pa.Schema, stored: Mapping[Key, StoredRow], ended: Sequence[str]) -> list[KeyEvent]:
        """Return the state of keys in the table and the tombstones as events."""
        facts: list[KeyEvent] = []
        names = frozenset(name for name in types.names if not name.startswith("_hs_") and name not in self._keys)
        asked = key_table(keys, self._keys, types)
        found = self._tombstones.find(asked.append_column("_hs_sequence", pa.array([""] * len(keys), pa.string())))
        for row in found.to_pylist():
            facts.append(KeyEvent("delete", tuple(row[key] for key in self._keys), row["_hs_deletion"], number=KNOWN_STATE))
        for key, known in ((key, stored[key]) for key in keys if key in stored):
            facts += [*known.deletions(key, ended), *known.upserts(key, names)]
        return facts

    def bring_old_moves(self) -> None:
        """Migrate the key updates that older versions of Headstream stored, adding the current state of their keys."""
        moves = self._log.old_moves()
        if not moves:
            return
        types = {name: arrow_type(kind) for name, kind in self._engine.columns.items()}
        keys = {key for move in moves for key in (move.key, move.before) if key is not None and key not in self._log}
        names = [name for name in types if not name.startswith("_hs_") or name in self._keys]
        rows = self.read([*names, *_BOOKKEEPING, *([DELETED] if self._soft else [])], key_table(keys, self._keys, types))
        left = {(move.before, move.sequence) for move in moves}  # the tombstones of these keys record the moves
        facts = self._known(keys, rows.schema, self._stored(rows), ())
        facts = [fact for fact in facts if fact.kind != "delete" or (fact.key, fact.sequence) not in left]
        self._log.add(log_rows([*facts, *moves], rows, self._keys))
        self._log.drop_old()

    def _find_tombstones(self, rows: pa.Table) -> dict[Key, str]:
        """Return the keys' tombstones above the lowest change."""
        if not rows.num_rows:
            return {}
        found = self._tombstones.find(rows.select([*self._keys, "_hs_sequence"]))
        return {tuple(row[key] for key in self._keys): row["_hs_deletion"] for row in found.to_pylist()}

    def _written(
        self,
        states: Mapping[Key, KeyState],
        stored: Mapping[Key, StoredRow],
        tombstoned: Mapping[Key, str],
        values: list[pa.Table],
        types: Mapping[str, pa.DataType],
    ) -> Resolved:
        """Return the rows of key states, without rows that equal the stored rows."""
        chosen: list[tuple[Key, KeyState]] = []
        texts: list[tuple[str, str | None]] = []
        again: list[int] = []
        deletions: list[tuple[Key, str]] = []
        for key, state in states.items():
            if not self._soft and state.deletion > tombstoned.get(key, ""):
                deletions.append((key, state.deletion))
            known, after = stored.get(key), self._bookkeeping(state)
            before = None if known is None else known.bookkeeping
            if before is None and not state.exists and not (self._soft and state.deletion):
                continue
            if before is not None and (state.exists or self._soft):
                if after == before:
                    continue
                if _without_load_times(after) == _without_load_times(before):
                    again.append(len(chosen))
            chosen.append((key, state))
            texts.append(after[1:])
        names = [name for name in values[0].schema.names if not name.startswith("_hs_") and name not in self._keys]
        rows, sources = taken(chosen, stacked(values, types).select(names), self._keys, types)
        numbers = np.array([stored[key].number if key in stored else -1 for key, _ in chosen], np.int64)
        updates = np.array([state.exists or self._soft for _, state in chosen], np.bool_)
        same: set[str] = set()
        if (numbers >= 0).all():
            same = {name for name in names if np.array_equal(sources(name)[updates], numbers[updates])}
        rows = rows.append_column("_hs_delete", pa.array([not state.exists for _, state in chosen], pa.bool_()))
        rows = rows.append_column("_hs_sequence", pa.array([sequence for sequence, _ in texts], pa.string()))
        rows = rows.append_column("_hs_versions", pa.array([versions for _, versions in texts], pa.string()))
        if again:
            before_rows = values[0].select(names).take(pa.array(numbers[again]))
            rows = leave_out_same(rows, again, before_rows)
        remembered = key_table([key for key, _ in deletions], self._keys, types)
        remembered = remembered.append_column("_hs_sequence", pa.array([at for _, at in deletions], pa.string()))
        return Resolved(rows, remembered, frozenset(same))

    def _bookkeeping(self, state: KeyState) -> Bookkeeping:
        sequence = state.upsert or state.deletion
        return state.exists, sequence, write_versions(state.row, sequence, state.floor if self._soft else "")


def _without_load_times(text: Bookkeeping) -> list[bool | str | None]:
    """Return a row's bookkeeping without the log times of rows of a full load."""
    return [part if part is None or isinstance(part, bool) else _LOAD_TIMES.sub(LOAD_MARK, part) for part in text]
