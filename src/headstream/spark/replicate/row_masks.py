"""The masks of decoded rows, brought into one byte order and checked against what the rows themselves tell."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headstream.spark.replicate.mask_orders import (
    MaskOrders,
    Order,
    RowMarks,
    Told,
    contradictions,
    reverse_masks,
    wider_than,
    without_columns,
)
from headstream.spark.replicate.schemas import TableSchema

__all__ = ["RowMasks", "settle_masks"]

_JUDGED_ROWS = 5_000
"""Rows of a batch that an order is judged by: more of one batch prove no more."""


@dataclass(slots=True)
class RowMasks:
    """The masks of some rows, little-endian.

    Args:
        columns: Which columns each row has; null is all.
        changed: Which columns each row changed; null is not told.
        faults: Row -> why its mask cannot be trusted.
        findings: What a user should know -> how many rows it is about.
    """

    columns: pa.BinaryArray
    changed: pa.BinaryArray
    faults: dict[int, str] = field(default_factory=dict)
    findings: dict[str, int] = field(default_factory=dict)


def settle_masks(
    schema: TableSchema,
    columns: pa.BinaryArray,
    changed: pa.BinaryArray,
    *,
    values: Told,
    differences: Told | None = None,
    orders: MaskOrders | None = None,
) -> RowMasks:
    """Return the masks of some rows as little-endian bytes, checked.

    Args:
        schema: The table's columns and settings.
        columns: Column masks as they are written.
        changed: Change masks as they are written.
        values: Which columns have a value in each row.
        differences: Which columns differ from the row before; asked for while the task's order is not known.
        orders: What is known of byte orders; None for masks that are little-endian (JSON's, already turned).
    """
    lineage, ordinals = schema.metadata.lineage, schema.ordinals
    found = RowMasks(columns, changed)
    order: Order | None = "little"
    if orders is not None:
        wanted = schema.settings.mask_order
        order = orders.find(lineage) if wanted == "auto" else wanted
        if order is None and schema.ordinals:
            verdict = _judge(columns, changed, values, differences, ordinals)
            if verdict is not None:
                order = orders.decide(lineage, verdict)
                found.findings[f"the masks of task {lineage.task!r} are {order}-endian, as its messages show"] = 1
    if order == "big":
        found.columns, found.changed = reverse_masks(columns), reverse_masks(changed)
    _check(found, values, ordinals, may_turn=orders is not None)
    found.columns = without_columns(found.columns, schema.absent, ordinals)
    return found


def _judge(
    columns: pa.BinaryArray, changed: pa.BinaryArray, values: Told, differences: Told | None, ordinals: frozenset[int]
) -> Order | None:
    """Return the only order that no row contradicts, None where no row contradicts either, or both are."""
    part = slice(0, _JUDGED_ROWS)

    def some(told: Told) -> Told:
        return lambda: [(ordinal, marks[part]) for ordinal, marks in told()]

    wrong: list[RowMarks] = []
    as_written = (columns[part], changed[part])
    for present, moved in (as_written, (reverse_masks(as_written[0]), reverse_masks(as_written[1]))):
        bad = wider_than(present, ordinals) | wider_than(moved, ordinals) | contradictions(present, some(values), ordinals)
        if differences is not None:
            bad |= contradictions(moved, some(differences), ordinals)
        wrong.append(bad)
    little, big = bool(np.any(wrong[0] & ~wrong[1])), bool(np.any(wrong[1] & ~wrong[0]))
    if little == big:
        return None
    return "big" if little else "little"


def _check(found: RowMasks, values: Told, ordinals: frozenset[int], *, may_turn: bool) -> None:
    for row in np.flatnonzero(wider_than(found.columns, ordinals) | wider_than(found.changed, ordinals)).tolist():
        found.faults[row] = "a mask is wider than the table: it has a bit that is no column's"
    wrong = contradictions(found.columns, values, ordinals)
    if not wrong.any():
        return
    turned = np.zeros(len(wrong), np.bool_)
    if may_turn:
        other = reverse_masks(found.columns)
        turned = wrong & ~contradictions(other, values, ordinals) & ~wider_than(other, ordinals)
    for row in np.flatnonzero(turned).tolist():
        found.faults.setdefault(row, "the column mask fits the row in the other byte order only. Set mask_order")
    unclear = int(np.count_nonzero(wrong & ~turned))
    if unclear:
        found.findings["a column has a value, and the column mask says that it is not in the message"] = unclear
