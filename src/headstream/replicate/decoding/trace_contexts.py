"""Trace contexts of messages (W3C `traceparent`): found in the bytes of their headers, those of sampled traces only."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["MAX_CONTEXTS", "find_contexts"]

MAX_CONTEXTS: Final = 128
"""The most contexts of one batch; a span has no more links."""

_ROWS: Final = 4096
"""Searched at a time: if every message is sampled, the first ones suffice."""

_PATTERN: Final = r"traceparent(?s:.{5})(?P<context>[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f][13579bdf])"
"""The header's name, the kind and length of its value, and the value; the last bit of its flags is set if it is sampled."""


def find_contexts(headers: pa.Array) -> list[str]:
    """Return the different contexts of some messages, in order.

    Args:
        headers: Header blocks, binary.
    """
    found: dict[str, None] = {}
    for start in range(0, len(headers), _ROWS):
        matches = pc.extract_regex(headers[start : start + _ROWS], pattern=_PATTERN).drop_null()
        found |= dict.fromkeys(context.decode() for context in matches.field("context").to_pylist())
        if len(found) >= MAX_CONTEXTS:
            break
    return list(found)[:MAX_CONTEXTS]
