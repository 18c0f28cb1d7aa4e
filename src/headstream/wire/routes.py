"""Finding the command of a request over HTTP by its method and path."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import unquote

from headstream.errors import DecodeError
from headstream.wire.codes import TABLE, Entry, Method

__all__ = ["FoundRoute", "find_methods", "find_route"]


class FoundRoute(NamedTuple):
    """A command, and the parameters of its path, decoded."""

    entry: Entry
    path: dict[str, str]


class _Pattern(NamedTuple):
    method: Method
    pattern: re.Pattern[str]
    entry: Entry


def _patterns() -> list[_Pattern]:
    found = []
    for entry in sorted(TABLE.values(), key=lambda entry: entry.route.path.count("{") if entry.route else 0):
        if entry.route is not None:
            pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", entry.route.path)
            found.append(_Pattern(entry.route.method, re.compile(pattern), entry))
    return found


_PATTERNS: Final = _patterns()
"""Those with the fewest parameters first, so that /users/logout is no user."""


def find_route(method: str, path: str) -> FoundRoute | None:
    """Return the command that a method and a path ask for, None where there is none.

    Args:
        method: As HTTP has it.
        path: Percent-encoded, without the query.

    Raises:
        DecodeError: a parameter of the path is not UTF-8.
    """
    for known, pattern, entry in _PATTERNS:
        found = pattern.fullmatch(path) if known == method else None
        if found is not None:
            return FoundRoute(entry, {name: _decode(text, name) for name, text in found.groupdict().items()})
    return None


def find_methods(path: str) -> list[str]:
    """Return the methods that a path takes: none where there is nothing (404), others than the one asked for (405)."""
    return sorted({known for known, pattern, _ in _PATTERNS if pattern.fullmatch(path)})


def _decode(text: str, name: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise DecodeError(f"{name} is not UTF-8", error.start, where=f"path.{name}") from None
