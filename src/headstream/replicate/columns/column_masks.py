"""ColumnMasks: decodes masks to names of table columns; equal masks are decoded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.codec import TableMetadata, decode_mask

LOBS: Final = frozenset({"BLOB", "CLOB", "NCLOB"})
"""Types of large objects, which change masks do not include."""


class ColumnMasks:
    """Decodes the masks of one table's changes."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._names = {column.ordinal: column.name for column in metadata.columns}
        self._known: dict[bytes, frozenset[str]] = {}
        self.lobs = frozenset(column.name for column in metadata.columns if column.type.upper() in LOBS)
        self.all = frozenset(self._names.values())

    def of(self, mask: bytes | None) -> frozenset[str]:
        """Return the names of the columns in the message; None and an empty mask mean every column."""
        if not mask:
            return self.all
        if mask not in self._known:
            self._known[mask] = frozenset(self._names[o] for o in decode_mask(mask) if o in self._names)
        return self._known[mask]

    def leaves_out(self, masks: pa.ChunkedArray) -> pa.ChunkedArray:
        """Mark the column masks that omit a column."""
        return ask_masks(masks, lambda mask: self.of(mask) != self.all)


def ask_masks(masks: pa.ChunkedArray, test: Callable[[bytes | None], bool]) -> pa.ChunkedArray:
    """Return the result of a test for each mask, False for null; the test is called once for equal masks."""
    encoded = masks.combine_chunks().dictionary_encode()
    answers = pa.array([test(mask) for mask in encoded.dictionary.to_pylist()], pa.bool_())
    return pa.chunked_array([pc.fill_null(pc.take(answers, encoded.indices), False)], pa.bool_())
