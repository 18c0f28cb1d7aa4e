"""The first step of a unit: stores the schemas of its metadata messages in the schema store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import pyarrow as pa

from headstream.errors import DecodeError, SchemaError
from headstream.replicate.codec import decode_envelope, decode_metadata
from headstream.replicate.columns.raw import RAW_SCHEMA
from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.run.unit import PipelineContext, Unit
from headstream.replicate.schemas.schema_store import StoredSchema


@dataclass(frozen=True, slots=True)
class NewSchemas:
    """The schemas that were read from metadata messages.

    Args:
        shares_ids: Whether a new schema has a schema id that is known for another table; rows of these messages may have been
            decoded by the other table's schema.
    """

    count: int
    shares_ids: bool
    dead: list[pa.RecordBatch]


class SchemaStorage:
    """Stores schemas in the schema store of one pipeline."""

    def __init__(self, context: PipelineContext) -> None:
        self._schema_store = context.schema_store
        self._decoder = context.decoder
        self._summary = context.summary
        self._now_us = context.clock_us

    def store_schemas(self, unit: Unit) -> Unit:
        """Store the schemas of a unit's metadata messages in the schema store; invalid messages become dead letters."""
        decoded = unit.decoded
        dead = self.store_metadata(decoded.metadata).dead
        return replace(unit, decoded=replace(decoded, metadata=(), dead=[*decoded.dead, *dead]))

    def decode_waiting(self, unit: Unit) -> Unit:
        """Decode messages without a schema again, because their schemas can be in the same unit."""
        parts = [self._decoder.decode(batch) for batch in unit.decoded.waiting]
        return replace(unit, decoded=Decoded.join([replace(unit.decoded, waiting=()), *parts])) if parts else unit

    def store_metadata(self, metadata: Iterable[pa.RecordBatch]) -> NewSchemas:
        """Store the schemas of metadata messages (RAW_SCHEMA) in the schema store."""
        count, shares_ids, dead = 0, False, []
        for batch in metadata:
            reasons: list[str | None] = []
            for row in batch.to_pylist():
                try:
                    schema = decode_metadata(decode_envelope(row["payload"]))
                    entry = StoredSchema(schema, self._now_us(), row["topic"], row["partition"], row["offset"])
                    is_new = self._schema_store.add(entry)
                    count += is_new
                    shares_ids |= is_new and self._schema_store.find(schema.schema_id) != entry
                    reasons.append(None)
                except (DecodeError, SchemaError) as error:
                    reasons.append(str(error))
            bad = batch.set_column(RAW_SCHEMA.get_field_index("reason"), "reason", pa.array(reasons, pa.string()))
            bad = bad.filter(bad.column("reason").is_valid())
            if bad.num_rows:
                dead.append(bad)
        self._summary.schemas += count
        return NewSchemas(count, shares_ids, dead)
