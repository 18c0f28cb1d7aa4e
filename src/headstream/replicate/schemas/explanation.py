"""Explains a Replicate message, with its errors, as far as it can be read.

An explanation is a dict of JSON types, with the same members in the same order for every message of a type:

    both  size_bytes form type schema_id own_schema envelope_headers table
    MD    lineage key columns
    DT    operation change_sequence timestamp stream_position transaction_id transaction_event_counter
          transaction_last_event external_schema_id changed present data before
    both  note fault

`changed` and `present` are the change mask and the column mask as column names. `fault` is the reason why a message is invalid,
and `note` names missing input that more detail would require.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from decimal import Decimal
from typing import Any, Final, Literal

from headstream.errors import DecodeError, SchemaError
from headstream.replicate.codec import (
    Change,
    Envelope,
    TableMetadata,
    decode_data,
    decode_envelope,
    decode_mask,
    decode_metadata,
    target_type,
)
from headstream.replicate.codec.avro.schema import parse_schema

_REGISTRY_BYTES: Final = 5
_TEXTS: Final = ("operation", "change_sequence", "timestamp", "stream_position", "transaction_id")
_OTHERS: Final = ("transaction_event_counter", "transaction_last_event", "external_schema_id")


class Explainer:
    """Explains messages in order; a metadata message allows the decoding of later data messages.

    Args:
        find_metadata: Returns the table version of a schema id from another source.
        mask_order: Byte order of Avro masks.
        advice: Advice for an unknown schema.
    """

    def __init__(
        self,
        find_metadata: Callable[[str], TableMetadata | None],
        mask_order: Literal["little", "big"] = "little",
        advice: str = "pass the metadata message before the data message, or set --zone",
    ) -> None:
        self._find = find_metadata
        self._mask_order = mask_order
        self._advice = advice
        self._metadata: dict[str, TableMetadata] = {}

    def explain(self, value: bytes) -> dict[str, Any]:
        """Return the explanation of a message. An invalid message is explained as far as it can be read."""
        explained: dict[str, Any] = {"size_bytes": len(value), "form": None, "type": None}
        note = fault = None
        try:
            if value[:1] == b"\x00" and len(value) >= _REGISTRY_BYTES:
                raise DecodeError(
                    f"the message has schema registry framing (id {int.from_bytes(value[1:_REGISTRY_BYTES], 'big')}) "
                    "instead of a Replicate envelope",
                    0,
                )
            envelope = decode_envelope(value)
            explained |= {
                "form": envelope.form,
                "type": envelope.type,
                "schema_id": envelope.schema_id,
                "own_schema": envelope.schema is not None,
                "envelope_headers": envelope.headers,
            }
            note = (
                self._explain_metadata(envelope, explained) if envelope.type == "MD" else self._explain_data(envelope, explained)
            )
        except (DecodeError, SchemaError) as error:
            fault = str(error)
        return {**explained, "note": note, "fault": fault}

    def _explain_metadata(self, envelope: Envelope, explained: dict[str, Any]) -> str | None:
        metadata = decode_metadata(envelope)
        self._metadata[metadata.schema_id] = metadata
        lineage = metadata.lineage
        explained["schema_id"] = metadata.schema_id
        explained["table"] = f"{lineage.schema}.{lineage.table}"
        explained["lineage"] = asdict(lineage)
        explained["key"] = list(metadata.key_columns)
        explained["columns"] = columns = [asdict(column) for column in metadata.columns]
        parse_schema(metadata.data_schema)
        faults = []
        for column, row in zip(metadata.columns, columns, strict=True):
            try:
                row["table_type"] = target_type(column)
            except SchemaError as error:
                row["table_type"] = None
                faults.append(str(error))
        if faults:
            raise SchemaError("; ".join(faults))
        return None if metadata.key_columns else "the table has no primary key"

    def _explain_data(self, envelope: Envelope, explained: dict[str, Any]) -> str | None:
        metadata = None
        if envelope.schema_id is not None:
            metadata = self._metadata.get(envelope.schema_id) or self._find(envelope.schema_id)
        lineage = metadata.lineage if metadata is not None else None
        explained["table"] = f"{lineage.schema}.{lineage.table}" if lineage is not None else None
        if envelope.form == "avro" and metadata is None and envelope.schema is None:
            if envelope.schema_id is None:
                raise SchemaError("the Avro data message has neither a schema nor a schema id")
            return f"unknown schema: {self._advice} ({envelope.schema_id})"
        change = decode_data(envelope, metadata.data_schema if metadata is not None else None)
        names = _names(change, metadata)
        is_json = envelope.form == "json"
        order: Literal["little", "big"] = "little" if is_json else self._mask_order
        explained |= {name: getattr(change, name) for name in (*_TEXTS, *_OTHERS)}
        explained["changed"] = _columns(change.change_mask, names, order)
        explained["present"] = _columns(change.column_mask, names, order)
        explained["data"] = _format_row(change.data, is_json)
        explained["before"] = None if change.before is None else _format_row(change.before, is_json)
        if metadata is None and (change.change_mask or change.column_mask):
            return "the table's metadata is missing, so the mask bits are interpreted in the order of the message's columns"
        return None


def _names(change: Change, metadata: TableMetadata | None) -> dict[int, str]:
    if metadata is not None:
        return {column.ordinal: column.name for column in metadata.columns}
    return dict(enumerate(change.data, 1))


def _columns(mask: bytes | None, names: Mapping[int, str], order: Literal["little", "big"]) -> list[str] | None:
    """Return the columns of a mask by name, or by number if the table does not have the column."""
    if mask is None:
        return None
    return [names.get(ordinal, f"#{ordinal}") for ordinal in sorted(decode_mask(mask, order))]


def _format_row(row: Mapping[str, Any], is_json: bool) -> dict[str, Any]:
    return {name: _format_value(value, is_json) for name, value in row.items()}


def _format_value(value: Any, is_json: bool) -> Any:
    if isinstance(value, Decimal) and is_json and Decimal(repr(float(value))) == value:
        return float(value)  # a number stays a number, unless the reader's double would have other digits
    if isinstance(value, bytes):
        return value.hex().upper()
    if isinstance(value, (Decimal, datetime.date, datetime.time)):  # a datetime is a date
        return str(value) if isinstance(value, Decimal) else value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
