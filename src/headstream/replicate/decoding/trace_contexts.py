"""Trace contexts of a column of messages' headers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headstream.interceptors import trace_contexts
from headstream.replicate.columns.raw import offsets_and_data

__all__ = ["find_contexts"]


def find_contexts(headers: pa.Array) -> list[str]:
    """Return the different contexts of some messages, in order.

    Args:
        headers: Header blocks, binary.
    """
    offsets, data = offsets_and_data(headers)
    ends = np.frombuffer(offsets, np.int32)
    return trace_contexts.find_contexts(memoryview(data)[ends[0] : ends[-1]])
