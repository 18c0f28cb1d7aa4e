"""Names of tables in a catalog, made from a template such as `lake.{schema}.{table}`.

Dots in the template divide the name into parts; dots in values do not: `{table}` of the table `a.b` is one part.
"""

from __future__ import annotations

import string
from typing import Final, TypeAlias

CatalogName: TypeAlias = tuple[str, ...]
"""The parts of a name: catalog, schema, table. Leading parts can be absent, and a catalog can have several schema levels."""

_FIELDS: Final = ("schema", "table")
_NO_SCHEMA: Final = "default"
"""Replaces an empty part of a table without a schema: the default schema of catalogs."""


def find_catalog_name_problem(template: str) -> str | None:
    """Return the reason why a template is invalid, or None; an empty template means no registration."""
    if not template:
        return None
    try:
        found = [(field, form, conversion) for _, field, form, conversion in string.Formatter().parse(template)]
    except ValueError as error:
        return f"{template!r} cannot be read: {error}"
    for field, form, conversion in found:
        if field is not None and (field not in _FIELDS or form or conversion):
            return f"{{{field}}} is not {{schema}} or {{table}}"
    if not all(template.split(".")):
        return f"{template!r} has an empty part"
    return None


def make_catalog_name(template: str, schema: str, table: str) -> CatalogName:
    """Return the name of a table in a catalog."""
    return tuple(part.format(schema=schema, table=table) or _NO_SCHEMA for part in template.split("."))


def show_catalog_name(name: CatalogName) -> str:
    """Return a name for display: its parts, separated by dots, without quotes."""
    return ".".join(name)
