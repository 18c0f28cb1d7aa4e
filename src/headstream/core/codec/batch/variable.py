"""Checks variable-length columns, in Arrow's layout, before a kernel reads them."""

from __future__ import annotations

from headstream.core.codec.batch.int32_limits import MAX_OFFSET
from headstream.core.codec.batch.results import VariableColumn
from headstream.core.codec.buffer import BytesLike
from headstream.errors import InvalidInputError

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
else:
    from cython.cimports.headstream.core.codec import primitives as c


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _check_offsets(offsets: cython.p_const_uchar, count: cython.longlong, size: cython.longlong) -> cython.longlong:
    """Return the number of the first value whose offsets decrease or exceed `size`, or -1."""
    i: cython.longlong
    for i in range(count):
        if c.load32(offsets, 4 * i) > c.load32(offsets, 4 * (i + 1)) or c.load32(offsets, 4 * (i + 1)) > size:
            return i
    return -1


def check_variable(name: str, column: VariableColumn, count: int, size: int | None = None) -> None:
    """Raise InvalidInputError if a column's buffers are inconsistent; `size`, by default the data's size, limits the offsets."""
    offsets_view, validity = memoryview(column.offsets), column.validity
    if offsets_view.nbytes < 4 * count + 4 or (validity is not None and memoryview(validity).nbytes < (count + 7) // 8):
        raise InvalidInputError(f"{name}: the buffers are too short for {count} values")
    p: cython.p_const_uchar = c.readable(offsets_view)
    values: cython.longlong = count
    limit: cython.longlong = memoryview(column.data).nbytes if size is None else size
    wrong: cython.longlong
    with cython.nogil:
        wrong = _check_offsets(p, values, limit)
    if wrong >= 0:
        raise InvalidInputError(f"{name}: the offsets of value {wrong} decrease or exceed the data size of {limit} bytes")


def check_lists(count: int, lists: VariableColumn, keys: VariableColumn, values: VariableColumn) -> int:
    """Check that the buffers of lists of keys and values are consistent; return the number of headers."""
    check_variable("lists", lists, count, MAX_OFFSET)
    headers = last_offset(lists.offsets, count)
    check_variable("keys", keys, headers)
    check_variable("values", values, headers)
    return headers


def last_offset(offsets: BytesLike, count: int) -> int:
    """Return the last of a column's int32 offsets."""
    return int.from_bytes(memoryview(offsets)[4 * count : 4 * (count + 1)], "little")
