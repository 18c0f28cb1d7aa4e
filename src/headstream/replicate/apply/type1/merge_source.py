"""The source rows of a merge into an SCD type 1 table, and the report on which the merge plan depends; also runs on executors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.apply.on_executors.fold import FoldReport, complete_columns, has_loads
from headstream.replicate.apply.type1.resolve import Resolved
from headstream.replicate.columns.row_versions import UNIFORM_MARK
from headstream.replicate.engines.key_ranges import value_ranges


def merge_source(
    changes: pa.Table, resolved: Resolved | None, columns: Sequence[str], types: Mapping[str, str], *, soft: bool
) -> tuple[pa.Table, frozenset[str]]:
    """Return a merge's source, and the columns whose values are unchanged.

    Args:
        changes: Complete changes, one per key, in the table's types, without `_hs_operation`.
        resolved: The resolved rows of other keys, or None.
    """
    changes = complete_columns(changes, columns, types)
    if soft:
        versions = pc.if_else(changes["_hs_delete"], pa.scalar(UNIFORM_MARK), pa.scalar(None, pa.string()))
        changes = changes.set_column(changes.schema.get_field_index("_hs_versions"), "_hs_versions", versions)
    if resolved is None:
        return changes, frozenset()
    rows = resolved.rows.append_column("_hs_resolved", pa.repeat(True, resolved.rows.num_rows))
    plain = changes.append_column("_hs_resolved", pa.repeat(False, changes.num_rows)).select(rows.schema.names)
    return pa.concat_tables([plain, rows]), resolved.same if not plain.num_rows else frozenset()


def mixed_source(
    changes: pa.Table,
    resolved: Resolved | None,
    columns: Sequence[str],
    types: Mapping[str, str],
    names: Sequence[str],
    *,
    soft: bool,
) -> pa.Table:
    """Return a merge's source that always has the columns `names`, with or without resolved rows; see merge_source()."""
    rows, _ = merge_source(changes, resolved, columns, types, soft=soft)
    if resolved is None:
        rows = rows.append_column("_hs_resolved", pa.repeat(False, rows.num_rows))
    return rows.select(list(names))


def report_source(count: int, rows: pa.Table, keys: Sequence[str]) -> FoldReport:
    """Return the report of a merge's source, which determines the merge's plan."""
    return FoldReport(
        count,
        rows.num_rows,
        pc.sum(rows["_hs_delete"]).as_py() or 0,
        has_loads=has_loads(rows),
        ranges=value_ranges(rows, keys),
        has_versions=rows["_hs_versions"].null_count < rows.num_rows,
    )
