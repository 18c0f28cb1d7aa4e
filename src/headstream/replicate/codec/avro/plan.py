"""The plan by which codec.avro reads the rows of one schema, and the result. codec.avro.codes describes the task's layout."""

from __future__ import annotations

import functools
import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from headstream.errors import DecodeError, SchemaError
from headstream.replicate.codec.avro import codes as avro_codes
from headstream.replicate.codec.avro.schema import CACHED_SCHEMAS, AvroField, AvroType, parse_schema
from headstream.replicate.codec.avro.values import TABLE_PRECISION
from headstream.replicate.settings.formats import HEADER_FIELDS

NOTES: Final = struct.Struct("<9q")
STEP: Final = struct.Struct("<10q")

_KINDS: Final = {
    "int32": avro_codes.INT32,
    "int64": avro_codes.INT64,
    "utf8": avro_codes.TEXT,
    "binary": avro_codes.BINARY,
    "decimal128": avro_codes.DECIMAL,
    "float": avro_codes.FLOAT,
    "double": avro_codes.DOUBLE,
    "bool": avro_codes.BOOLEAN,
    "fixed": avro_codes.FIXED,
    "fixed_decimal": avro_codes.FIXED_DECIMAL,
}
_DAY_MS: Final = 86_400_000
_RANGES: Final = {
    ("int", None): (-(1 << 31), (1 << 31) - 1),
    ("long", None): (-(1 << 63), (1 << 63) - 1),
    ("int", "time-millis"): (0, _DAY_MS - 1),
    ("long", "time-micros"): (0, _DAY_MS * 1000 - 1),
}
_STORAGES: Final = {
    "int": "int32",
    "enum": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "boolean": "bool",
    "string": "utf8",
    "bytes": "binary",
    "fixed": "binary",
}
_WIDTHS: Final = {"float": 4, "double": 8, "bool": 1}
# Larger than any message: a fixed of this size never fits a message, and positions stay within 64 bits.
_ENDLESS: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """One column of the rows of a schema.

    Args:
        section: `data`, `beforeData` or `headers`; empty for a field outside these sections.
        avro_type: int, long, float, double, boolean, string, bytes, fixed or enum.
        logical_type: The logical type if it fits the Avro type, or None.
        precision: Total number of digits of a decimal; 0 for other types.
        scale: Digits after the decimal point of a decimal.
        size: Size of a fixed, bytes.
    """

    section: str
    name: str
    avro_type: str
    logical_type: str | None = None
    precision: int = 0
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    nullable: bool = True

    @property
    def place(self) -> str:
        """The column's name in error messages."""
        return f"{self.section}.{self.name}" if self.section else self.name

    @property
    def storage(self) -> str:
        """The layout of the column's buffers, in Arrow's terms.

        `int32` (also for an enum, as the symbol's index), `int64`, `float`, `double`, `bool` (one byte per value, 0 or 1),
        `decimal128`, `utf8` or `binary` (also for a fixed, and for a decimal of more than 38 digits).
        """
        if self.logical_type == "decimal" and self.precision <= TABLE_PRECISION:
            return "decimal128"
        return _STORAGES[self.avro_type]


@dataclass(frozen=True, slots=True)
class RowPlan:
    """The plan for reading the rows of one schema."""

    columns: tuple[ColumnPlan, ...]
    task: bytes
    subjects: tuple[ColumnPlan | str, ...]
    before_step: int
    least_bytes: int


class ColumnBuffers(NamedTuple):
    """The values of one column, as buffers in Arrow's layout over the memory of the call.

    Args:
        validity: One bit per row, least significant first; 1: not null. None for a column without nulls.
        values: Little-endian numbers: 4 bytes for int32 and float, 8 for int64 and double, 16 for decimal128, 1 for bool. None
            for utf8 and binary.
        offsets: For utf8 and binary: the start of each value in `data`, count + 1 int32.
        data: For utf8 and binary: the values, back to back.
    """

    validity: memoryview | None
    values: memoryview | None
    offsets: memoryview | None
    data: memoryview | None


@dataclass(slots=True)
class Rows:
    """The decoded rows of one call.

    Args:
        count: Number of valid rows.
        rows: The indexes of the valid rows in the caller's numbering, int64.
        faults: The error of each invalid row; positions count from the row's first byte.
        before_present: One byte per valid row, 1 if the row has beforeData; None for a schema without beforeData.
        columns: Buffers of each column of the plan.
    """

    count: int
    rows: memoryview
    faults: list[tuple[int, DecodeError]]
    before_present: memoryview | None
    columns: tuple[ColumnBuffers, ...]


@functools.lru_cache(maxsize=CACHED_SCHEMAS)
def compile_rows(schema: str) -> RowPlan:
    """Compile the Avro schema of data messages into a plan for reading their rows.

    The schema must be a record with the field `data` and, optionally, `beforeData` (with columns of `data` only) and `headers`,
    in any order. These sections are records, or unions of a record and null. Their fields are primitives, enums or fixed, or
    unions of such a type and null. Other fields in `headers` or outside the sections are skipped, unless a field has the name of
    a header of Replicate. Calls with equal schemas return the same object.

    Raises:
        SchemaError: the schema does not have this form; the error names the field.
    """
    record = parse_schema(schema)
    if record.kind != "record":
        raise SchemaError(f"the Avro schema of data messages must be a record, not {record.kind}")
    walk = _Walk()
    _check_names(record.fields, "the record")
    for member in record.fields:
        if member.name in ("data", "beforeData", "headers"):
            walk.add_section(member)
        else:
            walk.add_field("", member, False)
    columns = walk.columns
    data = {column.name for column in columns if column.section == "data"}
    if not any(member.name == "data" for member in record.fields):
        raise SchemaError("the Avro schema of data messages has no field 'data'", where=record.name or None)
    for column in columns:
        # The memory of a row without beforeData is bounded by the bytes of its data.
        if column.section == "beforeData" and column.name not in data:
            raise SchemaError(f"beforeData has the column {column.name!r}, which is missing in data")
    sections = [(step[0], step[7]) for step in walk.steps]
    before_step = sections.index((avro_codes.SECTION, 1)) if (avro_codes.SECTION, 1) in sections else -1
    absent = {"beforeData", *(member.name for member in record.fields if _may_be_null(member.type))}
    least_bytes = sum(column.section not in absent for column in columns)
    return RowPlan(tuple(columns), walk.task(), tuple(walk.subjects), before_step, least_bytes)


def compile_record(record: AvroType, sections: Collection[str]) -> RowPlan:
    """Compile a record of sections and plain fields into a plan that skips all other fields.

    Args:
        record: The type of the rows.
        sections: The fields that are records of plain fields, or unions of such a record and null.

    Raises:
        SchemaError: a section has a different form; the error names the field.
    """
    walk = _Walk()
    _check_names(record.fields, "the record")
    for member in record.fields:
        if member.name in sections:
            walk.add_section(member)
        else:
            walk.add_field("", member, False)
    return RowPlan(tuple(walk.columns), walk.task(), tuple(walk.subjects), -1, 0)


class _Walk:
    """Collects the steps of a plan from its schema."""

    def __init__(self) -> None:
        self.columns: list[ColumnPlan] = []
        self.steps: list[tuple[int, ...]] = []
        self.subjects: list[ColumnPlan | str] = []
        self._skipped: list[tuple[int, AvroType]] = []

    def add_section(self, member: AvroField) -> None:
        branches, null_index, inside = _unwrap(member.type, member.name)
        if inside.kind != "record":
            raise SchemaError(f"the field {member.name!r} must be a record, not {inside.kind}")
        _check_names(inside.fields, member.name)
        is_before = member.name == "beforeData"
        if branches or is_before:
            self.subjects.append(member.name)
            self.steps.append((avro_codes.SECTION, branches, null_index, 0, 0, len(inside.fields), -1, is_before, 0, 0))
        for field in inside.fields:
            self.add_field(member.name, field, null_index >= 0)

    def add_field(self, section: str, field: AvroField, nullable: bool) -> None:
        place = f"{section}.{field.name}" if section else field.name
        if section in ("", "headers") and field.name not in HEADER_FIELDS and not _is_flat(field.type):
            self._skipped.append((len(self.steps), field.type))
            self.subjects.append(place)
            self.steps.append((avro_codes.SKIPPED, 0, -1, 0, 0, 0, -1, 0, 0, 0))
            return
        branches, null_index, plain = _unwrap(field.type, place)
        if plain.kind not in _STORAGES:
            raise SchemaError(f"the field {place!r} is {plain.kind}: only flat rows are supported")
        column = ColumnPlan(
            section,
            field.name,
            plain.kind,
            plain.logical_type,
            plain.precision,
            plain.scale,
            plain.size,
            plain.symbols,
            nullable or null_index >= 0,
        )
        kind = column.storage
        low, high = _RANGES.get((plain.kind, plain.logical_type)) or _range_of(plain)
        if kind == "decimal128":
            low, high = struct.unpack("<2q", (10**plain.precision).to_bytes(16, "little"))
        if plain.kind == "fixed":
            if plain.size == 0:
                raise SchemaError(f"the fixed field {place!r} must have at least 1 byte")
            kind = "fixed_decimal" if kind == "decimal128" else "fixed"
        extent = _WIDTHS.get(kind, min(plain.size, _ENDLESS))
        self.columns.append(column)
        self.subjects.append(column)
        self.steps.append((_KINDS[kind], branches, null_index, low, high, extent, 0 if column.nullable else -1, 0, 0, 0))

    def task(self) -> bytes:
        """Return the notes, the steps, and the types of skipped fields."""
        end = avro_codes.NOTES_SIZE + avro_codes.STEP_SIZE * len(self.steps)
        types: list[int] = []
        places: dict[int, int] = {}
        for number, avro_type in self._skipped:
            step = self.steps[number]
            extent = avro_codes.EXTENT // 8
            self.steps[number] = (*step[:extent], _lay_type(avro_type, end, types, places), *step[extent + 1 :])
        steps = b"".join(STEP.pack(*step) for step in self.steps)
        return NOTES.pack(0, 0, 0, 0, 0, 0, 0, end, 0) + steps + struct.pack(f"<{len(types)}q", *types)


def _lay_type(avro_type: AvroType, start: int, types: list[int], places: dict[int, int]) -> int:
    """Append a type and its inner types to the steps; return the type's position in the task."""
    if id(avro_type) in places:
        return places[id(avro_type)]
    inside = [field.type for field in avro_type.fields] or avro_type.branches or ([avro_type.items] if avro_type.items else [])
    laid = [_lay_type(part, start, types, places) for part in inside]
    place = places[id(avro_type)] = start + 8 * len(types)
    kind = avro_type.kind
    if kind in ("array", "map"):
        types += [avro_codes.ARRAY if kind == "array" else avro_codes.MAP, *laid]
    elif kind in ("record", "union"):
        types += [avro_codes.RECORD if kind == "record" else avro_codes.UNION, len(laid), *laid]
    elif kind == "null":
        types.append(avro_codes.NOTHING)
    elif kind in ("float", "double", "fixed"):
        types += [avro_codes.FIXED, _WIDTHS.get(kind, min(avro_type.size, _ENDLESS))]
    else:
        types += [_KINDS[_STORAGES[kind]], *_range_of(avro_type)]
    return place


def _range_of(plain: AvroType) -> tuple[int, int]:
    """Return the minimum and maximum of an int, long or enum."""
    if plain.kind == "enum":
        return 0, len(plain.symbols) - 1
    return _RANGES.get((plain.kind, None), (0, 0))


def _is_flat(avro_type: AvroType) -> bool:
    """Return whether a field can become a column: a plain type, or a union of a plain type and null."""
    others = [branch for branch in avro_type.branches if branch.kind != "null"] or [avro_type]
    return len(others) == 1 and others[0].kind in _STORAGES and len(avro_type.branches) <= 2


def _may_be_null(avro_type: AvroType) -> bool:
    return any(branch.kind == "null" for branch in avro_type.branches)


def _unwrap(avro_type: AvroType, place: str) -> tuple[int, int, AvroType]:
    """Return the number of branches (0: no union), the index of null (-1: no null), and the other type."""
    if avro_type.kind != "union":
        return 0, -1, avro_type
    nulls = [index for index, branch in enumerate(avro_type.branches) if branch.kind == "null"]
    others = [branch for branch in avro_type.branches if branch.kind != "null"]
    if len(others) != 1 or len(nulls) > 1:
        kinds = ", ".join(branch.kind for branch in avro_type.branches)
        raise SchemaError(f"the field {place!r} must be a union of null and one type, not of {kinds}")
    return len(avro_type.branches), nulls[0] if nulls else -1, others[0]


def _check_names(fields: Sequence[AvroField], place: str) -> None:
    seen: set[str] = set()
    for field in fields:
        if field.name in seen:
            raise SchemaError(f"{place} has the field {field.name!r} twice")
        seen.add(field.name)
