"""Changes that can belong to deleted rows whose deletions are forgotten."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.apply.type1.merge import Scd1Table
from headstream.replicate.columns.changes import OPERATIONS, departures
from headstream.replicate.columns.raw import Coordinates

__all__ = ["without_forgotten"]

_DELETE: Final = pa.scalar(OPERATIONS.index("DELETE"), pa.int8())


def without_forgotten(changes: pa.Table, table: Scd1Table, forgotten: str) -> tuple[pa.Table, dict[Coordinates, str]]:
    """Reject changes that can belong to deleted rows: older than the stored tombstones, with keys missing from the table.

    The deletion part of a key change is applied anyway: the row is not at its previous key in any case.

    Args:
        changes: Placed changes.
        table: Their table.
        forgotten: Tombstones at or below this sequence were removed.

    Returns:
        The other changes, and the coordinates of the rejected ones with the reason.
    """
    if not forgotten:
        return changes, {}
    deletes = pc.equal(changes["_hs_operation"], _DELETE)
    old = pc.and_not(pc.less_equal(changes["_hs_sequence"], forgotten), deletes).combine_chunks()
    places = pc.indices_nonzero(old).to_pylist()
    if not places:
        return changes, {}
    rows = changes.take(pa.array(places, pa.int64()))
    known = table.find_known(rows) if table.keys[0] in rows.schema.names else set()
    columns = [rows[key].to_pylist() for key in table.keys if key in rows.schema.names]
    keys = list(zip(*columns, strict=True)) if len(columns) == len(table.keys) else []
    lost = {place for place, key in zip(places, keys, strict=False) if key not in known}
    reason = f"older than the remembered deletions (from {forgotten}), and its row is missing"
    numbers = pa.array(sorted(lost), pa.int64())
    chosen = changes.select(["_hs_topic", "_hs_partition", "_hs_offset"]).take(numbers).to_pylist()
    rejected = {(row["_hs_topic"], row["_hs_partition"], row["_hs_offset"]): reason for row in chosen}
    kept = changes.filter(pa.array([place not in lost for place in range(changes.num_rows)]))
    return pa.concat_tables([kept, departures(changes.take(numbers), table.keys)]), rejected
