"""ColumnMasks: which columns of a table a mask names; masks repeat, so each is read once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headstream.codec.replicate import TableMetadata, decode_mask

__all__ = ["LOBS", "ColumnMasks", "ask_masks"]

LOBS: Final = frozenset({"BLOB", "CLOB", "NCLOB"})
"""Types of large objects, of whose changes a change mask tells nothing."""


class ColumnMasks:
    """What the masks of one table's changes say.

    Args:
        metadata: The table's columns.
    """

    def __init__(self, metadata: TableMetadata) -> None:
        self._names = {column.ordinal: column.name for column in metadata.columns}
        self._known: dict[bytes, frozenset[str]] = {}
        self.lobs = frozenset(column.name for column in metadata.columns if column.type.upper() in LOBS)
        self.all = frozenset(self._names.values())

    def of(self, mask: bytes | None) -> frozenset[str]:
        """Return the names of the columns that are carried; None and an empty mask mean every column."""
        if not mask:
            return self.all
        if mask not in self._known:
            self._known[mask] = frozenset(self._names[o] for o in decode_mask(mask) if o in self._names)
        return self._known[mask]

    def leaves_out(self, masks: pa.ChunkedArray) -> pa.ChunkedArray:
        """Say which column masks leave a column out."""
        return ask_masks(masks, lambda mask: self.of(mask) != self.all)


def ask_masks(masks: pa.ChunkedArray, test: Callable[[bytes | None], bool]) -> pa.ChunkedArray:
    """Return what a test says of each mask, false of those that are null; it is asked once about masks that are equal."""
    encoded = masks.combine_chunks().dictionary_encode()
    answers = pa.array([test(mask) for mask in encoded.dictionary.to_pylist()], pa.bool_())
    return pa.chunked_array([pc.fill_null(pc.take(answers, encoded.indices), False)], pa.bool_())
