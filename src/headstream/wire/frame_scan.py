"""Finding the whole frames in received bytes, compiled; little-endian.

    request   length u32 | code u32 | payload       length counts code and payload
    response  status u32 | length u32 | body        length counts the body

A request whose length is below 4 has no room for its code: it is passed over, and told as code 0, which is no command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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

__all__ = ["FrameScan", "scan_frames"]


class FrameScan(NamedTuple):
    """What was found.

    Args:
        frames: For each whole frame its number (a code or a status), and where its payload begins and ends.
        end: Where the first frame begins that is not whole.
        need: How many bytes that frame has in all, as far as is known: 8 while its head is not there.
        is_too_long: Whether that frame claims to be longer than is allowed; nothing behind it can be read.
    """

    frames: list[tuple[int, int, int]]
    end: int
    need: int
    is_too_long: bool


def scan_frames(
    view: memoryview, at: cython.longlong, end: cython.longlong, most: cython.longlong, is_request: bool
) -> FrameScan:
    """Return the whole frames between two byte positions.

    Args:
        view: The buffer; bytes.
        at: Where a frame begins.
        end: One past the last received byte.
        most: The most bytes a frame may have in all.
        is_request: Whether they are requests, or else responses.
    """
    p: cython.p_const_uchar = readable(view)
    number: cython.longlong
    size: cython.longlong
    first: cython.longlong
    requests: cython.bint = is_request
    frames: list[tuple[int, int, int]] = []
    if at < 0 or end > view.nbytes:
        raise IndexError("the range is not within the buffer")
    while end - at >= 4:
        first = load32(p, at)
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
            size = load32(p, at + 4)
            size += 8
        if size > most:
            return FrameScan(frames, at, size, True)
        if size > end - at:
            return FrameScan(frames, at, size, False)
        number = load32(p, at + 4) if requests else first
        frames.append((number, at + 8, at + size))
        at += size
    return FrameScan(frames, at, 8, False)
