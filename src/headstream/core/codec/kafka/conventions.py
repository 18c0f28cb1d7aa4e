"""The conventions for typed headers in a Kafka record: Headstream's convention and those used by other products.

    headstream      strings, with their kinds in hs.kinds (kinds.py)      spring         Spring Kafka (spring.py)
    connect         Kafka Connect's SimpleHeaderConverter (connect.py)    cloudevents    CloudEvents 1.0 (cloudevents.py)
    connect-json    Kafka Connect's JsonConverter (connect.py)            raw            bytes; only raw, null and hs.* keep kinds

Every convention except raw is exact. If the products of a convention do not preserve a header's kind or value, the header is also
listed in hs.kinds, which these products forward as an unknown header. A header that the convention cannot represent is rejected.
A kind in hs.kinds is used only if the value is valid for the kind, because another client may have changed the value.

A record is read with a given convention, or with the convention that a product's marker indicates: spring_json_header_types, or
JsonConverter's envelope. If hs.kinds is missing, ce_specversion and Connect's headers __connect.errors.* are also markers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from headstream.core.codec.kafka.cloudevents import (
    EVENT_MARK,
    decode_event,
    encode_event,
    event_key,
    event_raw,
    is_event_header,
    rename_event_headers,
)
from headstream.core.codec.kafka.connect import ENVELOPE_MARK, decode_connect, decode_envelope, encode_connect, encode_envelopes
from headstream.core.codec.kafka.kinds import decode_kind, decode_values, encode_kinds, encode_value, kinds_of, parse_kinds
from headstream.core.codec.kafka.record import KafkaHeader
from headstream.core.codec.kafka.spring import SPRING_TYPES, decode_spring, encode_spring, is_native
from headstream.core.codec.kafka.values import Pair, raw_or_null, read_text
from headstream.core.model.constructors import raw
from headstream.core.model.header_values import HeaderKind, HeaderValue
from headstream.core.model.message import Message
from headstream.core.model.reserved import KINDS_HEADER, RESERVED_PREFIX
from headstream.core.model.topology import KafkaHeaders
from headstream.errors import HeaderError

Convention: TypeAlias = KafkaHeaders
"""The format of typed values."""
_CONNECT_ERRORS: Final = "__connect.errors."


def encode_headers(message: Message, convention: Convention) -> list[KafkaHeader]:
    """Encode a message's headers in a convention. The message's id, topic and time complete an event.

    Raises:
        HeaderError: the convention cannot represent a header, or requires a header that is missing.
    """
    pairs = list(message.headers.items())
    if convention == "headstream":
        return encode_texts([(key, raw(value.data[::-1]) if is_native(key, value) else value) for key, value in pairs])
    if convention == "raw":
        for key, value in pairs:
            if value.kind not in (HeaderKind.RAW, HeaderKind.NULL) and not key.startswith(RESERVED_PREFIX):
                raise HeaderError(f"the convention raw loses the kind {value.kind_name}", where=repr(key), advice="Pass bytes")
        return encode_texts(pairs)
    added = set[str]()
    if convention == "cloudevents":
        headers, added = encode_event(message)
    else:
        headers = {"spring": encode_spring, "connect": encode_connect, "connect-json": encode_envelopes}[convention](pairs)
    known, found = _by_key(pairs), _by_key(decode_headers(headers, convention))
    listed = {key for key in known if known[key] != found.get(key) and key != SPRING_TYPES} | added
    if convention in ("connect", "cloudevents"):  # for readers that do not support the convention, which has no marker
        listed |= {key for key, value in pairs if value.kind not in (HeaderKind.RAW, HeaderKind.NULL)}
    exact = [pair for pair in pairs if pair[0] in listed]
    if convention == "cloudevents":
        exact += [(event_key(key), value) for key, value in exact if event_key(key) != key]
    kinds = encode_kinds(exact, is_complete=True)
    if kinds is not None or (len(headers) > len(pairs) and convention == "cloudevents"):
        headers.append((KINDS_HEADER, kinds or b""))
    return headers


def encode_any(message: Message, convention: Convention) -> tuple[list[KafkaHeader], HeaderError | None]:
    """Encode a stored message's headers in a convention; if that fails, use Headstream's convention and also return the error.

    decode_headers() restores the headers exactly in every convention except raw, which loses kinds.
    """
    pairs = list(message.headers.items())
    if convention == "raw":
        return [(key, encode_value(value)) for key, value in pairs], None
    try:
        return (encode_texts(pairs) if convention == "headstream" else encode_headers(message, convention)), None
    except HeaderError as refusal:
        return encode_texts(pairs, is_complete=True), refusal


def encode_texts(pairs: list[Pair], *, is_complete: bool = False) -> list[KafkaHeader]:
    """Encode headers as strings with hs.kinds; `is_complete` also lists keys whose headers are all raw or null."""
    headers: list[KafkaHeader] = [(key, encode_value(value)) for key, value in pairs]
    kinds = encode_kinds(pairs, is_complete=is_complete)
    return headers if kinds is None else [*headers, (KINDS_HEADER, kinds)]


def decode_headers(headers: Sequence[KafkaHeader], convention: Convention | None) -> list[Pair]:
    """Decode typed headers in order, including hs.kinds; if `convention` is None, the markers of products determine it."""
    text = next((data for key, data in headers if key == KINDS_HEADER and data is not None), None)
    plain = [header for header in headers if header[0] != KINDS_HEADER or header[1] is None]
    if convention is None:
        if text is None:
            return _decode_marked(plain)
        is_enveloped = any(data is not None and data.startswith(ENVELOPE_MARK) for _, data in plain)
        is_spring = any(key == SPRING_TYPES for key, _ in plain)
        convention = "spring" if is_spring else "connect-json" if is_enveloped else "headstream"
    if convention in ("headstream", "raw"):
        return decode_values(plain, text)
    if convention == "cloudevents" and text is not None:
        plain = rename_event_headers(plain, parse_kinds(text))
    found = _guess(plain, convention)
    if text is None:
        return found
    if convention == "spring":
        plain = [header for header in plain if header[0] != SPRING_TYPES]
    read: list[Pair] = []
    for (key, value), (_, data), kind in zip(found, plain, kinds_of([key for key, _ in plain], text), strict=False):
        texts = () if kind is None else (_text_of(key, data, kind, convention), encode_value(value))
        exact = [decode_kind(kind or "", text) for text in texts]
        read.append((key, next((known for known in exact if known is not None), value)))
    return read + found[len(plain) :]


def _decode_marked(headers: list[KafkaHeader]) -> list[Pair]:
    """Decode typed headers according to the markers of products; headers without a marker are raw."""
    is_event = any(key == EVENT_MARK for key, _ in headers)
    pairs: list[Pair] = []
    for key, value in decode_spring(headers, keeps_classes=True):
        if value.kind == HeaderKind.RAW:
            if (is_event and is_event_header(key)) or key.startswith(_CONNECT_ERRORS):
                value = read_text(value.data)
            else:
                value = decode_envelope(value.data)
        pairs.append((key, value))
    return pairs


def _guess(headers: list[KafkaHeader], convention: Convention) -> list[Pair]:
    if convention == "spring":
        return decode_spring(headers)
    if convention == "connect":
        return decode_connect(headers)
    if convention == "cloudevents":
        return decode_event(headers)
    return [(key, raw_or_null(None) if data is None else decode_envelope(data)) for key, data in headers]


def _text_of(key: str, data: bytes | None, kind: str, convention: Convention) -> bytes | None:
    """Return a value as a string in the form of kinds.py."""
    if data is not None and convention == "connect" and kind.startswith("float"):
        return data.lower()  # Java writes 1.0E10
    if data is not None and convention == "cloudevents" and kind == "raw" and is_event_header(event_key(key)):
        return event_raw(data)
    return data


def _by_key(pairs: list[Pair]) -> dict[str, list[HeaderValue]]:
    found: dict[str, list[HeaderValue]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found
