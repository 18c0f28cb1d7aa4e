"""Converts decoded columns to an Arrow batch of changes; every row is checked, and invalid rows are returned with reasons."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.codec import Lineage
from headstream.replicate.codec.avro.plan import ColumnBuffers, ColumnPlan, RowPlan, Rows
from headstream.replicate.codec.avro.reader import AvroReader
from headstream.replicate.codec.avro.rows import decode_rows
from headstream.replicate.codec.envelopes import Envelopes
from headstream.replicate.columns.changes import OPERATIONS
from headstream.replicate.columns.conversion import (
    array_from_buffers,
    convert,
    datetime_texts,
    find_finer,
    find_outside,
    number_texts,
    time_texts,
)
from headstream.replicate.columns.partition_values import find_unusable
from headstream.replicate.columns.raw import offsets_and_data
from headstream.replicate.columns.versions import MAX_SEQUENCE_CHARACTERS
from headstream.replicate.decoding.mask_orders import MaskOrders
from headstream.replicate.decoding.row_masks import resolve_masks
from headstream.replicate.decoding.transaction_events import transaction_events
from headstream.replicate.schemas.schemas import TableSchema

RowNumbers: TypeAlias = npt.NDArray[np.int64]
"""Row numbers in the raw batch."""
Faults: TypeAlias = dict[int, str]
"""Row of the raw batch -> the reason why the row cannot be applied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeParts:
    """The decoded parts of rows, as arrays.

    Args:
        data: Column -> values after the change.
        before: Column -> values before the change; null if unknown. Only key columns unless details are requested.
        operations: Indexes into changes.OPERATIONS; null for an unknown operation.
        sequences: Change sequences.
        masks: Column masks, the first eight columns in byte 0; null if every column is present.
        changed: Change masks, in the same order; null if unknown.
        transactions: Transaction ids.
        events: The number of each change in its transaction; null if unknown.
        last_events: Whether a change is the last of its transaction; null if unknown.
        details: The columns of schemas.DETAILS, if requested.
    """

    data: dict[str, pa.Array]
    before: dict[str, pa.Array]
    operations: pa.Array
    sequences: pa.Array
    masks: pa.Array
    changed: pa.Array
    transactions: pa.Array
    events: pa.Array
    last_events: pa.Array
    details: list[pa.Array]


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """The decoded rows of one schema.

    Args:
        faults: The reason for each rejected row.
        findings: Warning for the user -> number of affected rows.
    """

    changes: pa.RecordBatch
    faults: Faults
    findings: dict[str, int]


_REFRESH: Final = OPERATIONS.index("REFRESH")
_MARKS: Final = "[ .-]"
"""Separators in positions and versions, see versions.py; change sequences are digits."""
_DELETE: Final = OPERATIONS.index("DELETE")


def decode_avro_rows(
    schema: TableSchema, raw: pa.RecordBatch, envelopes: Envelopes, rows: RowNumbers, orders: MaskOrders
) -> DecodedRows:
    """Decode the Avro rows of one schema in one pass.

    Args:
        schema: The schema with which the rows were written.
        raw: Raw messages.
        envelopes: The positions of the messages' parts.
        rows: The rows to decode.
        orders: Byte orders of column masks.
    """
    assert schema.rows is not None, "the schema has no plan for Avro rows"
    _, data = offsets_and_data(raw.column("payload"))
    chosen = np.ascontiguousarray(rows).data
    decoded = decode_rows(schema.rows, data, envelopes.payload_start, envelopes.payload_end, chosen)
    source_rows = np.frombuffer(decoded.rows, np.int64)
    parts = _Parts(schema.rows.columns, decoded)
    sequences = parts.header("changeSequence", pa.string())
    masks = resolve_masks(
        schema,
        parts.mask("columnMask"),
        parts.mask("changeMask"),
        values=lambda: parts.values(schema),
        differences=lambda: parts.differences(schema),
        sequences=sequences,
        orders=orders,
    )
    faults: Faults = {row: str(fault) for row, fault in decoded.faults}
    faults |= {int(source_rows[row]): reason for row, reason in (parts.mask_faults | masks.faults).items()}

    def section(name: str, columns: Iterable[str]) -> dict[str, pa.Array]:
        return {c: parts.array(name, schema.fields.get(c, ""), schema.changes.field(c).type) for c in columns}

    changes = assemble_changes(
        schema,
        raw,
        source_rows,
        faults,
        masks.findings,
        ChangeParts(
            data=section("data", schema.types),
            before=section("beforeData", schema.types if schema.has_details else schema.metadata.key_columns),
            operations=parts.operations(),
            sequences=sequences,
            masks=masks.columns,
            changed=masks.changed,
            transactions=parts.header("transactionId", pa.string()),
            events=parts.header("transactionEventCounter", pa.int64()),
            last_events=parts.header("transactionLastEvent", pa.bool_()),
            details=[
                parts.header("timestamp", pa.string()),
                parts.header("streamPosition", pa.string()),
                _envelope_headers(envelopes, data, source_rows),
            ]
            if schema.has_details
            else [],
        ),
    )
    return DecodedRows(changes, faults, masks.findings)


def decode_avro_events(
    lineage: Lineage, plan: RowPlan, raw: pa.RecordBatch, envelopes: Envelopes, rows: RowNumbers
) -> pa.RecordBatch:
    """Return the transaction events (EVENTS_SCHEMA) of Avro rows; unreadable rows are omitted.

    Args:
        plan: The plan for reading the rows.
        raw: Raw messages.
        envelopes: The positions of the messages' parts.
        rows: The rows to decode.
    """
    _, data = offsets_and_data(raw.column("payload"))
    decoded = decode_rows(plan, data, envelopes.payload_start, envelopes.payload_end, np.ascontiguousarray(rows).data)
    parts = _Parts(plan.columns, decoded)
    return transaction_events(
        lineage,
        parts.header("transactionId", pa.string()),
        parts.header("transactionEventCounter", pa.int64()),
        parts.header("transactionLastEvent", pa.bool_()),
    )


def _envelope_headers(envelopes: Envelopes, data: pa.Buffer, rows: RowNumbers) -> pa.Array:
    """Return the headers of the envelopes; most envelopes have no headers."""
    starts, ends = np.frombuffer(envelopes.headers_start, np.int64)[rows], np.frombuffer(envelopes.headers_end, np.int64)[rows]
    found: list[dict[str, str] | None] = [None] * len(rows)
    view = memoryview(data)
    for row in np.flatnonzero(starts >= 0).tolist():
        found[row] = AvroReader(bytes(view[starts[row] : ends[row]])).pull_map("the envelope's headers")
    return header_maps(found)


def header_maps(maps: list[dict[str, str] | None]) -> pa.Array:
    """Return envelope headers as an Arrow map array."""
    return pa.array([None if pairs is None else list(pairs.items()) for pairs in maps], pa.map_(pa.string(), pa.string()))


class _Parts:
    """The decoded columns of Avro rows by section and name; a field that the writer omitted is null in all rows."""

    def __init__(self, plans: tuple[ColumnPlan, ...], decoded: Rows) -> None:
        self._columns: dict[tuple[str, str], tuple[ColumnPlan, ColumnBuffers]] = {
            (plan.section, plan.name): (plan, buffers) for plan, buffers in zip(plans, decoded.columns, strict=True)
        }
        self._count = decoded.count
        self.mask_faults: Faults = {}

    def array(self, section: str, name: str, absent: pa.DataType) -> pa.Array:
        found = self._columns.get((section, name))
        return pa.nulls(self._count, absent) if found is None else array_from_buffers(*found, self._count)

    def header(self, name: str, kind: pa.DataType) -> pa.Array:
        """Return a header converted from the writer's type; null if it cannot be converted."""
        return convert(self.array("headers", name, kind), kind)[0]

    def mask(self, name: str) -> pa.Array:
        """Return a mask; rows whose mask is not bytes are recorded in `mask_faults`, by index in the decoded rows."""
        found = self.array("headers", name, pa.binary())
        if pa.types.is_binary(found.type):
            return found
        rows = pc.indices_nonzero(found.is_valid()).to_pylist()
        self.mask_faults |= dict.fromkeys(rows, f"{name} is {found.type}, not bytes")
        return pa.nulls(self._count, pa.binary())

    def values(self, schema: TableSchema) -> list[tuple[int, pa.Array]]:
        """Return, for each target column, which rows have a value."""
        return [(o, self.array("data", name, pa.null()).is_valid()) for o, name in self._placed(schema)]

    def differences(self, schema: TableSchema) -> list[tuple[int, pa.Array]]:
        """Return, for each target column except LOBs, in which rows the value differs from the value before the change."""
        found = []
        for ordinal, name in self._placed(schema):
            now, before = (self.array(section, name, pa.null()) for section in ("data", "beforeData"))
            if now.type == before.type and not pa.types.is_null(now.type) and ordinal not in schema.lobs:
                differs = pc.not_equal(now, before)  # -0.0 equals 0.0
                if pa.types.is_floating(now.type):  # NaN equals NaN
                    differs = pc.and_not(differs, pc.and_(pc.is_nan(now), pc.is_nan(before)))
                found.append((ordinal, pc.fill_null(differs, False)))
        return found

    @staticmethod
    def _placed(schema: TableSchema) -> list[tuple[int, str]]:
        return [(c.ordinal, schema.fields[c.name]) for c in schema.metadata.columns if c.name in schema.fields]

    def operations(self) -> pa.Array:
        """Return indexes into OPERATIONS; null for an unknown operation."""
        found = self._columns.get(("headers", "operation"))
        verbs = pa.nulls(0) if found is None else array_from_buffers(*found, self._count)
        if not pa.types.is_string(verbs.type):
            return pa.nulls(self._count, pa.int8())
        return pc.index_in(verbs, pa.array(OPERATIONS)).cast(pa.int8())


def assemble_changes(
    schema: TableSchema,
    raw: pa.RecordBatch,
    source_rows: RowNumbers,
    faults: Faults,
    findings: dict[str, int],
    parts: ChangeParts,
) -> pa.RecordBatch:
    """Return a batch of changes in the target's types, without the rows that cannot be applied.

    Args:
        schema: Columns, types and keys.
        raw: The raw messages, for their coordinates.
        source_rows: Row of `raw` from which each decoded row was decoded.
        faults: Rejected rows; newly rejected rows are added.
        findings: Warning for the user -> number of affected rows; new warnings are added.
    """
    keys = schema.metadata.key_columns

    def fit(name: str, array: pa.Array) -> pa.Array:
        kind = schema.changes.field(name).type
        fitted, bad = datetime_texts(array) if name in schema.datetimes else convert(array, kind)
        for row, why in bad.items():
            faults.setdefault(int(source_rows[row]), f"column {name!r}: {why}")
        if name in schema.limits:
            low, high = schema.limits[name]
            for row in find_outside(fitted, low, high):
                faults.setdefault(int(source_rows[row]), f"column {name!r}: a value must be {low} to {high}")
        if fitted is not array and pa.types.is_timestamp(kind) and (finer := find_finer(array)):
            _note_finer(schema, name, source_rows[finer].tolist(), faults, findings)
        if name in schema.wide_numbers:
            return number_texts(fitted, schema.wide_numbers[name])
        return time_texts(fitted) if name in schema.times else fitted

    columns = {name: fit(name, array) for name, array in parts.data.items()}
    images = {name: fit(name, array) for name, array in parts.before.items()}
    for key in keys:
        columns[key], images[key] = _unsigned_zeros(columns[key]), _unsigned_zeros(images[key])
    old = {key: images[key] for key in keys}
    for key, values in old.items():
        if columns[key].null_count:  # a deleted row is in data or in beforeData, depending on the capture
            deletes = pc.fill_null(pc.equal(parts.operations, pa.scalar(_DELETE, pa.int8())), False)
            columns[key] = pc.if_else(deletes, pc.coalesce(columns[key], values), columns[key])
    divided = {name.lower() for name in schema.settings.partition_by}  # the table can have another spelling
    for name in columns if divided else ():
        if name.lower() in divided and pa.types.is_string(columns[name].type):
            columns[name] = _check_partitions(faults, source_rows, name, columns[name], old, parts.operations)
    _check_rows(faults, source_rows, [(key, columns[key], old[key]) for key in old], parts.operations, parts.sequences)
    coordinates = raw.select(["timestamp_us", "topic", "partition", "offset"]).take(pa.array(source_rows, pa.int64()))
    arrays = [
        *columns.values(),
        parts.operations,
        parts.sequences,
        parts.masks,
        parts.changed,
        parts.transactions,
        parts.events.cast(pa.int64()),
        parts.last_events,
        *coordinates.columns,
        *old.values(),
    ]
    if schema.has_details:
        arrays += [*parts.details, *images.values()]
    changes = pa.RecordBatch.from_arrays(arrays, schema=schema.changes)
    if faults:
        good = np.isin(source_rows, np.fromiter(faults, np.int64, len(faults)), invert=True)
        changes = changes.filter(pa.array(good))
    return changes


def _note_finer(schema: TableSchema, name: str, rows: list[int], faults: Faults, findings: dict[str, int]) -> None:
    """Reject rows whose key has a time finer than a microsecond, and count rows with a truncated time in another column."""
    if name in schema.metadata.key_columns:
        reason = f'key column {name!r}: a time is more precise than a microsecond. Set datetimes = "text" to store strings'
        for row in rows:
            faults.setdefault(row, reason)
    else:
        cut = f"table {'.'.join(schema.table)}: times of column {name!r} are more precise than a microsecond, and were truncated"
        findings[cut] = findings.get(cut, 0) + len(rows)


def _unsigned_zeros(values: pa.Array) -> pa.Array:
    """Return the values of a key column, with -0.0 replaced by 0.0: some engines treat the two as different keys."""
    return pc.add(values, pa.scalar(0.0, values.type)) if pa.types.is_floating(values.type) else values


def _check_partitions(
    faults: Faults, source_rows: RowNumbers, name: str, values: pa.Array, keys: Collection[str], operations: pa.Array
) -> pa.Array:
    """Reject rows whose values cannot be partition values; return the values, with null for deletions, which need only keys."""
    unusable = find_unusable(name, values)
    if not unusable:
        return values
    deletes = set() if name in keys else set(pc.indices_nonzero(pc.equal(operations, pa.scalar(_DELETE, pa.int8()))).to_pylist())
    for row in unusable.keys() - deletes:
        faults.setdefault(int(source_rows[row]), f"column {name!r}: {unusable[row]}")
    return pc.if_else(pa.array([row in unusable for row in range(len(values))]), pa.scalar(None, values.type), values)


def _check_rows(
    faults: Faults, source_rows: RowNumbers, keys: list[tuple[str, pa.Array, pa.Array]], operations: pa.Array, sequences: pa.Array
) -> None:
    """Reject the rows with an invalid key (new or old), an unknown operation or an invalid change sequence."""

    def refuse(reason: str, bad: pa.Array) -> None:
        for row in pc.indices_nonzero(bad).to_pylist():
            faults.setdefault(int(source_rows[row]), reason)

    for key, values, before in keys:
        if values.null_count:
            refuse(f"the key column {key!r} is null", pc.is_null(values))
        if pa.types.is_floating(values.type):  # engines differ on whether NaN equals NaN
            refuse(f"the key column {key!r} is NaN, which cannot identify a row", pc.fill_null(pc.is_nan(values), False))
            refuse(f"the key column {key!r} was NaN, which cannot identify a row", pc.fill_null(pc.is_nan(before), False))
    if operations.null_count:
        refuse("the operation is not INSERT, UPDATE, DELETE or REFRESH", pc.is_null(operations))
    lengths = pc.fill_null(pc.utf8_length(sequences), 0)
    shortest, longest = pc.min_max(lengths).as_py().values()
    if longest and longest > MAX_SEQUENCE_CHARACTERS:
        too_long = pc.greater(lengths, MAX_SEQUENCE_CHARACTERS)
        refuse(f"the change sequence has more than {MAX_SEQUENCE_CHARACTERS} characters", too_long)
    if longest:
        refuse(
            "the change sequence must not contain a period, a space or a hyphen",
            pc.fill_null(pc.match_substring_regex(sequences, _MARKS), False),
        )
    if shortest == 0:
        changes = pc.fill_null(pc.not_equal(operations, pa.scalar(_REFRESH, pa.int8())), False)
        refuse("the change has no change sequence, so its order is unknown", pc.and_(changes, pc.equal(lengths, 0)))
    if sequences.null_count:
        refuse("the change sequence is null", pc.is_null(sequences))
