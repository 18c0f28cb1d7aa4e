"""Merges with deletion vectors: matched rows are marked as deleted, and new files contain the rows that replace them.

    files by statistics  ->  live rows by key (key_index.py)  ->  rows after the merge  ->  one commit

The cost depends only on the changes. The plan is applied as in a merge that rewrites files, but only to matched rows.
"""

from __future__ import annotations

import bisect
import datetime
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from headstream.errors import StorageError
from headstream.replicate.columns.large_values import take_rows
from headstream.replicate.engines.engine import RowCounts
from headstream.replicate.engines.key_index import KeyIndex, Positions, SearchedKeys, can_find, find_rows
from headstream.replicate.engines.plan import MergePlan, quote_name, unquote_name
from headstream.replicate.engines.rewriting import rewritten
from headstream.replicate.settings.merge_settings import MergeSettings, MergeStrategy
from headstream.replicate.storage.data_files import write_data_files
from headstream.replicate.storage.delta_commit import Conflict, commit_rows
from headstream.replicate.storage.delta_log import VECTORS_PROPERTY, DataFile, LogSnapshot, merge_on_read_refusal, open_parquet
from headstream.replicate.storage.places import Place

_LOGGER: Final = logging.getLogger("headstream.replicate")
OWN_TABLE: Final = {"headstream.mergeStrategy": "auto"}
"""The property of tables that are created with the strategy `auto`, which can enable their deletion vectors."""
_ATTEMPTS: Final = 5
_THREADS: Final = 2
_SEQUENCE: Final = "_hs_sequence"
_EPOCH: Final = datetime.date(1970, 1, 1).toordinal()
_ROW, _TOUCHED = "_hs_row", "_hs_touched"


@dataclass(frozen=True, slots=True)
class _Found:
    """The live rows of a file that match changes.

    Args:
        positions: Ascending positions of the rows.
        changes: For each row, the number of the matching change.
    """

    file: DataFile
    positions: Positions
    changes: Positions

    def only(self, chosen: Any) -> _Found:
        return _Found(self.file, self.positions[chosen], self.changes[chosen])


class MergeOnRead:
    """Runs merges of one table with deletion vectors; `advanced` returns the newest state of the table's log."""

    def __init__(
        self, path: Place, advanced: Callable[[], LogSnapshot], strategy: MergeStrategy, settings: MergeSettings
    ) -> None:
        self._advanced = advanced
        self.strategy = strategy
        self._settings = settings
        self.index = KeyIndex(settings.key_index, str(path), settings.key_index_size)
        self._refusal: str | None = None

    def may_pay(self, configuration: Mapping[str, str], size_bytes: int) -> bool:
        """Return whether a merge may use deletion vectors; otherwise the table's log need not be read."""
        if self.strategy != "auto":
            return True
        is_open = configuration.get(VECTORS_PROPERTY) == "true" or OWN_TABLE.items() <= configuration.items()
        return is_open and size_bytes >= self._settings.rewrite_below

    def merge(self, plan: MergePlan, changes: pa.Table, app_id: str, version: int) -> RowCounts | None:
        """Run a merge in one commit that records (app_id, version); return None if the files must be rewritten instead.

        Raises:
            StorageError: the table cannot be read or written, or has two rows with the same key.
            HeadstreamError, OSError, pyarrow.ArrowException: raised by libraries, not translated.
        """
        snapshot = self._advanced()
        applied = snapshot.transactions.get(app_id)
        for _ in range(_ATTEMPTS):
            if snapshot.transactions.get(app_id) != applied:
                raise StorageError(f"another process has committed to the table as {app_id}", where=str(snapshot.table))
            if not self._may_merge(snapshot, plan):
                return None
            searched = SearchedKeys(_cast(changes.select(list(plan.match)), snapshot.schema))
            candidates = _candidates(snapshot, searched)
            touched = sum(file.size for file in candidates)
            if self.strategy == "auto" and touched < max(self._settings.rewrite_below, changes.nbytes):
                return None
            try:
                return self._commit(snapshot, plan, changes, self._find(snapshot, candidates, searched), app_id, version)
            except Conflict:
                snapshot = self._advanced()
        raise StorageError(
            f"other writers changed the table during each of {_ATTEMPTS} attempts to commit a merge",
            where=str(snapshot.table),
            advice="Run the other writers of the table at other times; the pipeline repeats the merge",
        )

    def _may_merge(self, snapshot: LogSnapshot, plan: MergePlan) -> bool:
        refusal = merge_on_read_refusal(snapshot)
        kinds = {field.name: field.type for field in snapshot.schema}
        unusual = [name for name in plan.match if not can_find(kinds[name])]
        if refusal is None and unusual:
            refusal = f"the key column {unusual[0]} of type {kinds[unusual[0]]}"
        if refusal is not None and refusal != self._refusal:
            _LOGGER.warning(
                "changes of %s are merged by rewriting files, not by deletion vectors: the table has %s",
                snapshot.table,
                refusal,
            )
        self._refusal = refusal
        return refusal is None

    def _find(self, snapshot: LogSnapshot, candidates: Sequence[DataFile], searched: SearchedKeys) -> list[_Found]:
        """Return the live rows with a searched key; raise StorageError if two rows have the same key."""

        def find(file: DataFile) -> _Found:
            keys = self.index.find(file.path, file.rows, searched.columns) or self.index.build(
                file.path, _read_columns(snapshot, file, searched.columns)
            )
            return _Found(file, *find_rows(keys, searched))

        shares = [candidates[number::_THREADS] for number in range(_THREADS)]
        with ThreadPoolExecutor(_THREADS) as pool:
            parts = chain.from_iterable(pool.map(lambda share: list(map(find, share)), shares))
            found = [part for part in parts if len(part.positions)]
        deleted = snapshot.deleted_rows(part.file for part in found)
        found = [
            part.only(~_is_among(part.positions, deleted[part.file.path])) if part.file.path in deleted else part
            for part in found
        ]
        matched = np.concatenate([np.empty(0, np.int64), *(part.changes for part in found)])
        counts = np.bincount(matched, minlength=1)
        if counts.max() > 1:
            key = searched.keys.slice(int(counts.argmax()), 1).to_pylist()[0]
            raise StorageError(
                f"the table has several rows with the key {key}",
                where=str(snapshot.table),
                advice='Delete all but one of these rows, or set merge_strategy = "rewrite", which changes all of them',
            )
        return [part for part in found if len(part.positions)]

    def _commit(
        self, snapshot: LogSnapshot, plan: MergePlan, changes: pa.Table, found: list[_Found], app_id: str, version: int
    ) -> RowCounts:
        merge = _merge_by_sql if plan.effect == "sql" else _merge_images
        emptied, rows, counts = merge(snapshot, plan, changes, found)
        old = snapshot.deleted_rows(part.file for part in emptied)
        removed = {part.file.path: _joined(old.get(part.file.path), part.positions) for part in emptied if len(part.positions)}
        if not snapshot.has_vectors and removed:
            log_enabled(snapshot.table)
        metrics = {  # under deltalake's names
            "num_target_rows_inserted": counts.inserted,
            "num_target_rows_updated": counts.updated,
            "num_target_rows_deleted": counts.deleted,
        }
        with ThreadPoolExecutor(1) as pool:  # commit_rows() writes the vectors at the same time
            writing = [pool.submit(write_data_files, snapshot, rows)] if rows.num_rows else []
            commit_rows(
                snapshot,
                removed=removed,
                added=chain.from_iterable(files.result() for files in writing),
                app_id=app_id,
                version=version,
                operation="MERGE",
                metrics=metrics,
                enable_deletion_vectors=True,
            )
        self.index.keep(snapshot.files.keys(), plan.match)
        return counts


def log_enabled(path: Place) -> None:
    """Log that a table gets deletion vectors, which not every reader supports."""
    _LOGGER.warning(
        "enabling deletion vectors for the Delta table %s (reader version 3): readers must support deletion vectors;"
        ' set merge_strategy = "rewrite" for tables that must not have deletion vectors',
        path,
    )


def _merge_images(
    snapshot: LogSnapshot, plan: MergePlan, changes: pa.Table, found: list[_Found]
) -> tuple[list[_Found], pa.Table, RowCounts]:
    """Return the rows that a merge of complete images removes from files, the rows that it writes, and its counts."""
    schema = snapshot.schema
    changes = _cast(changes, schema)
    updated = {unquote_name(name) for name in plan.update}
    kept = [name for name in schema.names if name not in updated and name not in plan.match]
    effective, idle = [], np.zeros(changes.num_rows, np.bool_)
    least = pc.min(changes[_SEQUENCE]).as_py() if plan.effect == "newer" else ""
    for part in found:
        takes = _is_newer(snapshot, part, changes[_SEQUENCE], least) if plan.effect == "newer" else None
        if takes is not None:
            idle[part.changes[~takes]] = True
            part = part.only(takes)
        effective.append(part)
    numbers = np.cumsum(~idle) - 1
    changes = changes.filter(pa.array(~idle)) if idle.any() else changes
    change_of = np.concatenate([np.empty(0, np.int64), *(numbers[part.changes] for part in effective)])
    stored = []
    for part in effective if kept else ():
        names = [name for name in kept if not _is_null(part.file, name)]
        stored.append(_read_columns(snapshot, part.file, names, part.positions))
    values = pa.concat_tables(stored, promote_options="default") if stored else schema.empty_table().select([])
    columns = []
    for field in schema:
        if field.name in plan.match:
            columns.append(changes[field.name].take(pa.array(change_of)))
        elif field.name in values.column_names:
            columns.append(values[field.name])
        else:
            columns.append(pa.nulls(len(change_of), field.type))
    rows, counts = rewritten(pa.table(columns, schema=schema), changes, plan, change_of)
    return effective, rows, counts


def _merge_by_sql(
    snapshot: LogSnapshot, plan: MergePlan, changes: pa.Table, found: list[_Found]
) -> tuple[list[_Found], pa.Table, RowCounts]:
    """Merge the matched rows with deltalake; return the rows to remove from files, the rows to write, and the counts.

    The matched rows are in a temporary table. One column marks the rows that the merge has written, and another column has the
    original position of each row.
    """
    schema = snapshot.schema
    used = " ".join([*plan.where, plan.delete_when or "", plan.update_when, *plan.update.values()])
    updated = {unquote_name(name) for name in plan.update}
    needed = [
        name
        for name in schema.names
        if name not in updated or name in plan.match or f"t.{name}" in used or f"t.{quote_name(name)}" in used
    ]
    count = sum(len(part.positions) for part in found)
    parts = [_read_columns(snapshot, part.file, needed, part.positions) for part in found]
    stored = pa.concat_tables([schema.empty_table().select(needed), *parts], promote_options="default")
    columns = [stored[field.name] if field.name in needed else pa.nulls(count, field.type) for field in schema]
    source = pa.table(columns, schema=pa.schema([field.with_nullable(True) for field in schema]))
    source = source.append_column(_ROW, pa.array(np.arange(count))).append_column(_TOUCHED, pa.nulls(count, pa.bool_()))
    touched = {_TOUCHED: "true"}
    with TemporaryDirectory(prefix="headstream-") as directory:
        write_deltalake(directory, source)
        table = DeltaTable(directory)
        merge = table.merge(changes, plan.predicate, source_alias="s", target_alias="t")
        merge = merge.when_not_matched_insert({**plan.insert, **touched}, plan.insert_when)
        if plan.delete_when is not None:
            merge = merge.when_matched_delete(plan.delete_when)
        merge.when_matched_update({**plan.update, **touched}, plan.update_when).execute()
        merged = table.to_pyarrow_table()
    rows = merged.filter(pc.fill_null(merged[_TOUCHED], False))
    numbers = merged[_ROW].drop_null().to_numpy()
    is_deleted = np.ones(count, np.bool_)
    is_deleted[numbers] = False
    deleted, inserted = int(is_deleted.sum()), rows[_ROW].null_count
    is_deleted[rows[_ROW].drop_null().to_numpy()] = True
    ends = np.cumsum([len(part.positions) for part in found])
    removed = [part.only(is_deleted[end - len(part.positions) : end]) for part, end in zip(found, ends.tolist(), strict=True)]
    return removed, rows.select(schema.names), RowCounts(inserted, rows.num_rows - inserted, deleted)


def _is_newer(snapshot: LogSnapshot, part: _Found, sequences: pa.ChunkedArray, least: str) -> Any:
    """Return which rows are older than their matching changes; None if all are older."""
    greatest = part.file.stats.get("maxValues", {}).get(_SEQUENCE)
    if isinstance(greatest, str) and greatest < least:
        return None
    new = sequences.take(pa.array(part.changes))
    if isinstance(greatest, str) and greatest < pc.min(new).as_py():
        return None
    stored = _read_columns(snapshot, part.file, [_SEQUENCE], part.positions)[_SEQUENCE]
    newer = pc.fill_null(pc.greater(new.cast(stored.type), stored), False).to_numpy()
    return None if newer.all() else newer


def _is_null(file: DataFile, column: str) -> bool:
    """Return whether a column has only nulls in a file, by the file's statistics."""
    nulls = file.stats.get("nullCount", {}).get(column)
    return nulls is not None and nulls == file.rows and column not in file.partition_values


def _read_columns(snapshot: LogSnapshot, file: DataFile, columns: Sequence[str], positions: Positions | None = None) -> pa.Table:
    """Return columns of a file, in the table's types, for all rows or for the rows at the given ascending positions."""
    schema = snapshot.schema
    count = len(positions) if positions is not None else file.rows
    stored = [name for name in columns if name not in file.partition_values]
    rows = None
    if stored or count is None:
        parquet = open_parquet(snapshot, file)
        stored = [name for name in stored if name in parquet.schema_arrow.names]
        count = parquet.metadata.num_rows if count is None else count
        if stored and positions is None:
            rows = _cast(parquet.read(columns=stored, use_threads=False), schema)
        elif stored:
            rows = _read_groups(parquet, stored, positions, schema)
    arrays = []
    for name in columns:
        kind = schema.field(name).type
        if rows is not None and name in stored:
            arrays.append(rows[name])
        else:
            text = file.partition_values.get(name)
            arrays.append(pa.nulls(count, kind) if text is None else pa.repeat(_partition_value(text, kind), count))
    return pa.table(arrays, names=list(columns)) if arrays else pa.table({"": pa.nulls(count)}).select([])


def _read_groups(parquet: Any, columns: list[str], positions: Any, schema: pa.Schema) -> pa.Table:
    sizes = [parquet.metadata.row_group(number).num_rows for number in range(parquet.metadata.num_row_groups)]
    begins = np.concatenate([[0], np.cumsum(sizes)])
    places = np.searchsorted(positions, begins)
    parts = [
        take_rows(
            _cast(parquet.read_row_group(number, columns=columns, use_threads=False), schema),  # pyarrow cannot take from views
            pa.array(positions[places[number] : places[number + 1]] - begins[number]),
        )
        for number in range(len(sizes))
        if places[number + 1] > places[number]
    ]
    return pa.concat_tables([pa.schema([schema.field(name) for name in columns]).empty_table(), *parts])


def _partition_value(text: str, kind: pa.DataType) -> pa.Scalar:
    if pa.types.is_timestamp(kind):  # `2024-01-31 12:00:00.000001`, or with T and Z
        moment = datetime.datetime.fromisoformat(text)
        utc = moment.replace(tzinfo=datetime.UTC) if moment.tzinfo is None else moment
        return pa.scalar(utc, pa.timestamp("us", "UTC")).cast(pa.int64()).cast(pa.timestamp("us")).cast(kind)
    return pa.scalar(text, pa.string()).cast(kind)


def _candidates(snapshot: LogSnapshot, searched: SearchedKeys) -> list[DataFile]:
    """Return the files that can have one of the searched keys, by partitions and statistics."""
    tests = [_file_test(name, searched.keys[name], name in snapshot.partition_columns) for name in searched.columns]
    known = [test for test in tests if test is not None]
    return [file for file in snapshot.files.values() if all(test(file) for test in known)]


def _file_test(name: str, values: pa.ChunkedArray, is_partition: bool) -> Callable[[DataFile], bool] | None:
    """Return a predicate for files that can have one of the values of a column; None if there are no statistics."""
    kind, is_date = values.type, pa.types.is_date32(values.type)
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or is_date):
        return None
    if pa.types.is_string(kind):
        chosen: Any = sorted(pc.unique(values).drop_null().to_pylist())
    else:
        chosen = np.sort(values.cast(pa.int32() if is_date else pa.int64()).drop_null().to_numpy())

    def can_have(file: DataFile) -> bool:
        if is_partition:
            least = greatest = file.partition_values.get(name)
            if least is None:
                return False
        else:
            least, greatest = (file.stats.get(bound, {}).get(name) for bound in ("minValues", "maxValues"))
        if least is None or greatest is None:
            return len(chosen) > 0 and (file.rows is None or file.stats.get("nullCount", {}).get(name) != file.rows)
        try:
            low, high = (_comparable(bound, kind) for bound in (least, greatest))
        except ValueError:  # a date of another millennium
            return True
        place = bisect.bisect_left(chosen, low)
        return place < len(chosen) and bool(chosen[place] <= high)

    return can_have


def _comparable(bound: Any, kind: pa.DataType) -> Any:
    """Convert a statistics or partition value to the keys' representation: dates are days since 1970."""
    if pa.types.is_date32(kind):
        return datetime.date.fromisoformat(bound).toordinal() - _EPOCH
    return int(bound) if pa.types.is_integer(kind) else bound


def _joined(old: Any, new: Positions) -> Any:
    """Return the ascending positions of a file's deleted rows: previously deleted rows and newly deleted rows."""
    added = new.astype(np.uint32)
    return added if old is None else np.sort(np.concatenate([old.astype(np.uint32), added]), kind="stable")


def _is_among(values: Positions, found: Any) -> Any:
    """Return which of the ascending numbers `values` occur in the ascending numbers `found`."""
    places = np.searchsorted(found, values)
    places[places == len(found)] = 0
    return found[places] == values if len(found) else np.zeros(len(values), np.bool_)


def _cast(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with the table's types in columns that the table has."""
    fields: Mapping[str, pa.DataType] = {field.name: field.type for field in schema}
    for number, name in enumerate(rows.column_names):
        if name in fields and rows.schema.field(number).type != fields[name]:
            rows = rows.set_column(number, name, rows[name].cast(fields[name]))
    return rows
