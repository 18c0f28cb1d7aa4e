"""Tombstones: record deleted keys and their change sequences, so that a late, older change does not restore a row.

Each table has a small append-only Delta table of key columns and `_hs_sequence` in the pipeline's checkpoint. Repeated entries
are harmless, because only the highest sequence of a key is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from headstream.replicate.apply.on_executors.fold import divide_by_tombstones
from headstream.replicate.apply.unit_memory import Unit, UnitMemory, take_back
from headstream.replicate.engines.plan import quote_name, quote_text
from headstream.replicate.storage.delta_places import Translated

_MOST_FILES: Final = 64
"""Number of small files above which the files are merged; a lookup opens each file with an overlapping sequence range."""


class Tombstones(UnitMemory):
    """The tombstones of one table, stored in a Delta table that the first deletion creates."""

    def __init__(self, path: Path, keys: list[str]) -> None:
        super().__init__()
        self._path = path
        self._keys = keys
        with self._translated():
            self._table = DeltaTable(str(path)) if DeltaTable.is_deltatable(str(path)) else None
            self._highest = ""
            if self._table is not None:
                self._note_stored(self._table)
                self._highest = _highest(self._table)

    @property
    def path(self) -> Path:
        """The Delta table's directory."""
        return self._path

    @property
    def highest(self) -> str:
        """The highest change sequence of all tombstones; changes above this sequence (nearly all) need no lookup."""
        return self._highest

    def record(self, deletes: pa.Table) -> None:
        """Write tombstones (key columns and `_hs_sequence`, in the table's types), before the deletions are merged."""
        if not deletes.num_rows:
            return
        if self._table is not None and self._undecided is None and len(self._table.file_uris()) > _MOST_FILES:
            self.compact()
        with self._translated():
            if self._table is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
            else:
                self._widen(deletes.schema)
            place: str | DeltaTable = str(self._path) if self._table is None else self._table
            write_deltalake(place, deletes, mode="append", commit_properties=self._commit_properties())
            self._table = self._table or DeltaTable(str(self._path))
        self._highest = max(self._highest, pc.max(deletes["_hs_sequence"]).as_py())

    def _widen(self, schema: pa.Schema) -> None:
        """Rewrite the tombstones if the types of the table's key columns have changed."""
        assert self._table is not None
        stored = pa.schema(self._table.schema().to_arrow())
        if any(stored.field(key).type != schema.field(key).type for key in self._keys):
            remembered = self._table.to_pyarrow_table().select(schema.names).cast(schema)
            write_deltalake(self._table, remembered, mode="overwrite", schema_mode="overwrite")

    def divide(self, changes: pa.Table) -> tuple[pa.Table, pa.Table]:
        """Divide changes, one per key, into changes to apply and upserts that are older than their key's tombstone."""
        late = pc.and_(pc.invert(changes["_hs_delete"]), pc.less(changes["_hs_sequence"], self._highest))
        nothing = changes.slice(0, 0)
        if self._table is None or not pc.any(late).as_py():
            return changes, nothing
        return divide_by_tombstones(changes, self._keys, self.find(changes.filter(late)))

    def above(self, lowest: str, most: int) -> pa.Table | None:
        """Return keys with their highest tombstones (`_hs_deletion`) above a sequence; None if more than `most` are above it."""
        if self._table is None or lowest >= self._highest:
            return pa.table({})
        where = f"_hs_sequence > {quote_text(lowest)}"
        with self._translated():
            query = QueryBuilder().register("t", self._table)
            count = pa.table(query.execute(f"SELECT count(*) AS count FROM t WHERE {where}").read_all())["count"][0].as_py()
            if count > most:
                return None
            names = ", ".join(map(quote_name, [*self._keys, "_hs_sequence"]))
            found = pa.table(query.execute(f"SELECT {names} FROM t WHERE {where}").read_all())
            stored = pa.schema(self._table.schema().to_arrow())
        found = found.cast(pa.schema([stored.field(name) for name in found.schema.names]))
        found = found.group_by(self._keys).aggregate([("_hs_sequence", "max")])
        return found.rename_columns([*self._keys, "_hs_deletion"])

    def find(self, rows: pa.Table) -> pa.Table:
        """Return the rows' keys with tombstones newer than the oldest row: key columns, and `_hs_deletion` (the newest)."""
        lowest = pc.min(rows["_hs_sequence"]).as_py()
        if self._table is None or lowest is None:
            return rows.select(self._keys).slice(0, 0).append_column("_hs_deletion", pa.array([], pa.string()))
        conditions = [f"_hs_sequence > {quote_text(lowest)}"]
        for key in self._keys:  # limits the rows that are read and returned
            if pa.types.is_integer(rows.schema.field(key).type):
                bounds = pc.min_max(rows[key]).as_py()
                conditions.append(f"{quote_name(key)} BETWEEN {bounds['min']} AND {bounds['max']}")
        names = ", ".join(map(quote_name, [*self._keys, "_hs_sequence"]))
        # Not with pyarrow, which cannot compare a string with the statistics of files that deltalake writes after a deletion.
        query = f"SELECT {names} FROM t WHERE {' AND '.join(conditions)}"
        with self._translated():
            above = pa.table(QueryBuilder().register("t", self._table).execute(query).read_all())
        wanted = rows.select(self._keys).group_by(self._keys).aggregate([])
        above = above.cast(pa.schema([*(wanted.schema.field(key) for key in self._keys), pa.field("_hs_sequence", pa.string())]))
        found = above.join(wanted, self._keys, join_type="inner")
        found = found.group_by(self._keys).aggregate([("_hs_sequence", "max")])
        return found.rename_columns([*self._keys, "_hs_deletion"])

    def prune(self, until: str) -> None:
        """Remove tombstones up to and including the sequence `until`."""
        if self._table is not None:
            with self._translated():
                self._table.delete(f"_hs_sequence <= {quote_text(until)}")
                self._highest = _highest(self._table)

    def compact(self) -> None:
        """Merge small files, and delete the original files."""
        if self._table is not None:
            with self._translated():
                self._table.optimize.compact()
                self._table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    def _take_back(self, unit: Unit) -> None:
        with self._translated():
            if DeltaTable.is_deltatable(str(self._path)):  # the append can have failed too
                self._table = DeltaTable(str(self._path))
                take_back(self._table, unit)
                self._highest = _highest(self._table)

    def _retain(self) -> None:
        if self._table is not None:
            with self._translated():
                write_deltalake(self._table, pa.schema(self._table.schema().to_arrow()).empty_table(), mode="append")

    def _translated(self) -> Translated:
        return Translated(self._path, "the table's deletions cannot be read or written")


def _highest(table: DeltaTable) -> str:
    """Return the highest sequence from the file statistics, or from the files if the statistics lack it."""
    files = pa.table(table.get_add_actions(flatten=True))
    if not files.num_rows:
        return ""
    if "max._hs_sequence" in files.schema.names and not files["max._hs_sequence"].null_count:
        highest: str = pc.max(files["max._hs_sequence"]).as_py()
        return highest
    return pc.max(table.to_pyarrow_table(columns=["_hs_sequence"])["_hs_sequence"]).as_py() or ""
