"""The string in `_hs_versions` of a row of SCD type 1, which names the change that wrote each column if there are several.

    null                                        every column has the row's `_hs_sequence`
    =<version>                                  every column has this version (of a row that was then softly deleted)
    ["<version>", {"<version>": ["c", …]}, d]   columns `c`, … have their own version ("": no change), all others the first
                                                version; d is the position of the deletion before the row's columns, or ""
    … and more lines of ["c", …]                columns that were added later, by a schema older than the row's schema

Older versions of Headstream wrote one version of VERSION_CHARACTERS per column, in the order of the table's columns. Such rows
stay readable and are converted when they are next written.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache

from headstream.replicate.columns.row_merge import NO_SOURCE, KnownRow, Written
from headstream.replicate.columns.versions import ABSENT_VERSION, VERSION_CHARACTERS, version_of

UNIFORM_MARK = "="
NO_WHOLE_IMAGE = '["",'
"""Prefix of the string of a row without a known complete image."""
_FILL = "-"


def write_versions(row: KnownRow, sequence: str, deletion: str = "") -> str | None:
    """Return the string for a row; None if every column has `sequence`.

    Args:
        deletion: Position of a deletion before the row's columns if it is stored only here, or "".
    """
    if not row.groups and row.base.version == version_of(sequence):
        return None
    base = row.base.version.rstrip(f"{_FILL} ")
    if row.base.version >= version_of(deletion):
        deletion = ""  # older than the whole image
    if not row.groups and not deletion:
        return UNIFORM_MARK + base
    named: dict[str, frozenset[str]] = {}
    for written, names in row.groups.items():
        version = written.version.rstrip(f"{_FILL} ")
        named[version] = named[version] | names if version in named else names
    columns = ",".join(f"{_json(version)}:{_names_json(named[version])}" for version in sorted(named, reverse=True))
    return f"[{_json(base)},{{{columns}}},{_json(deletion)}]"


def read_versions(text: str | None, sequence: str, columns: Sequence[str], source: int) -> tuple[KnownRow, str]:
    """Return a row's columns, and the position of the deletion before these columns.

    Args:
        columns: The table's columns in table order, for the older form.
    """
    if text is None:
        return KnownRow(Written(version_of(sequence), source)), ""
    text, *added = text.split("\n")
    if added:
        row, deletion = read_versions(text, sequence, columns, source)
        absent = {name: _written("", source) for line in added for name in json.loads(line)}
        return KnownRow.of_columns(row.base, {**absent, **row.columns}), deletion
    if text.startswith(UNIFORM_MARK):
        return KnownRow(_written(text[1:], source)), ""
    if text.startswith("["):
        base, known, deletion = json.loads(text)
        groups = {_written(version, source): _shared(frozenset(names)) for version, names in known.items()}
        return KnownRow(_written(base, source), groups), deletion
    places = range(0, len(columns) * VERSION_CHARACTERS, VERSION_CHARACTERS)
    versions = [text[place : place + VERSION_CHARACTERS].ljust(VERSION_CHARACTERS) for place in places]
    written = {name: Written(v, source) for name, v in zip(columns, versions, strict=True) if v != ABSENT_VERSION}
    return KnownRow.of_columns(KnownRow().base, written), ""


def not_carried_sql(columns: Sequence[str]) -> str:
    """Return SQL for the string of a row that lacks the given columns, which a schema older than the row has added."""
    names = json.dumps(list(columns), ensure_ascii=False).replace("'", "''")
    return f"concat(coalesce(_hs_versions, concat('{UNIFORM_MARK}', _hs_sequence)), chr(10), '{names}')"


def _json(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


@lru_cache(maxsize=256)
def _names_json(names: frozenset[str]) -> str:
    return json.dumps(sorted(names), ensure_ascii=False, separators=(",", ":"))


@lru_cache(maxsize=256)
def _shared(names: frozenset[str]) -> frozenset[str]:
    """Return one object for equal sets, because rows that the same changes wrote have equal groups."""
    return names


def _written(text: str, source: int) -> Written:
    return Written(text.ljust(VERSION_CHARACTERS, _FILL), source) if text else Written(ABSENT_VERSION, NO_SOURCE)
