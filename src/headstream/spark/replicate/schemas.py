"""What one schema of the zone means for decoding: the target's columns and types, and whether rows can be applied at all."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from headstream.codec.avro_plan import RowPlan, compile_rows
from headstream.codec.replicate import TableMetadata, target_type
from headstream.errors import SchemaError
from headstream.spark.replicate.changes import BOOKKEEPING, OLD_PREFIX, RESERVED_PREFIX
from headstream.spark.replicate.conversion import arrow_type

__all__ = ["TableSchema", "table_schema"]


@dataclass(frozen=True, slots=True)
class TableSchema:
    """One schema, ready to decode by.

    Args:
        metadata: Where it comes from.
        types: Column name -> Spark type, in ordinal order.
        changes: The Arrow schema of decoded changes: columns, bookkeeping, old keys.
        rows: The walk over its Avro rows; None where the schema is used for JSON alone.
    """

    metadata: TableMetadata
    types: dict[str, str]
    changes: pa.Schema
    rows: RowPlan | None

    @property
    def table(self) -> tuple[str, str]:
        """Source schema and table."""
        return self.metadata.lineage.schema, self.metadata.lineage.table


def table_schema(metadata: TableMetadata, *, own_schema: str | None = None, avro: bool = True) -> TableSchema:
    """Return what a schema means for decoding.

    Args:
        metadata: From the zone.
        own_schema: The Avro schema that a data message carries itself, where it does.
        avro: Whether Avro rows are to be decoded by it.

    Raises:
        SchemaError: no row of it can be applied: no primary key, columns that differ only in case, a reserved name, a
            type nobody knows, an Avro schema that does not parse.
    """
    where = f"table {metadata.lineage.schema}.{metadata.lineage.table}, schema id {metadata.schema_id}"
    names = [column.name for column in metadata.columns]
    if not metadata.key_columns:
        raise SchemaError("the table has no primary key", where=where, advice="Changes cannot be merged without one")
    lowered = [name.lower() for name in names]
    twins = sorted({name for name in names if lowered.count(name.lower()) > 1})
    if twins:
        raise SchemaError(f"the columns {' and '.join(twins)} differ only in case, which a table cannot hold", where=where)
    reserved = [name for name in names if name.lower().startswith(RESERVED_PREFIX)]
    if reserved:
        raise SchemaError(f"the column {reserved[0]!r} begins with {RESERVED_PREFIX}, which is reserved", where=where)
    types = {column.name: target_type(column, decimal_overflow="string") for column in metadata.columns}
    fields = [pa.field(name, arrow_type(kind)) for name, kind in types.items()]
    fields += BOOKKEEPING
    fields += [pa.field(OLD_PREFIX + key, arrow_type(types[key])) for key in metadata.key_columns]
    text = metadata.data_schema if own_schema is None else own_schema
    return TableSchema(metadata, types, pa.schema(fields), compile_rows(text) if avro else None)
