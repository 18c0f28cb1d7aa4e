"""Soft deletions: a deleted row stays with `_hs_deleted` true and the deletion's sequence, so no tombstone is needed.

The row keeps its last values, and `_hs_versions` records the changes that wrote them. Thus, an older change that arrives late is
still applied in the right order (resolve.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from headstream.replicate.columns.row_versions import UNIFORM_MARK
from headstream.replicate.engines.plan import DELETED, MergePlan

KEPT_VERSIONS: Final = f"coalesce({{0}}_hs_versions, concat('{UNIFORM_MARK}', {{0}}_hs_sequence))"
"""SQL for `_hs_versions` of a row to delete, which names the changes that wrote its values; {0} is the table's alias."""


def soften(plan: MergePlan, *, resolved: bool = False) -> MergePlan:
    """Return the merge that marks rows as deleted instead of deleting them; resolved rows contain a deleted row's values."""
    keeps = "s._hs_delete AND NOT s._hs_resolved" if resolved else "s._hs_delete"
    update = dict(plan.update)
    if plan.effect != "all":
        update = {name: f"CASE WHEN {keeps} THEN t.{name} ELSE {value} END" for name, value in update.items()}
        kept = KEPT_VERSIONS.format("t.")
        update["_hs_versions"] = f"CASE WHEN {keeps} THEN {kept} ELSE s._hs_versions END"
    update |= {"_hs_sequence": "s._hs_sequence", DELETED: "s._hs_delete"}
    # A load that contains a deleted row unchanged restores it.
    back = f"NOT s._hs_delete AND coalesce(t.{DELETED}, false) AND s._hs_sequence > t._hs_sequence"
    conditions = [plan.update_when, back, *([plan.delete_when] if plan.delete_when is not None else [])]
    return replace(
        plan,
        delete_when=None,
        update_when=" OR ".join(f"({condition})" for condition in conditions),
        update=update,
        insert_when="true",
        insert={**plan.insert, DELETED: "s._hs_delete"},
        effect="all" if plan.effect == "all" else "sql",
    )
