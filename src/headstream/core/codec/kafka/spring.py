"""Headers in the form of Spring Kafka's JsonKafkaHeaderMapper (before 4.0 DefaultKafkaHeaderMapper).

    a value                     JSON; a java.lang.String is plain UTF-8 unless it begins with a quote; byte[] unchanged
    spring_json_header_types    {"key": "java class"} for all values except byte[]
    kafka_dlt-original-partition, -offset, -timestamp, kafka_deliveryAttempt        big-endian numbers, without a class

A value of an unknown class is raw, and spring_json_header_types is kept. Spring repeats keys only for lists, so keys must be
unique.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

from headstream.core.codec.kafka.kinds import encode_value
from headstream.core.codec.kafka.record import KafkaHeader
from headstream.core.codec.kafka.values import Pair, check_long, make_value, name_float, raw_or_null, read_text, widened
from headstream.core.model.constructors import int32, int64
from headstream.core.model.header_values import HeaderKind, HeaderValue
from headstream.errors import HeaderError

SPRING_TYPES: Final = "spring_json_header_types"
_KINDS: Final = {
    "java.lang.String": "string", "java.lang.Boolean": "bool", "java.lang.Byte": "int8", "java.lang.Short": "int16",
    "java.lang.Integer": "int32", "java.lang.Long": "int64", "java.lang.Float": "float32", "java.lang.Double": "float64",
    "java.lang.Character": "char",
}  # fmt: skip
_CLASSES: Final = {kind: name for name, kind in _KINDS.items()}
_NUMBERS: Final = {
    "kafka_dlt-original-partition": 4, "kafka_dlt-original-offset": 8, "kafka_dlt-original-timestamp": 8,
    "kafka_deliveryAttempt": 4,
}  # fmt: skip


def is_native(key: str, value: HeaderValue) -> bool:
    """Return whether a header is one of Spring's numbers on dead letters, which have the same form in every convention."""
    return len(value.data) == _NUMBERS.get(key) and value.kind in (HeaderKind.INT32, HeaderKind.INT64)


def _read_native(key: str, data: bytes) -> HeaderValue:
    if len(data) != _NUMBERS.get(key):
        return raw_or_null(data)
    number = int.from_bytes(data, "big", signed=True)
    return int32(number) if len(data) == 4 else int64(number)


def encode_spring(pairs: list[Pair]) -> list[KafkaHeader]:
    """Encode headers, with spring_json_header_types last; HeaderError for a repeated key or a number that exceeds a long."""
    headers: list[KafkaHeader] = []
    classes: dict[str, str] = {}
    unread = _classes(next((value.data for key, value in pairs if key == SPRING_TYPES), None))
    seen: set[str] = set()
    for key, value in pairs:
        if key in seen:
            raise HeaderError(f"the header {key!r} is repeated, which spring cannot represent", advice="Send the header once")
        seen.add(key)
        if key == SPRING_TYPES:
            continue
        kind = widened(value)
        if is_native(key, value):
            headers.append((key, value.data[::-1]))
        elif kind in _CLASSES:
            check_long(key, value, "Spring")
            classes[key] = _CLASSES[kind]
            headers.append((key, _write(kind, value)))
        else:
            headers.append((key, encode_value(value)))
            if value.kind == HeaderKind.RAW and key in unread:
                classes[key] = unread[key]
    if classes:
        headers.append((SPRING_TYPES, json.dumps(classes, ensure_ascii=False, separators=(",", ":")).encode()))
    return headers


def decode_spring(headers: list[KafkaHeader], *, keeps_classes: bool = False) -> list[Pair]:
    """Decode typed headers; `keeps_classes` keeps spring_json_header_types even if every class has a kind."""
    types = next((data for key, data in reversed(headers) if key == SPRING_TYPES), None)
    classes = _classes(types)
    pairs: list[Pair] = []
    for key, data in headers:
        if key != SPRING_TYPES or data is None:
            pairs.append((key, raw_or_null(data) if data is None else _read(key, data, classes.get(key))))
    if types is not None and (keeps_classes or any(key in classes and value.kind == HeaderKind.RAW for key, value in pairs)):
        pairs.append((SPRING_TYPES, read_text(types)))
    return pairs


def _classes(types: bytes | None) -> dict[str, str]:
    try:
        found = json.loads(types) if types is not None else {}
    except ValueError:
        return {}
    return {key: name for key, name in found.items() if isinstance(name, str)} if isinstance(found, dict) else {}


def _read(key: str, data: bytes, class_name: str | None) -> HeaderValue:
    kind = _KINDS.get(class_name or "")
    if kind is None:
        return _read_native(key, data)
    if kind == "string" and not data.startswith(b'"'):
        return read_text(data)
    try:
        plain = json.loads(data)
    except (ValueError, RecursionError):
        return read_text(data) if kind == "string" else raw_or_null(data)
    return make_value(kind, plain, raw_or_null(data))


def _write(kind: str, value: HeaderValue) -> bytes | None:
    plain: Any = value.value
    if isinstance(plain, float) and not math.isfinite(plain):
        return json.dumps(name_float(plain)).encode()
    if kind == "char":
        return json.dumps(plain).encode()
    if kind == "string" and value.data.startswith(b'"'):
        return json.dumps(plain, ensure_ascii=False).encode()
    return encode_value(value)
