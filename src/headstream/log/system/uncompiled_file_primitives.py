"""File writes for uncompiled kernels; names and meaning as in file_primitives.h."""

from __future__ import annotations

import os


def write_at(descriptor: int, p: memoryview, size: int, position: int) -> bool:
    """Write bytes at a byte position of a file; return whether all bytes were written."""
    try:
        return os.pwrite(descriptor, p[:size], position) == size
    except OSError:
        return False
