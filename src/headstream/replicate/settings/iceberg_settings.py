"""The section [iceberg]: the tables that are also committed to an Iceberg catalog, their names, and the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from headstream.errors import InvalidOptionError
from headstream.replicate.settings.catalog_names import find_catalog_name_problem, make_catalog_name

_NAME: Final = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergSettings:
    """Iceberg tables that share the data files of the Delta tables.

    Args:
        catalog: Properties of pyiceberg's catalog, such as `type` and `uri`, in the section `[iceberg.catalog]`, where `name` is
            the catalog's name, by default `default`. Alternatively a string, the name of a catalog in pyiceberg's configuration.
        namespace: Template of the namespace, with the target's {schema} and {table}; dots separate levels.
        table: Template of the table name, with the target's {schema} and {table}.
        tables: Patterns of the target tables, `schema.table`, that get an Iceberg table.
        snapshots: Maximum number of snapshots per table. Snapshots older than `vacuum_kept` are removed too, because vacuum
            removes their files.

    Raises:
        InvalidOptionError: a template or number is invalid, or there is no catalog.
    """

    catalog: str | Mapping[str, str] = field(repr=False)  # its properties can be credentials
    namespace: str = "{schema}"
    table: str = "{table}"
    tables: tuple[str, ...] = ("*",)
    snapshots: int = 100

    def __post_init__(self) -> None:
        if not self.catalog:
            raise InvalidOptionError("the catalog is missing", where="iceberg", advice='Write type = "rest" in [iceberg.catalog]')
        for name in ("namespace", "table"):
            problem = find_catalog_name_problem(getattr(self, name))
            if problem is not None:
                raise InvalidOptionError(problem, where=f"iceberg.{name}")
        if self.snapshots < 1:
            raise InvalidOptionError("the number of snapshots must be at least 1", where="iceberg.snapshots")

    @property
    def catalog_name(self) -> str:
        """The catalog's name."""
        return self.catalog if isinstance(self.catalog, str) else self.catalog.get(_NAME, "default")

    @property
    def catalog_properties(self) -> dict[str, str]:
        """The catalog's properties; empty for a catalog in pyiceberg's configuration."""
        if isinstance(self.catalog, str):
            return {}
        return {name: value for name, value in self.catalog.items() if name != _NAME}

    def identify(self, schema: str, table: str) -> tuple[str, ...] | None:
        """Return the namespace and name of a target's Iceberg table, or None; the schema can be ""."""
        if not any(fnmatchcase(f"{schema}.{table}", pattern) for pattern in self.tables):
            return None
        return (*make_catalog_name(self.namespace, schema, table), self.table.format(schema=schema, table=table))
