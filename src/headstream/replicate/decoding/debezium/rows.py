"""Decodes Debezium messages to changes in the same form as Replicate's, and to notices about entire tables.

    c, u, d        INSERT, UPDATE, DELETE with a sequence from their position (decoding/debezium/order.py)
    r              REFRESH, a row of a full load; in an incremental snapshot, an INSERT at the position of the read
    c with the header __debezium.oldkey     key update: values that were not sent are copied from the old row
    d with the header __debezium.newkey     only counted, because the insertion contains the old key
    t              a notice that removes the table's rows up to its position
    m, heartbeats, transaction metadata, schema changes   only counted; with `atomic`, the end of a transaction is an event

A value that was not sent is absent, not null. A message's `source` names the table; the task is the topic prefix. The process
that first reads a schema adds the schema to the schema store. A schema id is a digest of the columns.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headstream.core.model.headers import Headers
from headstream.errors import DecodeError, HeaderError, SchemaError
from headstream.replicate.codec import Lineage, TableMetadata
from headstream.replicate.columns.loads import TableNotice
from headstream.replicate.decoding.debezium.avro import is_framed, key_columns, read_avro_groups
from headstream.replicate.decoding.debezium.connect import (
    ConnectField,
    Placeholders,
    column_values,
    fields_document,
    is_unknown,
    known_fields,
)
from headstream.replicate.decoding.debezium.messages import MessageGroup, fit, no_messages, read_groups, read_key
from headstream.replicate.decoding.debezium.order import change_sequences
from headstream.replicate.decoding.rows import ChangeParts, Faults, assemble_changes
from headstream.replicate.decoding.transaction_events import transaction_events
from headstream.replicate.schemas.schema_catalog import DecodeOptions, SchemaCatalog, Unwanted
from headstream.replicate.schemas.schema_store import SchemaStore, StoredSchema
from headstream.replicate.schemas.schemas import TableSchema
from headstream.replicate.settings.debezium_settings import DebeziumSettings

REGISTRY_REASON: Final = "the message has schema registry framing, but no registry is configured. Set registry"
SERVER: Final = "debezium"
"""The server of every table's lineage; the task is the topic prefix."""
_INSERT, _UPDATE, _DELETE, _REFRESH = range(4)
_CODES: Final = {"c": _INSERT, "u": _UPDATE, "d": _DELETE, "r": _REFRESH}
_OLD_KEY: Final = "__debezium.oldkey"
_NEW_KEY: Final = "__debezium.newkey"
_MARKED_ROWS: Final = {"load": ("first", "first_in_data_collection"), "loaded": ("last", "last_in_data_collection")}
"""The markers of a snapshot's first and last rows; the only row of a table is marked as last."""
RowNumbers: TypeAlias = npt.NDArray[np.int64]


@dataclass(slots=True)
class DebeziumRows:
    """The decoded Debezium rows of a batch.

    Args:
        faults: Row -> reason why the message can never become a change.
        named: Row -> schema id, if known.
        waiting: Row -> registry schema id that the message waits for.
        changes: Schemas and their decoded changes.
        unwanted: Number of messages that change no target table.
        events: Transaction events of these messages, if requested.
        findings: Warning for the user -> number of affected rows.
        notices: Messages about whole tables.
    """

    faults: Faults = field(default_factory=dict)
    named: dict[int, str] = field(default_factory=dict)
    waiting: dict[int, str] = field(default_factory=dict)
    changes: list[tuple[TableSchema, pa.RecordBatch]] = field(default_factory=list)
    unwanted: int = 0
    events: list[pa.RecordBatch] = field(default_factory=list)
    findings: dict[str, int] = field(default_factory=dict)
    notices: list[TableNotice] = field(default_factory=list)

    def note(self, finding: str, count: int = 1) -> None:
        """Count a finding."""
        self.findings[finding] = self.findings.get(finding, 0) + count


@dataclass(slots=True)
class _Part:
    """Messages of one table with the same key columns: their row numbers in the raw batch, and their columns."""

    rows: RowNumbers
    fields: tuple[ConnectField, ...]
    lineage: Lineage
    connector: str
    keys: tuple[str, ...]
    table: pa.Table

    def column(self, *path: str) -> pa.Array:
        """Return a column, or a field of a struct, which is null where the struct is null."""
        found = self.table[path[0]].combine_chunks()
        for name in path[1:]:
            found = pc.struct_field(found, name)
        return found

    def where(self, mask: npt.NDArray[np.bool_]) -> _Part:
        """Return the messages that `mask` selects."""
        chosen = pa.array(mask)
        return replace(self, rows=self.rows[mask], table=self.table.filter(chosen).combine_chunks())


def decode_debezium_rows(
    raw: pa.RecordBatch, rows: RowNumbers, schema_store: SchemaStore, catalog: SchemaCatalog, options: DecodeOptions
) -> DebeziumRows:
    """Decode the Debezium messages of a batch.

    Args:
        raw: Raw messages.
        rows: The rows with Debezium messages, without tombstones.
    """
    settings = options.debezium
    assert settings is not None, "the pipeline has no Debezium settings"
    result = DebeziumRows()
    decoding = _Decoding(raw, schema_store, catalog, options, settings, result)
    for group in decoding.groups(rows):
        result.faults |= group.faults
        if group.waits_for:
            result.waiting |= dict.fromkeys(group.rows.tolist(), group.waits_for)
        elif group.fields is None:
            result.unwanted += len(group.rows)
            decoding.end_transactions(group)
        elif len(group.rows):
            for part in decoding.parts_of(group):
                decoding.decode(part)
    return result


@dataclass(slots=True)
class _Decoding:
    """The decoding of one batch."""

    raw: pa.RecordBatch
    schema_store: SchemaStore
    catalog: SchemaCatalog
    options: DecodeOptions
    settings: DebeziumSettings
    result: DebeziumRows

    def groups(self, rows: RowNumbers) -> Iterator[MessageGroup]:
        """Read JSON or Avro messages, grouped by schema."""
        payloads = self.raw.column("payload").take(pa.array(rows))
        framed = pc.starts_with(payloads, pattern=b"\0").to_numpy(zero_copy_only=False)
        framed &= pc.greater_equal(pc.binary_length(payloads), 5).to_numpy(zero_copy_only=False)
        if framed.any() and self.options.registry is None:
            yield no_messages(rows[framed], reason=REGISTRY_REASON)
        elif framed.any():
            yield from read_avro_groups(payloads.filter(pa.array(framed)), rows[framed], self.schema_store, self.settings)
        if not framed.all():
            others = payloads.filter(pa.array(~framed))
            yield from read_groups(others, rows[~framed], self.known_fields, self.settings)

    def end_transactions(self, group: MessageGroup) -> None:
        """Record the end of a transaction as the event after its last change."""
        if not self.options.atomic or "status" not in group.table.column_names:
            return
        ends = pc.and_(pc.equal(group.table["status"], "END"), group.table["event_count"].is_valid())
        table, rows = group.table.filter(ends), group.rows[pc.fill_null(ends, False).to_numpy()]
        topics = self.raw.column("topic").take(pa.array(rows)).dictionary_encode()
        for code, topic in enumerate(topics.dictionary.to_pylist()):
            some = table.filter(pc.equal(topics.indices, code)).combine_chunks()
            prefix = topic.lstrip("/").replace("/", ".", 1).rpartition(".")[0]
            last = pa.array([True] * some.num_rows)
            numbers = pc.add(some["event_count"].combine_chunks(), 1)
            ids = _transaction_ids(some["id"].combine_chunks())
            self.result.events.append(transaction_events(Lineage(SERVER, prefix, "", ""), ids, numbers, last))

    def parts_of(self, group: MessageGroup) -> Iterator[_Part]:
        """Divide messages by table and by key columns; reject messages without a table."""
        assert group.fields is not None, "the messages are not changes"
        found = [
            pc.struct_field(group.table["source"].combine_chunks(), name)
            for name in ("connector", "name", "schema", "db", "table")
        ]
        connectors, tasks, schemas, databases, tables = (pc.fill_null(array.cast(pa.string()), "") for array in found)
        schemas = pc.if_else(pc.equal(schemas, ""), databases, schemas)
        names = pc.binary_join_element_wise(connectors, tasks, schemas, tables, "\0").dictionary_encode()
        codes = names.indices.to_numpy()
        for code, name in enumerate(names.dictionary.to_pylist()):
            connector, task, schema, table = name.split("\0")
            mask = codes == code
            rows = group.rows[mask]
            operations = pc.fill_null(group.table["op"].filter(pa.array(mask)), "")
            if not table:
                other = pc.equal(operations, "m").to_numpy()
                self.result.unwanted += int(np.count_nonzero(other))
                self.result.faults |= dict.fromkeys(rows[~other].tolist(), "the message has no table name (source.table)")
                continue
            whole = _Part(
                rows, group.fields, Lineage(SERVER, task, schema, table), connector, (), group.table.filter(pa.array(mask))
            )
            whole = self._without_truncations(whole, operations)
            if len(whole.rows):
                for keys, chosen in self._by_key(whole):
                    yield replace(whole.where(chosen), keys=keys)
            if group.is_inferred:
                self.result.note(
                    f"table {whole.lineage.qualified_name}: types are inferred, since messages have no schema", len(rows)
                )

    def _without_truncations(self, part: _Part, operations: pa.ChunkedArray) -> _Part:
        """Record truncations, count messages that change no row, and return all other messages."""
        codes = operations.combine_chunks()
        changes = pc.is_in(codes, value_set=pa.array(list(_CODES))).to_numpy(zero_copy_only=False)
        if changes.all():
            return part
        truncations = pc.equal(codes, "t").to_numpy(zero_copy_only=False)
        if truncations.any():
            some = part.where(truncations)
            sequences, known = self._sequences(some, has_key=True)
            times = self.raw.column("timestamp_us").take(pa.array(some.rows)).to_pylist()
            for row, sequence, is_known, logged_us in zip(some.rows.tolist(), sequences.to_pylist(), known, times, strict=True):
                if is_known:
                    self._notice(part.lineage, "truncated", sequence, logged_us)
                else:
                    self.result.faults[row] = "a truncation whose position is unknown"
            self._add_events(some)
        notes = pc.equal(codes, "m").to_numpy(zero_copy_only=False)
        others = ~changes & ~truncations & ~notes
        self.result.faults |= dict.fromkeys(part.rows[others].tolist(), "the operation is not one of c, u, d, r, t")
        told = part.rows[truncations | notes].tolist()
        self.result.unwanted += sum(row not in self.result.faults for row in told)
        return part.where(changes)

    def _notice(self, lineage: Lineage, kind: str, sequence: str, logged_us: int) -> None:
        rules = self.options.rules
        if rules.wants(lineage.schema, lineage.table):
            settings = rules.settings_of(lineage.schema, lineage.table)
            target = settings.target_name(schema=lineage.schema, table=lineage.table, task=lineage.task, server=lineage.server)
            self.result.notices.append(TableNotice(*target, kind, sequence, logged_us))

    def _by_key(self, part: _Part) -> Iterator[tuple[tuple[str, ...], npt.NDArray[np.bool_]]]:
        """Yield key column names, with the messages that have these key columns."""
        keys = self.raw.column("key").take(pa.array(part.rows))
        left = np.ones(len(part.rows), np.bool_)
        found: dict[tuple[str, ...], npt.NDArray[np.bool_]] = {}
        while left.any():
            key = keys[int(np.flatnonzero(left)[0])].as_py()
            same = left & _begin_alike(keys, key)
            left &= ~same
            try:
                names = self._key_columns(key, part.lineage)
            except SchemaError as error:
                self.result.faults |= dict.fromkeys(part.rows[same].tolist(), str(error))
                continue
            if isinstance(names, str):
                self.result.waiting |= dict.fromkeys(part.rows[same].tolist(), names)
            else:
                found[names] = found.get(names, np.zeros(len(part.rows), np.bool_)) | same
        yield from found.items()

    def _key_columns(self, key: bytes | None, lineage: Lineage) -> tuple[str, ...] | str:
        """Return the key columns, or the key's schema id if the schema is missing.

        Raises:
            SchemaError: the key cannot be read, and the settings do not specify a key, so the table would have no key.
        """
        rules = self.options.rules
        if not key:
            return ()
        if is_framed(key) and self.options.registry is not None:
            return key_columns(key, self.schema_store)
        columns = read_key(key)
        needed = rules.wants(lineage.schema, lineage.table) and not rules.settings_of(lineage.schema, lineage.table).keys
        if columns is None and needed:
            raise SchemaError(
                "the record key must be JSON, or Avro with a schema registry", advice="Set key.converter, or the table's keys"
            )
        return tuple(columns or ())

    def known_fields(self, schema: str, table: str) -> tuple[ConnectField, ...]:
        """Return the known columns of a table, for messages that do not describe their columns."""
        history = self.schema_store.history(schema, table)
        return known_fields(history[-1].metadata.data_schema) if history else ()

    def decode(self, part: _Part) -> None:
        """Decode changes of one table that all have the same key columns."""
        part = self._without_departures(part)
        if not len(part.rows):
            return
        schema_id = self._store_schema(part)
        found = self.catalog.find(schema_id, avro=False)
        if isinstance(found, TableSchema):
            self._decode_wanted(part, found)
        elif isinstance(found, Unwanted):
            self.result.unwanted += len(part.rows)
            self._add_events(part)
        else:
            reason = str(found) if isinstance(found, SchemaError) else f"schema id {schema_id} is not in the schema store"
            self.result.faults |= dict.fromkeys(part.rows.tolist(), reason)
            self.result.named |= dict.fromkeys(part.rows.tolist(), schema_id)

    def _without_departures(self, part: _Part) -> _Part:
        """Remove and count the deletions that are the first half of a key update."""
        headers = self.raw.column("headers").take(pa.array(part.rows))
        leaves = pc.fill_null(pc.match_substring(headers, _NEW_KEY), False).to_numpy(zero_copy_only=False)
        leaves &= pc.equal(part.column("op"), "d").to_numpy(zero_copy_only=False)
        if not leaves.any():
            return part
        self.result.unwanted += int(np.count_nonzero(leaves))
        self._add_events(part.where(leaves))
        return part.where(~leaves)

    def _add_events(self, part: _Part) -> None:
        if self.options.atomic:
            nothing = pa.nulls(len(part.rows), pa.bool_())
            self.result.events.append(transaction_events(part.lineage, *_transactions(part), nothing))

    def _store_schema(self, part: _Part) -> str:
        """Add the schema of the given messages to the schema store, and return the schema id."""
        lineage = part.lineage
        columns = tuple(
            one.column(ordinal, part.keys.index(one.name) + 1 if one.name in part.keys else 0)
            for ordinal, one in enumerate(part.fields, start=1)
        )
        document = [lineage.task, lineage.schema, lineage.table, list(part.keys), fields_document(part.fields)]
        text = json.dumps(document)
        schema_id = f"debezium-{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"
        if self.schema_store.find(schema_id) is None:
            times = pc.min(part.column("source", "ts_ms")).as_py()
            version = replace(lineage, table_version=times or 0)
            place = [self.raw.column(name)[int(part.rows[0])].as_py() for name in ("topic", "partition", "offset")]
            metadata = TableMetadata(schema_id, version, columns, text)
            self.schema_store.adopt(StoredSchema(metadata, time.time_ns() // 1000, *place))
        return schema_id

    def _sequences(self, part: _Part, *, has_key: bool) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
        source = part.column("source")
        fields = {member.name: pc.struct_field(source, member.name) for member in source.type}
        orders, is_read = part.column("transaction", "total_order"), _is_incremental(part)
        return change_sequences(part.connector, fields, orders, has_key=has_key, is_read=is_read, fields=self.settings.sequence)

    def _decode_wanted(self, part: _Part, schema: TableSchema) -> None:
        result, count = self.result, len(part.rows)
        codes = pc.index_in(part.column("op"), value_set=pa.array(list(_CODES))).to_numpy(zero_copy_only=False).astype(np.int8)
        snapshot = pc.fill_null(part.column("source", "snapshot"), "")
        codes[(codes == _REFRESH) & _is_incremental(part)] = _INSERT
        faults: Faults = {}
        old_keys = self._old_keys(part, codes, faults)
        codes[list(old_keys)] = _UPDATE
        self._note_loads(part, codes, snapshot)
        sequences, known = self._sequences(part, has_key=bool(schema.metadata.key_columns))
        loaded = codes == _REFRESH
        for row in part.rows[~known & ~loaded].tolist():
            faults[row] = f"the position of the change is unknown: connector {part.connector!r}. Set debezium.sequence"
        sequences = pc.if_else(pa.array(loaded), "", sequences)
        deletes = pa.array(codes == _DELETE)
        values = _Values(part, schema, Placeholders(self.settings.placeholder), faults, deletes)
        wanted = schema.types if schema.has_details else schema.metadata.key_columns
        before = {name: values.before(name, old_keys) for name in wanted}
        data = {name: values.data(name) for name in schema.types}
        masks = values.masks()
        lost = [place for place, mask in enumerate(masks.to_pylist()) if mask is not None and codes[place] == _INSERT]
        if lost:
            result.note(f"table {part.lineage.qualified_name}: values of new rows that were not sent are null", len(lost))
        transactions, events = _transactions(part)
        details = [
            pc.cast(part.column("source", "ts_ms"), pa.timestamp("ms")).cast(pa.string()),
            pa.nulls(count, pa.string()),
            pa.nulls(count, pa.map_(pa.string(), pa.string())),
        ]
        changes = assemble_changes(
            schema,
            self.raw,
            part.rows,
            faults,
            result.findings,
            ChangeParts(
                data=data,
                before=before,
                operations=pa.array(codes, pa.int8()),
                sequences=sequences,
                masks=masks,
                changed=pa.nulls(count, pa.binary()),
                transactions=transactions,
                events=events,
                last_events=pa.nulls(count, pa.bool_()),
                details=details,
            ),
        )
        result.changes.append((schema, changes))
        result.faults |= faults
        result.named |= dict.fromkeys(faults, schema.metadata.schema_id)

    def _note_loads(self, part: _Part, codes: npt.NDArray[np.int8], snapshot: pa.Array) -> None:
        """Record the first and last snapshot rows, so that a later snapshot is a new load even without a pause."""
        for kind, marks in _MARKED_ROWS.items():
            marked = pc.is_in(snapshot, value_set=pa.array(marks)).to_numpy(zero_copy_only=False) & (codes == _REFRESH)
            for row in part.rows[marked].tolist():
                self._notice(part.lineage, kind, "", self.raw.column("timestamp_us")[row].as_py())

    def _old_keys(self, part: _Part, codes: npt.NDArray[np.int8], faults: Faults) -> dict[int, dict[str, Any]]:
        """Return the old keys of insertions that are the second half of a key update: position -> columns."""
        headers = self.raw.column("headers").take(pa.array(part.rows))
        marked = pc.fill_null(pc.match_substring(headers, _OLD_KEY), False).to_numpy(zero_copy_only=False)
        found: dict[int, dict[str, Any]] = {}
        for place in np.flatnonzero(marked & (codes == _INSERT)).tolist():
            key = _read_old_key(headers[place].as_py())
            if key is None or not key.keys() >= set(part.keys):
                faults[int(part.rows[place])] = f"the header {_OLD_KEY} must be a row key in JSON"
            else:
                found[place] = key
        return found


def _begin_alike(keys: pa.BinaryArray, key: bytes | None) -> npt.NDArray[np.bool_]:
    """Return which keys have the same prefix as `key` or, if `key` is not an object, which keys are not objects."""
    head = _key_head(key or b"")
    alike = pc.starts_with(keys, pattern=head)
    if head.endswith(b'":'):  # without a schema, keys with a different number of columns can share the prefix
        alike = pc.and_(alike, pc.equal(pc.count_substring(keys, '":'), (key or b"").count(b'":')))
    if not key:
        alike = pc.equal(pc.fill_null(pc.binary_length(keys), 0), 0)
    elif not head:
        alike = pc.or_(pc.equal(keys, pa.scalar(key, keys.type)), pc.match_substring_regex(keys, r"^[^\x00{]"))
    found: npt.NDArray[np.bool_] = pc.fill_null(alike, False).to_numpy(zero_copy_only=False)
    return found


def _key_head(key: bytes) -> bytes:
    """Return the prefix of a table's keys, up to the first value."""
    if is_framed(key):
        return key[:5]
    at = key.find(b'"payload":') if key.startswith(b'{"schema":') else -1
    return key[: at + 10] if at >= 0 else key[: key.find(b":") + 1]


def _read_old_key(headers: bytes) -> dict[str, Any] | None:
    try:
        return read_key(Headers.from_bytes(headers).getall(_OLD_KEY)[-1].data)
    except (DecodeError, HeaderError, IndexError):
        return None


def _is_incremental(part: _Part) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = pc.fill_null(pc.equal(part.column("source", "snapshot"), "incremental"), False).to_numpy(
        zero_copy_only=False
    )
    return found


def _transaction_ids(ids: pa.Array) -> pa.Array:
    """Return transaction ids without the position that PostgreSQL's connector appends, which differs within a transaction."""
    return pc.replace_substring_regex(ids, r"^(\d+):\d+$", r"\1")


def _transactions(part: _Part) -> tuple[pa.Array, pa.Array]:
    return pc.fill_null(_transaction_ids(part.column("transaction", "id")), ""), part.column("transaction", "total_order")


@dataclass(slots=True)
class _Values:
    """The messages' row values, as columns."""

    part: _Part
    schema: TableSchema
    placeholders: Placeholders
    faults: Faults
    deletes: pa.Array
    absent: dict[int, npt.NDArray[np.bool_]] = field(default_factory=dict)

    def data(self, name: str) -> pa.Array:
        """Return the values of a column after the changes; for deletions, the values before the changes."""
        ordinal, one = self._field(name)
        values = self.part.column("after", one.name)
        if pc.any(self.deletes).as_py():
            values = pc.if_else(self.deletes, self.part.column("before", one.name), values)
        return self._converted(name, one, self._sent(ordinal, values))

    def before(self, name: str, old_keys: dict[int, dict[str, Any]]) -> pa.Array:
        """Return the values of a column before the changes."""
        _, one = self._field(name)
        values = self.part.column("before", one.name)
        found = self._converted(name, one, self._sent(0, values))
        if old_keys and one.name in self.part.keys:  # headers are in JSON even if messages are in Avro
            moved = [fit(one, old_keys[place][one.name]) if place in old_keys else None for place in range(len(values))]
            old = self._converted(name, one, pa.array(moved, one.reading_type))
            found = pc.coalesce(old, found if found.type == old.type else found.cast(old.type))
        return found

    def masks(self) -> pa.Array:
        """Return the column masks of the rows: null where all columns were sent."""
        count, fields = len(self.part.rows), self.part.fields
        self._mark_bare_deletions()
        if not self.absent:
            return pa.nulls(count, pa.binary())
        present = np.ones((count, len(fields)), np.bool_)
        for ordinal, rows in self.absent.items():
            present[rows, ordinal - 1] = False
        packed = np.packbits(present, axis=1, bitorder="little")
        masks = [None if row.all() else packed[place].tobytes() for place, row in enumerate(present)]
        return pa.array(masks, pa.binary())

    def _mark_bare_deletions(self) -> None:
        """For deletions that carry only the key, mark all other columns as absent: their values are unknown, not null."""
        deletes = self.deletes.to_numpy(zero_copy_only=False)
        if not deletes.any() or not self.part.keys:
            return
        others = [(ordinal, one) for ordinal, one in enumerate(self.part.fields, start=1) if one.name not in self.part.keys]
        bare = deletes.copy()
        for _, one in others:
            bare &= is_unknown(one, self.part.column("before", one.name)).to_numpy(zero_copy_only=False)
        if bare.any():
            for ordinal, _ in others:
                self.absent[ordinal] = self.absent.get(ordinal, np.zeros(len(bare), np.bool_)) | bare

    def _field(self, name: str) -> tuple[int, ConnectField]:
        source = self.schema.fields[name]
        return next((ordinal, one) for ordinal, one in enumerate(self.part.fields, start=1) if one.name == source)

    def _sent(self, ordinal: int, values: pa.Array) -> pa.Array:
        """Replace values that were not sent with null, and record which values were not sent."""
        marks = self.placeholders.marks(values)
        if marks is None:
            return values
        if ordinal:
            self.absent[ordinal] = marks
        return pc.if_else(pa.array(marks), pa.scalar(None, values.type), values)

    def _converted(self, name: str, one: ConnectField, values: pa.Array) -> pa.Array:
        converted, bad = _convert(one, values)
        for row, why in bad.items():
            self.faults.setdefault(int(self.part.rows[row]), f"column {name!r}: {why}")
        return converted


def _convert(one: ConnectField, values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """Convert values, in halves if that fails; return reasons for values that cannot be converted."""
    try:
        return column_values(one, values)
    except (ValueError, ArithmeticError, pa.ArrowException) as error:
        if len(values) < 2:
            return column_values(one, pa.nulls(1, values.type))[0], {0: str(error).splitlines()[0]}
    middle = len(values) // 2
    (first, bad), (second, worse) = (_convert(one, half) for half in (values[:middle], values[middle:]))
    return pa.concat_arrays([first, second]), bad | {middle + row: why for row, why in worse.items()}
