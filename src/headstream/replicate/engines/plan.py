"""The merge of changes into a table as SQL, the same for every engine; no I/O.

The source `s` has one row per key; the target `t` is the table. A complete image takes effect only if it is newer than the stored
row, so order, repeats and restarts do not matter. A resolved row (resolve.py) always takes effect:

    matched, s deletes, s newer or resolved     delete
    matched, s newer or resolved                update
    not matched, s does not delete              insert

A row that the same full load sends again with the same content is not changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from headstream.replicate.columns.versions import LOAD_MARK

# Both rows are from one full load: their sequences differ at most in the log time. Only functions that deltalake can serialize.
DELETED: Final = "_hs_deleted"
"""The column that is true in a softly deleted row."""
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
        match: The columns that are equal if a source row and a target row are the same row; they are never null.
        where: Conditions that hold for every target row that matches a source row.
        delete_when: Condition for the deletion of a matched row; None: no row is deleted.
        update_when: Condition for the update of a matched row.
        update: Column -> expression for updates.
        insert_when: Condition for the insertion of an unmatched source row.
        insert: Column -> expression for inserts.
        effect: The matched source rows that take effect, if this is known without evaluating SQL: `all`, or `newer` (only rows
            newer than the target row by `_hs_sequence`). Every expression is then a source column, a matched row is deleted if
            its source row has `_hs_delete` (unless `update` assigns DELETED), and all other matched rows are updated. Otherwise
            `sql`.
    """

    match: Sequence[str]
    where: Sequence[str]
    delete_when: str | None
    update_when: str
    update: dict[str, str]
    insert_when: str
    insert: dict[str, str]
    effect: Literal["all", "newer", "sql"] = "sql"

    @property
    def predicate(self) -> str:
        """The condition under which a source row and a target row are the same row."""
        return " AND ".join([*(f"t.{quote_name(name)} = s.{quote_name(name)}" for name in self.match), *self.where])


def quote_name(name: str) -> str:
    """Return a column name as an SQL identifier."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def unquote_name(name: str) -> str:
    """Return the column name of an SQL identifier."""
    return name.removeprefix("`").removesuffix("`").replace("``", "`")


def quote_text(text: str) -> str:
    """Return a string as an SQL expression that every engine reads in the same way.

    A backslash is literal in deltalake and an escape character in Spark, so it is written as a character code.
    """
    parts = [f"'{part}'" for part in text.replace("'", "''").split("\\")]
    return parts[0] if len(parts) == 1 else f"concat({', chr(92), '.join(parts)})"


def plan_merge(
    columns: list[str],
    keys: list[str],
    *,
    resolved: bool = False,
    plain: bool = True,
    versioned: bool = False,
    loads: bool = False,
    where: Sequence[str] = (),
) -> MergePlan:
    """Return the plan of a merge of changes, one row per key, into a table.

    Args:
        columns: The columns of the changes, without bookkeeping; the table's other columns keep their values.
        resolved: Whether the source has rows with `_hs_resolved` true, which always take effect.
        plain: Whether the source has rows that are not resolved.
        versioned: Whether any row of the source or the table has `_hs_versions`.
        loads: Whether the changes include rows of a full load.
        where: Conditions that hold for every row of the table with the key of a change, so that all other rows, usually most rows
            of the table, need not be read.
    """
    newer = "s._hs_sequence > t._hs_sequence"
    deletes = f"(s._hs_resolved OR {newer})" if resolved else newer
    insert = {quote_name(name): f"s.{quote_name(name)}" for name in columns}
    insert |= {name: f"s.{name}" for name in (*(key for key in keys if key not in columns), "_hs_sequence", "_hs_versions")}
    update_when = newer
    if loads:
        pairs = [(f"s.{quote_name(name)}", f"t.{quote_name(name)}") for name in columns]
        same = [f"coalesce({new} = {old}, {new} IS NULL AND {old} IS NULL)" for new, old in pairs]
        update_when += f" AND NOT ({' AND '.join([_SAME_LOAD, *same])})"
    update = {quote_name(name): f"s.{quote_name(name)}" for name in columns if name not in keys}
    update["_hs_sequence"] = "s._hs_sequence"
    if versioned:
        update["_hs_versions"] = "s._hs_versions"
    return MergePlan(
        match=keys,
        where=where,
        delete_when=f"s._hs_delete AND {deletes}",
        update_when=f"NOT s._hs_delete AND {f'(s._hs_resolved OR ({update_when}))' if resolved else update_when}",
        update=update,
        insert_when="NOT s._hs_delete",
        insert=insert,
        effect="all" if not plain else "sql" if resolved or loads else "newer",
    )
