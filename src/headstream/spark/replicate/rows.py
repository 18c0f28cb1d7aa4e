"""Decoded columns -> one Arrow batch of changes, each row checked: what cannot be applied leaves with its reason."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headstream.codec.avro import decode_rows
from headstream.codec.avro_plan import ColumnBuffers, ColumnPlan, Rows
from headstream.codec.envelopes import Envelopes
from headstream.spark.replicate.changes import OPERATIONS
from headstream.spark.replicate.conversion import array_from_buffers, convert
from headstream.spark.replicate.raw import offsets_and_data
from headstream.spark.replicate.schemas import TableSchema
from headstream.spark.replicate.versions import MAX_SEQUENCE_CHARACTERS

__all__ = ["Faults", "assemble_changes", "decode_avro_rows"]

RowNumbers: TypeAlias = npt.NDArray[np.int64]
"""Rows of the raw batch."""
Faults: TypeAlias = dict[int, str]
"""Row of the raw batch -> why it cannot be applied."""

_REFRESH: Final = OPERATIONS.index("REFRESH")
_DELETE: Final = OPERATIONS.index("DELETE")


def decode_avro_rows(
    schema: TableSchema, raw: pa.RecordBatch, envelopes: Envelopes, rows: RowNumbers, mask_order: Literal["little", "big"]
) -> tuple[pa.RecordBatch, Faults]:
    """Decode the Avro rows of one schema in one pass.

    Args:
        schema: The schema they are written in.
        raw: Raw messages.
        envelopes: Where the parts of those messages lie.
        rows: Which of them.
        mask_order: Byte order of column masks.

    Returns:
        The changes, and why each of the other rows is not one.
    """
    assert schema.rows is not None, "a schema for JSON alone"
    _, data = offsets_and_data(raw.column("payload"))
    chosen = np.ascontiguousarray(rows).data
    decoded = decode_rows(schema.rows, data, envelopes.payload_start, envelopes.payload_end, chosen)
    source_rows = np.frombuffer(decoded.rows, np.int64)
    faults: Faults = {row: str(fault) for row, fault in decoded.faults}
    parts = _Parts(schema.rows.columns, decoded)
    names = list(schema.types)
    masks = parts.array("headers", "columnMask", pa.binary())
    if mask_order == "big":
        masks = pa.array([None if mask is None else mask[::-1] for mask in masks.to_pylist()], pa.binary())
    changes = assemble_changes(
        schema,
        raw,
        source_rows,
        faults,
        data={name: parts.array("data", name, schema.changes.field(name).type) for name in names},
        before={key: parts.array("beforeData", key, schema.changes.field(key).type) for key in schema.metadata.key_columns},
        operations=parts.operations(),
        sequences=parts.array("headers", "changeSequence", pa.string()),
        masks=masks,
    )
    return changes, faults


class _Parts:
    """The decoded columns of Avro rows by section and name; a field that the writer left out is all null."""

    def __init__(self, plans: tuple[ColumnPlan, ...], decoded: Rows) -> None:
        self._columns: dict[tuple[str, str], tuple[ColumnPlan, ColumnBuffers]] = {
            (plan.section, plan.name): (plan, buffers) for plan, buffers in zip(plans, decoded.columns, strict=True)
        }
        self._count = decoded.count

    def array(self, section: str, name: str, absent: pa.DataType) -> pa.Array:
        found = self._columns.get((section, name))
        return pa.nulls(self._count, absent) if found is None else array_from_buffers(*found, self._count)

    def operations(self) -> pa.Array:
        """Return indexes into OPERATIONS, null for a verb that is none of them."""
        found = self._columns.get(("headers", "operation"))
        if found is None:
            return pa.nulls(self._count, pa.int8())
        verbs = array_from_buffers(*found, self._count)
        if found[0].avro_type == "enum":
            verbs = pc.take(pa.array(list(found[0].symbols or ()), pa.string()), verbs)
        return pc.index_in(verbs, pa.array(OPERATIONS)).cast(pa.int8())


def assemble_changes(
    schema: TableSchema,
    raw: pa.RecordBatch,
    source_rows: RowNumbers,
    faults: Faults,
    *,
    data: dict[str, pa.Array],
    before: dict[str, pa.Array],
    operations: pa.Array,
    sequences: pa.Array,
    masks: pa.Array,
) -> pa.RecordBatch:
    """Return a batch of changes in the target's types, without the rows that cannot be applied.

    Args:
        schema: Columns, types and keys.
        raw: The raw messages, for their coordinates.
        source_rows: Row of `raw` behind each decoded row.
        faults: Rows already known to be bad; those found here are added.
        data: Column -> values after the change, as decoded.
        before: Key column -> values before the change, as decoded; null where they are not told.
        operations: Indexes into changes.OPERATIONS; null where the verb is unknown.
        sequences: Change sequences.
        masks: Column masks, byte 0 the first eight columns; null where every column is present.
    """

    def fit(name: str, array: pa.Array) -> pa.Array:
        fitted, bad = convert(array, schema.changes.field(name).type)
        for row, why in bad.items():
            faults.setdefault(int(source_rows[row]), f"column {name!r}: {why}")
        return fitted

    columns = {name: fit(name, array) for name, array in data.items()}
    old = {key: fit(key, array) for key, array in before.items()}
    for key, values in old.items():
        if columns[key].null_count:  # a deleted row stands in data or in beforeData, by how the source is captured
            deletes = pc.fill_null(pc.equal(operations, pa.scalar(_DELETE, pa.int8())), False)
            columns[key] = pc.if_else(deletes, pc.coalesce(columns[key], values), columns[key])
    _check_rows(faults, source_rows, [(key, columns[key]) for key in old], operations, sequences)
    coordinates = raw.select(["topic", "partition", "offset"]).take(pa.array(source_rows, pa.int64()))
    arrays = [
        *columns.values(),
        operations,
        sequences,
        masks,
        *coordinates.columns,
        *old.values(),
    ]
    changes = pa.RecordBatch.from_arrays(arrays, schema=schema.changes)
    if faults:
        good = np.isin(source_rows, np.fromiter(faults, np.int64, len(faults)), invert=True)
        changes = changes.filter(pa.array(good))
    return changes


def _check_rows(
    faults: Faults, source_rows: RowNumbers, keys: list[tuple[str, pa.Array]], operations: pa.Array, sequences: pa.Array
) -> None:
    """Find the rows that have no key, no known verb or no usable change sequence."""

    def refuse(reason: str, bad: pa.Array) -> None:
        for row in pc.indices_nonzero(bad).to_pylist():
            faults.setdefault(int(source_rows[row]), reason)

    for key, values in keys:
        if values.null_count:
            refuse(f"the key column {key!r} is null", pc.is_null(values))
    if operations.null_count:
        refuse("the operation is none of INSERT, UPDATE, DELETE, REFRESH", pc.is_null(operations))
    lengths = pc.fill_null(pc.utf8_length(sequences), 0)
    shortest, longest = pc.min_max(lengths).as_py().values()
    if longest and longest > MAX_SEQUENCE_CHARACTERS:
        too_long = pc.greater(lengths, MAX_SEQUENCE_CHARACTERS)
        refuse(f"the change sequence has more than {MAX_SEQUENCE_CHARACTERS} characters", too_long)
    if shortest == 0:
        changes = pc.fill_null(pc.not_equal(operations, pa.scalar(_REFRESH, pa.int8())), False)
        refuse("the change has no change sequence, so its order is unknown", pc.and_(changes, pc.equal(lengths, 0)))
    if sequences.null_count:
        refuse("the change sequence is null", pc.is_null(sequences))
