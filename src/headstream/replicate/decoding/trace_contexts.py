"""Trace contexts of messages (W3C `traceparent`): found in the bytes of their headers, those of sampled traces only."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa

from headstream.replicate.columns.raw import offsets_and_data

__all__ = ["MAX_CONTEXTS", "find_contexts"]

MAX_CONTEXTS: Final = 128
"""The most contexts of one batch; a span has no more links."""

_PATTERN: Final = re.compile(rb"traceparent.{5}([0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f][13579bdf])", re.DOTALL)
"""The header's name, the kind and length of its value, and the value; the last bit of its flags is set if it is sampled."""


def find_contexts(headers: pa.Array) -> list[str]:
    """Return the different contexts of some messages, in order.

    Args:
        headers: Header blocks, binary.
    """
    offsets, data = offsets_and_data(headers)
    ends = np.frombuffer(offsets, np.int32)
    found: dict[str, None] = {}
    for match in _PATTERN.finditer(memoryview(data)[ends[0] : ends[-1]]):
        found[match[1].decode()] = None
        if len(found) == MAX_CONTEXTS:
            break
    return list(found)
