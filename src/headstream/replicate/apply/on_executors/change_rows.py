"""Makes the rows of a change table from decoded changes, in the driver or on executors; no I/O.

tables/change_table.py lists the columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from headstream.replicate.apply.type2.rows import commit_times
from headstream.replicate.codec import decode_mask
from headstream.replicate.columns.changes import OPERATIONS
from headstream.replicate.columns.conversion import arrow_type, in_table_types
from headstream.replicate.columns.raw import CHANGE_COORDINATES, leave_out

CHANGE_BOOKKEEPING: Final = {
    "_hs_operation": "STRING",
    "_hs_sequence": "STRING",
    "_hs_commit_time": "TIMESTAMP",
    "_hs_timestamp": "STRING",
    "_hs_stream_position": "STRING",
    "_hs_transaction": "STRING",
    "_hs_event": "BIGINT",
    "_hs_last_event": "BOOLEAN",
    "_hs_present": "ARRAY<STRING>",
    "_hs_changed": "ARRAY<STRING>",
    "_hs_envelope_headers": "MAP<STRING,STRING>",
    "_hs_topic": "STRING",
    "_hs_partition": "INT",
    "_hs_offset": "BIGINT",
    "_hs_logged_time": "TIMESTAMP",
}


@dataclass(frozen=True, slots=True)
class ChangeRows:
    """Makes rows of one change table from changes of one structure; serializable for executors.

    Args:
        ordinals: Ordinal of a column in masks -> its name.
        left_out: COORDINATE_COLUMNS of changes to skip, or None.
    """

    names: tuple[str, ...]
    ordinals: dict[int, str]
    columns: dict[str, str]
    own: dict[str, str]
    left_out: pa.Table | None = None
    table: str = ""

    def rows(self, changes: pa.Table) -> pa.Table:
        """Return the rows of decoded changes, with their details."""
        changes = changes.rename_columns(list(self.names))
        if self.left_out is not None:
            changes = leave_out(changes, CHANGE_COORDINATES, self.left_out)
        fitted = in_table_types(changes.select([name for name in changes.schema.names if name in self.own]), self.own)
        found = {name: fitted[name] for name in fitted.schema.names}
        found |= {name: changes[name] for name in CHANGE_BOOKKEEPING if name in changes.schema.names}
        sequences = changes["_hs_sequence"].combine_chunks()
        found["_hs_operation"] = pa.array(OPERATIONS).take(changes["_hs_operation"].combine_chunks())
        found["_hs_commit_time"] = commit_times(sequences)
        found["_hs_present"] = self._columns_of(changes["_hs_columns"])
        found["_hs_changed"] = self._columns_of(changes["_hs_changed"])
        found["_hs_logged_time"] = changes["_hs_logged_us"].cast(pa.timestamp("us", "UTC"))
        types = {name: arrow_type(kind) for name, kind in self.columns.items()}
        arrays = [found[name] if name in found else pa.nulls(changes.num_rows, kind) for name, kind in types.items()]
        return pa.table(arrays, schema=pa.schema([pa.field(name, kind) for name, kind in types.items()]))

    def _columns_of(self, masks: pa.ChunkedArray) -> pa.Array:
        """Return the names of the columns in each mask; equal masks are read once."""
        encoded = masks.combine_chunks().dictionary_encode()
        names_of = [
            [self.ordinals[ordinal] for ordinal in sorted(decode_mask(mask)) if ordinal in self.ordinals]
            for mask in encoded.dictionary.to_pylist()
        ]
        return pa.array(names_of, pa.list_(pa.string())).take(encoded.indices)
