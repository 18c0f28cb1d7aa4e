"""Runs the steps of a filter's program over the values of one message. filter_scan.py shows the layout of steps and values.

Pointers: p is the message, q the program, and v the values (from byte 0), followed by the stack.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_filter_primitives as numbers
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import layout
else:
    from cython.cimports.headstream.core.codec import filter_primitives as numbers
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import layout


FALSE = cython.declare(cython.int, 0)
TRUE = cython.declare(cython.int, 1)
UNKNOWN = cython.declare(cython.int, 2)
FAILED = cython.declare(cython.int, 3)

# The results of order_of() besides -1, 0 and 1; hs_compare_floats() also returns the first of them.
NO_ORDER = cython.declare(cython.int, 2)
ONE_IS_NULL = cython.declare(cython.int, 3)
NOT_COMPARABLE = cython.declare(cython.int, 4)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _order_of_wholes(v: cython.p_uchar, a: cython.longlong, b: cython.longlong) -> cython.int:
    """Return -1, 0 or 1 if the first integer is less than, equal to or greater than the second."""
    a_low: cython.ulonglong = c.load64(v, a + layout.VALUE_LOW)
    a_high: cython.ulonglong = c.load64(v, a + layout.VALUE_HIGH)
    b_low: cython.ulonglong = c.load64(v, b + layout.VALUE_LOW)
    b_high: cython.ulonglong = c.load64(v, b + layout.VALUE_HIGH)
    if v[a + layout.VALUE_SIGN] != v[b + layout.VALUE_SIGN]:
        return -1 if v[a + layout.VALUE_SIGN] else 1  # zero has no sign
    order: cython.int
    if a_high != b_high:
        order = -1 if a_high < b_high else 1
    elif a_low != b_low:
        order = -1 if a_low < b_low else 1
    else:
        return 0
    return -order if v[a + layout.VALUE_SIGN] else order


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _order_of_texts(
    p: cython.p_const_uchar, q: cython.p_const_uchar, v: cython.p_uchar, a: cython.longlong, b: cython.longlong
) -> cython.int:
    """Return -1, 0 or 1 if the first string sorts before, equals or sorts after the second, compared byte by byte."""
    first: cython.p_const_uchar = p if v[a + layout.VALUE_SOURCE] == 0 else q
    second: cython.p_const_uchar = p if v[b + layout.VALUE_SOURCE] == 0 else q
    if v[a + layout.VALUE_SOURCE] == 2:
        first = v
    if v[b + layout.VALUE_SOURCE] == 2:
        second = v
    order: cython.int = c.compare(
        first,
        c.load64_signed(v, a + layout.VALUE_LOW),
        c.load64_signed(v, a + layout.VALUE_HIGH),
        second,
        c.load64_signed(v, b + layout.VALUE_LOW),
        c.load64_signed(v, b + layout.VALUE_HIGH),
    )
    return (order > 0) - (order < 0)


def order_of(
    p: cython.p_const_uchar, q: cython.p_const_uchar, v: cython.p_uchar, a: cython.longlong, b: cython.longlong
) -> cython.int:
    """Return the order of the values at two byte positions, or the reason why they cannot be compared."""
    first: cython.int = v[a]
    second: cython.int = v[b]
    order: cython.int
    if first == 0 or second == 0:
        return ONE_IS_NULL
    if first == layout.WHOLE and second == layout.WHOLE:
        return _order_of_wholes(v, a, b)
    if first == layout.TEXT and second == layout.TEXT:
        return _order_of_texts(p, q, v, a, b)
    if first == layout.BOOLEAN and second == layout.BOOLEAN:
        return (v[a + layout.VALUE_LOW] > v[b + layout.VALUE_LOW]) - (v[a + layout.VALUE_LOW] < v[b + layout.VALUE_LOW])
    if first == layout.FLOAT and second == layout.FLOAT:
        return numbers.compare_floats(numbers.load_double(v, a + layout.VALUE_LOW), numbers.load_double(v, b + layout.VALUE_LOW))
    if first == layout.WHOLE and second == layout.FLOAT:
        return numbers.compare_whole_to_float(
            v[a + layout.VALUE_SIGN] != 0,
            c.load64(v, a + layout.VALUE_LOW),
            c.load64(v, a + layout.VALUE_HIGH),
            numbers.load_double(v, b + layout.VALUE_LOW),
        )
    if first == layout.FLOAT and second == layout.WHOLE:
        order = numbers.compare_whole_to_float(
            v[b + layout.VALUE_SIGN] != 0,
            c.load64(v, b + layout.VALUE_LOW),
            c.load64(v, b + layout.VALUE_HIGH),
            numbers.load_double(v, a + layout.VALUE_LOW),
        )
        return order if order == NO_ORDER else -order
    return NOT_COMPARABLE


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _truth_of(order: cython.int, test: cython.int) -> cython.int:
    """Return the truth value of a test (0 to 5 for = <> < <= > >=) for the order of two values."""
    if order == ONE_IS_NULL:
        return UNKNOWN
    if order == NOT_COMPARABLE:
        return FAILED
    if order == NO_ORDER:
        return test == 1
    if test < 2:
        return (order == 0) == (test == 0)
    if order == 0:
        return test == 3 or test == 5
    return (order < 0) == (test < 4)


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _character_end(p: cython.p_const_uchar, at: cython.longlong, end: cython.longlong) -> cython.longlong:
    """Return the end position of a UTF-8 character."""
    at += 1
    while at < end and (p[at] & 0xC0) == 0x80:
        at += 1
    return at


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _is_like(
    p: cython.p_const_uchar,
    at: cython.longlong,
    end: cython.longlong,
    q: cython.p_const_uchar,
    pattern: cython.longlong,
    pattern_end: cython.longlong,
) -> cython.bint:
    """Return whether a string matches a pattern, in which 0xFF matches any characters and 0xFE matches one character.

    After a mismatch the last 0xFF matches one more character; the earlier 0xFF need not change.
    """
    retry_at: cython.longlong = -1
    retry_pattern: cython.longlong = -1
    while at < end or pattern < pattern_end:
        if pattern < pattern_end and q[pattern] == 0xFF:
            pattern += 1
            retry_at = at
            retry_pattern = pattern
            continue
        if at < end and pattern < pattern_end:
            if q[pattern] == 0xFE:
                at = _character_end(p, at, end)
                pattern += 1
                continue
            if q[pattern] == p[at]:
                at += 1
                pattern += 1
                continue
        if retry_at < 0 or retry_at >= end:
            return False
        retry_at = _character_end(p, retry_at, end)
        at = retry_at
        pattern = retry_pattern
    return True


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _like(
    p: cython.p_const_uchar, q: cython.p_const_uchar, v: cython.p_uchar, a: cython.longlong, b: cython.longlong
) -> cython.int:
    """Return the truth value of LIKE between a value and a pattern."""
    if v[a] != layout.TEXT:
        return UNKNOWN if v[a] == 0 else FAILED
    begin: cython.longlong = c.load64_signed(v, a + layout.VALUE_LOW)
    pattern: cython.longlong = c.load64_signed(v, b + layout.VALUE_LOW)
    text: cython.p_const_uchar = p if v[a + layout.VALUE_SOURCE] == 0 else q
    if v[a + layout.VALUE_SOURCE] == 2:
        text = v
    return _is_like(
        text,
        begin,
        begin + c.load64_signed(v, a + layout.VALUE_HIGH),
        q,
        pattern,
        pattern + c.load64_signed(v, b + layout.VALUE_HIGH),
    )


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _is_in(
    p: cython.p_const_uchar,
    q: cython.p_const_uchar,
    v: cython.p_uchar,
    a: cython.longlong,
    b: cython.longlong,
    end: cython.longlong,
) -> cython.int:
    """Return the truth value of IN for a value and the values between two byte positions."""
    found: cython.int = FALSE
    truth: cython.int
    while b < end:
        truth = _truth_of(order_of(p, q, v, a, b), 0)
        if truth == TRUE:
            return TRUE
        if truth > found:
            found = truth
        b += layout.VALUE_BYTES
    return found


def run_steps(
    p: cython.p_const_uchar,
    q: cython.p_const_uchar,
    v: cython.p_uchar,
    stack: cython.longlong,
    steps: cython.longlong,
    count: cython.longlong,
) -> cython.int:
    """Return the truth value of a program for one message's values; `stack` is a position in `v`, and `steps` in `q`."""
    top: cython.longlong = stack - 1
    step: cython.longlong = 0
    while step < count:
        at: cython.longlong = steps + layout.STEP_BYTES * step
        operation: cython.int = q[at]
        test: cython.int = q[at + layout.STEP_TEST]
        first: cython.longlong = layout.VALUE_BYTES * c.load16(q, at + layout.STEP_FIRST)
        second: cython.longlong = layout.VALUE_BYTES * c.load16(q, at + layout.STEP_SECOND)
        step += 1
        if operation == 9:  # JUMP
            if v[top] == test:
                step = c.load16(q, at + layout.STEP_COUNT)
        elif operation == 6:  # NOT
            if v[top] < UNKNOWN:
                v[top] = 1 - v[top]
        elif operation == 7 or operation == 8:  # AND, OR: one part decides, or else the greater
            top -= 1
            decisive: cython.int = FALSE if operation == 7 else TRUE
            if v[top] == decisive or v[top + 1] == decisive:
                v[top] = decisive
            elif v[top + 1] > v[top]:
                v[top] = v[top + 1]
        else:
            top += 1
            if operation == 0:  # COMPARE
                v[top] = _truth_of(order_of(p, q, v, first, second), test)
            elif operation == 1:  # IN
                v[top] = _is_in(p, q, v, first, second, second + layout.VALUE_BYTES * c.load16(q, at + layout.STEP_COUNT))
            elif operation == 2:  # LIKE
                v[top] = _like(p, q, v, first, second)
            elif operation == 3:  # IS_NULL
                v[top] = v[first] == 0
            elif operation == 4:  # TRUTH
                v[top] = v[first + layout.VALUE_LOW] if v[first] == layout.BOOLEAN else UNKNOWN if v[first] == 0 else FAILED
            else:  # CONSTANT
                v[top] = test
    return v[top]
