"""The parts of a message, other than header values, that a dialect can represent: payload, key, state, order and repeats."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from headstream.core.codec.conversion.findings import DROPPED, Finding
from headstream.core.codec.conversion.values import MAX_IGGY_VALUE_BYTES, FitValue
from headstream.core.model.header_values import HeaderKind
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message, MessageState, state_name
from headstream.core.model.reserved import (
    APPENDED_HEADER,
    CHECKSUM_HEADER,
    ID_HEADER,
    KEY_HEADER,
    NULL_HEADER,
    STATE_HEADER,
    is_reserved,
)

_CARRIED: Final = {
    ID_HEADER: HeaderKind.RAW,
    STATE_HEADER: HeaderKind.INT16,
    APPENDED_HEADER: HeaderKind.INT64,
    CHECKSUM_HEADER: HeaderKind.INT64,
}
_MAX_IGGY_PAYLOAD_BYTES: Final = 10_000_000
_MAX_IGGY_HEADER_BYTES: Final = 100_000
_MAX_I64: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The capabilities of a dialect.

    Args:
        iggy_limits: Whether payloads and keys must be within Iggy's limits.
        stored: The dialect's fields besides payload and headers: any of key, id, offset, timestamp, micros, state, checksum.
        reserved: How the dialect reads reserved names. `first`: hs.key or hs.null is the key or null payload if it comes first.
            `any`: hs.key or hs.null is the key or null payload in any position. `carried`: a header such as hs.id is the
            field of this name if it comes first. `all`: every name that begins with hs., except
            hs.timestamp, is reserved. None: no name is reserved.
    """

    name: str
    fit: FitValue
    iggy_limits: bool = False
    repeats: bool = True
    headers: bool = True
    stored: frozenset[str] = frozenset(("key", "id", "offset", "timestamp", "micros", "state", "checksum"))
    reserved: str | None = "first"


def find_in_fields(message: Message, capabilities: Capabilities) -> Iterator[Finding]:
    """Return findings for the fields of a message that a dialect cannot represent."""
    stored = capabilities.stored
    if capabilities.iggy_limits:
        if not message.payload:
            kind = "null" if message.payload is None else "empty"
            yield Finding("payload", f"Iggy does not support {kind} payloads; the dialect {capabilities.name}-wide does")
        if message.key is not None and not 1 <= len(message.key) <= MAX_IGGY_VALUE_BYTES:
            reason = f"a key of {len(message.key)} bytes does not fit an Iggy header, which must have 1 to {MAX_IGGY_VALUE_BYTES}"
            yield Finding("key", reason, remedies={"drop": DROPPED})
        if message.payload and len(message.payload) > _MAX_IGGY_PAYLOAD_BYTES:
            reason = f"Iggy limits payloads to {_MAX_IGGY_PAYLOAD_BYTES} bytes, not {len(message.payload)}"
            yield Finding("payload", reason)
        size = sum(len(value.data) for value in message.headers.values())
        if size > _MAX_IGGY_HEADER_BYTES:
            reason = f"Iggy limits header values to {_MAX_IGGY_HEADER_BYTES} bytes in total, but this message has {size}"
            yield Finding("headers", reason)
    if "key" not in stored and message.key is not None:
        yield Finding("key", "the dialect has no field for a key", remedies={"drop": DROPPED})
    if "state" not in stored and message.state != MessageState.AVAILABLE:
        yield Finding("state", f"the dialect has no field for the state {state_name(message.state)}", remedies={"drop": DROPPED})
    if "checksum" not in stored and not message.verify():
        yield Finding("checksum", "the checksum is wrong, and the dialect has no field for it", remedies={"drop": DROPPED})
    if "id" not in stored and message.id:
        yield Finding("id", "the dialect has no field for a message id", remedies={"drop": DROPPED})
    if "timestamp" not in stored and message.timestamp is not None:
        yield Finding("timestamp", "the dialect has no field for a timestamp", remedies={"drop": DROPPED})
    elif "micros" not in stored and message.timestamp is not None and message.timestamp % 1000:
        yield Finding("timestamp", f"milliseconds cannot represent {message.timestamp} microseconds", remedies={"drop": DROPPED})
    if "offset" not in stored and message.offset is not None:
        yield Finding("offset", "the dialect has no field for an offset", remedies={"drop": DROPPED})
    if capabilities.name.startswith("kip82") and (message.offset or 0) > _MAX_I64:
        yield Finding("offset", f"the offset {message.offset} exceeds the dialect's 63 bits")


def find_in_headers(message: Message, capabilities: Capabilities) -> Iterator[tuple[int, Finding]]:
    """Return findings for the headers of a message that a dialect cannot represent, with the headers' numbers from 0."""
    pairs = message.headers.items()
    last = {key: number for number, (key, _) in enumerate(pairs)}
    for number, (key, value) in enumerate(pairs):
        part = f"header {key!r}"
        if not capabilities.headers:
            yield (number, Finding(part, f"the dialect does not support headers ({value.kind_name})", remedies={"drop": DROPPED}))
        elif not capabilities.repeats and last[key] != number:
            reason = "the dialect does not allow a repeated key; `drop` keeps the last value"
            yield number, Finding(part, reason, remedies={"drop": DROPPED})
        elif _is_reserved_name(number, key, message, capabilities):
            yield number, Finding(part, "the name is reserved in this dialect", remedies={"drop": DROPPED})
        else:
            finding = capabilities.fit(key, value)[1]
            if finding is not None:
                yield number, finding


def _is_reserved_name(number: int, key: str, message: Message, capabilities: Capabilities) -> bool:
    """Return whether a header would be decoded as a field of the message."""
    if capabilities.reserved == "any":
        return key in (KEY_HEADER, NULL_HEADER)
    if capabilities.reserved == "all":
        return is_reserved(key)
    if number or capabilities.reserved is None:
        return False
    value = message.headers.items()[0][1]
    if capabilities.reserved == "carried":
        return _CARRIED.get(key) == value.kind
    is_key = key == KEY_HEADER and value.kind == HeaderKind.RAW and message.key is None and message.payload is not None
    is_null = key == NULL_HEADER and value == Headers({key: True})[key] and message.payload == b""
    return is_key or is_null
