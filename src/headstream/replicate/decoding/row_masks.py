"""Converts the masks of decoded rows to one byte order and checks them against the rows' values."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headstream.replicate.decoding.mask_orders import (
    Claims,
    MaskOrders,
    Order,
    RowMarks,
    contradictions,
    reverse_masks,
    wider_than,
    without_columns,
)
from headstream.replicate.schemas.schemas import TableSchema

__all__ = ["RowMasks", "settle_masks"]

_JUDGED_ROWS = 5_000
"""Most rows of a batch that an order is inferred from: further rows add no evidence."""


@dataclass(slots=True)
class RowMasks:
    """The masks of some rows, little-endian.

    Args:
        columns: The columns of each row; null is all.
        changed: The changed columns of each row; null is unknown.
        faults: Row -> the reason why its mask is invalid.
        findings: Warning for the user -> number of rows concerned.
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
    values: Claims,
    differences: Claims | None = None,
    orders: MaskOrders | None = None,
) -> RowMasks:
    """Return the masks of some rows as little-endian bytes, checked.

    Args:
        schema: The table's columns and settings.
        columns: Column masks as received.
        changed: Change masks as received.
        values: Which columns have a value in each row.
        differences: Which columns differ from the row before; computed only while the task's order is undecided.
        orders: The decided byte orders; None for little-endian masks (JSON's, already converted).
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
                found.findings[f"the masks of task {lineage.task!r} are {order}-endian, as its messages prove"] = 1
    if order == "big":
        found.columns, found.changed = reverse_masks(columns), reverse_masks(changed)
    _check(found, values, ordinals, may_turn=orders is not None)
    found.columns = without_columns(found.columns, schema.absent, ordinals)
    return found


def _judge(
    columns: pa.BinaryArray, changed: pa.BinaryArray, values: Claims, differences: Claims | None, ordinals: frozenset[int]
) -> Order | None:
    """Return the order that no row contradicts; None if neither order is contradicted, or both are."""
    part = slice(0, _JUDGED_ROWS)

    def some(claims: Claims) -> Claims:
        return lambda: [(ordinal, marks[part]) for ordinal, marks in claims()]

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


def _check(found: RowMasks, values: Claims, ordinals: frozenset[int], *, may_turn: bool) -> None:
    for row in np.flatnonzero(wider_than(found.columns, ordinals) | wider_than(found.changed, ordinals)).tolist():
        found.faults[row] = "a mask is wider than the table: it has a bit without a column"
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
        found.findings["a column has a value, and the column mask declares it absent"] = unclear
