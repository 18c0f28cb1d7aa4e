"""Current rows (SCD type 1): merges one change per key into a table, comparing change sequences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headstream.errors import SchemaError
from headstream.replicate.apply.evolution import plan_evolution
from headstream.replicate.apply.moved_keys.key_log import KeyLog
from headstream.replicate.apply.moved_keys.log_folding import end_logged, fold_log
from headstream.replicate.apply.on_executors.executor_rows import FoldedChanges, JoinedChanges
from headstream.replicate.apply.on_executors.fold import has_loads, join_reports
from headstream.replicate.apply.tombstones import Tombstones
from headstream.replicate.apply.type1.merge_source import merge_source, mixed_source, report_source
from headstream.replicate.apply.type1.resolve import Resolved, Resolver
from headstream.replicate.apply.type1.soft import KEPT_VERSIONS, soften
from headstream.replicate.apply.type1.state_rows import key_table
from headstream.replicate.apply.unit_memory import RememberedTable
from headstream.replicate.codec import TableMetadata
from headstream.replicate.columns.changes import CHANGE_KEY, RESERVED_PREFIX, Collapsed, collapse
from headstream.replicate.columns.conversion import arrow_type, in_table_types
from headstream.replicate.columns.large_values import take_rows
from headstream.replicate.columns.row_merge import Key
from headstream.replicate.columns.row_versions import not_carried_sql
from headstream.replicate.engines.engine import RowCounts, TableEngine
from headstream.replicate.engines.key_ranges import key_ranges, literal_ranges, ranges_sql
from headstream.replicate.engines.plan import DELETED, plan_merge, quote_text

_BOOKKEEPING: Final = {"_hs_sequence": "STRING", "_hs_versions": "STRING"}


class Scd1Table(RememberedTable):
    """One target table of SCD type 1; with `soft`, deleted rows stay and are marked as deleted."""

    def __init__(
        self,
        engine: TableEngine,
        keys: list[str],
        tombstones: Tombstones,
        *,
        soft: bool = False,
        partition_by: Sequence[str] = (),
        mapped: bool = False,
    ) -> None:
        self._tombstones = tombstones
        self._log = KeyLog(tombstones.path, keys)
        super().__init__(engine, keys, tombstones, self._log)
        self._partition_by = partition_by
        self._mapped = mapped
        self._resolver = Resolver(engine, keys, tombstones, self._log, soft=soft)
        self._soft = soft
        self._versioned = bool(engine.columns) and engine.count_values("_hs_versions") != 0
        # Older versions of Headstream did not write the log; softly deleted rows always have versions.
        self._tracked = self._versioned and not soft
        self._over = ""

    @property
    def is_uniform(self) -> bool:
        """Whether every row is from one change; a merge of a complete image then needs only the stored row's sequence."""
        return not (self._soft or self._versioned or self.tracks or self._log)

    def prepare(self, schema: Mapping[str, str], *, older: bool = False) -> None:
        """Create the table, or extend its columns to fit a schema.

        Args:
            older: Whether the table has already followed a newer schema, so its rows do not carry columns that this schema adds.
        """
        if not self.engine.columns:
            own_key = {CHANGE_KEY: "STRING"} if self.keys == [CHANGE_KEY] else {}
            soft = {DELETED: "BOOLEAN"} if self._soft else {}
            self.engine.create({**schema, **own_key, **_BOOKKEEPING, **soft}, self._partition_by, mapped=self._mapped)
            return
        if self._soft and DELETED not in self.engine.columns:
            self.engine.add_columns({DELETED: "BOOLEAN"})
        if older and self._log:
            self._log.leave_out([name for name in schema if name not in self.columns])
        added = fit_columns(self.engine, self.columns, schema)
        self._log.fit(self.columns)
        if older and added:
            self.engine.update({"_hs_versions": not_carried_sql(added)}, "TRUE")
            self._versioned = True
        self._resolver.bring_old_moves()

    def collapse(self, changes: pa.Table, metadata: TableMetadata, columns: Iterable[str] | None = None) -> Collapsed:
        """Divide changes into changes to merge directly and changes to join to stored rows.

        Args:
            changes: Decoded changes, in any order; repeats are allowed.
        """
        wanted = self._log.mask if self._log else None
        own = self.columns if columns is None else columns
        return collapse(changes, metadata, own, wanted, soft=self._soft, tracks=self.tracks)

    @property
    def tracks(self) -> bool:
        """Whether the table has had changes that omit columns; a key update that arrives later can need these columns."""
        return (self._tracked or self._log.begun) and self.keys != [CHANGE_KEY]

    def merge(self, collapsed: Collapsed, app_id: str, version: int, ended: Sequence[str] = ()) -> RowCounts:
        """Merge changes in one commit that records (app_id, version). If the commit exists, do nothing.

        Args:
            version: Number of the unit; must increase.
            ended: The strings below which loads have replaced rows; see Loads.ends.
        """
        applied = self.engine.last_applied(app_id)
        if applied is not None and applied >= version:
            return RowCounts()

        def merge() -> RowCounts:
            changes, resolved = self._resolve(collapsed, ended)
            self._remember(collapsed.deletions, resolved)
            return self._write(changes, resolved, collapsed.columns, app_id, version)

        counts = self._merge_unit(app_id, version, merge)
        self._fold_excess()
        return counts

    def _resolve(self, collapsed: Collapsed, ended: Sequence[str]) -> tuple[pa.Table, Resolved | None]:
        """Return the changes that are merged as received, and the resolved rows of other keys."""
        changes, _ = self._tombstones.divide(in_table_types(collapsed.changes, self.columns))
        events = None if collapsed.events is None else in_table_types(collapsed.events, self.columns)
        late = changes.slice(0, 0)
        if events is not None and pc.any(events["_hs_partial"]).as_py():
            self.begin_tracking()
        tracks = self.tracks
        if tracks or self._versioned or self._soft:
            places = self._resolver.find_late(changes, tracks=tracks) if changes.num_rows else pa.array([], pa.int64())
            late = take_rows(changes, places)
            changes = changes.filter(pc.invert(pc.is_in(pa.array(range(changes.num_rows), pa.int64()), places)))
        return changes, self._resolver.resolve(events, late, collapsed, ended, tracks=tracks)

    def _fold_excess(self) -> None:
        """Fold the older changes of a long log; called after a merge, when the table contains these changes."""
        excess = self._log.excess()
        if excess is not None:
            fold_log(self._log, self.keys, excess, soft=self._soft)

    def begin_tracking(self) -> None:
        """Record durably that the table has had changes that omit columns."""
        self._log.begin()

    def tombstones_above(self, lowest: str, most: int) -> pa.Table | None:
        """Return the table's tombstones above a sequence; None if there are more than `most`. See Tombstones.above()."""
        return self._tombstones.above(lowest, most)

    def merge_folded(self, folded: FoldedChanges, app_id: str, version: int) -> RowCounts:
        """Merge changes that executors have folded, in one commit that records (app_id, version); the commit must not exist."""
        report = folded.report
        plan = plan_merge(
            [name for name in folded.task.row_types if not name.startswith(RESERVED_PREFIX)],
            self.keys,
            loads=report.has_loads,
            where=ranges_sql(literal_ranges(report.ranges), "t."),
        )
        plan = plan if report.deletes else replace(plan, delete_when=None)

        def merge() -> RowCounts:
            for deletions in folded.deletions():
                self._tombstones.record(deletions)
            return self.engine.merge(plan, folded.rows(), app_id, version)

        return self._merge_unit(app_id, version, merge)

    def logged_keys(self, most: int) -> pa.Table | None:
        """Return the connected keys, whose changes are logged; None if there are more than `most`."""
        keys = self._log.keys()
        if len(keys) > most:
            return None
        return key_table(keys, self.keys, {key: arrow_type(self.columns[key]) for key in self.keys})

    def merge_joined(
        self, joined: JoinedChanges, own: Collapsed | None, app_id: str, version: int, ended: Sequence[str] = ()
    ) -> RowCounts:
        """Merge changes that executors have joined to stored rows, and changes left to the driver, in one commit.

        Args:
            own: The result of collapse() for the changes left to the driver, or None.
        """

        def merge() -> RowCounts:
            rows, reports = None, [joined.report]
            if own is not None:
                changes, resolved = self._resolve(own, ended)
                self._remember(own.deletions, resolved)
                changes, names = changes.drop_columns(["_hs_operation"]), list(joined.task.row_types)
                rows = mixed_source(changes, resolved, own.columns, self.columns, names, soft=self._soft)
                reports.append(report_source(0, rows, self.keys))
            for deletions in joined.deletions():
                self._tombstones.record(deletions)
            report = join_reports(reports)
            self._versioned = self._versioned or report.has_versions
            plan = plan_merge(
                [name for name in joined.task.row_types if not name.startswith(RESERVED_PREFIX)],
                self.keys,
                resolved=True,
                versioned=True,
                loads=report.has_loads,
                where=ranges_sql(literal_ranges(report.ranges), "t."),
            )
            plan = soften(plan, resolved=True) if self._soft else plan if report.deletes else replace(plan, delete_when=None)
            return self.engine.merge(plan, joined.rows(rows), app_id, version)

        counts = self._merge_unit(app_id, version, merge)
        self._fold_excess()
        return counts

    def _write(
        self, changes: pa.Table, resolved: Resolved | None, columns: Sequence[str], app_id: str, version: int
    ) -> RowCounts:
        source, same = merge_source(changes.drop_columns(["_hs_operation"]), resolved, columns, self.columns, soft=self._soft)
        self._versioned = self._versioned or source["_hs_versions"].null_count < source.num_rows
        plan = plan_merge(
            [name for name in source.schema.names if not name.startswith(RESERVED_PREFIX) and name not in same],
            self.keys,
            resolved=resolved is not None,
            plain=resolved is None or changes.num_rows > 0,
            versioned=self._versioned,
            loads=has_loads(changes),
            where=ranges_sql(key_ranges(source, self.keys), "t."),
        )
        if self._soft:
            plan = soften(plan, resolved=resolved is not None)
        elif not pc.any(source["_hs_delete"]).as_py():
            plan = replace(plan, delete_when=None)
        return self.engine.merge(plan, source.drop_columns(sorted(same)), app_id, version)

    def _remember(self, deletions: pa.Table | None, resolved: Resolved | None) -> None:
        """Write the tombstones of deletions, before the merge; softly deleted rows need no tombstones."""
        if self._soft:
            return
        parts = [] if deletions is None else [in_table_types(deletions, self.columns)]
        parts += [] if resolved is None else [resolved.deletions]
        if parts:
            self._tombstones.record(pa.concat_tables(parts))

    def forget(self, until: str) -> None:
        """Remove tombstones and logged changes of connected keys up to the sequence `until`."""
        self._tombstones.prune(until)
        if self._log:
            fold_log(self._log, self.keys, until, soft=self._soft)

    def forget_ended(self) -> None:
        """Remove the logged changes that ended loads make obsolete. Call forget_ended() when no message of the table is parked.

        Parked rows of a load are merged after the load has ended. The last values of softly deleted rows that key updates have
        moved depend on these rows.
        """
        if self._over and self._log:
            fold_log(self._log, self.keys, self._over, vanished=True, soft=True)
        self._over = ""

    def find_known(self, changes: pa.Table) -> set[Key]:
        """Return the keys of changes with a known row, tombstone or logged change.

        Args:
            changes: Rows with the key columns and `_hs_sequence`, in types that fit the table's types.
        """
        rows = in_table_types(changes.select([*self.keys, "_hs_sequence"]), self.columns)
        found = self._tombstones.find(rows).select(self.keys)
        found = pa.concat_tables([found, self._resolver.read(self.keys, rows.select(self.keys))])
        keys = set(zip(*(found[key].to_pylist() for key in self.keys), strict=True))
        return keys | {key for key in zip(*(rows[key].to_pylist() for key in self.keys), strict=True) if key in self._log}

    def end_load(self, bound: str, columns: Sequence[str], app_id: str, version: int) -> RowCounts:
        """Remove the rows that an ended full load does not contain: rows that no change above `bound` has written. Idempotent.

        Before the load was known, a key update can have moved a row that the load does not contain. Thus, connected keys are
        replayed without the rows that the load has ended. If changes above `bound` have written only some columns of a row, the
        other columns become null.

        Args:
            bound: Position up to which tombstones and logged changes are removed; with soft deletions, forget_ended() removes
                the logged changes.
        """
        if not self.engine.columns:
            return RowCounts()
        where = f"_hs_sequence <= {quote_text(bound)}"
        if self._soft:
            removed = self.engine.update(
                {DELETED: "true", "_hs_sequence": quote_text(bound), "_hs_versions": KEPT_VERSIONS.format("")},
                f"{where} AND NOT coalesce({DELETED}, false)",
            )
            self._versioned = True
            if self._log:
                end_logged(self._log, self.keys, bound)
            self._over = bound
        else:
            removed = self.engine.delete(where)
            if self._log:
                fold_log(self._log, self.keys, bound, vanished=True)
        self._tombstones.prune(bound)
        replayed = self._resolver.without_ended(bound, columns, versioned=self._versioned)
        if replayed is None or not replayed.rows.num_rows:
            return RowCounts(deleted=removed)
        self._remember(None, replayed)
        nothing = replayed.rows.slice(0, 0).append_column("_hs_operation", pa.array([], pa.int8()))
        counts = self._write(nothing, replayed, columns, app_id, version)
        return RowCounts(counts.inserted, counts.updated, counts.deleted + removed)


def fit_columns(engine: TableEngine, columns: Mapping[str, str], schema: Mapping[str, str]) -> list[str]:
    """Extend a table's columns to fit a schema, and return the new columns; SchemaError if a column's types are incompatible."""
    try:
        evolution = plan_evolution(columns, schema)
    except SchemaError as error:
        raise SchemaError(error.what, where=str(engine.path), advice=error.advice) from None
    if evolution.widened:
        engine.widen(evolution.widened)
    if evolution.added:
        engine.add_columns(evolution.added)
    return list(evolution.added)
