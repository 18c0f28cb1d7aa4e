"""JSON envelopes -> the same changes as Avro ones. A Python object a message: JSON is for small volumes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from headstream.codec.replicate import Change, decode_data, decode_envelope
from headstream.errors import DecodeError, SchemaError
from headstream.spark.replicate.changes import OPERATIONS
from headstream.spark.replicate.conversion import array_from_json
from headstream.spark.replicate.rows import Faults, assemble_changes
from headstream.spark.replicate.schemas import TableSchema

__all__ = ["JsonRows", "decode_json_rows"]


@dataclass(slots=True)
class JsonRows:
    """What the JSON rows of a batch came to.

    Args:
        metadata: Rows with metadata messages.
        waiting: Row -> the schema id it waits for.
        faults: Row -> why it can never be a change.
        changes: Schema id -> decoded changes.
    """

    metadata: list[int] = field(default_factory=list)
    waiting: dict[int, str] = field(default_factory=dict)
    faults: Faults = field(default_factory=dict)
    changes: dict[str, pa.RecordBatch] = field(default_factory=dict)


def decode_json_rows(
    raw: pa.RecordBatch, rows: list[int], find_schema: Callable[[str], TableSchema | SchemaError | None]
) -> JsonRows:
    """Decode the JSON messages of a batch.

    Args:
        raw: Raw messages.
        rows: Which of them are JSON.
        find_schema: Schema id -> the schema, why it cannot be used, or None where it has not come.
    """
    result = JsonRows()
    groups: dict[str, tuple[list[int], list[Change]]] = {}
    payloads = raw.column("payload")
    for row in rows:
        try:
            envelope = decode_envelope(payloads[row].as_py())
            if envelope.type == "MD":
                result.metadata.append(row)
            elif envelope.schema_id is None:
                result.faults[row] = "the message has no schema id, so its table is unknown"
            else:
                ids, changes = groups.setdefault(envelope.schema_id, ([], []))
                changes.append(decode_data(envelope, None))
                ids.append(row)
        except (DecodeError, SchemaError) as error:
            result.faults[row] = str(error)
    for schema_id, (ids, changes) in groups.items():
        schema = find_schema(schema_id)
        if schema is None:
            result.waiting |= dict.fromkeys(ids, schema_id)
        elif isinstance(schema, SchemaError):
            result.faults |= dict.fromkeys(ids, str(schema))
        else:
            result.changes[schema_id], faults = _to_columns(schema, raw, ids, changes)
            result.faults |= faults
    return result


def _to_columns(
    schema: TableSchema, raw: pa.RecordBatch, rows: list[int], changes: list[Change]
) -> tuple[pa.RecordBatch, Faults]:
    faults: Faults = {}

    def column(name: str, values: list[object]) -> pa.Array:
        array, bad = array_from_json(values, schema.changes.field(name).type)
        for index, why in bad.items():
            faults.setdefault(rows[index], f"column {name!r}: {why}")
        return array

    verbs = [OPERATIONS.index(change.operation) if change.operation in OPERATIONS else None for change in changes]
    batch = assemble_changes(
        schema,
        raw,
        np.array(rows, np.int64),
        faults,
        data={name: column(name, [change.data.get(name) for change in changes]) for name in schema.types},
        before={key: column(key, [(change.before or {}).get(key) for change in changes]) for key in schema.metadata.key_columns},
        operations=pa.array(verbs, pa.int8()),
        sequences=pa.array([change.change_sequence for change in changes], pa.string()),
        masks=pa.array([change.column_mask for change in changes], pa.binary()),
    )
    return batch, faults
