"""Former names of schema_store.py, for programs written before version 0.3; will be removed in 0.4."""

from headstream.replicate.schemas.schema_store import SchemaStore as SchemaZone
from headstream.replicate.schemas.schema_store import StoredSchema as ZoneEntry

__all__ = ["SchemaZone", "ZoneEntry"]
