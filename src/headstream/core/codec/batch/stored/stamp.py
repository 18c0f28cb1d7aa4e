"""Makes stored messages from sent messages: checks them, then adds offset, state, time, id and checksum in one pass.

layout.py shows both layouts. All lengths and headers are checked before a byte is written, so a batch is stamped completely or
not at all.
"""

from __future__ import annotations

from typing import Final

from headstream.core.codec.batch.results import Stamped
from headstream.core.codec.batch.stored.limit_errors import NOTES, raise_fault
from headstream.core.codec.buffer import BytesLike
from headstream.errors import DecodeError, InvalidInputError, LimitError

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import faults, layout
    from headstream.core.codec.uncompiled_checksums import copy_crc32, crc32c_from
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import faults, layout
    from cython.cimports.headstream.core.codec.checksums import copy_crc32, crc32c_from

MAX_VALUES = cython.declare(cython.longlong, 100_000)
MAX_PAYLOADS = cython.declare(cython.longlong, 10_000_000)
MAX_KEY = cython.declare(cython.longlong, 255)
MAX_VALUE_IGGY = cython.declare(cython.longlong, 255)
MAX_VALUE_WIDE = cython.declare(cython.longlong, 65_536)

# The positions of scan_sent()'s notes beyond a fault, and the size of all notes in bytes.
NOTE_KEY = cython.declare(cython.longlong, 24)
NOTE_COUNT = cython.declare(cython.longlong, 32)
NOTES_BYTES = cython.declare(cython.longlong, 40)

# An id is a UUID of version 7: 48 bits of milliseconds, the version, 12 random bits, the variant, 62 random bits;
# its 16 bytes in the order of RFC 9562 are taken as two little-endian halves.
UUID_VARIANT = cython.declare(cython.ulonglong, 0x80)
RANDOM_LOW = cython.declare(cython.ulonglong, 0xFF0F_0000_0000_0000)
RANDOM_HIGH = cython.declare(cython.ulonglong, 0xFFFF_FFFF_FFFF_FF3F)
GOLDEN = cython.declare(cython.ulonglong, 0x9E37_79B9_7F4A_7C15)
MASK64 = cython.declare(cython.ulonglong, 0xFFFF_FFFF_FFFF_FFFF)

# The bytes that are checksummed and marked as available at a time: few enough for the L1 cache.
# In interpreted code, one long piece is fastest.
STRETCH = cython.declare(cython.longlong, 16384 if cython.compiled else 1 << 62)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _fault(
    notes: cython.p_uchar,
    code: cython.int,
    at: cython.longlong,
    need: cython.longlong,
    have: cython.longlong,
    key_at: cython.longlong,
) -> cython.longlong:
    """Record a fault with its position, the needed or allowed number, and the actual number; return the negated fault."""
    c.store64_signed(notes, NOTE_KEY, key_at)
    return c.note_fault(notes, code, at, need, have)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _check_headers(
    p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong, wide: cython.bint, notes: cython.p_uchar
) -> cython.longlong:
    """Return the total size of a header block's values, or a fault."""
    key_size: cython.longlong
    value_size: cython.longlong
    width: cython.longlong
    key_at: cython.longlong
    good: cython.longlong
    kind: cython.int
    total: cython.longlong = 0
    while at < end:
        if end - at < 4:
            return _fault(notes, faults.HEADER_CUT, at, 4, end - at, 0)
        key_size = c.load32(p, at)
        at += 4
        key_at = at
        if end - at < key_size + 5:
            return _fault(notes, faults.KEY_CUT, at, key_size + 5, end - at, key_at)
        if key_size < 1 or key_size > MAX_KEY:
            return _fault(notes, faults.KEY_SIZE, at, MAX_KEY, key_size, key_at)
        good = c.utf8_size(p, at, key_size)
        if good < key_size:
            return _fault(notes, faults.KEY_TEXT, at + good, key_size, good, key_at)
        at += key_size
        kind = p[at]
        value_size = c.load32(p, at + 1)
        at += 5
        if end - at < value_size:
            return _fault(notes, faults.VALUE_CUT, at, value_size, end - at, key_at)
        width = c.kind_width(kind)
        if width == -2 or (kind > 15 and not wide):
            return _fault(notes, faults.KIND, at - 5, 0, kind, key_at)
        if width >= 0 and value_size != width:
            return _fault(notes, faults.VALUE_WIDTH, at, width, value_size, key_at)
        if value_size > (MAX_VALUE_WIDE if wide else MAX_VALUE_IGGY) or (value_size == 0 and not wide):
            return _fault(notes, faults.VALUE_SIZE, at, MAX_VALUE_WIDE if wide else MAX_VALUE_IGGY, value_size, key_at)
        if kind == 3 and p[at] > 1:
            return _fault(notes, faults.VALUE_BOOL, at, 1, p[at], key_at)
        if kind == 2:
            good = c.utf8_size(p, at, value_size)
            if good < value_size:
                return _fault(notes, faults.VALUE_TEXT, at + good, value_size, good, key_at)
        at += value_size
        total += value_size
    return total


def scan_sent(p: cython.p_const_uchar, size: cython.longlong, wide: cython.bint, notes: cython.p_uchar) -> cython.longlong:
    """Return the number of messages of a sent batch, or a fault, and record the number of messages before the fault."""
    at: cython.longlong = 0
    count: cython.longlong = 0
    fault: cython.longlong = 0
    found: cython.longlong
    values: cython.longlong = 0
    payloads: cython.longlong = 0
    length: cython.longlong
    while at < size:
        if size - at < layout.SENT_OVERHEAD:
            fault = _fault(notes, faults.MESSAGE_CUT, at, layout.SENT_OVERHEAD, size - at, 0)
            break
        length = c.load32(p, at + layout.SENT_HEADERS_SIZE)
        if size - at - layout.SENT_OVERHEAD < length:
            fault = _fault(notes, faults.HEADERS_CUT, at + layout.SENT_HEADERS, length + 4, size - at - layout.SENT_HEADERS, 0)
            break
        at += layout.SENT_HEADERS
        if length > 0:
            found = _check_headers(p, at, at + length, wide, notes)
            if found < 0:
                fault = found
                break
            values += found
            at += length
        length = c.load32(p, at)
        at += 4
        if size - at < length:
            fault = _fault(notes, faults.PAYLOAD_CUT, at, length, size - at, 0)
            break
        if length == 0 and not wide:
            fault = _fault(notes, faults.PAYLOAD_EMPTY, at, 1, 0, 0)
            break
        payloads += length
        at += length
        count += 1
    if fault == 0 and not wide and values > MAX_VALUES:
        fault = _fault(notes, faults.VALUES_TOTAL, 0, MAX_VALUES, values, 0)
    if fault == 0 and not wide and payloads > MAX_PAYLOADS:
        fault = _fault(notes, faults.PAYLOADS_TOTAL, 0, MAX_PAYLOADS, payloads, 0)
    c.store64_signed(notes, NOTE_COUNT, count)
    return fault if fault < 0 else count


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _finish(q: cython.p_uchar, at: cython.longlong, end: cython.longlong, crc: cython.uint) -> cython.uint:
    """Compute the checksum of finished messages while their state is 0, then set their state to available."""
    crc = crc32c_from(q, at, end - at, crc)
    while at < end:
        q[at + layout.STATE] = 1
        at += layout.HEADERS + c.load32(q, at + layout.HEADERS_SIZE)
        at += 4 + c.load32(q, at)
    return crc


def store_sent(
    p: cython.p_const_uchar,
    size: cython.longlong,
    q: cython.p_uchar,
    offset: cython.ulonglong,
    timestamp_us: cython.ulonglong,
    seed_low: cython.ulonglong,
    seed_high: cython.ulonglong,
) -> cython.uint:
    """Write the messages of a checked batch in stored form; return their CRC-32C."""
    at: cython.longlong = 0
    to: cython.longlong = 0
    id_time: cython.ulonglong = c.uuid_time(timestamp_us // 1000)
    generated: cython.ulonglong = 0
    finished: cython.longlong = 0
    crc: cython.uint = 0
    while at < size:
        id_low: cython.ulonglong = c.load64(p, at)
        id_high: cython.ulonglong = c.load64(p, at + layout.ID_HIGH)
        if id_low == 0 and id_high == 0:
            id_low = id_time | (c.mix64(seed_low + generated) & RANDOM_LOW)
            id_high = UUID_VARIANT | (c.mix64(seed_high + generated) & RANDOM_HIGH)
            generated = (generated + GOLDEN) & MASK64
        headers_size: cython.longlong = c.load32(p, at + layout.SENT_HEADERS_SIZE)
        payload_size: cython.longlong = c.load32(p, at + layout.SENT_HEADERS + headers_size)
        c.copy(
            q,
            to + layout.HEADERS_SIZE,
            p,
            at + layout.SENT_HEADERS_SIZE,
            layout.SENT_OVERHEAD - layout.SENT_HEADERS_SIZE + headers_size,
        )
        crc32: cython.uint = copy_crc32(
            q, to + layout.OVERHEAD + headers_size, p, at + layout.SENT_OVERHEAD + headers_size, payload_size
        )
        c.store_head(q, to, offset, 0, timestamp_us, id_low, id_high, crc32)
        offset += 1
        at += layout.SENT_OVERHEAD + headers_size + payload_size
        to += layout.OVERHEAD + headers_size + payload_size
        if to - finished >= STRETCH:
            crc = _finish(q, finished, to, crc)
            finished = to
    return _finish(q, finished, to, crc)


@cython.cfunc
def _scan(view: memoryview, wide: cython.bint, noted: bytearray) -> cython.longlong:
    """Return the number of messages of a sent batch, or record and return a fault."""
    p: cython.p_const_uchar = c.readable(view)
    size: cython.longlong = view.nbytes
    notes: cython.p_uchar = c.writable(noted)
    found: cython.longlong
    with cython.nogil:
        found = scan_sent(p, size, wide, notes)
    return found


def check_sent(sent: BytesLike, wide: bool) -> int:
    """Check a sent batch as stamp() does, and return its number of messages."""
    view = memoryview(sent)
    noted = c.new_bytes(NOTES_BYTES)
    count: cython.longlong = _scan(view, wide, noted)
    if count < 0:
        raise_fault(-count, view.cast("B"), noted, wide)
    return count


def stamp(sent: BytesLike, base_offset: int, timestamp_us: int, seed: bytes, wide: bool) -> Stamped:
    """Make stored messages from sent messages; LimitError if a message exceeds the topic's limits.

    The first offset is 0 to 2^63 - 1. A message without an id gets an id that is generated from the seed, 16 random bytes.
    """
    view = memoryview(sent)
    p: cython.p_const_uchar = c.readable(view)
    size: cython.longlong = view.nbytes
    noted = c.new_bytes(NOTES_BYTES)
    count: cython.longlong = _scan(view, wide, noted)
    if count < 0:
        raise_fault(-count, view.cast("B"), noted, wide)
    if not (0 <= base_offset <= _MAX_INT64 - count and 0 <= timestamp_us <= _MAX_INT64 and len(seed) == 16):
        raise InvalidInputError(
            f"offset {base_offset}, time {timestamp_us} or a seed of {len(seed)} bytes is out of range",
            advice="Offsets and times must be 0 to 2^63 - 1; a seed must have 16 bytes",
        )
    offset: cython.ulonglong = base_offset
    time_us: cython.ulonglong = timestamp_us
    seed_low: cython.ulonglong = int.from_bytes(seed[:8], "little")
    seed_high: cython.ulonglong = int.from_bytes(seed[8:], "little")
    data = c.new_bytes(size + 21 * count)
    q: cython.p_uchar = c.writable(data)
    crc: cython.uint
    with cython.nogil:
        crc = store_sent(p, size, q, offset, time_us, seed_low, seed_high)
    return Stamped(data, count, crc)


def find_fault(sent: BytesLike, wide: bool) -> tuple[int, DecodeError | LimitError] | None:
    """Return the number of the first message that a topic rejects, with the reason; None if the topic accepts all messages."""
    noted = c.new_bytes(NOTES_BYTES)
    count: cython.longlong = _scan(memoryview(sent), wide, noted)
    if count >= 0 or -count in (faults.VALUES_TOTAL, faults.PAYLOADS_TOTAL):
        return None
    try:
        raise_fault(-count, memoryview(sent).cast("B"), noted, wide)
    except (DecodeError, LimitError) as error:
        return NOTES.unpack(noted)[4], error


_MAX_INT64: Final = (1 << 63) - 1
