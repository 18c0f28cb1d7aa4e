"""Decodes a batch of raw messages by envelope and schema; every row has a result (decoded.py).

The same code runs on Spark's executors and in the driver; both read the directory of the schema store.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headstream.errors import SchemaError
from headstream.interceptors import trace_contexts
from headstream.replicate.codec import envelopes as forms
from headstream.replicate.codec.envelopes import Envelopes, group_by_schema, split_envelopes, ungrouped_rows
from headstream.replicate.columns.raw import COORDINATE_COLUMNS, REPAIR_TOPIC, in_raw_types, offsets_and_data, raw_rows
from headstream.replicate.columns.task_errors import naming_messages
from headstream.replicate.decoding.debezium.rows import REGISTRY_REASON, decode_debezium_rows
from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.decoding.frame_times import PartitionTimes, times_of
from headstream.replicate.decoding.json_rows import decode_json_rows
from headstream.replicate.decoding.mask_orders import MaskOrders
from headstream.replicate.decoding.rows import decode_avro_events, decode_avro_rows
from headstream.replicate.schemas.registry import RegistrySchemas, frame_by_headers, framed_ids
from headstream.replicate.schemas.registry_client import RegistryClient
from headstream.replicate.schemas.schema_catalog import DecodeOptions, Missing, SchemaCatalog, Unwanted
from headstream.replicate.schemas.schema_objects import copy_directory
from headstream.replicate.schemas.schema_store import SchemaStore, check_schema_store
from headstream.replicate.schemas.schemas import TableSchema
from headstream.replicate.storage.places import StorePlace

# The trace contexts in a column of message headers.


def find_contexts(headers: pa.Array) -> list[str]:
    """Return the distinct trace contexts of the given messages, in order.

    Args:
        headers: Binary header blocks.
    """
    offsets, data = offsets_and_data(headers)
    ends = np.frombuffer(offsets, np.int32)
    return trace_contexts.find_contexts(memoryview(data)[ends[0] : ends[-1]])


_KEPT_DECODERS: Final = 8
"""Number of decoders that a worker caches between micro-batches, one per pipeline and settings."""

_GATHERED_ROWS: Final = 50_000
_GATHERED_BYTES: Final = 32 << 20
"""Maximum number of rows and bytes to decode at a time; a larger single batch is not split."""


def open_schema_store(directory: Path, options: DecodeOptions, place: StorePlace | None = None) -> SchemaStore:
    """Open a schema store that fetches missing schemas from the pipeline's schema registry, if there is one.

    Args:
        directory: The directory of the schema store or of its copy.
        options: The configuration for decoding.
        place: The schema store's URI, if any.
    """
    return SchemaStore(directory, None if options.registry is None else RegistrySchemas(options.registry), place)


class Decoder:
    """Decodes raw messages by the schemas of a schema store.

    Args:
        schema_store: The schema store; read again for every id that was not found.
        options: The tables, their settings, and the message formats.

    Attributes:
        schema_store: The schema store.
        orders: The byte orders of the masks.
    """

    def __init__(self, schema_store: SchemaStore, options: DecodeOptions | None = None) -> None:
        self._options = DecodeOptions() if options is None else options
        self._catalog = SchemaCatalog(schema_store, self._options)
        registry = self._options.registry
        self._registry = None if registry is None else RegistryClient(registry)
        self.orders = MaskOrders(schema_store.directory, schema_store.place)
        self.schema_store, self._reported_schemas = schema_store, set[str]()

    def decode(self, raw: pa.RecordBatch) -> Decoded:
        """Decode a batch of raw messages; never raises because of a message's content.

        Args:
            raw: The columns of raw.SOURCE_COLUMNS.
        """
        received = raw = in_raw_types(raw)
        if self._registry is not None:
            raw = frame_by_headers(raw, self._registry)
        payloads = raw.column("payload")
        offsets, data = offsets_and_data(payloads)
        ends = np.frombuffer(offsets, np.int32)
        parts = [Decoded(size_bytes=int(ends[-1] - ends[0]), times=_times_of(raw), tombstones=payloads.null_count)]
        if self._options.tracing:
            parts.append(Decoded(contexts=find_contexts(raw.column("headers"))))
        envelopes = split_envelopes(offsets, data)
        form: np.ndarray = np.frombuffer(envelopes.form, np.uint8)
        tombstones = set(pc.indices_nonzero(payloads.is_null()).to_pylist()) if payloads.null_count else ()
        reasons: dict[int, str] = {row: str(fault) for row, fault in envelopes.faults.items() if row not in tombstones}
        debezium = self._debezium_rows(raw, form, reasons)
        metadata = np.flatnonzero(form == forms.METADATA).tolist()
        waiting: dict[int, str] = {}
        named: dict[int, str] = {}
        groups = self._avro_groups(envelopes, data)
        framed = np.flatnonzero(form == forms.REGISTRY).tolist()
        if framed and self._options.registry is None:
            reasons |= dict.fromkeys(framed, REGISTRY_REASON)
        elif framed:
            groups |= {(schema_id, None): np.array(rows, np.int64) for schema_id, rows in framed_ids(raw, framed).items()}
        for schema_id, own_schema, topic, rows in self._by_topic(groups, raw):
            schema = self._catalog.find(schema_id, own_schema, topic=topic)
            if isinstance(schema, Missing):
                waiting |= dict.fromkeys(rows.tolist(), schema.schema_id)
            elif isinstance(schema, Unwanted):
                parts.append(Decoded(unwanted=len(rows)))
                if schema.rows is not None:
                    parts.append(Decoded(events=[decode_avro_events(schema.lineage, schema.rows, raw, envelopes, rows)]))
            elif isinstance(schema, SchemaError):
                reasons |= dict.fromkeys(rows.tolist(), str(schema))
                named |= dict.fromkeys(rows.tolist(), schema_id)
            else:
                result = decode_avro_rows(schema, raw, envelopes, rows, self.orders)
                parts += [self._changes(schema, result.changes), Decoded(findings=result.findings)]
                reasons |= result.faults
                named |= dict.fromkeys(result.faults, schema.metadata.schema_id)
        json = decode_json_rows(raw, np.flatnonzero(form == forms.JSON).tolist(), self._catalog, self._options)
        parts += [self._changes(schema, changes) for schema, changes in json.changes]
        parts.append(Decoded(unwanted=json.unwanted, events=json.events, findings=json.findings))
        named |= waiting | json.waiting | json.named
        if len(debezium):
            found = decode_debezium_rows(raw, debezium, self.schema_store, self._catalog, self._options)
            parts += [self._changes(schema, changes) for schema, changes in found.changes]
            parts.append(Decoded(unwanted=found.unwanted, events=found.events, findings=found.findings, notices=found.notices))
            reasons |= found.faults
            named |= found.named | found.waiting
            waiting |= found.waiting
        parts.append(_not_decoded(received, metadata + json.metadata, waiting | json.waiting, reasons | json.faults, named))
        return Decoded.join(parts)

    def _debezium_rows(self, raw: pa.RecordBatch, form: np.ndarray, reasons: dict[int, str]) -> np.ndarray:
        """Return the rows of Debezium messages; reset their forms and reasons, which apply only to Replicate messages."""
        if self._options.debezium is None:
            return np.zeros(0, np.int64)
        topics = raw.column("topic").dictionary_encode()
        reads = np.array([self._reads_debezium(topic) for topic in topics.dictionary.to_pylist()], np.bool_)
        ours = reads[topics.indices.to_numpy()] & raw.column("payload").is_valid().to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(ours)
        form[rows] = forms.NEITHER
        for row in reasons.keys() & set(rows.tolist()):
            del reasons[row]
        return rows

    def _reads_debezium(self, topic: str) -> bool:
        return topic != REPAIR_TOPIC and self._options.debezium is not None and self._options.debezium.reads(topic)

    def target_of(self, schema_id: str) -> tuple[str, str] | None:
        """Return the target of a schema id's table, even if its rows cannot be applied; None if unknown or not selected.

        For a source that is rejected because another source has its target, return the source's own name.
        """
        return self._catalog.target_of(schema_id)

    def _by_topic(
        self, groups: Mapping[tuple[str, str | None], np.ndarray], raw: pa.RecordBatch
    ) -> Iterator[tuple[str, str | None, str | None, np.ndarray]]:
        """Yield groups of rows by schema id and embedded schema, and also by topic if the topic determines the table."""
        for (schema_id, own_schema), rows in groups.items():
            if not self._catalog.needs_topic(schema_id):
                yield schema_id, own_schema, None, rows
                continue
            topics = raw.column("topic").take(pa.array(rows)).dictionary_encode()
            codes = topics.indices.to_numpy(zero_copy_only=False)
            for code, topic in enumerate(topics.dictionary.to_pylist()):
                yield schema_id, own_schema, topic, rows[codes == code]

    def schema(self, schema_id: str) -> TableSchema:
        """Return the schema by which changes with this id were decoded.

        Raises:
            SchemaError: the schema store lacks the schema, or none of its rows can be applied.
        """
        schema = self._catalog.find(schema_id, avro=False)
        if isinstance(schema, SchemaError):
            raise schema
        if not isinstance(schema, TableSchema):
            raise SchemaError(f"schema id {schema_id} is not in the schema store, or its table is not selected")
        return schema

    def schemas(self, decoded: Decoded) -> dict[str, TableSchema]:
        """Return the schemas of all changes by id; see schema()."""
        return {schema_id: self.schema(schema_id) for schema_id in (*decoded.stored, *decoded.changes)}

    def _changes(self, schema: TableSchema, changes: pa.RecordBatch) -> Decoded:
        """Return changes of a schema; the first result includes the findings about the schema."""
        schema_id, lineage = schema.metadata.schema_id, schema.metadata.lineage
        is_new = schema_id not in self._reported_schemas
        self._reported_schemas.add(schema_id)
        findings = {f"table {lineage.schema}.{lineage.table}: {finding}": 1 for finding in schema.findings if is_new}
        return Decoded(changes={schema_id: [changes]} if changes.num_rows else {}, findings=findings)

    @staticmethod
    def _avro_groups(envelopes: Envelopes, data: pa.Buffer) -> dict[tuple[str, str | None], np.ndarray]:
        """Group the Avro data messages by schema id and, if there is one, by the embedded schema."""
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


def _not_decoded(
    raw: pa.RecordBatch, metadata: list[int], waiting: dict[int, str], reasons: dict[int, str], named: dict[int, str]
) -> Decoded:
    """Return the rows that are not decoded to changes, as messages."""
    return Decoded(
        metadata=[raw_rows(raw, sorted(metadata))] if metadata else [],
        waiting=[raw_rows(raw, sorted(waiting), schema_ids=named)] if waiting else [],
        dead=[raw_rows(raw, sorted(reasons), schema_ids=named, reasons=reasons)] if reasons else [],
    )


def _times_of(raw: pa.RecordBatch) -> list[PartitionTimes]:
    partitions, times_us = (raw.column(name).to_numpy(zero_copy_only=False) for name in ("partition", "timestamp_us"))
    return times_of(raw.column("topic"), partitions, times_us)


def decode_partitions(
    schema_store: SchemaStore, options: DecodeOptions, *, with_statistics: bool = False
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that Spark calls for each partition of raw messages; it yields batches of decoded.DECODED_SCHEMA.

    Args:
        schema_store: The schema store; every executor checks that it can access the directory or the object store.
        options: The configuration for decoding.
        with_statistics: See Decoded.to_batch().

    Raises:
        StorageError: the schema store cannot be written to.
    """
    packed = pickle.dumps((schema_store.directory, schema_store.mark(), options, schema_store.resolved_place))

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoder = _kept_decoder(packed)
        decoder.schema_store.expire()  # the driver decodes a micro-batch again once it has stored new schemas
        decoder.schema_store.scan()  # also finds schemas of further tables with a known id
        for batch in _gathered(batches):
            yield _decode(decoder, batch, with_statistics=with_statistics)

    return decode


def _decode(decoder: Decoder, batch: pa.RecordBatch, *, with_statistics: bool) -> pa.RecordBatch:
    """Decode a batch; an error names the messages, for the executor's log."""
    with naming_messages("decoding", batch, columns=COORDINATE_COLUMNS):
        return decoder.decode(batch).to_batch(with_statistics=with_statistics)


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Iterate over fewer, larger batches of the same rows, since each schema in a batch is decoded separately."""
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
    """Return a worker's cached decoder. The schemas in its cache never change."""
    directory, mark, options, place = pickle.loads(packed)
    check_schema_store(directory, mark, place)
    return Decoder(open_schema_store(directory if place is None else copy_directory(mark), options, place), options)
