"""Conventions of other products for typed headers of a Kafka record: read in records marked with one, written on request.

    spring        Spring Kafka     a value is JSON, and spring_json_header_types = {"key": "java class"} has its type;
                                   a java.lang.String is plain UTF-8 unless it begins with a quote
                                   (kafka_dlt-original-partition, -offset and -timestamp are big-endian numbers)
    connect       Kafka Connect    a value is {"schema":{"type":"int32","optional":false},"payload":3}, as its JsonConverter
                                   writes it; __connect.errors.* are texts. The output of its SimpleHeaderConverter has no
                                   mark and no types: it stays raw
    cloudevents   CloudEvents 1.0  ce_specversion marks the record: ce_* and content-type are texts

An unknown class or type stays raw, with its bytes unchanged. Spring and Connect have no unsigned numbers: one is written as
the next wider type, and one beyond 2^63-1 is an error. Spring and CloudEvents reject repeated keys.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import json
import math
import re
from typing import Any, Final, Literal, TypeAlias

from headstream.core.codec.kafka.kinds import encode_value
from headstream.core.codec.kafka.record import KafkaHeader
from headstream.core.model.constructors import CONSTRUCTORS, int32, int64, raw, string
from headstream.core.model.header_values import HeaderKind, HeaderValue
from headstream.core.model.identifiers import format_message_id
from headstream.core.model.message import Message
from headstream.errors import HeaderError

__all__ = ["Convention", "read_conventions", "write_convention"]

Convention: TypeAlias = Literal["headstream", "spring", "connect", "cloudevents"]
"""The format of typed values."""
Pair: TypeAlias = tuple[str, HeaderValue]

_SPRING_TYPES: Final = "spring_json_header_types"
_SPRING_KINDS: Final = {
    "java.lang.String": "string", "java.lang.Boolean": "bool", "java.lang.Byte": "int8", "java.lang.Short": "int16",
    "java.lang.Integer": "int32", "java.lang.Long": "int64", "java.lang.Float": "float32", "java.lang.Double": "float64",
    "java.lang.Character": "char",
}  # fmt: skip
_SPRING_CLASSES: Final = {kind: name for name, kind in _SPRING_KINDS.items()}
_SPRING_NUMBERS: Final = {
    "kafka_dlt-original-partition": 4, "kafka_dlt-original-offset": 8, "kafka_dlt-original-timestamp": 8,
    "kafka_deliveryAttempt": 4,
}  # fmt: skip
_CONNECT_KINDS: Final = {
    "string": "string", "boolean": "bool", "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
    "float": "float32", "double": "float64", "bytes": "raw",
}  # fmt: skip
_CONNECT_TYPES: Final = {kind: name for name, kind in _CONNECT_KINDS.items()}
_CONNECT_ERRORS: Final = "__connect.errors."
_WIDER: Final = {"uint8": "int16", "uint16": "int32", "uint32": "int64", "uint64": "int64", "int128": "int64", "uint128": "int64"}
_NOT_NUMBERS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_ATTRIBUTE: Final = re.compile(r"[a-z0-9]+")
_CONTENT_TYPE: Final = "content-type"


def read_conventions(pairs: list[Pair]) -> list[Pair]:
    """Return headers with the kinds of a convention, if the record is marked with one; the others unchanged.

    Args:
        pairs: The received headers: raw or null.
    """
    found = dict(pairs)
    read: list[tuple[str, HeaderValue]] = []
    classes = _spring_classes(found.get(_SPRING_TYPES))
    is_event = "ce_specversion" in found
    for key, value in pairs:
        if value.kind == HeaderKind.RAW:
            if key in classes:
                value = _read_spring(classes[key], value)
            elif key == _SPRING_TYPES or (is_event and (key.startswith("ce_") or key == _CONTENT_TYPE)):
                value = _read_text(value)
            elif len(value.data) == _SPRING_NUMBERS.get(key):
                number = int.from_bytes(value.data, "big", signed=True)
                value = int32(number) if len(value.data) == 4 else int64(number)
            elif key.startswith(_CONNECT_ERRORS):
                value = _read_text(value)
            elif value.data.startswith(b'{"schema":'):
                value = _read_envelope(value)
        read.append((key, value))
    return read


def write_convention(message: Message, convention: Convention) -> list[KafkaHeader]:
    """Return a message's headers in the format of a convention.

    Args:
        message: Any.
        convention: `spring`, `connect` or `cloudevents`.

    Raises:
        HeaderError: the convention cannot represent a header, or requires a missing one.
    """
    pairs = message.headers.items()
    if convention == "connect":
        return [(key, _write_envelope(key, value)) for key, value in pairs]
    if message.headers.repeated:
        key = next(key for key in message.headers if len(message.headers.getall(key)) > 1)
        raise HeaderError(f"the header {key!r} repeats, which {convention} cannot hold", advice="Send only one of them")
    if convention == "spring":
        return _write_spring(list(pairs))
    return _write_event(message)


def is_native(key: str, value: HeaderValue) -> bool:
    """Return whether a header has the same form in every convention: Spring's numbers on dead letters."""
    return value.kind in (HeaderKind.INT32, HeaderKind.INT64) and len(value.data) == _SPRING_NUMBERS.get(key)


def _read_text(value: HeaderValue) -> HeaderValue:
    try:
        return string(value.data.decode("utf-8"))
    except UnicodeDecodeError:
        return value


def _make(kind: str, plain: Any, otherwise: HeaderValue) -> HeaderValue:
    """Return a value of a kind, or `otherwise` if the plain value does not have its type or range."""
    if kind in ("float32", "float64") and isinstance(plain, str):
        plain = _NOT_NUMBERS.get(plain, plain)
    try:
        made: HeaderValue = CONSTRUCTORS[kind](plain)
        return made
    except HeaderError:
        return otherwise


def _spring_classes(types: HeaderValue | None) -> dict[str, str]:
    try:
        types_by_key = json.loads(types.data) if types is not None else {}
    except ValueError:
        return {}
    return {key: name for key, name in types_by_key.items() if isinstance(name, str)} if isinstance(types_by_key, dict) else {}


def _read_spring(class_name: str, value: HeaderValue) -> HeaderValue:
    kind = _SPRING_KINDS.get(class_name)
    if kind is None:
        return value
    if kind == "string" and not value.data.startswith(b'"'):
        return _read_text(value)
    try:
        plain = json.loads(value.data)
    except ValueError:
        return _read_text(value) if kind == "string" else value
    return _make(kind, plain, value)


def _write_spring(pairs: list[Pair]) -> list[KafkaHeader]:
    headers: list[KafkaHeader] = []
    classes: dict[str, str] = {}
    for key, value in pairs:
        kind = _WIDER.get(value.kind_name, value.kind_name)
        data = encode_value(value)
        if kind in _SPRING_CLASSES and not is_native(key, value):
            _check_width(key, value, "Spring")
            classes[key] = _SPRING_CLASSES[kind]
            plain = value.value
            if kind == "char" or (kind == "string" and value.data.startswith(b'"')) or not _is_finite(plain):
                data = json.dumps(plain if not isinstance(plain, float) else _float_name(plain), ensure_ascii=False).encode()
        headers.append((key, value.data[::-1] if is_native(key, value) else data))
    if classes:
        headers = [header for header in headers if header[0] != _SPRING_TYPES]
        headers.append((_SPRING_TYPES, json.dumps(classes, ensure_ascii=False, separators=(",", ":")).encode()))
    return headers


def _read_envelope(value: HeaderValue) -> HeaderValue:
    try:
        envelope = json.loads(value.data)
        kind, plain = _CONNECT_KINDS.get(envelope["schema"]["type"]), envelope["payload"]
        if kind is None or set(envelope) != {"schema", "payload"} or "name" in envelope["schema"]:
            return value  # a logical type (a date, a decimal) has no kind
        if plain is None:
            return HeaderValue(HeaderKind.NULL, b"")
        if kind == "raw":
            return raw(base64.b64decode(plain, validate=True))
    except (ValueError, KeyError, TypeError, binascii.Error):
        return value
    return _make(kind, plain, value)


def _write_envelope(key: str, value: HeaderValue) -> bytes | None:
    kind = _WIDER.get(value.kind_name, value.kind_name)
    if value.kind == HeaderKind.NULL:
        return None
    if kind == "char":
        kind = "string"
    if kind not in _CONNECT_TYPES:
        raise HeaderError(f"Connect cannot represent a header of kind {value.kind_name}", where=repr(key), advice="Use raw")
    _check_width(key, value, "Connect")
    plain: Any = value.value
    if isinstance(plain, bytes):
        plain = base64.b64encode(plain).decode()
    if not _is_finite(plain):
        plain = _float_name(plain)
    schema = {"type": _CONNECT_TYPES[kind], "optional": False}
    return json.dumps({"schema": schema, "payload": plain}, ensure_ascii=False, separators=(",", ":")).encode()


def _check_width(key: str, value: HeaderValue, where: str) -> None:
    plain = value.value
    if isinstance(plain, int) and not -(1 << 63) <= plain < 1 << 63:
        raise HeaderError(f"{plain} is beyond a long, the widest number of {where}", where=repr(key), advice="Use string or raw")


def _is_finite(plain: Any) -> bool:
    return not isinstance(plain, float) or math.isfinite(plain)


def _float_name(number: float) -> Any:
    return next((name for name, value in _NOT_NUMBERS.items() if value == number), "NaN") if not math.isfinite(number) else number


def _write_event(message: Message) -> list[KafkaHeader]:
    """Return the headers in the binary mode of the Kafka binding: attributes are texts, the content type has no prefix."""
    attributes: dict[str, bytes] = {}
    headers: list[KafkaHeader] = []
    for key, value in message.headers.items():
        name = key.removeprefix("ce_")
        if key in (_CONTENT_TYPE, "datacontenttype"):
            headers.append((_CONTENT_TYPE, value.to_str().encode()))
        elif _ATTRIBUTE.fullmatch(name):
            attributes[name] = _event_text(key, value)
        else:
            raise HeaderError(f"{key!r} is not a valid attribute of CloudEvents", advice="Use lower-case letters and digits")
    if message.id:
        attributes.setdefault("id", format_message_id(message.id).encode())
    if message.topic:
        attributes.setdefault("source", message.topic.encode())
    if message.timestamp is not None:
        attributes.setdefault("time", _event_time(message.timestamp))
    attributes.setdefault("specversion", b"1.0")
    for name in ("id", "source", "type"):
        if not attributes.get(name):
            raise HeaderError(f"CloudEvents requires the attribute {name}", advice=f"Give the message a header {name!r}")
    return [(f"ce_{name}", value) for name, value in attributes.items()] + headers


def _event_text(key: str, value: HeaderValue) -> bytes:
    """Return the canonical text of a CloudEvents type; its integers have 32 bits."""
    plain = value.value
    if isinstance(plain, bytes) and value.kind == HeaderKind.RAW:
        return base64.b64encode(plain)
    if isinstance(plain, (bytes, type(None), float)) or (isinstance(plain, int) and not -(1 << 31) <= plain < 1 << 31):
        raise HeaderError(
            f"CloudEvents has no type for a {value.kind_name} like this one", where=repr(key), advice="Give it as a string"
        )
    return value.to_str().encode()


def _event_time(time_us: int) -> bytes:
    moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(microseconds=time_us)
    return moment.isoformat().replace("+00:00", "Z").encode()
