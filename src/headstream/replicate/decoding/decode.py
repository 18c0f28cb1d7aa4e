"""One pass over a batch of raw messages: routed on the envelope's bytes, decoded by schema, every row accounted for.

A message ends in one of six categories:

    metadata   a metadata message, for the schema zone (raw)
    waiting    data whose schema has not arrived (raw, with the schema id)
    dead       messages that can never be a change (raw, with the reason)
    changes    one Arrow batch a schema id, in the target's types
    unwanted   a change of a table that is not a target (counted; with `atomic` also its transaction events)
    tombstone  a null payload, by which a compacted topic marks a deleted key (counted)

Findings are warnings about the messages; they do not stop the pipeline.

The same code runs on Spark's executors and in the driver; the zone is read from its directory on both sides.
"""

from __future__ import annotations

import functools
import json
import pickle
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headstream.errors import SchemaError
from headstream.replicate.codec import envelopes as forms
from headstream.replicate.codec.envelopes import Envelopes, group_by_schema, split_envelopes, ungrouped_rows
from headstream.replicate.columns.raw import COORDINATE_COLUMNS, in_raw_types, offsets_and_data, raw_rows, read_ipc, write_ipc
from headstream.replicate.columns.task_errors import naming_messages
from headstream.replicate.columns.traits import ChangeTraits, StoredChanges, join_traits, traits_of
from headstream.replicate.decoding.frame_times import PartitionTimes, times_of
from headstream.replicate.decoding.json_rows import decode_json_rows
from headstream.replicate.decoding.mask_orders import MaskOrders
from headstream.replicate.decoding.rows import decode_avro_events, decode_avro_rows
from headstream.replicate.decoding.trace_contexts import find_contexts
from headstream.replicate.schemas.registry import RegistrySchemas, framed_ids
from headstream.replicate.schemas.schema_catalog import DecodeOptions, Missing, SchemaCatalog, Unwanted
from headstream.replicate.schemas.schemas import TableSchema
from headstream.replicate.schemas.zone import SchemaZone, check_zone
from headstream.replicate.schemas.zone_objects import copy_directory
from headstream.replicate.storage.places import StorePlace

__all__ = ["DECODED_SCHEMA", "DECODED_SPARK_SCHEMA", "Decoded", "Decoder", "decode_partitions", "open_zone"]

_REGISTRY_REASON: Final = "the message has schema registry framing, and no registry is configured: set registry"

_COUNTED: Final = ("unwanted", "tombstones")
"""The categories of messages of which only the number is needed."""
_KEPT_DECODERS: Final = 8
"""Decoders that a worker caches between micro-batches: one per pipeline and its settings."""

_GATHERED_ROWS: Final = 50_000
_GATHERED_BYTES: Final = 32 << 20
"""Most rows and bytes that are decoded at a time; a larger single batch is not split."""

DECODED_SCHEMA: Final = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("schema_id", pa.string()),  # of changes; of a finding its text; of times PartitionTimes as JSON; a context
        pa.field("count", pa.int64(), nullable=False),
        pa.field("content", pa.binary(), nullable=False),  # an Arrow IPC stream, or empty
    ]
)
DECODED_SPARK_SCHEMA: Final = "kind STRING NOT NULL, schema_id STRING, count BIGINT NOT NULL, content BINARY NOT NULL"


@dataclass(slots=True)
class Decoded:
    """The decoded form of a batch of raw messages.

    Args:
        metadata: Raw metadata messages.
        waiting: Raw data messages without a schema yet.
        dead: Raw messages with a reason.
        changes: Schema id -> decoded changes.
        unwanted: Number of messages of tables that are not targets.
        tombstones: Number of messages with a null payload.
        events: Their transaction events, EVENTS_SCHEMA, if requested.
        findings: Warning for the user -> number of messages concerned.
        size_bytes: Size of the input messages.
        times: Log times of all messages by partition, in the order in which they were read.
        stored: Schema id -> further decoded changes, which stay where they were decoded.
        contexts: Trace contexts of sampled messages, if requested.
    """

    metadata: list[pa.RecordBatch] = field(default_factory=list)
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    dead: list[pa.RecordBatch] = field(default_factory=list)
    changes: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    unwanted: int = 0
    tombstones: int = 0
    events: list[pa.RecordBatch] = field(default_factory=list)
    findings: dict[str, int] = field(default_factory=dict)
    size_bytes: int = 0
    times: list[PartitionTimes] = field(default_factory=list)
    stored: dict[str, StoredChanges] = field(default_factory=dict)
    contexts: list[str] = field(default_factory=list)

    @property
    def message_count(self) -> int:
        """Number of input messages."""
        batches = [*self.metadata, *self.waiting, *self.dead, *(b for group in self.changes.values() for b in group)]
        count: int = sum(batch.num_rows for batch in batches)
        return count + self.unwanted + self.tombstones + sum(stored.traits.count for stored in self.stored.values())

    def extend(self, other: Decoded) -> None:
        """Add the result of another batch."""
        self.metadata += other.metadata
        self.waiting += other.waiting
        self.dead += other.dead
        for schema_id, batches in other.changes.items():
            self.changes.setdefault(schema_id, []).extend(batches)
        self.unwanted += other.unwanted
        self.tombstones += other.tombstones
        self.events += other.events
        self.size_bytes += other.size_bytes
        self.times += other.times
        self.contexts += other.contexts
        self.note(other.findings)

    def note(self, findings: Mapping[str, int]) -> None:
        """Add findings."""
        for finding, count in findings.items():
            self.findings[finding] = self.findings.get(finding, 0) + count

    def to_batch(self, *, with_traits: bool = False) -> pa.RecordBatch:
        """Return it as one batch of DECODED_SCHEMA, to send from an executor to the driver.

        Args:
            with_traits: Whether to add the traits of its changes, for a driver that does not get the changes.
        """
        groups: list[tuple[str, str | None, pa.RecordBatch]] = []
        for kind in ("metadata", "waiting", "dead", "events"):
            groups += [(kind, None, batch) for batch in getattr(self, kind)]
        groups += [("changes", schema_id, batch) for schema_id, batches in self.changes.items() for batch in batches]
        rows = [(kind, schema_id, batch.num_rows, write_ipc(batch)) for kind, schema_id, batch in groups]
        if with_traits:
            rows += [
                ("traits", schema_id, batch.num_rows, traits_of(pa.Table.from_batches([batch])).encode())
                for kind, schema_id, batch in groups
                if kind == "changes"
            ]
        rows += [("finding", finding, count, b"") for finding, count in self.findings.items()]
        rows.append(("bytes", None, self.size_bytes, b""))
        rows += [("times", json.dumps(times), 0, b"") for times in self.times]
        rows += [("context", context, 0, b"") for context in self.contexts]
        rows += [(kind, None, getattr(self, kind), b"") for kind in _COUNTED if getattr(self, kind)]
        columns = list(zip(*rows, strict=True))
        arrays = [pa.array(values, kind.type) for values, kind in zip(columns, DECODED_SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=DECODED_SCHEMA)

    @classmethod
    def from_table(cls, table: pa.Table, store: Callable[[str, ChangeTraits], StoredChanges] | None = None) -> Decoded:
        """Rebuild the results that executors sent, the reverse of to_batch().

        Args:
            table: The results.
            store: A schema id and traits -> the changes that stay there; required for results with traits.
        """
        decoded = cls()
        traits: dict[str, list[ChangeTraits]] = {}
        names = [table[name].to_pylist() for name in ("kind", "schema_id", "count")]
        for kind, name, count, content in zip(*names, table["content"], strict=True):
            if kind in _COUNTED:
                setattr(decoded, kind, getattr(decoded, kind) + count)
            elif kind == "bytes":
                decoded.size_bytes += count
            elif kind == "times":
                decoded.times.append(PartitionTimes(*json.loads(name)))
            elif kind == "context":
                decoded.contexts.append(name)
            elif kind == "finding":
                decoded.note({name: count})
            elif kind == "traits":
                traits.setdefault(name, []).append(ChangeTraits.decode(content.as_buffer()))
            elif kind == "changes":
                decoded.changes.setdefault(name, []).extend(read_ipc(content.as_buffer()).to_batches())
            else:
                getattr(decoded, kind).extend(read_ipc(content.as_buffer()).to_batches())
        if store is not None:
            decoded.stored = {schema_id: store(schema_id, join_traits(parts)) for schema_id, parts in traits.items()}
        return decoded

    def coordinates(
        self, schema_ids: Container[str] | None = None, wanted: pa.Table | None = None
    ) -> Iterator[tuple[str, pa.Table]]:
        """Yield schema id and CHANGE_COORDINATES of changes.

        Args:
            schema_ids: The schemas; None for all.
            wanted: COORDINATE_COLUMNS of the changes needed at least; None for all.
        """
        for schema_id, stored in self.stored.items():
            if schema_ids is None or schema_id in schema_ids:
                yield schema_id, stored.coordinates(wanted)
        for schema_id, batches in self.changes.items():
            if schema_ids is None or schema_id in schema_ids:
                yield schema_id, pa.Table.from_batches(batches)

    def fetch(self, schema_ids: Iterable[str]) -> None:
        """Get the stored changes of some schemas to the driver: they become `changes`, before those that are there."""
        for schema_id in schema_ids:
            batches = [*self.stored.pop(schema_id).fetch().to_batches(), *self.changes.get(schema_id, ())]
            if batches:  # all of them can be left out
                self.changes[schema_id] = batches


def open_zone(directory: Path, options: DecodeOptions, place: StorePlace | None = None) -> SchemaZone:
    """Open a schema zone that fetches missing schemas from the pipeline's schema registry, if it has one.

    Args:
        directory: The zone's directory, or that of its copy.
        options: The configuration for decoding.
        place: The zone's URI, if any.
    """
    return SchemaZone(directory, None if options.registry is None else RegistrySchemas(options.registry), place)


class Decoder:
    """Decodes raw messages by the schemas of a zone.

    Args:
        zone: The schema zone; read again for every id not found so far.
        options: Tables, their settings, and the forms of messages.

    Attributes:
        zone: The schema zone.
        orders: The byte orders of masks.
    """

    def __init__(self, zone: SchemaZone, options: DecodeOptions | None = None) -> None:
        self._options = DecodeOptions() if options is None else options
        self._catalog = SchemaCatalog(zone, self._options)
        self.orders = MaskOrders(zone.directory, zone.place)
        self.zone, self._told = zone, set[str]()

    def decode(self, raw: pa.RecordBatch) -> Decoded:
        """Decode a batch of raw messages; a message's content never makes it raise.

        Args:
            raw: The columns of raw.SOURCE_COLUMNS.
        """
        raw = in_raw_types(raw)
        payloads = raw.column("payload")
        offsets, data = offsets_and_data(payloads)
        ends = np.frombuffer(offsets, np.int32)
        decoded = Decoded(size_bytes=int(ends[-1] - ends[0]), times=_times_of(raw), tombstones=payloads.null_count)
        if self._options.tracing:
            decoded.contexts = find_contexts(raw.column("headers"))
        envelopes = split_envelopes(offsets, data)
        form = np.frombuffer(envelopes.form, np.uint8)
        tombstones = set(pc.indices_nonzero(payloads.is_null()).to_pylist()) if decoded.tombstones else ()
        reasons: dict[int, str] = {row: str(fault) for row, fault in envelopes.faults.items() if row not in tombstones}
        metadata = np.flatnonzero(form == forms.METADATA).tolist()
        waiting: dict[int, str] = {}
        named: dict[int, str] = {}
        groups = self._avro_groups(envelopes, data)
        framed = np.flatnonzero(form == forms.REGISTRY).tolist()
        if framed and self._options.registry is None:
            reasons |= dict.fromkeys(framed, _REGISTRY_REASON)
        elif framed:
            groups |= {(schema_id, None): np.array(rows, np.int64) for schema_id, rows in framed_ids(raw, framed).items()}
        for schema_id, own_schema, topic, rows in self._by_topic(groups, raw):
            schema = self._catalog.find(schema_id, own_schema, topic=topic)
            if isinstance(schema, Missing):
                waiting |= dict.fromkeys(rows.tolist(), schema.schema_id)
            elif isinstance(schema, Unwanted):
                decoded.unwanted += len(rows)
                if schema.rows is not None:
                    decoded.events.append(decode_avro_events(schema.lineage, schema.rows, raw, envelopes, rows))
            elif isinstance(schema, SchemaError):
                reasons |= dict.fromkeys(rows.tolist(), str(schema))
                named |= dict.fromkeys(rows.tolist(), schema_id)
            else:
                result = decode_avro_rows(schema, raw, envelopes, rows, self.orders)
                self._add(decoded, schema, result.changes)
                reasons |= result.faults
                named |= dict.fromkeys(result.faults, schema.metadata.schema_id)
                decoded.note(result.findings)
        json = decode_json_rows(raw, np.flatnonzero(form == forms.JSON).tolist(), self._catalog, self._options)
        for schema, changes in json.changes:
            self._add(decoded, schema, changes)
        decoded.unwanted += json.unwanted
        decoded.events += json.events
        decoded.note(json.findings)
        named |= waiting | json.waiting | json.named
        self._set_aside(decoded, raw, metadata + json.metadata, waiting | json.waiting, reasons | json.faults, named)
        return decoded

    def target_of(self, schema_id: str) -> tuple[str, str] | None:
        """Return the target of a schema id's table, even if its rows cannot be applied; None for unknown and unselected tables.

        A source that is rejected, since its target is that of another one, has a name of its own.
        """
        return self._catalog.target_of(schema_id)

    def _by_topic(
        self, groups: Mapping[tuple[str, str | None], np.ndarray], raw: pa.RecordBatch
    ) -> Iterator[tuple[str, str | None, str | None, np.ndarray]]:
        """Yield groups of rows by schema id and own schema; by topic too, where the table depends on it."""
        for (schema_id, own_schema), rows in groups.items():
            if not self._catalog.needs_topic(schema_id):
                yield schema_id, own_schema, None, rows
                continue
            topics = raw.column("topic").take(pa.array(rows)).dictionary_encode()
            codes = topics.indices.to_numpy(zero_copy_only=False)
            for code, topic in enumerate(topics.dictionary.to_pylist()):
                yield schema_id, own_schema, topic, rows[codes == code]

    def schema(self, schema_id: str) -> TableSchema:
        """Return the schema that changes of this id were decoded by.

        Raises:
            SchemaError: the zone lacks it, or none of its rows can be applied.
        """
        schema = self._catalog.find(schema_id, avro=False)
        if isinstance(schema, SchemaError):
            raise schema
        if not isinstance(schema, TableSchema):
            raise SchemaError(f"schema id {schema_id} is not in the schema zone, or not of a table that is wanted")
        return schema

    def _add(self, decoded: Decoded, schema: TableSchema, changes: pa.RecordBatch) -> None:
        schema_id = schema.metadata.schema_id
        if changes.num_rows:
            decoded.changes.setdefault(schema_id, []).append(changes)
        if schema.findings and schema_id not in self._told:
            self._told.add(schema_id)
            name = f"{schema.metadata.lineage.schema}.{schema.metadata.lineage.table}"
            decoded.note({f"table {name}: {finding}": 1 for finding in schema.findings})

    @staticmethod
    def _set_aside(
        decoded: Decoded,
        raw: pa.RecordBatch,
        metadata: list[int],
        waiting: dict[int, str],
        reasons: dict[int, str],
        named: dict[int, str],
    ) -> None:
        if metadata:
            decoded.metadata.append(raw_rows(raw, sorted(metadata)))
        if waiting:
            decoded.waiting.append(raw_rows(raw, sorted(waiting), schema_ids=named))
        if reasons:
            decoded.dead.append(raw_rows(raw, sorted(reasons), schema_ids=named, reasons=reasons))

    @staticmethod
    def _avro_groups(envelopes: Envelopes, data: pa.Buffer) -> dict[tuple[str, str | None], np.ndarray]:
        """Group the Avro data messages by schema id, and by the schema in the message itself, if any."""
        groups: dict[tuple[str, str | None], np.ndarray] = {
            (schema_id.decode(), None): np.frombuffer(rows, np.int64)
            for schema_id, rows in group_by_schema(envelopes, data).items()
        }
        view = memoryview(data)

        def text(start: int, end: int) -> str | None:
            return None if start < 0 else bytes(view[start:end]).decode()

        others: dict[tuple[str, str | None], list[int]] = {}
        for row in ungrouped_rows(envelopes):
            schema_id = text(envelopes.id_start[row], envelopes.id_end[row])
            own_schema = text(envelopes.schema_start[row], envelopes.schema_end[row])
            others.setdefault((schema_id or "", own_schema), []).append(row)
        return groups | {key: np.array(rows, np.int64) for key, rows in others.items()}


def _times_of(raw: pa.RecordBatch) -> list[PartitionTimes]:
    partitions, times_us = (raw.column(name).to_numpy(zero_copy_only=False) for name in ("partition", "timestamp_us"))
    return times_of(raw.column("topic"), partitions, times_us)


def decode_partitions(
    zone: SchemaZone, options: DecodeOptions, *, with_traits: bool = False
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that Spark runs over each partition of raw messages, giving batches of DECODED_SCHEMA.

    Args:
        zone: The schema zone; every executor must see its directory, or its store, and checks that.
        options: The configuration for decoding.
        with_traits: As of Decoded.to_batch().

    Raises:
        StorageError: the zone cannot be written to.
    """
    packed = pickle.dumps((zone.directory, zone.mark(), options, zone.resolved_place))

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoder = _kept_decoder(packed)
        decoder.zone.expire()  # the driver decodes a micro-batch again once it has stored new schemas
        decoder.zone.scan()  # also those of further tables for an id that is known
        for batch in _gathered(batches):
            yield _decode(decoder, batch, with_traits=with_traits)

    return decode


def _decode(decoder: Decoder, batch: pa.RecordBatch, *, with_traits: bool) -> pa.RecordBatch:
    """Decode a batch; an error of it names the messages, for the executor's log."""
    with naming_messages("decoding", batch, columns=COORDINATE_COLUMNS):
        return decoder.decode(batch).to_batch(with_traits=with_traits)


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Iterate over fewer, larger batches of the same rows: each schema in a batch needs a separate walk."""
    some: list[pa.RecordBatch] = []
    rows = size_bytes = 0
    for batch in batches:
        if some and (rows + batch.num_rows > _GATHERED_ROWS or size_bytes + batch.nbytes > _GATHERED_BYTES):
            yield pa.concat_batches(some)
            some, rows, size_bytes = [], 0, 0
        some.append(batch)
        rows += batch.num_rows
        size_bytes += batch.nbytes
    if some:
        yield pa.concat_batches(some)


@functools.lru_cache(maxsize=_KEPT_DECODERS)
def _kept_decoder(packed: bytes) -> Decoder:
    """Return a worker's cached decoder: the schemas that it has read from the zone never change."""
    directory, mark, options, place = pickle.loads(packed)
    check_zone(directory, mark, place)
    return Decoder(open_zone(directory if place is None else copy_directory(mark), options, place), options)
