"""Selects the columns of a target, their names, and the columns that identify a row."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from headstream.errors import SchemaError
from headstream.replicate.codec import ColumnMetadata, TableMetadata
from headstream.replicate.columns.changes import RESERVED_PREFIX
from headstream.replicate.settings.table_settings import TableSettings

__all__ = ["TargetColumns", "choose_columns", "match_fields"]


@dataclass(frozen=True, slots=True)
class TargetColumns:
    """The columns of a target.

    Args:
        metadata: The source's metadata with the columns, names and keys of the target; ordinals are the source's.
        sources: The target's column -> the source's.
        findings: Warnings for the user about them.
    """

    metadata: TableMetadata
    sources: dict[str, str]
    findings: tuple[str, ...]


def choose_columns(metadata: TableMetadata, settings: TableSettings) -> TargetColumns:
    """Return the columns that a target has by the settings of its table.

    Args:
        metadata: The source's metadata.
        settings: Keys, selected columns, and their names.

    Raises:
        SchemaError: a key column that the table lacks, a name that begins with `_hs_`, or two columns renamed to one.
    """
    known = {column.name for column in metadata.columns}
    missing = [key for key in settings.keys if key not in known]
    if missing:
        raise SchemaError(f"the key column {missing[0]!r} is not in the table", advice="Set keys to columns of the source")
    positions = {key: place for place, key in enumerate(settings.keys, start=1)}
    chosen: list[ColumnMetadata] = []
    for column in metadata.columns:
        position = positions.get(column.name, 0) if positions else column.primary_key_position
        if position or _is_wanted(column.name, settings):
            chosen.append(replace(column, primary_key_position=position))
    findings: list[str] = []
    sources: dict[str, str] = {}
    named = []
    for column in chosen:
        name = _free_name(settings.rename_columns.get(column.name, column.name), sources)
        if name.lower().startswith(RESERVED_PREFIX):
            raise SchemaError(
                f"the column {name!r} begins with {RESERVED_PREFIX}, which is reserved",
                advice="Give it another name: rename_columns",
            )
        wanted = settings.rename_columns.get(column.name)
        if wanted is not None and name != wanted:
            raise SchemaError(f"the column {column.name!r} cannot be renamed to {wanted!r}: there is one of that name")
        if wanted is None and name != column.name:
            findings.append(f"the column {column.name!r} is called {name!r}, since another one differs from it only in case")
        sources[name] = column.name
        named.append(replace(column, name=name))
    return TargetColumns(replace(metadata, columns=tuple(named)), sources, tuple(findings))


def _is_wanted(name: str, settings: TableSettings) -> bool:
    included = any(fnmatchcase(name, pattern) for pattern in settings.include_columns)
    return included and not any(fnmatchcase(name, pattern) for pattern in settings.exclude_columns)


def _free_name(name: str, taken: Iterable[str]) -> str:
    """Return the name, or the name with the first number appended that makes it unique among earlier columns, ignoring case."""
    lowered = {other.lower() for other in taken}
    found, number = name, 2
    while found.lower() in lowered:
        found, number = f"{name}_{number}", number + 1
    return found


def match_fields(columns: Iterable[str], fields: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Return the field of an Avro row for each source column, and the fields without a column.

    A field has its column's name, or where that is not legal in Avro, a name with the same letters and digits.

    Args:
        columns: Names of source columns, by ordinal.
        fields: Names of fields, in their order.
    """
    left = list(fields)
    matched = {}
    for name in columns:
        if name in left:
            matched[name] = name
            left.remove(name)
    for name in columns:
        if name not in matched:
            alike = [field for field in left if _bare(field) == _bare(name)]
            if alike:
                matched[name] = alike[0]
                left.remove(alike[0])
    return matched, left


def _bare(name: str) -> str:
    return re.sub(r"\W|_", "", name).lower()
