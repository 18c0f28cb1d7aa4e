"""Decodes single Avro values to Python values, and encodes Python values, by a schema.

Used for metadata messages, envelopes, tests and tools; `codec.avro.rows` decodes batches of rows.

    null      no bytes                             float     4 bytes, double 8 bytes, IEEE 754, little-endian
    record    fields, in order                     fixed     bytes
    enum      index of the symbol                  union     index of the branch, then the branch
    others    see codec.avro.reader
"""

from __future__ import annotations

import datetime
import struct
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from headstream.errors import DecodeError, InvalidInputError
from headstream.replicate.codec.avro.reader import INT_RANGE, AvroReader
from headstream.replicate.codec.avro.schema import MAX_PRECISION, AvroType

LONG_RANGE: Final = (-(1 << 63), (1 << 63) - 1)
# Decimals of up to 38 digits, the maximum in tables, have at most 16 bytes; wider decimals have at most 128 (MAX_PRECISION
# digits), because the time to convert bytes to digits grows with the square of their length.
TABLE_PRECISION: Final = 38
TABLE_DECIMAL_BYTES: Final = 16
WIDE_DECIMAL_BYTES: Final = 128

_FLOAT: Final = struct.Struct("<f")
_DOUBLE: Final = struct.Struct("<d")
_EPOCH: Final = datetime.datetime(1970, 1, 1)
_EPOCH_DAY: Final = _EPOCH.toordinal()
_DAY_US: Final = 86_400_000_000


def decode_value(reader: AvroReader, avro_type: AvroType, subject: str = "the value") -> Any:
    """Return the next value of a type.

    Returns:
        None, bool, int, float, bytes, str (also for an enum), a dict for a record or map, a list for an array; for logical types
        date, time, datetime (UTC, without a zone) and Decimal. A date or datetime outside the years 1 to 9999, which Python
        cannot represent, is returned as a number.
    """
    reader.spare -= 1
    if reader.spare < 0:
        raise DecodeError(f"{subject} has more values than its bytes can hold", reader.at)
    kind = avro_type.kind
    if kind == "record":
        return {field.name: decode_value(reader, field.type, field.name) for field in avro_type.fields}
    if kind == "union":
        branch = avro_type.branches[reader.pull_index(len(avro_type.branches), subject)]
        return decode_value(reader, branch, subject)
    if kind == "array":
        assert avro_type.items is not None
        items: list[Any] = []
        while count := reader.pull_block(subject):
            items.extend(decode_value(reader, avro_type.items, subject) for _ in range(count))
        return items
    if kind == "map":
        assert avro_type.items is not None
        pairs: dict[str, Any] = {}
        while count := reader.pull_block(subject):
            for _ in range(count):
                key = reader.pull_string(subject)
                pairs[key] = decode_value(reader, avro_type.items, subject)
        return pairs
    start = reader.at
    value = _decode_plain(reader, avro_type, subject)
    return value if avro_type.logical_type is None else _decode_logical(value, avro_type, subject, start)


def _decode_plain(reader: AvroReader, avro_type: AvroType, subject: str) -> Any:
    kind = avro_type.kind
    if kind == "string":
        return reader.pull_string(subject)
    if kind == "int":
        return reader.pull_int(subject)
    if kind == "long":
        return reader.pull_long(subject)
    if kind == "bytes":
        return reader.pull_bytes(subject)
    if kind == "boolean":
        return reader.pull_boolean(subject)
    if kind == "double":
        return _DOUBLE.unpack(reader.pull(8, subject))[0]
    if kind == "float":
        return _FLOAT.unpack(reader.pull(4, subject))[0]
    if kind == "fixed":
        return reader.pull(avro_type.size, subject)
    if kind == "enum":
        return avro_type.symbols[reader.pull_index(len(avro_type.symbols), subject)]
    return None


def _repeats_sign(value: bytes, limit: int) -> bool:
    """Return whether all bytes of a number before its last `limit` bytes only repeat the sign."""
    before, kept = value[:-limit], value[-limit:]
    return bool(kept) and before == (b"\xff" if kept[0] > 127 else b"\x00") * len(before)


def _decode_logical(value: Any, avro_type: AvroType, subject: str, at: int) -> Any:
    logical = avro_type.logical_type
    if logical == "decimal":
        limit = TABLE_DECIMAL_BYTES if avro_type.precision <= TABLE_PRECISION else WIDE_DECIMAL_BYTES
        if not 1 <= len(value) <= limit and not _repeats_sign(value, limit):
            raise DecodeError(f"{subject} must be a decimal of 1 to {limit} bytes, not {len(value)}", at)
        unscaled = int.from_bytes(value, "big", signed=True)
        if abs(unscaled) >= 10**avro_type.precision:
            raise DecodeError(f"{subject} must be a decimal of at most {avro_type.precision} digits", at)
        sign, digits, _ = Decimal(unscaled).as_tuple()
        return Decimal((sign, digits, -avro_type.scale))
    if logical in ("uuid", "timestamp-nanos"):  # a datetime has no nanoseconds
        return value
    if logical == "date":
        return _date(value)
    micros = value * 1000 if "millis" in str(logical) else value
    if str(logical).startswith("time-"):
        if not 0 <= micros < _DAY_US:
            raise DecodeError(f"{subject} must be a time of day, not {value}", at)
        return (_EPOCH + datetime.timedelta(microseconds=micros)).time()
    try:
        return _EPOCH + datetime.timedelta(microseconds=micros)
    except OverflowError:
        return value


def _date(days: int) -> datetime.date | int:
    ordinal = days + _EPOCH_DAY
    return datetime.date.fromordinal(ordinal) if 1 <= ordinal <= datetime.date.max.toordinal() else days


def encode_long(value: int) -> bytes:
    """Return a long (or an int, a length, an index), -2^63 to 2^63-1, as a zig-zag varint."""
    if not LONG_RANGE[0] <= value <= LONG_RANGE[1]:
        raise InvalidInputError(f"{_show(value)} does not fit an Avro long")
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def encode_string(value: str | bytes) -> bytes:
    """Return a string or bytes in Avro: the length as a long, then the bytes. InvalidInputError for a lone surrogate."""
    try:
        data = value.encode() if isinstance(value, str) else bytes(value)
    except UnicodeEncodeError:
        raise InvalidInputError(f"{value!r} cannot be encoded as UTF-8") from None
    return encode_long(len(data)) + data


def encode_value(avro_type: AvroType, value: Any, subject: str = "the value") -> bytes:
    """Return the bytes of a value, by its type.

    Strings and numbers are converted as in Replicate: for the type string, a Decimal, int, date, time or datetime is
    written in Replicate's format (`2023-03-21 14:34:21.000000`).

    Args:
        value: A value that decode_value() can return; for a record, a mapping in which missing fields are null.
    """
    kind = avro_type.kind
    if kind == "record":
        return _encode_record(avro_type, value, subject)
    if kind == "union":
        return _encode_union(avro_type, value, subject)
    if kind == "null" and value is None:
        return b""
    if kind in ("array", "map") and avro_type.items is not None and isinstance(value, (list, tuple, Mapping)):
        if isinstance(value, Mapping) != (kind == "map"):
            raise _unfit(avro_type, value, subject)
        if isinstance(value, Mapping):
            items = [encode_string(key) + encode_value(avro_type.items, item, subject) for key, item in value.items()]
        else:
            items = [encode_value(avro_type.items, item, subject) for item in value]
        return (encode_long(len(items)) if items else b"") + b"".join(items) + b"\0"
    if avro_type.logical_type is not None:
        value = _encode_logical(avro_type, value, subject)
    return _encode_plain(avro_type, value, subject)


def _encode_record(avro_type: AvroType, value: Any, subject: str) -> bytes:
    if not isinstance(value, Mapping):
        raise _unfit(avro_type, value, subject)
    unknown = value.keys() - {field.name for field in avro_type.fields}
    if unknown:
        raise InvalidInputError(f"{subject} has no field {sorted(unknown)[0]!r} in its schema")
    return b"".join(encode_value(field.type, value.get(field.name), field.name) for field in avro_type.fields)


def _encode_union(avro_type: AvroType, value: Any, subject: str) -> bytes:
    """Return the bytes of a value by the first branch that it fits, trying null first."""
    for index, branch in enumerate(avro_type.branches):
        if branch.kind == "null" and value is None:
            return encode_long(index)
    fault: InvalidInputError | None = None
    for index, branch in enumerate(avro_type.branches):
        try:
            return encode_long(index) + encode_value(branch, value, subject)
        except InvalidInputError as error:
            if fault is None or branch.kind != "null":
                fault = error
    raise fault or _unfit(avro_type, value, subject)


def _encode_plain(avro_type: AvroType, value: Any, subject: str) -> bytes:
    kind = avro_type.kind
    number = isinstance(value, int) and not isinstance(value, bool)
    if kind == "string":
        text = to_text(value)
        if text is not None:
            return encode_string(text)
    elif kind in ("int", "long") and number:
        low, high = INT_RANGE if kind == "int" else LONG_RANGE
        if low <= value <= high:
            return encode_long(value)
    elif kind in ("float", "double") and (number or isinstance(value, float)):
        try:
            return _FLOAT.pack(value) if kind == "float" else _DOUBLE.pack(value)
        except (OverflowError, struct.error):
            pass  # too large for a float: refused below
    elif kind == "boolean" and isinstance(value, bool):
        return b"\1" if value else b"\0"
    elif kind == "bytes" and isinstance(value, (bytes, bytearray, memoryview)):
        return encode_string(bytes(value))
    elif kind == "fixed" and isinstance(value, (bytes, bytearray, memoryview)) and len(value) == avro_type.size:
        return bytes(value)
    elif kind == "enum" and isinstance(value, str) and value in avro_type.symbols:
        return encode_long(avro_type.symbols.index(value))
    raise _unfit(avro_type, value, subject)


def to_text(value: object) -> str | None:
    """Return a str, int, Decimal, date, time or datetime in Replicate's format for string columns; None for other values."""
    if isinstance(value, str):
        return value
    if isinstance(value, datetime.datetime):
        return _without_zone(value).isoformat(" ", "microseconds")
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, bool) or not isinstance(value, (int, Decimal)):
        return None
    number = Decimal(value)
    return format(number, "f") if number.is_finite() and abs(number.adjusted()) <= MAX_PRECISION else None


def _encode_logical(avro_type: AvroType, value: Any, subject: str) -> Any:
    """Return the int or bytes that encode a value of a logical type; return other values unchanged."""
    logical = str(avro_type.logical_type)
    if logical == "decimal" and isinstance(value, (Decimal, int)) and not isinstance(value, bool):
        return _encode_decimal(avro_type, Decimal(value), subject)
    if logical == "date" and isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value.toordinal() - _EPOCH_DAY
    unit_us = 1000 if "millis" in logical else 1
    if logical.startswith("time-") and isinstance(value, datetime.time):
        seconds = value.hour * 3600 + value.minute * 60 + value.second
        return (seconds * 1_000_000 + value.microsecond) // unit_us
    if "timestamp" in logical and isinstance(value, datetime.datetime):
        since = _without_zone(value) - _EPOCH
        return (
            since // datetime.timedelta(microseconds=1) * 1000
            if "nanos" in logical
            else since // datetime.timedelta(microseconds=unit_us)
        )
    return value


def _encode_decimal(avro_type: AvroType, value: Decimal, subject: str) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):  # NaN, infinity
        raise _unfit(avro_type, value, subject)
    shift = exponent + avro_type.scale
    if len(digits) + shift > avro_type.precision and any(digits):
        raise InvalidInputError(f"{subject} is {value}, which has more than {avro_type.precision} digits")
    unscaled = int(Decimal((0, digits, 0)))
    if shift >= 0:
        unscaled *= int(10 ** min(shift, avro_type.precision))
    else:
        unscaled, rest = divmod(unscaled, int(10 ** min(-shift, len(digits) + 1)))
        if rest:
            raise InvalidInputError(f"{subject} is {value}, which has more than {avro_type.scale} digits after the decimal point")
    if sign:
        unscaled = -unscaled
    size = avro_type.size if avro_type.kind == "fixed" else (unscaled if unscaled >= 0 else ~unscaled).bit_length() // 8 + 1
    try:
        return unscaled.to_bytes(size, "big", signed=True)
    except OverflowError:
        raise InvalidInputError(f"{subject} is {value}, which does not fit a fixed of {size} bytes") from None


def _without_zone(value: datetime.datetime) -> datetime.datetime:
    return value if value.tzinfo is None else value.astimezone(datetime.UTC).replace(tzinfo=None)


def _unfit(avro_type: AvroType, value: object, subject: str) -> InvalidInputError:
    if value is None:
        return InvalidInputError(f"{subject} is null, but the type {avro_type.kind} does not allow null")
    kind = avro_type.kind if avro_type.logical_type is None else f"{avro_type.kind} ({avro_type.logical_type})"
    return InvalidInputError(f"{subject} is {_show(value)}, which does not fit the Avro type {kind}")


def _show(value: object) -> str:
    try:
        return f"{type(value).__name__} {str(value)[:40]!r}"
    except ValueError:  # an int with more digits than Python converts to a string
        return f"a {type(value).__name__} with too many digits to print"
