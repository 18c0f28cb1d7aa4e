"""The plain checksums of any buffer: CRC-32 as zlib has it, and CRC-32C."""

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
    from headstream.codec.uncompiled_checksums import crc32_from, crc32c_from, crc_level
    from headstream.codec.uncompiled_primitives import readable
elif not TYPE_CHECKING:
    from cython.cimports.headstream.codec.checksums import crc32_from, crc32c_from, crc_level
    from cython.cimports.headstream.codec.primitives import readable

__all__ = ["checksum_level", "crc32", "crc32c"]


def checksum_level() -> int:
    """Return what computes checksums: 0 tables, 1 PCLMULQDQ, 2 VPCLMULQDQ."""
    return crc_level


def crc32(data: BytesLike, value: int = 0) -> int:
    """Return the CRC-32 of any buffer, as zlib has it.

    Args:
        data: The bytes.
        value: The CRC-32 of what came before.
    """
    view = memoryview(data)
    p: cython.p_const_uchar = readable(view)
    size: cython.longlong = view.nbytes
    result: cython.uint = value
    with cython.nogil:
        result = crc32_from(p, 0, size, result)
    return result  # noqa: RET504 - no Python object may be made without the lock


def crc32c(data: BytesLike, value: int = 0) -> int:
    """Return the CRC-32C (Castagnoli) of any buffer.

    Args:
        data: The bytes.
        value: The CRC-32C of what came before.
    """
    view = memoryview(data)
    p: cython.p_const_uchar = readable(view)
    size: cython.longlong = view.nbytes
    result: cython.uint = value
    with cython.nogil:
        result = crc32c_from(p, 0, size, result)
    return result  # noqa: RET504 - no Python object may be made without the lock
