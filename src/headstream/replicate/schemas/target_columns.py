"""Selects the columns of a target, names them, and determines the columns that identify a row.

In Delta, names that differ only in case are the same name. A source column has the same name in the target in all versions of the
table, even if other columns are added or dropped. Of several names that differ only in case, the first is unchanged, and each
later name gets a number (`NAME_2`), which is never reused. The order in which versions arrived, which the schema store records,
determines the names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from headstream.errors import SchemaError
from headstream.replicate.codec import ColumnMetadata, TableMetadata
from headstream.replicate.columns.changes import RESERVED_PREFIX
from headstream.replicate.settings.table_settings import TableSettings


@dataclass(frozen=True, slots=True)
class TargetColumns:
    """The columns of a target.

    Args:
        metadata: The source's metadata with the target's columns, names and keys, and the source's ordinals.
        sources: Target column -> source column.
    """

    metadata: TableMetadata
    sources: dict[str, str]
    findings: tuple[str, ...]


def choose_columns(metadata: TableMetadata, settings: TableSettings, earlier: Sequence[TableMetadata] = ()) -> TargetColumns:
    """Return the columns of a target by the settings of its table.

    Args:
        earlier: The versions of the table that arrived before this version, in order.

    Raises:
        SchemaError: the table lacks a key column, a name begins with `_hs_`, or two columns are renamed to the same name.
    """
    chosen = _select(metadata, settings)
    known: dict[str, str] = {}
    latest: dict[tuple[str, str], dict[str, str]] = {}
    for version in earlier:
        task = (version.lineage.server, version.lineage.task)
        columns = [column.name for column in version.columns if _is_wanted(column.name, settings) or _is_key(column, settings)]
        latest[task] = _name_columns(columns, settings.rename_columns, known, latest.get(task, {}))
        known |= latest[task]
    before = latest.get((metadata.lineage.server, metadata.lineage.task), {})
    names = _name_columns([column.name for column in chosen], settings.rename_columns, known, before)
    findings: list[str] = []
    for column in chosen:
        name, wanted = names[column.name], settings.rename_columns.get(column.name)
        if name.lower().startswith(RESERVED_PREFIX):
            raise SchemaError(
                f"the column {name!r} begins with {RESERVED_PREFIX}, which is reserved", advice="Set rename_columns"
            )
        if wanted is not None and name != wanted:
            raise SchemaError(
                f"the column {column.name!r} cannot be renamed to {wanted!r}: a column with that name already exists"
            )
        if wanted is None and name != column.name:
            findings.append(f"the column {column.name!r} is renamed to {name!r}, because another name differs only in case")
    named = tuple(replace(column, name=names[column.name]) for column in chosen)
    sources = {names[column.name]: column.name for column in chosen}
    return TargetColumns(replace(metadata, columns=named), sources, tuple(findings))


def _select(metadata: TableMetadata, settings: TableSettings) -> list[ColumnMetadata]:
    """Return the columns of the target, with their positions in the target's key."""
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
    return chosen


def _is_key(column: ColumnMetadata, settings: TableSettings) -> bool:
    return column.name in settings.keys if settings.keys else column.primary_key_position > 0


def _name_columns(
    columns: Sequence[str], renamed: Mapping[str, str], known: Mapping[str, str], before: Mapping[str, str]
) -> dict[str, str]:
    """Return the target name of each column of a version.

    Args:
        renamed: Names from the settings.
        known: The names of all columns of earlier versions.
        before: Columns of the previous version. A column that is replaced by a column whose name differs only in case stays the
            same column.
    """
    names: dict[str, str] = {}
    respelled = {old.lower(): name for old, name in before.items() if old not in columns}
    spelled = {name.lower() for name in known}
    numbered = {name.lower() for column, name in known.items() if column not in renamed and name.lower() != column.lower()}
    for column in sorted(columns, key=lambda name: (name not in before, name not in known)):
        taken = {name.lower() for name in names.values()}
        kept = known.get(column)
        if kept is None and column not in renamed:
            kept = respelled.get(column.lower())
            if kept is not None and kept.lower() == column.lower():
                kept = column  # the table has the column under its old name; case does not matter
        base = renamed.get(column, column)
        if kept is not None and kept.lower() not in taken:
            names[column] = kept
        elif base.lower() not in taken | numbered and (column in renamed or column.lower() not in spelled):
            names[column] = base
        else:
            names[column] = _free_name(base, taken | {name.lower() for name in known.values()} | {base.lower()})
    return names


def _is_wanted(name: str, settings: TableSettings) -> bool:
    included = any(fnmatchcase(name, pattern) for pattern in settings.include_columns)
    return included and not any(fnmatchcase(name, pattern) for pattern in settings.exclude_columns)


def _free_name(name: str, taken: Set[str]) -> str:
    """Return the name with the first number that makes it unique among lower-case names."""
    number = 2
    while f"{name}_{number}".lower() in taken:
        number += 1
    return f"{name}_{number}"


def match_fields(columns: Iterable[str], fields: Iterable[str]) -> tuple[dict[str, str], list[str]]:
    """Return the field of an Avro row for each source column, and the fields without a column.

    A field has its column's name or, if the name is invalid in Avro, a name with the same letters and digits.
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
