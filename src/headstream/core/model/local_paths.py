"""Distinguishes local paths from URLs of object stores and from catalog table names.

Python treats `s3://lake/tables` as a relative path: without this check, a program would write to `./s3:/lake/tables`.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote, urlsplit

from headstream.errors import InvalidOptionError

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""A URL scheme of at least two characters, because `C:` is a drive. One slash is enough: pathlib merges two into one."""
_CATALOG_NAME: Final = re.compile(r"[^\W\d][\w{}]*(?:\.[\w{}]+){2}|\{\w+\}\.\{\w+\}|[^\W\d]\w*\.\{\w+\}")
"""Matches `main.cdc.changes`, `lake.{schema}.{table}`, and names of two parts of which one is a placeholder."""


def find_path_problem(text: str, *, is_table: bool = False) -> tuple[str, str] | None:
    """Return the reason why a path cannot be used, and advice; None if the path is local."""
    found = _SCHEME.match(text)
    if found is not None:
        scheme = found[1].lower()
        if scheme == "file":
            return f"{text!r} is not a directory on this machine", "Use an absolute path, or file:/// and an absolute path"
        return (
            f"{text!r}: the scheme {scheme}: is not supported here",
            "Use a local path, for example of a mounted storage; for a local directory of this name, write ./ before the name",
        )
    if is_table and _CATALOG_NAME.fullmatch(text):
        return (
            f"{text!r} looks like a catalog table name, which is not supported here",
            f"Use a directory; for a directory of this name, write ./{text} or an absolute path",
        )
    return None


def parse_local_path(text: str, *, is_table: bool = False) -> str:
    """Return the local path in a string or a file:// URL; InvalidOptionError if find_path_problem() finds a problem."""
    if text[:5].lower() == "file:":
        parts = urlsplit(text)
        path = unquote(parts.path)
        if parts.netloc in ("", "localhost") and path.startswith("/") and not parts.query and not parts.fragment:
            return path
    problem = find_path_problem(text, is_table=is_table)
    if problem is not None:
        raise InvalidOptionError(problem[0], advice=problem[1])
    return text
