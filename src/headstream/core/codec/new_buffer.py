"""Allocates memory for bytes that are about to be read; compiled."""

from __future__ import annotations

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
else:
    from cython.cimports.headstream.core.codec import primitives as c


def new_buffer(size: int) -> bytearray:
    """Return a buffer whose bytes are undefined until they are written.

    bytearray(size) writes zeros to all pages of a buffer, which takes longer than reading the same number of bytes from a socket
    or a cached file.
    """
    return c.new_bytes(size)
