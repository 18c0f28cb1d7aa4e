"""Configures the C library's allocator: freed memory is cached under load and returned to the system afterwards."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Final

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
_KEPT_BYTES: Final = 32 << 20


def configure_malloc() -> None:
    """Make the C library cache freed blocks, because new memory is expensive, and limit it to two arenas."""
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _KEPT_BYTES)
        mallopt(_TRIM_THRESHOLD, 2 * _KEPT_BYTES)
        mallopt(_ARENA_MAX, 2)


def trim_malloc() -> None:
    """Return the C library's freed memory to the system; thread-safe, takes a few milliseconds."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
