"""Checksums of any buffer: CRC-32 as in zlib, and CRC-32C."""

from __future__ import annotations

from headstream.core.codec.buffer import BytesLike

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
    from headstream.core.codec.uncompiled_checksums import crc32_from, crc32c_from, crc_level
else:
    from cython.cimports.headstream.core.codec import primitives as c
    from cython.cimports.headstream.core.codec.checksums import crc32_from, crc32c_from, crc_level


def checksum_level() -> int:
    """Return how checksums are computed: 0 with tables, 1 with PCLMULQDQ, 2 with VPCLMULQDQ."""
    return crc_level


def crc32(data: BytesLike, value: int = 0) -> int:
    """Return the CRC-32 of any buffer, as zlib computes it, continued from the CRC-32 of the preceding bytes."""
    view = memoryview(data)
    p: cython.p_const_uchar = c.readable(view)
    size: cython.longlong = view.nbytes
    result: cython.uint = value
    with cython.nogil:
        result = crc32_from(p, 0, size, result)
    return result  # noqa: RET504 - a Python object cannot be created without the GIL


def crc32c(data: BytesLike, value: int = 0) -> int:
    """Return the CRC-32C (Castagnoli) of any buffer, continued from the CRC-32C of the preceding bytes."""
    view = memoryview(data)
    p: cython.p_const_uchar = c.readable(view)
    size: cython.longlong = view.nbytes
    result: cython.uint = value
    with cython.nogil:
        result = crc32c_from(p, 0, size, result)
    return result  # noqa: RET504 - a Python object cannot be created without the GIL
