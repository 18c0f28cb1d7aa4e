"""Converts column buffers and JSON values to Arrow arrays in a table's types, and reports the rows that do not fit.

A source writes a type in several forms: a NUMERIC is decimal bytes with logical types, and a string without them or in JSON. So
the table's columns determine the target type. A value that does not fit causes only its row to be rejected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from headstream.errors import SchemaError
from headstream.replicate.codec.avro.plan import ColumnBuffers, ColumnPlan
from headstream.replicate.codec.avro.schema import MAX_PRECISION
from headstream.replicate.codec.avro.values import TABLE_PRECISION
from headstream.replicate.columns.changes import OLD_PREFIX

_ARROW_TYPES: Final[dict[str, pa.DataType]] = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "BINARY": pa.binary(),
    "STRING": pa.string(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "ARRAY<STRING>": pa.list_(pa.string()),
    "MAP<STRING,STRING>": pa.map_(pa.string(), pa.string()),
}
_WIDE: Final = Context(prec=MAX_PRECISION)
_FIXED: Final[dict[str, pa.DataType]] = {"int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64()}
_LOGICAL: Final[dict[tuple[str, str], pa.DataType]] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
_TIME_SPELLINGS: Final = (
    (r"^(\d+:\d\d:\d\d)\.0*$", r"\1"),
    (r"^(\d+:\d\d:\d\d\.\d{6}\d*[1-9])0+$", r"\1"),
    (r"^(\d+:\d\d:\d\d\.(?:\d{3}|\d{6}))0+$", r"\1"),
    (r"^(\d+:\d\d:\d\d\.(?:\d|\d{4}))$", r"\100"),
    (r"^(\d+:\d\d:\d\d\.(?:\d{2}|\d{5}))$", r"\10"),
)
_NUMBER: Final = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_ZONE: Final = r"[Zz]$|[+-]\d\d:?\d\d$|:\d\d(?:\.\d+)?[+-]\d\d$"
_FINER: Final = r"\.\d{6}\d*[1-9]"
"""Matches a time that is finer than a microsecond."""


def arrow_type(spark_type: str) -> pa.DataType:
    """Return the Arrow type of a Spark SQL type from target_type()."""
    decimal = re.fullmatch(r"DECIMAL\((\d+),\s*(-?\d+)\)", spark_type)
    if decimal is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    try:
        return _ARROW_TYPES[spark_type]
    except KeyError:
        raise SchemaError(f"{spark_type} is not a column type of a table") from None


def in_table_types(changes: pa.Table, columns: Mapping[str, str]) -> pa.Table:
    """Cast changes of an older, narrower schema to the types of a table's columns, including old keys of key updates."""
    fields = []
    for field in changes.schema:
        kind = columns.get(field.name.removeprefix(OLD_PREFIX))
        fields.append(pa.field(field.name, field.type if kind is None else arrow_type(kind)))
    return changes.cast(pa.schema(fields))


def array_from_buffers(plan: ColumnPlan, buffers: ColumnBuffers, count: int) -> pa.Array:
    """Return decoded Avro buffers as an Arrow array, without copying.

    Args:
        plan: The column's plan from its Avro schema; the logical type determines the Arrow type.
    """
    validity = None if buffers.validity is None else pa.py_buffer(buffers.validity)
    if buffers.offsets is not None:
        kind = pa.string() if plan.storage == "utf8" else pa.binary()
        array = pa.Array.from_buffers(kind, count, [validity, pa.py_buffer(buffers.offsets), pa.py_buffer(buffers.data)])
        return _decimal_texts(array, plan.scale) if plan.logical_type == "decimal" else array
    values = pa.py_buffer(buffers.values)
    if plan.logical_type == "decimal":
        return pa.Array.from_buffers(pa.decimal128(plan.precision, plan.scale), count, [validity, values])
    if plan.avro_type == "boolean":
        return pa.Array.from_buffers(pa.uint8(), count, [validity, values]).cast(pa.bool_())
    if plan.avro_type == "enum":
        indexes = pa.Array.from_buffers(pa.int32(), count, [validity, values])
        return pc.take(pa.array(list(plan.symbols), pa.string()), indexes)
    kind = _LOGICAL.get((plan.avro_type, plan.logical_type or ""), _FIXED.get(plan.avro_type, pa.int32()))
    return pa.Array.from_buffers(kind, count, [validity, values])


def _decimal_texts(array: pa.Array, scale: int) -> pa.Array:
    """Return decimals that are too wide for an Arrow decimal128 (big-endian two's complement bytes) as strings."""
    numbers = (None if value is None else int.from_bytes(value, "big", signed=True) for value in array.to_pylist())
    texts = [None if number is None else f"{Decimal(number).scaleb(-scale, _WIDE):f}" for number in numbers]
    return pa.array(texts, pa.string())


def array_from_json(values: list[Any], target: pa.DataType) -> tuple[pa.Array, dict[int, str]]:
    """Return JSON scalars as an array for convert(), and the reason for each rejected row.

    Args:
        values: Values of type str, int, Decimal, float, bool or None; BINARY is hex digits.

    Returns:
        BINARY as bytes, all other types as strings; numbers keep all digits.
    """
    bad: dict[int, str] = {}
    texts: list[str | None] = []
    for row, value in enumerate(values):
        if value is None or isinstance(value, str):
            texts.append(value)
        elif isinstance(value, bool):
            texts.append("true" if value else "false")
        elif isinstance(value, (int, float, Decimal)):
            texts.append(str(value))
        else:
            texts.append(None)
            bad[row] = f"a JSON {type(value).__name__} instead of a scalar"
    if pa.types.is_binary(target):
        blobs: list[bytes | None] = []
        for row, text in enumerate(texts):
            try:
                blobs.append(None if text is None else bytes.fromhex(text))
            except ValueError:
                blobs.append(None)
                bad[row] = "not hex digits"
        return pa.array(blobs, target), bad
    return pa.array(texts, pa.string()), bad


def convert(array: pa.Array, target: pa.DataType) -> tuple[pa.Array, dict[int, str]]:
    """Return an array in the target type, with null in rows that do not fit, and the reason for each such row.

    Times finer than a microsecond are truncated (see find_finer()), and numbers for FLOAT and DOUBLE are rounded. Other values
    are converted exactly. A string can have spaces around the value, and a number can have a sign, an exponent or trailing zeros.
    """
    if array.type == target:
        return array, {}
    conversion = _conversion(array.type, target)
    bad: dict[int, str] = {}
    if pa.types.is_string(array.type):
        try:
            return conversion(array), bad
        except pa.ArrowInvalid:
            array = pc.utf8_trim_whitespace(array) if pa.types.is_floating(target) else _respell(array)
    return _convert_or_halve(array, conversion, target, 0, bad), bad


def _respell(texts: pa.StringArray) -> pa.StringArray:
    """Return strings without surrounding spaces, and numbers without an exponent, a plus sign or trailing zeros."""
    encoded = texts.dictionary_encode()
    known = [text if text is None else _number_text(text.strip(), None) for text in encoded.dictionary.to_pylist()]
    return pc.take(pa.array(known, pa.string()), encoded.indices)


def _convert_or_halve(
    array: pa.Array, conversion: Callable[[pa.Array], pa.Array], target: pa.DataType, first: int, bad: dict[int, str]
) -> pa.Array:
    """Convert an array. If that fails, convert halves until each invalid row is isolated, so that all other rows are kept."""
    try:
        return conversion(array)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        if len(array) == 1:
            bad[first] = str(error).splitlines()[0]
            return pa.nulls(1, target)
    middle = len(array) // 2
    halves = [
        _convert_or_halve(array[:middle], conversion, target, first, bad),
        _convert_or_halve(array[middle:], conversion, target, first + middle, bad),
    ]
    return pa.concat_arrays(halves)


def find_outside(array: pa.Array, low: pa.Scalar, high: pa.Scalar) -> list[int]:
    """Return the rows with a value outside the limits."""
    outside = pc.or_(pc.less(array, low), pc.greater(array, high))
    rows: list[int] = pc.indices_nonzero(outside).to_pylist() if pc.any(outside).as_py() else []
    return rows


def _conversion(source: pa.DataType, target: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    if pa.types.is_timestamp(target) and pa.types.is_string(source):
        return lambda array: _timestamps_from_text(array, target)
    if pa.types.is_string(target) and pa.types.is_time(source):
        return lambda array: time_texts(array.cast(target))
    if pa.types.is_floating(target):
        return lambda array: _floats(array, target)
    if pa.types.is_decimal(target) and pa.types.is_string(source):
        return lambda array: _decimals_from_text(array, target)
    if pa.types.is_decimal(target) and pa.types.is_decimal(source):  # through a wide decimal: Arrow does not detect the overflow
        return lambda array: array.cast(pa.decimal256(76, target.scale)).cast(target)
    if pa.types.is_integer(target) and pa.types.is_string(source):
        return lambda array: _integers_from_text(array, target)
    if pa.types.is_timestamp(target) and source == pa.timestamp("ns", "UTC"):
        return lambda array: pc.floor_temporal(array, unit="microsecond").cast(target)
    return lambda array: array.cast(target)


def _integers_from_text(array: pa.Array, target: pa.DataType) -> pa.Array:
    if pc.any(pc.match_substring(array, "x", ignore_case=True)).as_py():
        raise pa.ArrowInvalid("hexadecimal digits instead of a number")
    return array.cast(target)


def _decimals_from_text(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return decimals after checking the number of digits; Arrow returns a wrong number if there are too many."""
    whole, zeros = target.precision - target.scale, TABLE_PRECISION - target.precision
    plain = pc.match_substring_regex(array, rf"^[+-]?0*\d{{0,{whole}}}(\.\d{{0,{target.scale}}}0{{0,{zeros}}})?$")
    if pc.any(pc.invert(plain)).as_py():
        raise pa.ArrowInvalid(f"not a number that {target} can hold")
    return array.cast(target)


def _floats(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Return the nearest FLOAT or DOUBLE of each number; null for a number outside the type's range."""
    if pa.types.is_string(array.type):
        infinite = pc.match_substring(array, "inf", ignore_case=True)
    elif pa.types.is_floating(array.type):
        infinite = pc.is_inf(array)
    else:
        infinite = False
    # A REAL4 sent as text or double is rounded, as it is stored in the source.
    numbers = array.cast(pa.float64()).cast(target, safe=False)
    if pc.any(pc.and_not(pc.is_inf(numbers), infinite)).as_py():
        raise pa.ArrowInvalid(f"a number beyond the range of {target}")
    return numbers


def _timestamps_from_text(array: pa.Array, target: pa.DataType) -> pa.Array:
    trimmed = pc.replace_substring_regex(array, r"^(.{19}\.\d{6})\d+", r"\1")
    zoned = pc.match_substring_regex(trimmed, _ZONE)
    if not pc.any(zoned).as_py():
        return trimmed.cast(pa.timestamp("us")).cast(target)  # a time without a zone is UTC
    spelled = pc.if_else(zoned, pc.ascii_upper(trimmed), pc.binary_join_element_wise(trimmed, "Z", ""))
    return spelled.cast(pa.timestamp("us", "UTC")).cast(target)


def find_finer(array: pa.Array) -> list[int]:
    """Return the rows of a DATETIME column with a time finer than a microsecond, as from datetime2(7) or TIMESTAMP(9)."""
    if pa.types.is_string(array.type):
        finer = pc.match_substring_regex(array, _FINER)
    elif array.type == pa.timestamp("ns", "UTC"):
        finer = pc.not_equal(array, pc.floor_temporal(array, unit="microsecond"))
    else:
        return []
    rows: list[int] = pc.indices_nonzero(finer).to_pylist() if pc.any(finer).as_py() else []
    return rows


def datetime_texts(array: pa.Array) -> tuple[pa.StringArray, dict[int, str]]:
    """Return times as UTC strings, `2023-03-21 14:34:21.000000` (or with more digits), and reasons for invalid rows."""
    times, bad = convert(array, pa.timestamp("us"))
    texts = times.cast(pa.string())
    if pa.types.is_string(array.type):
        further = pc.replace_substring_regex(array, r"^[^.]*\.\d{6}(\d*[1-9])?.*$", r"\1")
        finer = pc.match_substring_regex(array, _FINER)
        texts = pc.if_else(finer, pc.binary_join_element_wise(texts, further, ""), texts)
    elif array.type == pa.timestamp("ns", "UTC"):
        texts = pc.utf8_rtrim(pc.utf8_slice_codeunits(array.cast(pa.timestamp("ns")).cast(pa.string()), 26, 29), "0")
        texts = pc.binary_join_element_wise(times.cast(pa.string()), texts, "")
    return texts, bad


def time_texts(texts: pa.StringArray) -> pa.StringArray:
    """Return times in ISO 8601 with 0, 3 or 6 fraction digits, as needed; other strings stay unchanged."""
    for pattern, spelled in _TIME_SPELLINGS:
        texts = pc.replace_substring_regex(texts, pattern, spelled)
    return texts


def number_texts(texts: pa.StringArray, scale: int | None) -> pa.StringArray:
    """Return wide numbers as strings in a canonical form, so that `1.10` and `1.1` are the same key.

    Args:
        scale: Digits after the decimal point; None: as many as the number needs.
    """
    encoded = texts.dictionary_encode()
    known = pa.array([_number_text(text, scale) for text in encoded.dictionary.to_pylist()], pa.string())
    return pc.take(known, encoded.indices)


def _number_text(text: str, scale: int | None) -> str:
    if not _NUMBER.fullmatch(text):
        return text
    try:
        number = Decimal(text.strip())
    except InvalidOperation:  # the exponent exceeds the range of a Decimal
        return text
    if not number:
        number = Decimal(0)
    if abs(number.adjusted()) > MAX_PRECISION:  # its form without an exponent can exceed the memory
        return text
    plain = f"{number:f}"
    if scale is None:
        return plain.rstrip("0").rstrip(".") if "." in plain else plain
    whole, _, digits = plain.partition(".")
    kept = digits.rstrip("0").ljust(scale, "0")
    return f"{whole}.{kept}" if kept else whole
