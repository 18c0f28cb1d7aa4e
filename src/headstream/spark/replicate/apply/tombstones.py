"""Tombstones: which keys were deleted at which change sequence, so that a late, older change does not bring a row back.

Beside each table stands a small append-only Delta table of key columns and `_hs_sequence`, in the pipeline's
checkpoint. A repeated entry does no harm: what counts of a key is its highest sequence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

__all__ = ["Tombstones"]


class Tombstones:
    """The tombstones of one table.

    Args:
        path: The Delta table's directory; made at the first deletion.
        keys: The table's key columns.
    """

    def __init__(self, path: Path, keys: list[str]) -> None:
        self._path = path
        self._keys = keys
        self._highest = ""  # of all tombstones: a change above it needs no look-up, which is nearly every change
        if DeltaTable.is_deltatable(str(path)):
            present = DeltaTable(str(path)).to_pyarrow_table(columns=["_hs_sequence"])
            self._highest = pc.max(present["_hs_sequence"]).as_py() or ""

    def record(self, changes: pa.Table) -> None:
        """Remember the deletions among collapsed changes; must be done before they are merged."""
        deletes = changes.filter(changes["_hs_delete"]).select([*self._keys, "_hs_sequence"])
        if deletes.num_rows:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_deltalake(str(self._path), deletes, mode="append")
            self._highest = max(self._highest, pc.max(deletes["_hs_sequence"]).as_py())

    def without_buried(self, changes: pa.Table) -> pa.Table:
        """Return collapsed changes without the upserts that are older than their key's deletion."""
        late = pc.and_(pc.invert(changes["_hs_delete"]), pc.less(changes["_hs_sequence"], self._highest))
        if not pc.any(late).as_py():
            return changes
        lowest = pc.min(changes["_hs_sequence"].filter(late)).as_py()
        buried = self._sequences_above(lowest)
        keep = [
            not is_late or row["_hs_sequence"] >= buried.get(tuple(row[key] for key in self._keys), "")
            for is_late, row in zip(late.to_pylist(), changes.select([*self._keys, "_hs_sequence"]).to_pylist(), strict=True)
        ]
        return changes.filter(pa.array(keep, pa.bool_()))

    def _sequences_above(self, sequence: str) -> dict[tuple[Any, ...], str]:
        table = DeltaTable(str(self._path)).to_pyarrow_table(filters=[("_hs_sequence", ">", sequence)])
        highest: dict[tuple[Any, ...], str] = {}
        for row in table.to_pylist():
            key = tuple(row[name] for name in self._keys)
            highest[key] = max(highest.get(key, ""), row["_hs_sequence"])
        return highest
