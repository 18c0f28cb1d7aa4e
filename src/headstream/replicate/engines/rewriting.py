"""Merges that rewrite an entire table, which is cheaper than deltalake's merge for small tables with many columns.

deltalake plans an expression per column, which takes seconds of processor time with 1,000 columns, even for one row. If every
source row takes effect (MergePlan.effect), the result is computed without expressions, by replacing columns of matched rows in
the stored rows. One commit replaces the files of the version that was read; if another commit has changed one of these files,
there is a conflict.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from headstream.replicate.columns.large_values import take_values
from headstream.replicate.engines.engine import RowCounts
from headstream.replicate.engines.plan import DELETED, MergePlan, quote_name, unquote_name

_LEAST_COLUMNS: Final = 100
"""Minimum number of columns; with fewer columns, a merge takes less than 0.2 CPU seconds."""
_ROWS_PER_COLUMN: Final = 2
"""Maximum number of rows per column. A merge's fixed cost grows with the square of the number of columns and is about 4 CPU
seconds for 1,000 columns; reading and writing 2,000 rows of 1,000 columns takes less than half of that."""
_MOST_BYTES: Final = 16 << 20
"""Maximum size of the table's files, bytes; the rows are held in memory."""
_FILES_ONLY: Final = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration", "delta.checkpointInterval")
"""Properties of Delta that do not affect the content of commits."""


def is_cheaper(table: DeltaTable, plan: MergePlan) -> bool:
    """Return whether to rewrite a table instead of running a merge."""
    columns = len(table.schema().fields)
    if plan.effect != "all" or columns < _LEAST_COLUMNS:
        return False
    metadata = table.metadata()
    special = [name for name in metadata.configuration if name.startswith("delta.") and name not in _FILES_ONLY]
    if metadata.partition_columns or special:  # a change feed, column mapping, constraints
        return False
    files = pa.table(table.get_add_actions())
    if files["num_records"].null_count:
        return False
    rows, size_bytes = (pc.sum(files[name]).as_py() or 0 for name in ("num_records", "size_bytes"))
    return rows <= _ROWS_PER_COLUMN * columns and size_bytes <= _MOST_BYTES


def matched_changes(stored: pa.Table, changes: pa.Table, match: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return, for each stored row, the number of the matching change (one per key), or -1."""
    numbered = changes.select(match).append_column("_hs_change", pa.array(np.arange(changes.num_rows)))
    rows = stored.select(match).append_column("_hs_row", pa.array(np.arange(stored.num_rows)))
    found = rows.join(numbered, list(match), join_type="inner")
    change_of = np.full(stored.num_rows, -1, np.int64)
    change_of[found["_hs_row"].to_numpy()] = found["_hs_change"].to_numpy()
    return change_of


def rewritten(
    stored: pa.Table, changes: pa.Table, plan: MergePlan, change_of: npt.NDArray[np.int64]
) -> tuple[pa.Table, RowCounts]:
    """Return the rows of a table after a merge, and the merge's counts.

    Args:
        stored: Rows of the table, with all columns; in matched rows, values of columns that the plan updates are not used.
        plan: The plan; `effect` must not be `sql`.
        change_of: For each stored row, the number of the matching change, or -1.
    """
    is_new = np.ones(changes.num_rows, np.bool_)
    is_new[change_of[change_of >= 0]] = False
    deletes = np.asarray(changes["_hs_delete"].to_numpy(), np.bool_)
    is_matched = change_of >= 0
    if DELETED in plan.update:  # deleted rows stay and are marked
        is_deleted = np.zeros(stored.num_rows, np.bool_)
    else:
        is_deleted = is_matched & np.append(deletes, False)[change_of]
        is_new &= ~deletes
    stays, inserted = pa.array(np.flatnonzero(~is_deleted)), pa.array(np.flatnonzero(is_new))
    source = pa.array(change_of[~is_deleted], mask=~is_matched[~is_deleted])
    changed = None if is_matched.all() else pa.array(is_matched[~is_deleted])
    columns = []
    for field in stored.schema:
        name = quote_name(field.name)
        value = plan.update.get(name, plan.update.get(field.name))
        updated = None if value is None else take_values(changes[_source_column(value)], source)
        if updated is None or changed is not None:
            column = take_values(stored[field.name], stays)
            updated = column if updated is None else pc.if_else(changed, updated, column)
        value = plan.insert.get(name, plan.insert.get(field.name))
        nothing = pa.chunked_array([pa.nulls(len(inserted), field.type)])
        added = nothing if value is None else take_values(changes[_source_column(value)], inserted)
        columns.append(pa.chunked_array([*updated.chunks, *added.chunks], field.type))
    counts = RowCounts(len(inserted), int((is_matched & ~is_deleted).sum()), int(is_deleted.sum()))
    return pa.table(columns, schema=stored.schema), counts


def _source_column(expression: str) -> str:
    return unquote_name(expression.removeprefix("s."))
