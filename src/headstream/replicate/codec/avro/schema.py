"""Parses Avro schemas to a tree, more tolerantly than the Avro specification requires.

Replicate names Avro types after table columns. Thus, its schemas can contain names and namespaces that Avro forbids
(`com.attunity.queue.msg.chips-qa`, `order date`), and can define a name more than once (a column called `Lineage`). The parser
accepts any string as a name, and resolves a reference to the latest definition of its name. Schemas whose values can be of any
size or cannot be read in bounded time are rejected.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass, field
from typing import Any, Final

from headstream.errors import SchemaError

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
# Deeper than any schema of tables (a metadata message has 4 levels), and far below the interpreter's recursion limit.
MAX_DEPTH: Final = 64
# Maximum number of types in a schema with all references expanded. References can double the size of a schema with each line;
# the schema of a metadata message of 10,000 columns has 80,000 types.
MAX_TYPES: Final = 1_000_000
# Maximum number of digits of a decimal, far above the limit of any database; a wider decimal stays bytes.
MAX_PRECISION: Final = 300
# Maximum number of parsed schemas in the cache: one per table and version in use, about 1 MB for a very wide table.
CACHED_SCHEMAS: Final = 256


@dataclass(frozen=True, slots=True)
class AvroField:
    """One field of a record: its name as written, and its type."""

    name: str
    type: AvroType


@dataclass(frozen=True, slots=True)
class AvroType:
    """One type of a schema, with resolved references.

    Args:
        kind: A name of PRIMITIVES, or `fixed`, `enum`, `record`, `union`, `array`, `map`.
        logical_type: The logicalType if the Avro specification defines it for this kind, or None.
        precision: Total number of digits of a decimal, at least 1; 0 for other types.
        scale: Digits after the decimal point of a decimal, 0 to precision.
        size: Size of a fixed, bytes.
        fields: Fields of a record, in the order of their bytes.
        branches: Branches of a union, in the order of their indexes.
        items: Type of an array's elements or a map's values.
        weight: Number of types in this type, including this type.
    """

    kind: str
    name: str = ""
    logical_type: str | None = None
    precision: int = 0
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    fields: tuple[AvroField, ...] = ()
    branches: tuple[AvroType, ...] = ()
    items: AvroType | None = None
    weight: int = field(default=1, compare=False, repr=False)


@functools.lru_cache(maxsize=CACHED_SCHEMAS)
def parse_schema(text: str) -> AvroType:
    """Parse the JSON text of an Avro schema; calls with equal strings return the same object.

    Raises:
        SchemaError: the text is not JSON or not a schema, a reference cannot be resolved or refers to itself, or the schema is
            too deep (MAX_DEPTH) or too large (MAX_TYPES).
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"the Avro schema is not JSON: {error}") from None
    return _Parser().parse(document, "", "", 0)


_LOGICAL_KINDS: Final = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "decimal": ("bytes", "fixed"),
    "uuid": ("string", "fixed"),
}


class _Parser:
    """Parses one schema; `place` is the path of field names for error messages."""

    def __init__(self) -> None:
        self.named: dict[str, AvroType] = {}

    def parse(self, node: object, namespace: str, place: str, depth: int) -> AvroType:
        if depth > MAX_DEPTH:
            raise SchemaError(f"the Avro schema has more than {MAX_DEPTH} levels", where=place)
        if isinstance(node, str):
            return AvroType(node) if node in PRIMITIVES else self.find(node, namespace, place)
        if isinstance(node, list):
            return self.parse_union(node, namespace, place, depth)
        if not isinstance(node, dict):
            raise SchemaError(f"{node!r} is not an Avro type", where=place or None)
        kind = node.get("type")
        if not isinstance(kind, str):
            return self.parse(kind, namespace, place, depth + 1)  # {"type": {"type": ...}}, a type in another wrapper
        if kind in PRIMITIVES:
            return _with_logical_type(AvroType(kind), node)
        if kind in ("record", "error"):
            return self.parse_record(node, namespace, place, depth)
        if kind in ("enum", "fixed"):
            return self.parse_named(node, kind, namespace, place)
        if kind in ("array", "map"):
            items = self.parse(node.get("items" if kind == "array" else "values"), namespace, place, depth + 1)
            return AvroType(kind, items=items, weight=_weigh(items.weight + 1, place))
        return self.find(kind, namespace, place)

    def parse_union(self, node: list[Any], namespace: str, place: str, depth: int) -> AvroType:
        branches = tuple(self.parse(branch, namespace, place, depth + 1) for branch in node)
        if not branches:
            raise SchemaError("an Avro union must have branches", where=place or None)
        if any(branch.kind == "union" for branch in branches):
            raise SchemaError("an Avro union must not contain a union", where=place or None)
        return AvroType("union", branches=branches, weight=_weigh(1 + sum(branch.weight for branch in branches), place))

    def parse_record(self, node: dict[str, Any], namespace: str, place: str, depth: int) -> AvroType:
        name, inner = _full_name(node, namespace, place)
        members = node.get("fields")
        if not isinstance(members, list):
            raise SchemaError(f"the Avro record {name!r} has no list of fields", where=place or None)
        fields = []
        weight = 1
        for member in members:
            if not isinstance(member, dict) or not isinstance(member.get("name"), str) or "type" not in member:
                raise SchemaError(f"a field of the Avro record {name!r} has no name or no type", where=place or None)
            path = f"{place}.{member['name']}" if place else member["name"]
            inside = self.parse(member["type"], inner, path, depth + 1)
            weight = _weigh(weight + inside.weight, path)
            fields.append(AvroField(member["name"], inside))
        # Defined after its fields: a record that contains itself would be infinite.
        return self.define(AvroType("record", name, fields=tuple(fields), weight=weight))

    def parse_named(self, node: dict[str, Any], kind: str, namespace: str, place: str) -> AvroType:
        name, _ = _full_name(node, namespace, place)
        if kind == "fixed":
            size = node.get("size")
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise SchemaError(f"the Avro fixed {name!r} has no size", where=place or None)
            return self.define(_with_logical_type(AvroType("fixed", name, size=size), node))
        symbols = node.get("symbols")
        if not isinstance(symbols, list) or not symbols or not all(isinstance(symbol, str) for symbol in symbols):
            raise SchemaError(f"the Avro enum {name!r} has no symbols", where=place or None)
        return self.define(AvroType("enum", name, symbols=tuple(symbols)))

    def define(self, named: AvroType) -> AvroType:
        self.named.pop(named.name, None)  # so that the order of the names is the order of their latest definitions
        self.named[named.name] = named
        return named

    def find(self, name: str, namespace: str, place: str) -> AvroType:
        """Resolve a reference: in its namespace, then as a full name, then by the last part of the name."""
        for candidate in (f"{namespace}.{name}", name):
            if candidate in self.named:
                return self.named[candidate]
        short = name.rpartition(".")[2]
        for known in reversed(self.named):
            if known.rpartition(".")[2] == short:
                return self.named[known]
        raise SchemaError(f"{name!r} is neither an Avro type nor a type defined earlier in the schema", where=place or None)


def _full_name(node: dict[str, Any], namespace: str, place: str) -> tuple[str, str]:
    """Return the full name of a named type, and the namespace of its inner types."""
    name = node.get("name")
    if not isinstance(name, str):
        raise SchemaError(f"an Avro {node['type']} has no name", where=place or None)
    own = node.get("namespace")
    if isinstance(own, str):
        namespace = own
    elif "." in name:
        namespace = name.rpartition(".")[0]
        return name, namespace
    return (f"{namespace}.{name}" if namespace else name), namespace


def _with_logical_type(plain: AvroType, node: dict[str, Any]) -> AvroType:
    """Add the logical type if it fits the type; otherwise it is ignored, as the specification requires."""
    logical = node.get("logicalType")
    if not isinstance(logical, str) or plain.kind not in _LOGICAL_KINDS.get(logical, ()):
        return plain
    precision = scale = 0
    if logical == "decimal":
        precision, scale = node.get("precision", 0), node.get("scale", 0)
        if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision:
            return plain
        if not 1 <= precision <= MAX_PRECISION:
            return plain
    return AvroType(plain.kind, plain.name, logical, precision, scale, plain.size)


def _weigh(weight: int, place: str) -> int:
    if weight > MAX_TYPES:
        raise SchemaError(f"the Avro schema has more than {MAX_TYPES} types", where=place or None)
    return weight
