"""The error for a batch that exceeds a topic's limits, with the limit, the actual size, and advice.

The checks are in stamp.py, whose kernels record faults as numbers.
"""

from __future__ import annotations

import struct
from typing import Final, NoReturn

from headstream.core.codec.batch import layout
from headstream.core.codec.batch.faults import (
    KEY_SIZE,
    KEY_TEXT,
    KIND,
    PAYLOAD_EMPTY,
    PAYLOADS_TOTAL,
    VALUE_BOOL,
    VALUE_CUT,
    VALUE_SIZE,
    VALUE_TEXT,
    VALUE_WIDTH,
    VALUES_TOTAL,
    decode_error,
)
from headstream.core.model.header_values import KIND_NAMES
from headstream.core.model.reserved import KEY_HEADER
from headstream.errors import LimitError

NOTES: Final = struct.Struct("<5q")
"""The layout of a fault that a kernel records."""

_LIMITS: Final = {
    KEY_SIZE: "a header key must have 1 to {need} bytes, not {have}",
    KIND: "a header of kind {kind} is outside the {limits} limits",
    VALUE_SIZE: "a header value of {have} bytes is outside the {limits} limits, which allow {least} to {need}",
    VALUES_TOTAL: "{have} bytes of header values in one batch exceed the {limits} limits, which allow {need}",
    PAYLOAD_EMPTY: "a message without payload is outside the {limits} limits",
    PAYLOADS_TOTAL: "{have} bytes of payload in one batch exceed the {limits} limits, which allow {need}",
}
_STATUSES: Final = {KEY_SIZE: 4018, KIND: 3, VALUE_SIZE: 4019, VALUES_TOTAL: 4017, PAYLOAD_EMPTY: 4024, PAYLOADS_TOTAL: 4022}
"""The Iggy status of each fault."""
_WITH_KEY: Final = {VALUE_CUT, KEY_TEXT, VALUE_TEXT, VALUE_BOOL, VALUE_WIDTH, KEY_SIZE, KIND, VALUE_SIZE}
_ADVICE: Final = {
    KIND: "Topics with wide limits allow the kinds null and char",
    VALUE_SIZE: "Topics with wide limits allow 0 to 65536 bytes",
    PAYLOAD_EMPTY: "Topics with wide limits allow messages without payload",
}
_MANY_ADVICE: Final = "Send fewer messages per batch (batch_count, batch_bytes)"
_ONE_ADVICE: Final = (
    "This message alone is too large: send less, or create a topic with wide limits and use that topic",
    "This message alone is too large: send less, or store the large part elsewhere and send a reference",
)
"""Advice for a batch that is too large as a whole, and for one message, depending on whether the topic is wide."""


def _first_end(view: memoryview) -> int:
    """Return the end position of the first message of a batch, which must be complete."""
    payload_at = layout.SENT_HEADERS + int.from_bytes(view[layout.SENT_HEADERS_SIZE : layout.SENT_HEADERS], "little") + 4
    return payload_at + int.from_bytes(view[payload_at - 4 : payload_at], "little")


def raise_fault(code: int, view: memoryview, noted: bytearray, wide: bool) -> NoReturn:
    """Raise the error for a fault that a kernel recorded for a batch of sent messages.

    Args:
        noted: Five 64-bit numbers: byte position, need, have, byte position of the header's key, number of the message from 0.
    """
    at, need, have, key_at, index = NOTES.unpack(noted)
    where, key = f"message {index} of the batch", ""
    if code in _WITH_KEY:
        key_size = int.from_bytes(view[key_at - 4 : key_at], "little")
        key = bytes(view[key_at : key_at + min(key_size, 40)]).decode("utf-8", "backslashreplace")
        where = f"header {key!r} of {where}"
    if code not in _LIMITS:
        raise decode_error(code, at, need, have, where)
    is_message_key = code == VALUE_SIZE and key == KEY_HEADER
    limits, kind = ("wide", "iggy")[not wide], KIND_NAMES.get(have, f"unknown({have})")
    what = _LIMITS[code].format(need=need, have=have, kind=kind, limits=limits, least=0 if wide else 1)
    if is_message_key:
        what, where = what.replace("a header value", "a message key"), f"message {index} of the batch"
    whole_batch = code in (VALUES_TOTAL, PAYLOADS_TOTAL)
    advice = None if wide else _ADVICE.get(code)
    if whole_batch:
        advice = _MANY_ADVICE if _first_end(view) < view.nbytes else _ONE_ADVICE[wide]
    error = LimitError(what, where=None if whole_batch else where, advice=advice)
    error.status = _STATUSES[code]
    raise error
