"""What the C library keeps of the memory that was freed: much while the server works, little once a crowd has gone."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Final

__all__ = ["give_back_memory", "keep_memory"]

_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8
_KEPT_BYTES: Final = 32 << 20


def keep_memory() -> None:
    """Have the C library keep blocks of batches instead of giving each back to the system: fresh memory costs more than its use.

    A few arenas are enough for the threads that work on batches; each keeps what it has freed.
    """
    with contextlib.suppress(AttributeError, OSError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_MMAP_THRESHOLD, _KEPT_BYTES)
        mallopt(_TRIM_THRESHOLD, 2 * _KEPT_BYTES)
        mallopt(_ARENA_MAX, 2)


def give_back_memory() -> None:
    """Have the C library give the system back what it keeps; any thread, a few milliseconds."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
