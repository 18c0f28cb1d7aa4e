"""A merge of changes into a table as SQL text; pure, and the same for every engine.

The source `s` has one row per key, the target `t` is the table. A complete image takes effect only if it is newer than the row,
so that order, repeats and restarts do not matter; a row that was joined to the stored rows (resolve.py) always takes effect:

    matched, s deletes, s newer or resolved     delete
    matched, s newer or resolved                update
    not matched, s does not delete              insert

A row that the same full load brings again with the same content is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from headstream.replicate.columns.versions import LOAD_MARK

# Both rows are of one full load: their sequences differ at most in the log time. Only functions that deltalake can write down.
DELETED: Final = "_hs_deleted"
"""The column that is true in a row whose deletion is kept (soft deletions)."""
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
        match: The columns that are equal in a source row and a target row that are the same row; none is null there.
        where: Conditions that hold for every target row that is the same as a source row.
        delete_when: When a matched row is deleted; None where none is.
        update_when: When a matched row is updated.
        update: Column -> expression of an update.
        insert_when: When an unmatched source row is inserted.
        insert: Column -> expression of an insert.
        effect: Which matched source rows take effect, if that and the rows are known without evaluating SQL: `all`, or only rows
            `newer` than the target row, by `_hs_sequence`. Each expression is then a source column, a matched row is deleted if
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
        """Condition for a source row and a target row to be the same row."""
        return " AND ".join([*(f"t.{quote_name(name)} = s.{quote_name(name)}" for name in self.match), *self.where])


def quote_name(name: str) -> str:
    """Return a column name as an SQL identifier."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def quote_text(text: str) -> str:
    """Return a text as an SQL expression that every engine reads alike.

    A backslash is literal to deltalake and begins an escape to Spark, so it is written by its number.
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
    """Describe the merge of changes with one row per key into a table.

    Args:
        columns: The columns of the changes (without bookkeeping); the table's other columns keep their values.
        resolved: Whether the source has rows with `_hs_resolved` true, which take effect in any case.
        plain: Whether it has others.
        versioned: Whether any row, of the source or of the table, has `_hs_versions`.
        loads: Whether rows of a full load are among the changes.
        where: Known conditions that hold for every row of the table that has the key of a change: other rows need not be read,
            which are most rows of a table whose keys rise with time.
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
