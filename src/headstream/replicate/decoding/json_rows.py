"""Decodes JSON messages to the same changes as Avro messages. Each message is a Python object, since JSON is for small volumes.

The envelope's id or the table determines the schema of a message. A flat message contains the table's name; otherwise the topic
(`topic_tables`) or the namespace of the embedded schema determines the table. A message without an id is decoded by the schema of
the table that has its columns (SchemaCatalog.find_versions()), and waits until such a schema exists.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from headstream.errors import DecodeError, SchemaError
from headstream.replicate.codec import Change, Envelope, decode_data, decode_envelope, decode_mask, encode_mask
from headstream.replicate.columns.changes import OPERATIONS
from headstream.replicate.columns.conversion import array_from_json
from headstream.replicate.decoding.row_masks import resolve_masks
from headstream.replicate.decoding.rows import ChangeParts, DecodedRows, Faults, assemble_changes, header_maps
from headstream.replicate.decoding.transaction_events import transaction_events
from headstream.replicate.schemas.schema_catalog import DecodeOptions, Found, Missing, SchemaCatalog, Unwanted, find_topic_table
from headstream.replicate.schemas.schema_store import table_id
from headstream.replicate.schemas.schemas import TableSchema

_Message: TypeAlias = tuple[int, Envelope, Change]
"""Row of the raw batch, its envelope and its change."""


@dataclass(slots=True)
class JsonRows:
    """The decoded JSON rows of a batch.

    Args:
        metadata: The rows of metadata messages.
        waiting: Row -> schema id that the row waits for.
        faults: Row -> reason why the row can never become a change.
        named: Row -> schema id, if known.
        changes: Schemas and their decoded changes.
        unwanted: Number of messages whose tables are not targets.
        events: Transaction events of these messages, if requested.
        findings: Warning for the user -> number of affected rows.
    """

    metadata: list[int] = field(default_factory=list)
    waiting: dict[int, str] = field(default_factory=dict)
    faults: Faults = field(default_factory=dict)
    named: dict[int, str] = field(default_factory=dict)
    changes: list[tuple[TableSchema, pa.RecordBatch]] = field(default_factory=list)
    unwanted: int = 0
    events: list[pa.RecordBatch] = field(default_factory=list)
    findings: dict[str, int] = field(default_factory=dict)


def decode_json_rows(raw: pa.RecordBatch, rows: list[int], catalog: SchemaCatalog, options: DecodeOptions) -> JsonRows:
    """Decode the JSON messages of a batch.

    Args:
        raw: Raw messages.
        rows: The rows with JSON messages.
        options: The JSON names of a message's parts, and the tables of topics.
    """
    result = JsonRows()
    groups: dict[tuple[str | tuple[str, str], str | None, str | None], list[_Message]] = {}
    payloads, topics = raw.column("payload"), raw.column("topic")
    needs_topic = functools.cache(catalog.needs_topic)  # a call lists the files of a schema store without schemas
    for row in rows:
        try:
            envelope = decode_envelope(payloads[row].as_py(), options.format)
            if envelope.type == "MD":
                result.metadata.append(row)
                continue
            topic = topics[row].as_py()
            named = _schema_named(envelope, topic, options)
            place = topic if isinstance(named[0], str) and needs_topic(named[0]) else None
            groups.setdefault((*named, place), []).append((row, envelope, decode_data(envelope, None)))
        except (DecodeError, SchemaError) as error:
            result.faults[row] = str(error)
    for (wanted, own_schema, place), messages in groups.items():
        if isinstance(wanted, str):
            found = [([catalog.find(wanted, own_schema, avro=False, topic=place)], messages)]
        else:
            found = _by_versions(catalog, wanted, messages)
        for schemas, part in found:
            if isinstance(schemas[0], Unwanted) and options.atomic:
                events = transaction_events(schemas[0].lineage, *_transaction_parts([change for _, _, change in part]))
                result.events.append(events)
            _decode_group(result, raw, wanted if isinstance(wanted, str) else table_id(*wanted), part, schemas)
    return result


def _by_versions(
    catalog: SchemaCatalog, table: tuple[str, str], messages: list[_Message]
) -> list[tuple[list[Found], list[_Message]]]:
    """Return messages that name only their table, grouped by their possible schemas."""
    versions: dict[frozenset[str], list[Found]] = {}
    groups: dict[tuple[int, ...], tuple[list[Found], list[_Message]]] = {}
    for message in messages:
        names = frozenset([*message[2].data, *(message[2].before or ())])
        if names not in versions:
            versions[names] = catalog.find_versions(*table, sorted(names))
        found = _by_mask(versions[names], message[2])
        key = tuple(map(id, found)) if isinstance(found[0], TableSchema) else (id(found),)
        groups.setdefault(key, (found, []))[1].append(message)
    return list(groups.values())


def _by_mask(found: list[Found], change: Change) -> list[Found]:
    """Return schemas, first those that fit the change's mask, which then has every column with a value and no unknown bits."""
    if len(found) < 2 or not change.column_mask:
        return found
    mask = decode_mask(change.column_mask)

    def contradicts(schema: Found) -> bool:
        assert isinstance(schema, TableSchema), "only selected tables have several schemas"
        return not mask <= schema.ordinals or any(
            column.ordinal not in mask and change.data.get(schema.fields[column.name]) is not None
            for column in schema.metadata.columns
        )

    return sorted(found, key=contradicts)


def _schema_named(envelope: Envelope, topic: str, options: DecodeOptions) -> tuple[str | tuple[str, str], str | None]:
    """Return a message's schema id or its table ("" if neither is known), and an embedded schema that determines the table."""
    if envelope.schema_id is not None:
        return envelope.schema_id, envelope.schema
    table = envelope.table or find_topic_table(options.topic_tables, topic)
    if table is not None:
        return table, None
    if envelope.schema is None:
        raise SchemaError(
            "the message has no schema id, so its table is unknown", advice="Set the table of the topic in topic_tables"
        )
    return "", envelope.schema


def _decode_group(result: JsonRows, raw: pa.RecordBatch, wanted: str, messages: list[_Message], schemas: list[Found]) -> None:
    """Decode messages by the first of the given schemas; messages with values that do not fit are decoded by the next schemas."""
    schema, *others = schemas
    rows = [row for row, _, _ in messages]
    if isinstance(schema, Missing):
        result.waiting |= dict.fromkeys(rows, schema.schema_id)
    elif isinstance(schema, Unwanted):
        result.unwanted += len(rows)
    elif isinstance(schema, SchemaError):
        result.faults |= dict.fromkeys(rows, str(schema))
        result.named |= dict.fromkeys(rows, wanted)
    else:
        decoded = _to_columns(schema, raw, messages)
        result.changes.append((schema, decoded.changes))
        if others and decoded.faults:
            _decode_group(result, raw, wanted, [message for message in messages if message[0] in decoded.faults], others)
        faults = {row: reason for row, reason in decoded.faults.items() if not others or row in result.faults}
        result.faults |= faults
        result.named |= dict.fromkeys(faults, schema.metadata.schema_id)
        for finding, count in decoded.findings.items():
            result.findings[finding] = result.findings.get(finding, 0) + count


def _to_columns(schema: TableSchema, raw: pa.RecordBatch, messages: list[_Message]) -> DecodedRows:
    rows = [row for row, _, _ in messages]
    changes = [change for _, _, change in messages]
    faults: Faults = {}
    for row, change in zip(rows, changes, strict=True):
        unknown = [name for part in (change.data, change.before or {}) for name in part if name not in schema.known_fields]
        if unknown:
            faults[row] = f"the row has the column {unknown[0]!r}, which is missing in the table's schema"

    def column(name: str, parts: list[Mapping[str, Any]]) -> pa.Array:
        array, bad = array_from_json([part.get(schema.fields[name]) for part in parts], schema.changes.field(name).type)
        for index, why in bad.items():
            faults.setdefault(rows[index], f"column {name!r}: {why}")
        return array

    now: list[Mapping[str, Any]] = [change.data for change in changes]
    past: list[Mapping[str, Any]] = [change.before or {} for change in changes]
    transactions, events, last_events = _transaction_parts(changes)
    masks = resolve_masks(
        schema,
        pa.array([_column_mask(schema, change) for change in changes], pa.binary()),
        pa.array([change.change_mask for change in changes], pa.binary()),
        values=lambda: _given_values(schema, now),
    )
    faults |= {rows[index]: reason for index, reason in masks.faults.items() if rows[index] not in faults}
    batch = assemble_changes(
        schema,
        raw,
        np.array(rows, np.int64),
        faults,
        masks.findings,
        ChangeParts(
            data={name: column(name, now) for name in schema.types},
            before={name: column(name, past) for name in (schema.types if schema.has_details else schema.metadata.key_columns)},
            operations=pa.array([OPERATIONS.index(change.operation) for change in changes], pa.int8()),
            sequences=pa.array([change.change_sequence for change in changes], pa.string()),
            masks=masks.columns,
            changed=masks.changed,
            transactions=transactions,
            events=events,
            last_events=last_events,
            details=[
                pa.array([change.timestamp for change in changes], pa.string()),
                pa.array([change.stream_position for change in changes], pa.string()),
                header_maps([envelope.headers for _, envelope, _ in messages]),
            ],
        ),
    )
    return DecodedRows(batch, faults, masks.findings)


def _transaction_parts(changes: list[Change]) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return the transaction of each change, the number in the transaction, and whether the change is the last."""
    return (
        pa.array([change.transaction_id for change in changes], pa.string()),
        pa.array([change.transaction_event_counter for change in changes], pa.int64()),
        pa.array([change.transaction_last_event for change in changes], pa.bool_()),
    )


def _column_mask(schema: TableSchema, change: Change) -> bytes | None:
    """Return the column mask without columns that the row does not contain, which are absent, not null."""
    columns = schema.metadata.columns
    unnamed = [column.ordinal for column in columns if schema.fields[column.name] not in change.data]
    if not unnamed or not change.data:
        return change.column_mask
    carried = decode_mask(change.column_mask) if change.column_mask else schema.ordinals
    return encode_mask(carried - set(unnamed))


def _given_values(schema: TableSchema, rows: list[Mapping[str, Any]]) -> list[tuple[int, pa.Array]]:
    return [
        (column.ordinal, pa.array([row.get(schema.fields[column.name]) is not None for row in rows], pa.bool_()))
        for column in schema.metadata.columns
    ]
