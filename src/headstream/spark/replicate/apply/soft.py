"""Soft deletions: a deleted row stays, with `_hs_deleted` true and the deletion's sequence, so it is its own tombstone.

A newer upsert brings it back; an older change finds the newer sequence and is passed over, as everywhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from headstream.spark.replicate.apply.plan import MergePlan

__all__ = ["DELETED", "soften"]

DELETED: Final = "_hs_deleted"

# At one sequence an upsert comes after a deletion.
_REVIVES: Final = f"NOT s._hs_delete AND coalesce(t.{DELETED}, false) AND s._hs_sequence = t._hs_sequence"


def soften(plan: MergePlan) -> MergePlan:
    """Return the merge that marks the rows which another merge deletes.

    Args:
        plan: A merge of one-change-a-key rows, with its `delete_when`.
    """
    update = {name: _unless_deleted(name, value) for name, value in plan.update.items()}
    update[DELETED] = f"CASE WHEN s._hs_sequence > t._hs_sequence OR ({_REVIVES}) THEN s._hs_delete ELSE t.{DELETED} END"
    conditions = [plan.update_when, _REVIVES, *([plan.delete_when] if plan.delete_when is not None else [])]
    return replace(
        plan,
        delete_when=None,
        update_when=" OR ".join(f"({condition})" for condition in conditions),
        update=update,
        insert_when="true",
        insert={**plan.insert, DELETED: "s._hs_delete"},
    )


def _unless_deleted(name: str, value: str) -> str:
    """A deletion keeps the row's values, which from now on are all of its own sequence."""
    if name == "_hs_sequence":
        return value
    kept = "NULL" if name == "_hs_versions" else f"t.{name}"
    return f"CASE WHEN s._hs_delete THEN {kept} ELSE {value} END"
