"""Runs a filter's program over stored messages and copies the matching messages.

    program  head | values | steps | names | data                                          made by core/filters/program.py
    head     headers u16 | values u16 | steps u16 | fields u16
    value    type u8 | is_negative u8 | source u8 | 5 x 0 | low u64 | high u64                             32 bytes with 8 x 0
    step     operation u8 | test u8 | first u16 | second u16 | count u16
    name     byte_position u32 | size_bytes u32

The values are six fields (offset, timestamp, state, id, key, payload size; the bits of `fields` show which fields are used), one
value per header, and the literals. Their contents by type:

    NULL, OPAQUE   none; OPAQUE is a value of a kind unknown to this version
    WHOLE          magnitude, 128 bits, and sign
    FLOAT          the bits of a 64-bit float
    BOOLEAN        0 or 1
    TEXT           byte position and size in the message, the program or the values (source 0, 1, 2)

The steps use a stack of truth values: 0 FALSE, 1 TRUE, 2 UNKNOWN, 3 FAILED. core/filters/evaluation.py defines the truth values.

    COMPARE   push whether first and second pass the test        CONSTANT  push `test`
    IN        push whether first equals one of `count` values    NOT       negate the top
              from second on                                     AND, OR   combine the two on top
    LIKE      push whether first matches the pattern second      JUMP      continue at step `count` if the top is `test`
    IS_NULL   push whether first is NULL
    TRUTH     push first, a BOOLEAN

If a header repeats, its last value is used.
"""

from __future__ import annotations

import struct
from typing import Final

from headstream.core.codec.batch.faults import decode_error
from headstream.core.codec.batch.results import Matches
from headstream.core.codec.buffer import BytesLike

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import layout
    from headstream.core.codec.batch.headers import key_end, null_end
    from headstream.core.codec.batch.stored.filter_steps import run_steps
    from headstream.core.codec.batch.stored.filter_values import set_fields, set_headers
    from headstream.core.codec.batch.stored.scan import end_of
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import layout
    from cython.cimports.headstream.core.codec.batch.headers import key_end, null_end
    from cython.cimports.headstream.core.codec.batch.stored.filter_steps import run_steps
    from cython.cimports.headstream.core.codec.batch.stored.filter_values import set_fields, set_headers
    from cython.cimports.headstream.core.codec.batch.stored.scan import end_of

HEAD = cython.declare(cython.longlong, layout.PROGRAM_BYTES)
VALUE = cython.declare(cython.longlong, layout.VALUE_BYTES)

# The handling of a message with values that cannot be compared.
DELIVER = cython.declare(cython.int, 1)
STOP = cython.declare(cython.int, 2)

# How a part of a scan ended if there was no fault.
ALL_SCANNED = cython.declare(cython.longlong, 0)
RUNS_FULL = cython.declare(cython.longlong, 1)
STOPPED = cython.declare(cython.longlong, 2)

_RUNS: Final = 256
"""Maximum number of runs of matching messages that one part of a scan lists."""

_STACK_BYTES: Final = 256
"""Size of the stack, sufficient for the deepest expression; core/filters/parser.py limits the depth."""

_NOTES: Final = struct.Struct("<9qQ")
"""A fault (3), then the byte position reached, runs, matching messages, their bytes, scanned and failed messages, the last
offset examined."""


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _scan(
    p: cython.p_const_uchar,
    at: cython.longlong,
    size: cython.longlong,
    q: cython.p_const_uchar,
    v: cython.p_uchar,
    runs: cython.p_uchar,
    capacity: cython.longlong,
    limits: cython.p_const_uchar,
    on_failure: cython.int,
    notes: cython.p_uchar,
) -> cython.longlong:
    """Examine messages and list runs of matching messages as (start, end); return how the scan ended, or a fault.

    At most `capacity` runs are written to `runs`. `limits` are the maximum numbers of messages and bytes. The counts in `notes`
    (_NOTES) are increased. All other arguments are as in filter_values.py.
    """
    headers: cython.longlong = c.load16(q, 0)
    values: cython.longlong = c.load16(q, layout.PROGRAM_VALUES)
    steps: cython.longlong = c.load16(q, layout.PROGRAM_STEPS)
    fields: cython.int = c.load16(q, layout.PROGRAM_FIELDS)
    steps_at: cython.longlong = HEAD + VALUE * values
    count: cython.longlong = c.load64_signed(notes, layout.SCAN_COUNT)
    taken: cython.longlong = c.load64_signed(notes, layout.SCAN_TAKEN)
    scanned: cython.longlong = c.load64_signed(notes, layout.SCAN_SCANNED)
    failed: cython.longlong = c.load64_signed(notes, layout.SCAN_FAILED)
    run: cython.longlong = -1
    run_end: cython.longlong = -1
    result: cython.longlong = ALL_SCANNED
    while at < size and count < c.load64_signed(limits, 0) and (taken < c.load64_signed(limits, layout.RUN_END) or count == 0):
        message_end: cython.longlong = end_of(p, at, size, notes)
        if message_end < 0:
            result = message_end
            break
        end: cython.longlong = at + layout.HEADERS + c.load32(p, at + layout.HEADERS_SIZE)
        if headers:
            begin: cython.longlong = null_end(p, key_end(p, at + layout.HEADERS, end), end, message_end - end - 4)
            result = set_headers(v, q, steps_at + layout.STEP_BYTES * steps, headers, p, begin, end, notes)
            if result < 0:
                break
        if fields:
            set_fields(v, fields, p, at, end, message_end - end - 4)
        truth: cython.int = run_steps(p, q, v, VALUE * values, steps_at, steps)
        is_failed: cython.bint = truth == 3
        if is_failed and on_failure == STOP:
            result = STOPPED
            break
        if truth == 1 or (is_failed and on_failure == DELIVER):
            if run_end != at:
                if run + 1 == capacity:
                    result = RUNS_FULL
                    break
                run += 1
                c.store64_signed(runs, layout.RUN_BYTES * run, at)
            run_end = message_end
            c.store64_signed(runs, layout.RUN_BYTES * run + layout.RUN_END, message_end)
            count += 1
            taken += message_end - at
        failed += is_failed
        scanned += 1
        c.store64(notes, layout.SCAN_LAST, c.load64(p, at))
        at = message_end
    c.store64_signed(notes, layout.SCAN_AT, at)
    c.store64_signed(notes, layout.SCAN_RUNS, run + 1)
    c.store64_signed(notes, layout.SCAN_COUNT, count)
    c.store64_signed(notes, layout.SCAN_TAKEN, taken)
    c.store64_signed(notes, layout.SCAN_SCANNED, scanned)
    c.store64_signed(notes, layout.SCAN_FAILED, failed)
    return result


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _copy_runs(
    p: cython.p_const_uchar, runs: cython.p_const_uchar, count: cython.longlong, target: cython.p_uchar
) -> cython.longlong:
    """Copy the listed runs of bytes one after another; return their total size."""
    to: cython.longlong = 0
    i: cython.longlong
    for i in range(count):
        begin: cython.longlong = c.load64_signed(runs, layout.RUN_BYTES * i)
        size: cython.longlong = c.load64_signed(runs, layout.RUN_BYTES * i + layout.RUN_END) - begin
        c.copy(target, to, p, begin, size)
        to += size
    return to


def filter_stored(
    stored: BytesLike, program: bytes, count: int, size_bytes: int, *, start: int = 0, on_failure: int = 0
) -> Matches:
    """Return the messages that match a filter.

    Args:
        size_bytes: Approximate maximum size of the returned messages, bytes; at least one matching message is returned.
        on_failure: What to do with a message whose values cannot be compared: 0 no match, 1 match, 2 stop the scan.
    """
    view = memoryview(stored).cast("B") if memoryview(stored).nbytes else memoryview(b"")
    if not start < view.nbytes:
        return Matches(view[:0], 0, start, 0, 0, -1, False)
    p: cython.p_const_uchar = c.readable(view)
    code = memoryview(program)
    q: cython.p_const_uchar = c.readable(code)
    values_bytes: int = layout.VALUE_BYTES * c.load16(q, layout.PROGRAM_VALUES)
    scratch, listed, noted = (
        c.new_bytes(values_bytes + _STACK_BYTES),
        c.new_bytes(layout.RUN_BYTES * _RUNS),
        c.new_bytes(_NOTES.size),
    )
    scratch[:values_bytes] = program[layout.PROGRAM_BYTES : layout.PROGRAM_BYTES + values_bytes]
    noted[:] = bytes(_NOTES.size)
    v: cython.p_uchar = c.writable(scratch)
    runs: cython.p_uchar = c.writable(listed)
    notes: cython.p_uchar = c.writable(noted)
    bounds = memoryview(_LIMITS.pack(count, size_bytes))
    limits: cython.p_const_uchar = c.readable(bounds)
    size: cython.longlong = view.nbytes
    at: cython.longlong = start
    capacity: cython.longlong = _RUNS
    policy: cython.int = on_failure
    status: cython.longlong = RUNS_FULL
    pieces: list[memoryview] = []
    taken: int = 0
    while status == RUNS_FULL:
        with cython.nogil:
            status = _scan(p, at, size, q, v, runs, capacity, limits, policy, notes)
        if status < 0:
            raise decode_error(-status, *_NOTES.unpack(noted)[:3])
        at = c.load64_signed(notes, layout.SCAN_AT)
        found: cython.longlong = c.load64_signed(notes, layout.SCAN_RUNS)
        total: int = c.load64_signed(notes, layout.SCAN_TAKEN) - taken
        taken += total
        if found == 1:
            pieces.append(view[c.load64_signed(runs, 0) : c.load64_signed(runs, layout.RUN_END)])
        elif found:
            pieces.append(memoryview(_copied(view, listed, found, total)))
    data = pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))
    if len(data) < size // 2:
        data = memoryview(bytes(data))  # so that the input can be freed
    found_count, _, scanned_count, failed_count, last_offset = _NOTES.unpack(noted)[5:]
    last_offset = last_offset if scanned_count else -1
    return Matches(data, found_count, at, scanned_count, failed_count, last_offset, status == STOPPED)


_LIMITS: Final = struct.Struct("<2q")


def _copied(view: memoryview, listed: bytearray, count: int, size_bytes: int) -> bytearray:
    """Return the bytes of listed runs."""
    copied = c.new_bytes(size_bytes)
    p: cython.p_const_uchar = c.readable(view)
    runs: cython.p_uchar = c.writable(listed)
    target: cython.p_uchar = c.writable(copied)
    number: cython.longlong = count
    with cython.nogil:
        _copy_runs(p, runs, number, target)
    return copied
