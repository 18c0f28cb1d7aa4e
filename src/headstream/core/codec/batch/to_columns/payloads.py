"""Checks the payloads of stored messages (layout.py) against their CRC-32, one chunk at a time."""

from __future__ import annotations

from headstream.core.codec.buffer import BytesLike

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.batch import layout
    from headstream.core.codec.uncompiled_checksums import crc32_from
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.batch import layout
    from cython.cimports.headstream.core.codec.checksums import crc32_from


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _find_wrong(p: cython.p_const_uchar, size: cython.longlong) -> cython.longlong:
    """Return the position of the first payload that does not match its checksum; `size` if there is none."""
    at: cython.longlong = 0
    payload: cython.longlong
    length: cython.longlong
    while size - at >= layout.OVERHEAD:
        payload = c.load32(p, at + layout.HEADERS_SIZE)
        if payload > size - at - layout.OVERHEAD:
            return size
        payload += at + layout.OVERHEAD
        length = c.load32(p, payload - 4)
        if length > size - payload:
            return size
        if crc32_from(p, payload, length, 0) != c.load32(p, at + layout.CHECKSUM):
            return at
        at = payload + length
    return size


def find_damaged_payload(stored: BytesLike) -> int:
    """Return the position of the first message whose payload does not match its checksum, or -1; ignore a truncated payload."""
    view = memoryview(stored)
    p: cython.p_const_uchar = c.readable(view)
    size: cython.longlong = view.nbytes
    at: cython.longlong
    with cython.nogil:
        at = _find_wrong(p, size)
    return -1 if at == size else at
