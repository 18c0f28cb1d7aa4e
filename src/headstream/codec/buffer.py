"""Bounded reading and writing of little-endian bytes: no length is believed before it is compared with what is there."""

from __future__ import annotations

import mmap
from typing import TypeAlias

__all__ = ["BytesLike"]

BytesLike: TypeAlias = bytes | bytearray | memoryview | mmap.mmap
"""Any buffer in one piece."""
