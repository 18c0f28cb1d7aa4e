"""Finds the command of an HTTP request by method and path."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import unquote

from headstream.core.wire.codes import TABLE, CodeEntry, Method
from headstream.errors import DecodeError


class FoundRoute(NamedTuple):
    """A command, and the decoded parameters of its path."""

    entry: CodeEntry
    path: dict[str, str]


class _Pattern(NamedTuple):
    method: Method
    pattern: re.Pattern[str]
    entry: CodeEntry


def _patterns() -> list[_Pattern]:
    found = []
    for entry in sorted(TABLE.values(), key=lambda entry: entry.route.path.count("{") if entry.route else 0):
        if entry.route is not None:
            for path in filter(None, (entry.route.path, entry.later_path)):
                pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)
                found.append(_Pattern(entry.route.method, re.compile(pattern), entry))
    return found


_PATTERNS: Final = _patterns()
"""Path patterns, fewest parameters first, so that /users/logout is not interpreted as a user."""


def find_route(method: str, path: str) -> FoundRoute | None:
    """Return the command for a method and a percent-encoded path without query, or None."""
    for known, pattern, entry in _PATTERNS:
        found = pattern.fullmatch(path) if known == method else None
        if found is not None:
            return FoundRoute(entry, {name: decode_path_parameter(text, name) for name, text in found.groupdict().items()})
    return None


def find_methods(path: str) -> list[str]:
    """Return the methods that a path supports; empty for an unknown path (404, otherwise 405)."""
    return sorted({known for known, pattern, _ in _PATTERNS if pattern.fullmatch(path)})


def decode_path_parameter(text: str, name: str) -> str:
    """Decode a percent-encoded parameter of a path."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise DecodeError(f"{name} is not UTF-8", error.start, where=f"path.{name}") from None
