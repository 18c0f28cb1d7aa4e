"""One pass over a batch of raw messages: routed on the envelope's bytes, decoded schema by schema, every row accounted for.

A message leaves as one of four things:

    metadata   a metadata message, for the schema zone (raw)
    waiting    data whose schema has not come (raw, with the schema id)
    dead       what can never be a change (raw, with the reason)
    changes    one Arrow batch a schema id, in the target's types

The same code runs on Spark's executors and in the driver; the zone is read from its directory on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import numpy as np
import pyarrow as pa

from headstream.codec import envelopes as forms
from headstream.codec.avro_schema import parse_schema
from headstream.codec.envelopes import Envelopes, group_by_schema, split_envelopes, ungrouped_rows
from headstream.errors import SchemaError
from headstream.spark.replicate.json_rows import decode_json_rows
from headstream.spark.replicate.raw import offsets_and_data, raw_rows, read_ipc, write_ipc
from headstream.spark.replicate.rows import decode_avro_rows
from headstream.spark.replicate.schemas import TableSchema, table_schema
from headstream.spark.replicate.zone import SchemaZone

__all__ = ["DECODED_SCHEMA", "DECODED_SPARK_SCHEMA", "Decoded", "Decoder", "decode_partitions"]

_REGISTRY_REASON: Final = "the message has schema registry framing, and there is no registry to ask"

_MAX_SCHEMAS: Final = 10_000
"""Schemas kept ready to decode by; messages that each carry a schema of their own must not fill the memory."""

DECODED_SCHEMA: Final = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("schema_id", pa.string()),
        pa.field("count", pa.int64(), nullable=False),
        pa.field("content", pa.binary(), nullable=False),  # an Arrow IPC stream
    ]
)
DECODED_SPARK_SCHEMA: Final = "kind STRING NOT NULL, schema_id STRING, count BIGINT NOT NULL, content BINARY NOT NULL"


@dataclass(slots=True)
class Decoded:
    """What a batch of raw messages came to.

    Args:
        metadata: Raw metadata messages.
        waiting: Raw data messages without a schema yet.
        dead: Raw messages with a reason.
        changes: Schema id -> decoded changes.
    """

    metadata: list[pa.RecordBatch] = field(default_factory=list)
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    dead: list[pa.RecordBatch] = field(default_factory=list)
    changes: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)

    @property
    def message_count(self) -> int:
        """How many messages went in."""
        batches = [*self.metadata, *self.waiting, *self.dead, *(b for group in self.changes.values() for b in group)]
        return sum(batch.num_rows for batch in batches)

    def extend(self, other: Decoded) -> None:
        """Add what another batch came to."""
        self.metadata += other.metadata
        self.waiting += other.waiting
        self.dead += other.dead
        for schema_id, batches in other.changes.items():
            self.changes.setdefault(schema_id, []).extend(batches)

    def to_batch(self) -> pa.RecordBatch:
        """Return it as one batch of DECODED_SCHEMA, to travel from an executor to the driver."""
        groups: list[tuple[str, str | None, pa.RecordBatch]] = []
        for kind in ("metadata", "waiting", "dead"):
            groups += [(kind, None, batch) for batch in getattr(self, kind)]
        groups += [("changes", schema_id, batch) for schema_id, batches in self.changes.items() for batch in batches]
        rows = [(kind, schema_id, batch.num_rows, write_ipc(batch)) for kind, schema_id, batch in groups]
        columns = list(zip(*rows, strict=True)) if rows else [(), (), (), ()]
        arrays = [pa.array(values, kind.type) for values, kind in zip(columns, DECODED_SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=DECODED_SCHEMA)

    @classmethod
    def from_table(cls, table: pa.Table) -> Decoded:
        """Return what executors sent, the reverse of to_batch()."""
        decoded = cls()
        for kind, schema_id, content in zip(table["kind"], table["schema_id"], table["content"], strict=True):
            batches = read_ipc(content.as_buffer()).to_batches()
            if kind.as_py() == "changes":
                decoded.changes.setdefault(schema_id.as_py(), []).extend(batches)
            else:
                getattr(decoded, kind.as_py()).extend(batches)
        return decoded


class Decoder:
    """Decodes raw messages by the schemas of a zone.

    Args:
        zone: The schema zone; asked again for every id it has not shown yet.
        mask_order: Byte order of Avro column masks.
    """

    def __init__(self, zone: SchemaZone, mask_order: Literal["little", "big"] = "little") -> None:
        self._zone = zone
        self._mask_order = mask_order
        self._schemas: dict[tuple[str, str | None, bool], TableSchema | SchemaError] = {}

    def decode(self, raw: pa.RecordBatch) -> Decoded:
        """Return what a batch of raw messages comes to; never raises for what is in a message.

        Args:
            raw: The columns of raw.SOURCE_COLUMNS.
        """
        decoded = Decoded()
        offsets, data = offsets_and_data(raw.column("payload"))
        envelopes = split_envelopes(offsets, data)
        form = np.frombuffer(envelopes.form, np.uint8)
        reasons: dict[int, str] = {row: str(fault) for row, fault in envelopes.faults.items()}
        reasons |= dict.fromkeys(np.flatnonzero(form == forms.REGISTRY).tolist(), _REGISTRY_REASON)
        metadata = np.flatnonzero(form == forms.METADATA).tolist()
        waiting: dict[int, str] = {}
        for (schema_id, own_schema), rows in self._avro_groups(envelopes, data).items():
            schema = self._schema(schema_id, own_schema)
            if schema is None:
                waiting |= dict.fromkeys(rows.tolist(), schema_id)
            elif isinstance(schema, SchemaError):
                reasons |= dict.fromkeys(rows.tolist(), str(schema))
            else:
                changes, faults = decode_avro_rows(schema, raw, envelopes, rows, self._mask_order)
                decoded.changes.setdefault(schema.metadata.schema_id, []).append(changes)
                reasons |= faults
        json = decode_json_rows(raw, np.flatnonzero(form == forms.JSON).tolist(), self._json_schema)
        for schema_id, changes in json.changes.items():
            decoded.changes.setdefault(schema_id, []).append(changes)
        self._set_aside(decoded, raw, metadata + json.metadata, waiting | json.waiting, reasons | json.faults)
        return decoded

    def schema(self, schema_id: str) -> TableSchema:
        """Return the schema that changes of this id were decoded by.

        Raises:
            SchemaError: the zone does not have it, or no row of it can be applied.
        """
        schema = self._schema(schema_id, None, avro=False)
        if not isinstance(schema, TableSchema):
            raise SchemaError(f"schema id {schema_id} is not in the schema zone") if schema is None else schema
        return schema

    @staticmethod
    def _set_aside(
        decoded: Decoded, raw: pa.RecordBatch, metadata: list[int], waiting: dict[int, str], reasons: dict[int, str]
    ) -> None:
        if metadata:
            decoded.metadata.append(raw_rows(raw, sorted(metadata)))
        if waiting:
            decoded.waiting.append(raw_rows(raw, sorted(waiting), schema_ids=waiting))
        if reasons:
            decoded.dead.append(raw_rows(raw, sorted(reasons), reasons=reasons))

    @staticmethod
    def _avro_groups(envelopes: Envelopes, data: pa.Buffer) -> dict[tuple[str, str | None], np.ndarray]:
        """Group the Avro data messages by schema id, and by the schema they carry themselves where they do."""
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

    def _json_schema(self, schema_id: str) -> TableSchema | SchemaError | None:
        return self._schema(schema_id, None, avro=False)

    def _schema(self, schema_id: str, own_schema: str | None, *, avro: bool = True) -> TableSchema | SchemaError | None:
        """Return the schema of an id, why it cannot be used, or None where it has not come."""
        known = self._schemas.get((schema_id, own_schema, avro))
        if known is None:
            try:
                known = self._find_schema(schema_id, own_schema, avro)
            except SchemaError as error:
                known = error
            if known is not None:
                if len(self._schemas) >= _MAX_SCHEMAS:
                    self._schemas.clear()
                self._schemas[schema_id, own_schema, avro] = known
        return known

    def _find_schema(self, schema_id: str, own_schema: str | None, avro: bool) -> TableSchema | None:
        if schema_id:
            entry = self._zone.find(schema_id)
            return None if entry is None else table_schema(entry.metadata, own_schema=own_schema, avro=avro)
        if own_schema is None:
            raise SchemaError("the message has neither a schema id nor a schema of its own")
        namespace = parse_schema(own_schema).name.rpartition(".")[0]
        return table_schema(self._zone.find_namespace(namespace).metadata, own_schema=own_schema)


def decode_partitions(
    zone_directory: Path, mask_order: Literal["little", "big"]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that Spark runs over each partition of raw messages, giving batches of DECODED_SCHEMA.

    Args:
        zone_directory: The schema zone, readable from every executor.
        mask_order: Byte order of Avro column masks.
    """

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decoder = Decoder(SchemaZone(zone_directory), mask_order)
        for batch in batches:
            yield decoder.decode(batch).to_batch()

    return decode
