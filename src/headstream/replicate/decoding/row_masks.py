"""Converts the masks of decoded rows to little-endian bytes, and checks the masks against the rows' values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from headstream.replicate.decoding.mask_orders import (
    Claims,
    MaskOrders,
    Order,
    RowMarks,
    contradictions,
    exact_masks,
    reverse_masks,
    wider_than,
    without_columns,
)
from headstream.replicate.schemas.schemas import TableSchema

_JUDGED_ROWS: Final = 5_000
"""Maximum number of rows of a batch from which an order is inferred; more rows add no evidence."""
_VOTES: Final = 2
"""Number of changes whose change masks decide an order."""


@dataclass(slots=True)
class RowMasks:
    """The rows' masks, little-endian.

    Args:
        columns: The columns of each row; null means all columns.
        changed: The changed columns of each row; null if unknown.
        faults: Row -> the reason why the row's mask is invalid.
        findings: Warning for the user -> number of affected rows.
    """

    columns: pa.BinaryArray
    changed: pa.BinaryArray
    faults: dict[int, str] = field(default_factory=dict)
    findings: dict[str, int] = field(default_factory=dict)


def resolve_masks(
    schema: TableSchema,
    columns: pa.BinaryArray,
    changed: pa.BinaryArray,
    *,
    values: Claims,
    differences: Claims | None = None,
    sequences: pa.StringArray | None = None,
    orders: MaskOrders | None = None,
) -> RowMasks:
    """Return the checked masks of the given rows as little-endian bytes.

    Args:
        schema: The table's columns and settings.
        columns: Column masks as received.
        changed: Change masks as received.
        values: Returns which columns have a value in each row.
        differences: Returns which columns differ from the row before the change; called only while the task's order is undecided.
        sequences: Change sequences, to detect repeated changes; required with `differences`.
        orders: The decided byte orders; None if masks are little-endian (JSON masks are already converted).
    """
    lineage, ordinals = schema.metadata.lineage, schema.ordinals
    found = RowMasks(columns, changed)
    order: Order | None = "little"
    if orders is not None:
        wanted = schema.settings.mask_order
        order = orders.find(lineage) if wanted == "auto" else wanted
        if order is None and schema.ordinals and any(_shows_order(masks) for masks in (columns, changed)):
            judged = _judge(columns, changed, values, ordinals)
            if judged is None and differences is not None and sequences is not None:
                judged = _judge_changes(orders, schema, columns, changed, values, differences, sequences)
            if judged is not None:
                order = orders.decide(lineage, *judged)
                found.findings[f"the masks of task {lineage.task!r} are {order}-endian, as its messages prove"] = 1
    if order == "big":
        found.columns, found.changed = reverse_masks(columns), reverse_masks(changed)
    _check(found, values, ordinals, may_reverse=orders is not None)
    found.columns = without_columns(found.columns, schema.absent, ordinals)
    return found


def _shows_order(masks: pa.BinaryArray) -> bool:
    """Return whether a mask has different columns in the other order, which is impossible for tables of at most eight columns."""
    return any(mask is not None and mask != mask[::-1] for mask in masks[:_JUDGED_ROWS].unique().to_pylist())


def _judge(
    columns: pa.BinaryArray, changed: pa.BinaryArray, values: Claims, ordinals: frozenset[int]
) -> tuple[Order, dict[str, Any]] | None:
    """Return the byte order if rows rule out the other order, with the evidence; None if rows rule out neither or both."""
    columns, changed = columns[:_JUDGED_ROWS], changed[:_JUDGED_ROWS]
    wrong = [_impossible(*masks, _first(values), ordinals) for masks in _both_orders(columns, changed)]
    found = {"big": wrong[0] & ~wrong[1], "little": wrong[1] & ~wrong[0]}
    order: Order = "big" if found["big"].any() else "little"
    if found["big"].any() == found["little"].any():
        return None
    row = int(np.flatnonzero(found[order])[0])
    evidence = {"rows": int(np.count_nonzero(found[order])), "by": "rows that are impossible in the other order"}
    return order, evidence | _show(columns, changed, row)


def _judge_changes(
    orders: MaskOrders,
    schema: TableSchema,
    columns: pa.BinaryArray,
    changed: pa.BinaryArray,
    values: Claims,
    differences: Claims,
    sequences: pa.StringArray,
) -> tuple[Order, dict[str, Any]] | None:
    """Return the order that several changes support, by the columns that differ from the row before the change."""
    columns, changed = columns[:_JUDGED_ROWS], changed[:_JUDGED_ROWS]
    differ, texts = _first(differences), sequences[:_JUDGED_ROWS].to_pylist()
    both = list(_both_orders(columns, changed))
    wrong = [
        _impossible(*masks, _first(values), schema.ordinals) | contradictions(masks[1], differ, schema.ordinals) for masks in both
    ]
    for_little, for_big = wrong[1] & ~wrong[0], wrong[0] & ~wrong[1]
    if not (for_little.any() or for_big.any()):
        return None
    for_little &= exact_masks(both[0][1], differ)
    for_big &= exact_masks(both[1][1], differ)
    marked: dict[Order, RowMarks] = {"little": for_little, "big": for_big}
    votes = orders.vote(
        schema.metadata.lineage, {order: {texts[row] or "" for row in np.flatnonzero(rows)} for order, rows in marked.items()}
    )
    order: Order = "big" if len(votes["big"]) > len(votes["little"]) else "little"
    other: Order = "little" if order == "big" else "big"
    if len(votes[order]) < _VOTES or votes[other] or not marked[order].any():
        return None
    row = int(np.flatnonzero(marked[order])[0])
    evidence = {"rows": len(votes[order]), "by": "changes whose change mask has exactly the columns that differ"}
    return order, evidence | _show(columns, changed, row)


def _both_orders(columns: pa.BinaryArray, changed: pa.BinaryArray) -> list[tuple[pa.BinaryArray, pa.BinaryArray]]:
    return [(columns, changed), (reverse_masks(columns), reverse_masks(changed))]


def _impossible(present: pa.BinaryArray, moved: pa.BinaryArray, values: Claims, ordinals: frozenset[int]) -> RowMarks:
    return wider_than(present, ordinals) | wider_than(moved, ordinals) | contradictions(present, values, ordinals)


def _first(claims: Claims) -> Claims:
    return lambda: [(ordinal, marks[:_JUDGED_ROWS]) for ordinal, marks in claims()]


def _show(columns: pa.BinaryArray, changed: pa.BinaryArray, row: int) -> dict[str, str | None]:
    """Return the masks of a row, as received, in hex digits."""
    masks = {"column_mask": columns[row].as_py(), "change_mask": changed[row].as_py()}
    return {name: None if mask is None else mask.hex() for name, mask in masks.items()}


def _check(found: RowMasks, values: Claims, ordinals: frozenset[int], *, may_reverse: bool) -> None:
    for row in np.flatnonzero(wider_than(found.columns, ordinals) | wider_than(found.changed, ordinals)).tolist():
        found.faults[row] = "a mask has a bit for which the table has no column"
    wrong = contradictions(found.columns, values, ordinals)
    if not wrong.any():
        return
    reversed_rows = np.zeros(len(wrong), np.bool_)
    if may_reverse:
        other = reverse_masks(found.columns)
        reversed_rows = wrong & ~contradictions(other, values, ordinals) & ~wider_than(other, ordinals)
    for row in np.flatnonzero(reversed_rows).tolist():
        found.faults.setdefault(row, "the column mask matches the row only in the other byte order. Set mask_order")
    unclear = int(np.count_nonzero(wrong & ~reversed_rows))
    if unclear:
        found.findings["a column has a value, but the column mask marks the column as absent"] = unclear
