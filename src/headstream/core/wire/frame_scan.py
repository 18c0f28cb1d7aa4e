"""Finds the complete frames in received bytes; compiled. All numbers are little-endian.

    request   length u32 | code u32 | payload       length is the size of code and payload
    response  status u32 | length u32 | body        length is the size of the body

A request whose length is below 4 has no code. Such a request is skipped and returned with code 0, which is not a command.
"""

from __future__ import annotations

from typing import NamedTuple

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
else:
    from cython.cimports.headstream.core.codec import primitives as c


class FrameScan(NamedTuple):
    """The result of a scan.

    Args:
        frames: For each complete frame its code or status, and the start and end of its payload.
        end: Start position of the first incomplete frame.
        need: Total size of the first incomplete frame, if known; 8 until its header is complete.
        is_too_long: Whether the length of that frame exceeds the maximum, so that no further frame can be read.
    """

    frames: list[tuple[int, int, int]]
    end: int
    need: int
    is_too_long: bool


def scan_frames(
    view: memoryview, at: cython.longlong, end: cython.longlong, most: cython.longlong, is_request: bool
) -> FrameScan:
    """Return the complete frames between two byte positions.

    Args:
        most: Maximum frame size including the header, bytes.
    """
    p: cython.p_const_uchar = c.readable(view)
    number: cython.longlong
    size: cython.longlong
    first: cython.longlong
    requests: cython.bint = is_request
    frames: list[tuple[int, int, int]] = []
    if at < 0 or end > view.nbytes:
        raise IndexError("the range is outside the buffer")
    while end - at >= 4:
        first = c.load32(p, at)
        if requests:
            size = first + 4
            if size < 8:
                if size > end - at:
                    return FrameScan(frames, at, size, False)
                frames.append((0, at + size, at + size))
                at += size
                continue
        else:
            if end - at < 8:
                break
            size = c.load32(p, at + 4)
            size += 8
        if size > most:
            return FrameScan(frames, at, size, True)
        if size > end - at:
            return FrameScan(frames, at, size, False)
        number = c.load32(p, at + 4) if requests else first
        frames.append((number, at + 8, at + size))
        at += size
    return FrameScan(frames, at, 8, False)
