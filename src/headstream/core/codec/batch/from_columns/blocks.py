"""Builds header blocks (headers.py) from columns for pack(), without a Python object per header.

A block is the concatenation of its parts: existing blocks, lists of headers, and columns, which contribute one header per message
that is not null. All parts are measured first, to determine where each block begins; then each part is written at its position.
"""

from __future__ import annotations

from typing import NamedTuple

from headstream.core.codec.batch.int32_limits import check_blocks
from headstream.core.codec.batch.results import Blocks, VariableColumn
from headstream.core.codec.batch.variable import check_variable
from headstream.core.codec.buffer import BytesLike
from headstream.errors import InvalidInputError

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import layout
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import layout


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _measure(
    sizes: cython.p_uchar,
    count: cython.longlong,
    extra: cython.longlong,
    width: cython.longlong,
    offsets: cython.p_const_uchar,
    validity: cython.p_const_uchar,
    some_null: cython.bint,
) -> cython.void:
    """Add a column's sizes to the messages' sizes: `extra` plus `width`, or plus the value's length if `width` is -1."""
    i: cython.longlong
    for i in range(count):
        if not c.is_null(validity, some_null, i):
            size: cython.longlong = width
            if width < 0:
                size = c.load32(offsets, 4 * (i + 1)) - c.load32(offsets, 4 * i)
            c.store64_signed(sizes, 8 * i, c.load64_signed(sizes, 8 * i) + extra + size)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _write_blocks(
    places: cython.p_uchar,
    count: cython.longlong,
    offsets: cython.p_const_uchar,
    data: cython.p_const_uchar,
    validity: cython.p_const_uchar,
    some_null: cython.bint,
    q: cython.p_uchar,
) -> cython.void:
    i: cython.longlong
    for i in range(count):
        if not c.is_null(validity, some_null, i):
            begin: cython.longlong = c.load32(offsets, 4 * i)
            size: cython.longlong = c.load32(offsets, 4 * (i + 1)) - begin
            to: cython.longlong = c.load64_signed(places, 8 * i)
            c.copy(q, to, data, begin, size)
            c.store64_signed(places, 8 * i, to + size)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _write_column(
    places: cython.p_uchar,
    count: cython.longlong,
    key: cython.p_const_uchar,
    key_size: cython.longlong,
    kind: cython.int,
    width: cython.longlong,
    offsets: cython.p_const_uchar,
    data: cython.p_const_uchar,
    validity: cython.p_const_uchar,
    some_null: cython.bint,
    q: cython.p_uchar,
) -> cython.void:
    """Write a column's headers."""
    i: cython.longlong
    for i in range(count):
        if not c.is_null(validity, some_null, i):
            begin: cython.longlong = width * i
            size: cython.longlong = width
            if width < 0:
                begin = c.load32(offsets, 4 * i)
                size = c.load32(offsets, 4 * (i + 1)) - begin
            to: cython.longlong = c.load64_signed(places, 8 * i)
            c.store32(q, to, key_size)
            c.copy(q, to + 4, key, 0, key_size)
            to += 4 + key_size
            q[to] = kind
            c.store32(q, to + 1, size)
            c.copy(q, to + layout.VALUE_HEAD, data, begin, size)
            c.store64_signed(places, 8 * i, to + layout.VALUE_HEAD + size)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _measure_lists(
    sizes: cython.p_uchar,
    count: cython.longlong,
    lists: cython.p_const_uchar,
    keys: cython.p_const_uchar,
    values: cython.p_const_uchar,
    validity: cython.p_const_uchar,
    some_null: cython.bint,
) -> cython.void:
    """Add the size of each message's header list to the message's size."""
    i: cython.longlong
    for i in range(count):
        if not c.is_null(validity, some_null, i):
            begin: cython.longlong = c.load32(lists, 4 * i)
            end: cython.longlong = c.load32(lists, 4 * (i + 1))
            size: cython.longlong = 9 * (end - begin)
            size += c.load32(keys, 4 * end) - c.load32(keys, 4 * begin)
            size += c.load32(values, 4 * end) - c.load32(values, 4 * begin)
            c.store64_signed(sizes, 8 * i, c.load64_signed(sizes, 8 * i) + size)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _write_lists(
    places: cython.p_uchar,
    count: cython.longlong,
    lists: cython.p_const_uchar,
    keys: cython.p_const_uchar,
    key_data: cython.p_const_uchar,
    kinds: cython.p_const_uchar,
    values: cython.p_const_uchar,
    value_data: cython.p_const_uchar,
    validity: cython.p_const_uchar,
    some_null: cython.bint,
    q: cython.p_uchar,
) -> cython.void:
    i: cython.longlong
    j: cython.longlong
    for i in range(count):
        if not c.is_null(validity, some_null, i):
            to: cython.longlong = c.load64_signed(places, 8 * i)
            for j in range(c.load32(lists, 4 * i), c.load32(lists, 4 * (i + 1))):
                begin: cython.longlong = c.load32(keys, 4 * j)
                size: cython.longlong = c.load32(keys, 4 * (j + 1)) - begin
                c.store32(q, to, size)
                c.copy(q, to + 4, key_data, begin, size)
                to += 4 + size
                q[to] = kinds[j]
                begin = c.load32(values, 4 * j)
                size = c.load32(values, 4 * (j + 1)) - begin
                c.store32(q, to + 1, size)
                c.copy(q, to + layout.VALUE_HEAD, value_data, begin, size)
                to += 5 + size
            c.store64_signed(places, 8 * i, to)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _place(sizes: cython.p_uchar, count: cython.longlong, offsets: cython.p_uchar) -> cython.longlong:
    """Replace the size of each block with its start position, and return the total size."""
    i: cython.longlong
    at: cython.longlong = 0
    for i in range(count):
        size: cython.longlong = c.load64_signed(sizes, 8 * i)
        c.store64_signed(sizes, 8 * i, at)
        c.store32(offsets, 4 * i, at)
        at += size
    c.store32(offsets, 4 * count, at)
    return at


class _BlockPart(NamedTuple):
    """A part of the blocks: existing blocks have neither `key` nor `keys`, lists have `keys`, and columns have `key`."""

    values: VariableColumn
    width: int = -1
    key: bytes = b""
    kind: int = 0
    lists: VariableColumn | None = None
    keys: VariableColumn | None = None
    kinds: BytesLike = b""


class BlockBuilder:
    """Builds header blocks for a number of messages; InvalidInputError if buffers are inconsistent."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._parts: list[_BlockPart] = []

    def add_blocks(self, blocks: VariableColumn) -> None:
        """Add one existing block per message; null if a message has no block."""
        check_variable("blocks", blocks, self._count)
        self._parts.append(_BlockPart(blocks))

    def add_lists(self, lists: VariableColumn, keys: VariableColumn, kinds: BytesLike, values: VariableColumn) -> None:
        """Add header lists.

        The lists consist of offsets into the key and value columns, which contain no nulls.
        """
        entries = memoryview(kinds).nbytes
        check_variable("keys", keys, entries)
        check_variable("values", values, entries)
        check_variable("lists", lists, self._count, entries)
        self._parts.append(_BlockPart(values, lists=lists, keys=keys, kinds=kinds))

    def add_column(self, key: bytes, kind: int, values: VariableColumn) -> None:
        """Add a header with a value of variable width to each message whose value is not null."""
        check_variable(key.decode("utf-8", "backslashreplace"), values, self._count)
        self._parts.append(_BlockPart(values, key=key, kind=kind))

    def add_numbers(self, key: bytes, kind: int, width: int, data: BytesLike, validity: BytesLike | None) -> None:
        """Add a header with a value of fixed width to each message whose value is not null.

        Args:
            width: Size of a value in bytes, at least 1.
            validity: Bitmap, lowest bit first; None if no value is null.
        """
        if width < 1:
            raise InvalidInputError(f"the width must be at least 1 byte, not {width}")
        if validity is not None and memoryview(validity).nbytes < (self._count + 7) // 8:
            raise InvalidInputError(f"{memoryview(validity).nbytes} validity bytes are too few for {self._count} values")
        if memoryview(data).nbytes < width * self._count:
            raise InvalidInputError(f"{self._count} values of {width} bytes do not fit in {memoryview(data).nbytes} data bytes")
        self._parts.append(_BlockPart(VariableColumn(b"", data, validity), width, key, kind))

    def build(self) -> Blocks:
        """Return the blocks; InvalidInputError if the blocks have 2 GiB or more."""
        sized, placed = bytearray(8 * self._count), c.new_bytes(4 * self._count + 4)
        for part in self._parts:
            _measure_part(part, self._count, sized)
        sizes: cython.p_uchar = c.writable(sized)
        offsets: cython.p_uchar = c.writable(placed)
        count: cython.longlong = self._count
        total: cython.longlong
        with cython.nogil:
            total = _place(sizes, count, offsets)
        check_blocks(total)
        data = c.new_bytes(total)
        for part in self._parts:
            _write_part(part, self._count, sized, data)
        return Blocks(placed, data)


def _view(data: BytesLike | None) -> memoryview:
    return memoryview(b"" if data is None else data)


def _measure_part(part: _BlockPart, messages: int, sized: bytearray) -> None:
    owner = part.values if part.lists is None else part.lists
    offsets_view, validity_view = _view(part.values.offsets), _view(owner.validity)
    sizes: cython.p_uchar = c.writable(sized)
    offsets: cython.p_const_uchar = c.readable(offsets_view)
    validity: cython.p_const_uchar = c.readable(validity_view)
    some_null: cython.bint = owner.validity is not None
    count: cython.longlong = messages
    width: cython.longlong = part.width
    extra: cython.longlong = 9 + len(part.key) if part.key else 0
    if part.lists is None or part.keys is None:
        with cython.nogil:
            _measure(sizes, count, extra, width, offsets, validity, some_null)
        return
    lists_view, keys_view = _view(part.lists.offsets), _view(part.keys.offsets)
    lists: cython.p_const_uchar = c.readable(lists_view)
    keys: cython.p_const_uchar = c.readable(keys_view)
    with cython.nogil:
        _measure_lists(sizes, count, lists, keys, offsets, validity, some_null)


def _write_part(part: _BlockPart, messages: int, placed: bytearray, target: bytearray) -> None:
    owner = part.values if part.lists is None else part.lists
    offsets_view, data_view, validity_view = _view(part.values.offsets), _view(part.values.data), _view(owner.validity)
    key_view = _view(part.key)
    places: cython.p_uchar = c.writable(placed)
    q: cython.p_uchar = c.writable(target)
    offsets: cython.p_const_uchar = c.readable(offsets_view)
    data: cython.p_const_uchar = c.readable(data_view)
    validity: cython.p_const_uchar = c.readable(validity_view)
    key: cython.p_const_uchar = c.readable(key_view)
    some_null: cython.bint = owner.validity is not None
    count: cython.longlong = messages
    width: cython.longlong = part.width
    key_size: cython.longlong = len(part.key)
    kind: cython.int = part.kind
    if part.lists is not None and part.keys is not None:
        lists_view, keys_view, key_data_view = _view(part.lists.offsets), _view(part.keys.offsets), _view(part.keys.data)
        kinds_view = _view(part.kinds)
        lists: cython.p_const_uchar = c.readable(lists_view)
        keys: cython.p_const_uchar = c.readable(keys_view)
        key_data: cython.p_const_uchar = c.readable(key_data_view)
        kinds: cython.p_const_uchar = c.readable(kinds_view)
        with cython.nogil:
            _write_lists(places, count, lists, keys, key_data, kinds, offsets, data, validity, some_null, q)
    elif key_size > 0:
        with cython.nogil:
            _write_column(places, count, key, key_size, kind, width, offsets, data, validity, some_null, q)
    else:
        with cython.nogil:
            _write_blocks(places, count, offsets, data, validity, some_null, q)
