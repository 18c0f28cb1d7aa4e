"""Takes rows with more bytes than one Arrow array of strings or bytes can have: 2 GiB, because offsets are int32.

To take rows of a column, Arrow concatenates the column's chunks, and fails above this size. Filters, casts and slices work chunk
by chunk. A large merge is divided into parts (key_buckets.divide_changes()).
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MAX_ARRAY_BYTES: Final = 1 << 30
"""Size of a column above which rows are taken in pieces; each piece has at most this size, or one row."""
MAX_UNIT_BYTES: Final = 512 << 20
"""Size of a table's changes above which a unit merges them in several commits, and maximum size of a release."""
_LARGE: Final = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


def take_rows(rows: pa.Table, places: Any) -> pa.Table:
    """Return rows.take(places), of any size."""
    if rows.nbytes <= MAX_ARRAY_BYTES:
        return rows.take(places)
    return pa.Table.from_arrays([take_values(column, places) for column in rows.columns], schema=rows.schema)


def take_values(values: pa.ChunkedArray, places: Any) -> pa.ChunkedArray:
    """Return values.take(places), of any size; null where `places` is null."""
    large = _LARGE.get(values.type)
    if large is None or values.nbytes <= MAX_ARRAY_BYTES:
        return values.take(places)
    whole = pa.concat_arrays(values.cast(large).chunks)
    chosen = places.combine_chunks() if isinstance(places, pa.ChunkedArray) else pa.array(places)
    sizes = pc.fill_null(pc.binary_length(whole).take(chosen), 0).to_numpy(zero_copy_only=False)
    ends = np.flatnonzero(np.diff(np.cumsum(sizes) // MAX_ARRAY_BYTES, append=-1)) + 1
    begins = np.concatenate(([0], ends[:-1])) if len(ends) else ends
    pieces = [whole.take(chosen.slice(begin, end - begin)) for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
    return pa.chunked_array([piece.cast(values.type) for piece in pieces], values.type)
