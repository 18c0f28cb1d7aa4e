"""OpenTelemetry's tracer, and a search for the contexts (W3C `traceparent`) of sampled traces in encoded headers."""

from __future__ import annotations

import re
from typing import Any, Final

from headstream.core.codec.buffer import BytesLike
from headstream.errors import MissingExtraError

MAX_CONTEXTS: Final = 128
"""Maximum number of contexts per batch; a span cannot have more links."""

_PATTERN: Final = re.compile(rb"traceparent.{5}([0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f][13579bdf])", re.DOTALL)
"""The header's name, the kind and length of its value, and the value, whose last bit is set if the trace is sampled."""


def has_context(data: BytesLike) -> bool:
    """Return whether a message carries the context of a sampled trace."""
    return _PATTERN.search(data) is not None


def find_contexts(data: BytesLike) -> list[str]:
    """Return the distinct contexts in header blocks or encoded messages, in order, at most MAX_CONTEXTS."""
    found: dict[str, None] = {}
    for match in _PATTERN.finditer(data):
        found[match[1].decode()] = None
        if len(found) == MAX_CONTEXTS:
            break
    return list(found)


def open_tracer(tracer_provider: Any) -> tuple[Any, Any]:
    """Return OpenTelemetry's module `trace` and Headstream's tracer; MissingExtraError if `tracing` is not installed."""
    try:
        from opentelemetry import trace
    except ImportError as error:
        raise MissingExtraError(f"tracing requires {error.name}", advice="Install headstream[tracing]") from None
    return trace, trace.get_tracer("headstream", tracer_provider=tracer_provider)
