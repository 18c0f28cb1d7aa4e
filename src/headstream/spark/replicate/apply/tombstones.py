"""Tombstones: which keys were deleted at which change sequence, so that a late, older change does not bring a row back.

Beside each table stands a small append-only Delta table of key columns and `_hs_sequence`, in the pipeline's
checkpoint. A repeated entry does no harm: what counts of a key is its highest sequence.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from headstream.spark.replicate.apply.deltalake import Translated
from headstream.spark.replicate.apply.plan import quote_name, quote_text

__all__ = ["Tombstones"]

_MOST_FILES: Final = 64
"""Small files that are put together: a look-up opens each of them whose sequences may be wanted."""


class Tombstones:
    """The tombstones of one table.

    Args:
        path: The Delta table's directory; made at the first deletion.
        keys: The table's key columns.
    """

    def __init__(self, path: Path, keys: list[str]) -> None:
        self._path = path
        self._keys = keys
        with self._translated():
            self._table = DeltaTable(str(path)) if DeltaTable.is_deltatable(str(path)) else None
            self._highest = "" if self._table is None else _highest(self._table)

    @property
    def path(self) -> Path:
        """The Delta table's directory."""
        return self._path

    @property
    def highest(self) -> str:
        """The highest change sequence among them; a change above it needs no look-up, which is nearly every change."""
        return self._highest

    def record(self, deletes: pa.Table) -> None:
        """Remember deletions; must be done before they are merged.

        Args:
            deletes: Key columns and `_hs_sequence`, in the table's types.
        """
        if not deletes.num_rows:
            return
        with self._translated():
            if self._table is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                write_deltalake(str(self._path), deletes, mode="append")
                self._table = DeltaTable(str(self._path))
            else:
                self._widen(deletes.schema)
                write_deltalake(self._table, deletes, mode="append")
        self._highest = max(self._highest, pc.max(deletes["_hs_sequence"]).as_py())
        if len(self._table.file_uris()) > _MOST_FILES:
            self.compact()

    def _widen(self, schema: pa.Schema) -> None:
        """Write what is remembered again if the table's key columns have other types since."""
        assert self._table is not None
        stored = pa.schema(self._table.schema().to_arrow())
        if any(stored.field(key).type != schema.field(key).type for key in self._keys):
            remembered = self._table.to_pyarrow_table().select(schema.names).cast(schema)
            write_deltalake(self._table, remembered, mode="overwrite", schema_mode="overwrite")

    def divide(self, changes: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Return one change a key without the upserts that are older than their key's deletion, and those upserts."""
        late = pc.and_(pc.invert(changes["_hs_delete"]), pc.less(changes["_hs_sequence"], self._highest))
        nothing = changes.slice(0, 0)
        if self._table is None or not pc.any(late).as_py():
            return changes, nothing
        buried = self.find(changes.filter(late))
        if not buried.num_rows:
            return changes, nothing
        numbered = changes.select([*self._keys, "_hs_sequence"]).append_column("_hs_place", _numbers(changes.num_rows))
        found = numbered.join(buried, self._keys, join_type="inner")
        lost = found.filter(pc.less(found["_hs_sequence"], found["_hs_buried"]))["_hs_place"].combine_chunks()
        is_lost = pc.and_(late, pc.is_in(_numbers(changes.num_rows), lost))
        return changes.filter(pc.invert(is_lost)), changes.filter(is_lost)

    def find(self, rows: pa.Table) -> pa.Table:
        """Return the key columns and `_hs_buried`, the highest sequence, of those rows' keys that have tombstones above the rows.

        Args:
            rows: Key columns and `_hs_sequence`.
        """
        lowest = pc.min(rows["_hs_sequence"]).as_py()
        if self._table is None or lowest is None:
            return rows.select(self._keys).slice(0, 0).append_column("_hs_buried", pa.array([], pa.string()))
        conditions = [f"_hs_sequence > {quote_text(lowest)}"]
        for key in self._keys:  # what lies outside is not read, and of what is read little is kept
            if pa.types.is_integer(rows.schema.field(key).type):
                bounds = pc.min_max(rows[key]).as_py()
                conditions.append(f"{quote_name(key)} BETWEEN {bounds['min']} AND {bounds['max']}")
        names = ", ".join(map(quote_name, [*self._keys, "_hs_sequence"]))
        # Not by pyarrow: it cannot compare a text with the statistics of a file that deltalake has written after a deletion.
        query = f"SELECT {names} FROM t WHERE {' AND '.join(conditions)}"
        with self._translated():
            above = pa.table(QueryBuilder().register("t", self._table).execute(query).read_all())
        wanted = rows.select(self._keys).group_by(self._keys).aggregate([])
        above = above.cast(pa.schema([*(wanted.schema.field(key) for key in self._keys), pa.field("_hs_sequence", pa.string())]))
        found = above.join(wanted, self._keys, join_type="inner")
        found = found.group_by(self._keys).aggregate([("_hs_sequence", "max")])
        return found.rename_columns([*self._keys, "_hs_buried"])

    def prune(self, until: str) -> None:
        """Forget deletions at or below a sequence.

        Args:
            until: The highest sequence to forget.
        """
        if self._table is not None:
            with self._translated():
                self._table.delete(f"_hs_sequence <= {quote_text(until)}")
                self._highest = _highest(self._table)

    def compact(self) -> None:
        """Put small files together and drop those that were put together."""
        if self._table is not None:
            with self._translated():
                self._table.optimize.compact()
                self._table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    def _translated(self) -> Translated:
        return Translated(self._path, "the table's deletions cannot be read or written")


def _numbers(count: int) -> pa.Array:
    return pa.array(range(count), pa.int64())


def _highest(table: DeltaTable) -> str:
    """Return the highest sequence, from the statistics of the files where they tell it, else from the files."""
    files = pa.table(table.get_add_actions(flatten=True))
    if not files.num_rows:
        return ""
    if "max._hs_sequence" in files.schema.names and not files["max._hs_sequence"].null_count:
        highest: str = pc.max(files["max._hs_sequence"]).as_py()
        return highest
    return pc.max(table.to_pyarrow_table(columns=["_hs_sequence"])["_hs_sequence"]).as_py() or ""
