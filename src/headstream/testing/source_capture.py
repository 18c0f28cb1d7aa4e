"""A capture of the simulated source, as Replicate performs it: metadata and data messages in source order.

metadata    one message per version of a table, before its first data message or, by option, later
data        REFRESH: sequence, timestamp, position and transaction are empty strings, masks and counters are null
            INSERT: data; UPDATE: data and beforeData; DELETE: the row in data or in beforeData
masks       changeMask has the changed columns (INSERT: all, DELETE: the key), but never large objects. Therefore an
            update of only large objects has the same mask as an update without changes.
            columnMask has the columns in the message
sequence    commit time to the hundredth of a second (16 digits) and change number (19 digits); rises over the entire capture
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from random import Random
from typing import Final, Literal, NamedTuple, TypeAlias

from headstream.core.model.constructors import uint16
from headstream.core.model.header_values import HeaderValue
from headstream.errors import InvalidOptionError
from headstream.replicate.codec import ColumnMetadata, Lineage, TableMetadata, data_schema, metadata_message
from headstream.testing.source_encoding import AvroEncoder, ChangeHeaders, JsonEncoder, MessageEncoder
from headstream.testing.source_history import SourceChange, SourceHistory, format_commit
from headstream.testing.source_tables import LOB_TYPES, Row, SourceTable

HeaderMap: TypeAlias = dict[str, str | int | bool | HeaderValue]

_SERVER: Final = "source.example"
_REFRESHED: Final = "2024-01-15T07:59:00.000"
_encode_key: Final = json.JSONEncoder(ensure_ascii=False).encode


class SourceMessage(NamedTuple):
    """One message of the capture, ready to be sent.

    `role` is the topic to which the message belongs. `headers` are typed headers for a Headstream message (`table`, `operation`,
    `version`, `transaction`, `last`). The value alone is sufficient to apply the message.
    """

    role: Literal["data", "metadata"]
    key: bytes | None
    value: bytes
    headers: HeaderMap
    table: str
    schema_id: str


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """The form of the captured messages; the defaults correspond to Replicate with full logging at the source.

    Args:
        partial_images: Updates carry their key, the changed columns and some further columns (never an unchanged large object).
            All other columns are null and not in the column mask. A key update still carries the complete row, unless
            `partial_key_changes` is set.
        partial_key_changes: Key updates are also partial: the values of the other columns are only in changes under the old key.
        before_images: Whether all updates carry beforeData; if False, only key updates carry it.
        deletes_in: The section that contains the deleted row, `data` or `beforeData`; the other section is null.
        deleted_columns: Whether a deleted row has all columns, or only its key.
        late_metadata: Table (`schema.table`) -> the number of data messages of each version that precede the version's metadata;
            `end` puts the metadata after all other messages.
        metadata_copies: Number of consecutive copies of each metadata message.
        metadata_ids: Whether metadata envelopes also have the messageSchemaId.
        mask_order: Byte order of the masks in Avro messages. JSON has only one order.
        message_keys: The key of data messages: the row's primary key as JSON, the table's name, or no key.
        transaction_fields: Whether Avro headers have the transaction's event counter and last-event flag.
        envelope_headers: Headers in the envelope of data messages.
        task: Name of the capturing task. Schema ids of the same tables differ between tasks.
        refresh_times: Whether messages of the full load have a timestamp, as in some installations; their sequence remains empty.
        json_envelopes: Whether JSON data messages are in an envelope. Messages without an envelope do not name their table.
    """

    partial_images: bool = False
    partial_key_changes: bool = False
    before_images: bool = True
    deletes_in: Literal["data", "before"] = "data"
    deleted_columns: Literal["all", "key"] = "all"
    late_metadata: Mapping[str, int | Literal["end"]] = field(default_factory=dict)
    metadata_copies: int = 1
    metadata_ids: bool = True
    mask_order: Literal["little", "big"] = "little"
    message_keys: Literal["primary_key", "table", "none"] = "primary_key"
    transaction_fields: bool = True
    envelope_headers: Mapping[str, str] | None = None
    task: str = "shop-to-log"
    refresh_times: bool = False
    json_envelopes: bool = True


def table_metadata(table: SourceTable, version: int, *, seed: int, options: CaptureOptions | None = None) -> TableMetadata:
    """Return the metadata of one version of a table.

    Args:
        version: From 0; Replicate counts tableVersion from 1.
        seed: The database's seed; schema ids differ between databases.
    """
    chosen = options or CaptureOptions()
    columns = tuple(
        ColumnMetadata(c.name, ordinal, c.type, c.length, c.precision, c.scale, c.key_position, c.nullable)
        for ordinal, c in enumerate(table.versions[version], start=1)
    )
    identity = json.dumps([seed, table.schema, table.name, version] + [chosen.task] * (chosen.task != CaptureOptions().task))
    return TableMetadata(
        hashlib.md5(identity.encode(), usedforsecurity=False).hexdigest().upper(),
        Lineage(_SERVER, chosen.task, table.schema, table.name, version + 1, f"2024-01-15T07:{version:02d}:00.000"),
        columns,
        data_schema(columns, logical_types=table.has_logical_types, transaction_fields=chosen.transaction_fields),
    )


def capture_history(
    history: SourceHistory, tables: Sequence[SourceTable], options: CaptureOptions, seed: int
) -> Iterator[SourceMessage]:
    """Yield the messages of a history in source order; InvalidOptionError if `late_metadata` is invalid."""
    names = {table.qualified_name for table in tables}
    for name, late in options.late_metadata.items():
        if name not in names or (late != "end" and late < 0):
            raise InvalidOptionError(
                f"late_metadata cannot be {late!r} for {name!r}", advice=f"Use a count or 'end' for one of {sorted(names)}"
            )
    if options.metadata_copies < 1:
        raise InvalidOptionError("metadata_copies must be above 0", advice="To omit metadata, drop the messages from the capture")
    return _capture(history, tables, options, seed)


def _capture(
    history: SourceHistory, tables: Sequence[SourceTable], options: CaptureOptions, seed: int
) -> Iterator[SourceMessage]:
    versions = {
        (table.qualified_name, version): _CapturedVersion(table, version, options, seed)
        for table in tables
        for version in range(history.last_versions[table.qualified_name] + 1)
    }
    for (_, version), captured in versions.items():
        if version == 0 and captured.due == 0:
            yield from captured.publish()
    transaction = _Transaction()
    for change in history.changes:
        captured = versions[change.table.qualified_name, change.version]
        if not captured.published and captured.due == 0:
            yield from captured.publish()
        yield captured.message(change, transaction)
        if not captured.published and captured.due != "end" and captured.count >= captured.due:
            yield from captured.publish()
    for captured in versions.values():
        if not captured.published:
            yield from captured.publish()


class _Transaction:
    """The common fields of one transaction's messages, built once per transaction."""

    def __init__(self) -> None:
        self._number = 0
        self.sequence_prefix = ""
        self.timestamp = ""
        self.transaction_id = ""
        self.position_prefix = ""

    def read(self, number: int, committed: datetime) -> None:
        if number != self._number:
            self._number = number
            self.sequence_prefix = format_commit(committed)
            self.timestamp = committed.replace(tzinfo=None).isoformat(timespec="milliseconds")
            self.transaction_id = f"{number:032X}"
            self.position_prefix = f"00000000.{0x1AB0000 + number:08x}.00000001.0000"


class _CapturedVersion:
    """One version of a table during capture: the common parts of its messages, and the capture's progress."""

    def __init__(self, table: SourceTable, version: int, options: CaptureOptions, seed: int) -> None:
        self.due = options.late_metadata.get(table.qualified_name, 0)
        self.published = False
        self.count = 0
        self._table = table
        self._refreshed = _REFRESHED if options.refresh_times else ""
        self._options = options
        self._metadata = table_metadata(table, version, seed=seed, options=options)
        self._random = Random(f"{seed} {table.qualified_name} {version}")  # selects the columns of partial images
        columns = table.versions[version]
        self._keys = table.key_columns
        self._lobs = frozenset(column.name for column in columns if column.type in LOB_TYPES)
        self._bits = {column.name: 1 << place for place, column in enumerate(columns)}
        self._change_bits = sum(bit for name, bit in self._bits.items() if name not in self._lobs)
        self._key_bits = sum(self._bits[name] for name in self._keys)
        self._mask_bytes = (len(columns) + 7) // 8
        # The JSON encoder converts masks to hex digits, from little-endian bytes.
        self._mask_order: Literal["little", "big"] = "little" if table.form == "json" else options.mask_order
        self._whole_mask = self._mask(sum(self._bits.values()))
        self._insert_mask = self._mask(self._change_bits)
        self._headers: HeaderMap = {"table": table.qualified_name, "version": uint16(version + 1)}
        self._encoder: MessageEncoder
        if table.form == "json":
            self._encoder = JsonEncoder(
                self._metadata.schema_id, columns, envelope_headers=options.envelope_headers, enveloped=options.json_envelopes
            )
        else:
            self._encoder = AvroEncoder(
                self._metadata.schema_id,
                columns,
                logical_types=table.has_logical_types,
                transaction_fields=options.transaction_fields,
                envelope_headers=options.envelope_headers,
            )
        # A row is encoded when it is written, and used again as the before image of its next change. The history
        # holds every row, so that its id stays unique.
        self._written: dict[int, bytes] = {}

    def publish(self) -> Iterator[SourceMessage]:
        """Yield the version's metadata messages."""
        self.published = True
        metadata, options = self._metadata, self._options
        value = metadata_message(metadata, form=self._table.form, with_schema_id=options.metadata_ids)
        for _ in range(options.metadata_copies):
            yield SourceMessage(
                "metadata",
                metadata.schema_id.encode(),
                value,
                dict(self._headers),
                self._table.qualified_name,
                metadata.schema_id,
            )

    def message(self, change: SourceChange, transaction: _Transaction) -> SourceMessage:
        """Return the message of one change."""
        self.count += 1
        images = self._images(change)
        headers: HeaderMap = {**self._headers, "operation": change.operation}
        if change.committed is None:
            facts = ChangeHeaders(change.operation, "", self._refreshed, "", "", None, None, None, None)
        else:
            transaction.read(change.transaction, change.committed)
            number = change.change_number
            headers["transaction"] = change.transaction
            headers["last"] = change.last_event
            facts = ChangeHeaders(
                change.operation,
                f"{transaction.sequence_prefix}{number:019d}",
                transaction.timestamp,
                f"{transaction.position_prefix}.{change.event_counter:02x}.0000:{number}.{number % 7919}.16",
                transaction.transaction_id,
                images.change_mask,
                images.column_mask,
                change.event_counter,
                change.last_event,
            )
        value = self._encoder.encode_message(images.data, images.before, facts)
        return SourceMessage(
            "data", self._message_key(change), value, headers, self._table.qualified_name, self._metadata.schema_id
        )

    def _images(self, change: SourceChange) -> _Images:
        before, after = change.before, change.after
        if before is None:
            assert after is not None
            return _Images(self._write(after), None, self._insert_mask, self._whole_mask)
        if after is None:
            return self._delete(before)
        return self._update(before, after)

    def _update(self, before: Row, after: Row) -> _Images:
        changed = touched = 0
        if after is not before:
            for name, old in before.items():
                if old is not after[name] and old != after[name]:
                    touched |= self._bits[name]
            changed = touched & self._change_bits
        mask = self._mask(changed)
        moved = changed & self._key_bits
        keeps_before = self._options.before_images or moved
        if self._options.partial_images and (self._options.partial_key_changes or not moved):
            present = self._partial(touched)
            partial_before = self._encoder.encode_row(_restrict(before, present)) if keeps_before else None
            self._written.pop(id(before), None)
            data = self._encoder.encode_row(_restrict(after, present))
            return _Images(data, partial_before, mask, self._mask(sum(self._bits[name] for name in present)))
        old_image = self._written.pop(id(before), None) if keeps_before else None
        if keeps_before and old_image is None:
            old_image = self._encoder.encode_row(before)
        return _Images(self._write(after), old_image, mask, self._whole_mask)

    def _partial(self, touched: int) -> list[str]:
        """Return the columns of a partial image, given the bits of the changed columns."""
        wanted = touched | self._key_bits
        return [
            name for name, bit in self._bits.items() if wanted & bit or (name not in self._lobs and self._random.random() < 0.5)
        ]

    def _delete(self, row: Row) -> _Images:
        image, column_mask = self._written.pop(id(row), None), self._whole_mask
        if self._options.deleted_columns == "key":
            image, column_mask = self._encoder.encode_row(_restrict(row, self._keys)), self._mask(self._key_bits)
        elif image is None:
            image = self._encoder.encode_row(row)
        if self._options.deletes_in == "data":
            return _Images(image, None, self._mask(self._key_bits), column_mask)
        return _Images(self._encoder.encode_row({}), image, self._mask(self._key_bits), column_mask)

    def _write(self, row: Row) -> bytes:
        image = self._encoder.encode_row(row)
        if self._options.before_images:
            self._written[id(row)] = image
        return image

    def _mask(self, bits: int) -> bytes:
        return bits.to_bytes(self._mask_bytes, self._mask_order)

    def _message_key(self, change: SourceChange) -> bytes | None:
        keys = self._options.message_keys
        if keys == "none":
            return None
        if keys == "table":
            return self._table.qualified_name.encode()
        row = change.before if change.after is None else change.after
        assert row is not None
        return _encode_key({name: str(row[name]) for name in self._keys}).encode()


class _Images(NamedTuple):
    """The sections and masks of one data message."""

    data: bytes
    before: bytes | None
    change_mask: bytes
    column_mask: bytes


def _restrict(row: Row, names: Sequence[str]) -> Row:
    return {name: row[name] for name in names}
