"""The simulator's own encoders and the codec, written apart, give the same bytes."""

from __future__ import annotations

import pytest

from headstream.replicate.codec import Change, TableMetadata, data_message
from headstream.testing import CaptureOptions, SourceChange, SourceDatabase
from headstream.testing.source_capture import table_metadata
from headstream.testing.source_encoding import AvroEncoder, ChangeHeaders, JsonEncoder, MessageEncoder


def make_encoder(
    change: SourceChange, metadata: TableMetadata, transaction_fields: bool, envelope_headers: dict[str, str] | None
) -> MessageEncoder:
    columns = change.table.versions[change.version]
    if change.table.form == "json":
        return JsonEncoder(metadata.schema_id, columns, envelope_headers=envelope_headers)
    return AvroEncoder(
        metadata.schema_id,
        columns,
        logical_types=change.table.logical_types,
        transaction_fields=transaction_fields,
        envelope_headers=envelope_headers,
    )


def make_headers(operation: str, number: int) -> ChangeHeaders:
    """Return headers whose texts, masks and counters have every length and absence."""
    loaded = operation == "REFRESH"
    return ChangeHeaders(
        operation=operation,
        change_sequence="" if loaded else "2" * 35,
        timestamp="2024-01-15T08:00:00.000",
        stream_position="p" * (number % 200),
        transaction_id="",
        change_mask=None if loaded else bytes((number % 256,)),
        column_mask=None if loaded else bytes((1, number % 7)),
        event_counter=None if loaded else number * 1000,
        last_event=None if loaded else number % 2 == 0,
    )


def make_change(change: SourceChange, headers: ChangeHeaders) -> Change:
    return Change(
        operation=headers.operation,
        data={} if change.after is None else change.after,
        before=change.before,
        change_sequence=headers.change_sequence,
        timestamp=headers.timestamp,
        stream_position=headers.stream_position,
        transaction_id=headers.transaction_id,
        change_mask=headers.change_mask,
        column_mask=headers.column_mask,
        transaction_event_counter=headers.event_counter,
        transaction_last_event=headers.last_event,
    )


@pytest.mark.parametrize("transaction_fields", [True, False])
@pytest.mark.parametrize("envelope_headers", [None, {}, {"k": "v", "ü": "日本"}])
def test_encoders_write_what_the_codec_writes(transaction_fields: bool, envelope_headers: dict[str, str] | None) -> None:
    compared = set()
    for number, change in enumerate(SourceDatabase(2, rows=8, transactions=60).changes):
        table = change.table
        metadata = table_metadata(table, change.version, seed=2, options=CaptureOptions(transaction_fields=transaction_fields))
        encoder = make_encoder(change, metadata, transaction_fields, envelope_headers)
        headers = make_headers(change.operation, number)
        before = None if change.before is None else encoder.encode_row(change.before)
        written = encoder.encode_message(encoder.encode_row(change.after or {}), before, headers)
        expected = make_change(change, headers)
        assert written == data_message(metadata, expected, form=table.form, headers=envelope_headers)
        compared.add((table.form, table.has_logical_types, change.operation))
    assert len(compared) == 3 * 4  # every form with every operation
