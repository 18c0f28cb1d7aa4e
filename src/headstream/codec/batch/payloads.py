"""Checking the payloads of stored messages against the CRC-32 that each carries, a whole chunk at a time.

stored   offset u64 | state u8 | timestamp u64 | id u128 | crc32(payload) u32
         | headers_length u32 | headers | payload_length u32 | payload
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headstream.codec.buffer import BytesLike

if TYPE_CHECKING:
    from headstream.codec import uncompiled as cython
else:
    try:
        import cython
    except ImportError:
        from headstream.codec import uncompiled as cython

if not cython.compiled:
    from headstream.codec.uncompiled_checksums import crc32_from
    from headstream.codec.uncompiled_primitives import load32, readable
elif not TYPE_CHECKING:
    from cython.cimports.headstream.codec.checksums import crc32_from
    from cython.cimports.headstream.codec.primitives import load32, readable

__all__ = ["find_wrong_payload"]


@cython.cfunc
@cython.exceptval(check=False)
@cython.nogil
def _find_wrong(p: cython.p_const_uchar, size: cython.longlong) -> cython.longlong:
    """Return where the first message is whose payload is not that of its checksum; `size` if none, or what is cut short."""
    at: cython.longlong = 0
    payload: cython.longlong
    length: cython.longlong
    while size - at >= 45:
        payload = load32(p, at + 37)
        if payload > size - at - 45:
            return size
        payload += at + 45
        length = load32(p, payload - 4)
        if length > size - payload:
            return size
        if crc32_from(p, payload, length, 0) != load32(p, at + 33):
            return at
        at = payload + length
    return size


def find_wrong_payload(stored: BytesLike) -> int:
    """Return the byte position of the first message whose payload is not that of its checksum, or -1 where there is none.

    Args:
        stored: Stored messages, back to back; what is cut short is for whoever decodes it to say.
    """
    view = memoryview(stored)
    p: cython.p_const_uchar = readable(view)
    size: cython.longlong = view.nbytes
    at: cython.longlong
    with cython.nogil:
        at = _find_wrong(p, size)
    return -1 if at == size else at
