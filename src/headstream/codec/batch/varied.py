"""Checking columns of varied lengths before a kernel walks them: buffers laid out as Arrow has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headstream.codec.batch.results import VariedColumn
from headstream.codec.batch.room import MAX_OFFSET
from headstream.codec.buffer import BytesLike
from headstream.errors import InvalidInputError

if TYPE_CHECKING:
    from headstream.codec import uncompiled as cython
else:
    try:
        import cython
    except ImportError:
        from headstream.codec import uncompiled as cython

if not cython.compiled:
    from headstream.codec.uncompiled_primitives import load32, readable
elif not TYPE_CHECKING:
    from cython.cimports.headstream.codec.primitives import load32, readable

__all__ = ["check_lists", "check_varied", "last_offset"]


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _check_offsets(offsets: cython.p_const_uchar, count: cython.longlong, size: cython.longlong) -> cython.longlong:
    """Return the first value whose offsets do not ascend within `size`, or -1."""
    i: cython.longlong
    for i in range(count):
        if load32(offsets, 4 * i) > load32(offsets, 4 * i + 4) or load32(offsets, 4 * i + 4) > size:
            return i
    return -1


def check_varied(name: str, column: VariedColumn, count: int, size: int | None = None) -> None:
    """Check that the buffers of a column fit each other.

    Args:
        name: The column's, for errors.
        column: The column.
        count: How many values it is to have.
        size: What its offsets may come to; the size of its data if None.

    Raises:
        InvalidInputError: they do not.
    """
    offsets_view, validity = memoryview(column.offsets), column.validity
    if offsets_view.nbytes < 4 * count + 4 or (validity is not None and memoryview(validity).nbytes < (count + 7) // 8):
        raise InvalidInputError(f"{name}: the buffers are too short for {count} values")
    p: cython.p_const_uchar = readable(offsets_view)
    values: cython.longlong = count
    limit: cython.longlong = memoryview(column.data).nbytes if size is None else size
    wrong: cython.longlong
    with cython.nogil:
        wrong = _check_offsets(p, values, limit)
    if wrong >= 0:
        raise InvalidInputError(f"{name}: the offsets of value {wrong} do not ascend within {limit} bytes")


def check_lists(count: int, lists: VariedColumn, keys: VariedColumn, values: VariedColumn) -> int:
    """Check that the buffers of lists of keys and values fit each other; return how many headers the lists hold.

    Args:
        count: How many lists.
        lists: Where each list begins in the columns below; no data.
        keys: The keys.
        values: The values.

    Raises:
        InvalidInputError: they do not.
    """
    check_varied("lists", lists, count, MAX_OFFSET)
    headers = last_offset(lists.offsets, count)
    check_varied("keys", keys, headers)
    check_varied("values", values, headers)
    return headers


def last_offset(offsets: BytesLike, count: int) -> int:
    """Return what the offsets of so many values come to.

    Args:
        offsets: int32, one more than there are values.
        count: How many values.
    """
    return int.from_bytes(memoryview(offsets)[4 * count : 4 * count + 4], "little")
