"""What a merge of changes into a table is, as SQL text; pure, and the same for every engine.

The source `s` has one change a key (changes.collapse()), the target `t` is the table. A change takes effect only
where it is newer than what the row already has, so that order, repeats and restarts do not matter:

    matched, s deletes, s newer          delete
    matched, s newer                     update (column by column where columns have versions of their own)
    not matched, s does not delete       insert

A row that the same full load brings again with the same content is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from headstream.spark.replicate.versions import LOAD_MARK, version_sql

__all__ = ["MergePlan", "plan_merge", "quote_name", "quote_text"]


# Both rows are of one full load: their sequences differ at most in the log time. Only functions that deltalake can write down.
_SAME_LOAD: Final = " AND ".join(
    [
        *(f"{row}._hs_sequence LIKE '%{LOAD_MARK}%'" for row in "st"),
        f"split_part(s._hs_sequence, '{LOAD_MARK}', 1) = split_part(t._hs_sequence, '{LOAD_MARK}', 1)",
    ]
)


@dataclass(frozen=True, slots=True)
class MergePlan:
    """One merge statement.

    Args:
        predicate: When a source row and a target row are the same row.
        delete_when: When a matched row is deleted; None where none is.
        update_when: When a matched row is updated.
        update: Column -> expression of an update.
        insert_when: When an unmatched source row is inserted.
        insert: Column -> expression of an insert.
    """

    predicate: str
    delete_when: str | None
    update_when: str
    update: dict[str, str]
    insert_when: str
    insert: dict[str, str]


def quote_name(name: str) -> str:
    """Return a column name as an SQL identifier."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def quote_text(text: str) -> str:
    """Return a text as an SQL expression that every engine reads alike.

    A backslash stands for itself to deltalake and begins an escape to Spark, so it is given by its number.
    """
    parts = [f"'{part}'" for part in text.replace("'", "''").split("\\")]
    return parts[0] if len(parts) == 1 else f"concat({', chr(92), '.join(parts)})"


def plan_merge(
    columns: list[str],
    source_columns: list[str],
    keys: list[str],
    *,
    versioned: bool,
    loads: bool = False,
    where: Sequence[str] = (),
) -> MergePlan:
    """Describe the merge of one-change-a-key rows into a table.

    Args:
        columns: The table's own columns, in its order (bookkeeping left out).
        source_columns: Those the changes have; the table's other columns keep their values.
        keys: The primary key.
        versioned: Whether any row, of the source or of the table, has versions of its own for its columns.
        loads: Whether rows of a full load are among the changes.
        where: Conditions that hold for every row of the table that has the key of a change, where some are known: what
            they do not hold for need not be read, which is most of a table whose keys rise with time.
    """
    same_row = [f"t.{quote_name(key)} = s.{quote_name(key)}" for key in keys]
    newer = "s._hs_sequence > t._hs_sequence"
    quoted = {name: quote_name(name) for name in columns}
    insert = {quoted[name]: f"s.{quoted[name]}" for name in source_columns}
    insert |= {name: f"s.{name}" for name in (*(key for key in keys if key not in columns), "_hs_sequence", "_hs_versions")}
    if versioned:
        some = _any_of([f"({version_sql('s', i)}) > ({version_sql('t', i)})" for i in _places(columns, source_columns)])
        mixed = "s._hs_versions IS NOT NULL OR t._hs_versions IS NOT NULL"
        update_when = f"NOT s._hs_delete AND CASE WHEN {mixed} THEN {some} ELSE {newer} END"
        update = _versioned_update(columns, source_columns, keys)
    else:
        update_when = f"NOT s._hs_delete AND {newer}"
        if loads:
            pairs = [(f"s.{quoted[name]}", f"t.{quoted[name]}") for name in source_columns]
            same = [f"coalesce({new} = {old}, {new} IS NULL AND {old} IS NULL)" for new, old in pairs]
            update_when += f" AND NOT ({' AND '.join([_SAME_LOAD, *same])})"
        update = {quoted[name]: f"s.{quoted[name]}" for name in source_columns if name not in keys}
        update["_hs_sequence"] = "s._hs_sequence"
    return MergePlan(
        predicate=" AND ".join([*same_row, *where]),
        delete_when=f"s._hs_delete AND {newer}",
        update_when=update_when,
        update=update,
        insert_when="NOT s._hs_delete",
        insert=insert,
    )


def _any_of(conditions: list[str]) -> str:
    """Return that one of the conditions holds, in halves of halves: planning a chain takes time by the square of its length."""
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return f"({_any_of(conditions[:middle])} OR {_any_of(conditions[middle:])})"


def _places(columns: list[str], source_columns: list[str]) -> list[int]:
    return [place for place, name in enumerate(columns) if name in source_columns]


def _versioned_update(columns: list[str], source_columns: list[str], keys: list[str]) -> dict[str, str]:
    update: dict[str, str] = {}
    versions = []
    for index, name in enumerate(columns):
        source, target = version_sql("s", index), version_sql("t", index)
        if name in source_columns:
            newer = f"({source}) > ({target})"
            versions.append(f"CASE WHEN {newer} THEN ({source}) ELSE ({target}) END")
            if name not in keys:
                column = quote_name(name)
                update[column] = f"CASE WHEN {newer} THEN s.{column} ELSE t.{column} END"
        else:
            versions.append(f"({target})")
    update["_hs_sequence"] = "CASE WHEN s._hs_sequence > t._hs_sequence THEN s._hs_sequence ELSE t._hs_sequence END"
    update["_hs_versions"] = f"concat({', '.join(versions)})"
    return update
