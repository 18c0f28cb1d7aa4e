"""Why a topic does not take a batch, as an error: which limit, how large the thing is, and what helps.

The checks themselves are in stamp.py, whose kernels note what is wrong in plain numbers.
"""

from __future__ import annotations

import struct
from typing import Final, NoReturn

from headstream.codec.batch.faults import (
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
from headstream.errors import LimitError
from headstream.model.header_values import KIND_NAMES

__all__ = ["NOTES", "raise_fault"]

NOTES: Final = struct.Struct("<5q")
"""What a kernel notes of a fault."""

_LIMITS: Final = {
    KEY_SIZE: "a header key has 1 to {need} bytes, this one has {have}",
    KIND: "a header of kind {kind} is beyond the limits {limits}",
    VALUE_SIZE: "a header value of {have} bytes is beyond the limits {limits}, which take {least} to {need}",
    VALUES_TOTAL: "{have} bytes of header values in one batch are beyond the limits {limits}, which take {need}",
    PAYLOAD_EMPTY: "a message without payload is beyond the limits {limits}",
    PAYLOADS_TOTAL: "{have} bytes of payload in one batch are beyond the limits {limits}, which take {need}",
}
_STATUSES: Final = {KEY_SIZE: 4018, KIND: 3, VALUE_SIZE: 4019, VALUES_TOTAL: 4017, PAYLOAD_EMPTY: 4024, PAYLOADS_TOTAL: 4022}
"""By which number a server says it."""
_WITH_KEY: Final = {VALUE_CUT, KEY_TEXT, VALUE_TEXT, VALUE_BOOL, VALUE_WIDTH, KEY_SIZE, KIND, VALUE_SIZE}
_ADVICE: Final = {
    KIND: "Topics with limits wide take the kinds null and char",
    VALUE_SIZE: "Topics with limits wide take values of 0 to 65536 bytes",
    PAYLOAD_EMPTY: "Topics with limits wide take it",
}
_MANY_ADVICE: Final = "Send fewer messages at once (batch_count, batch_bytes)"
_ONE_ADVICE: Final = (
    "It is one message: make it smaller, or use a topic with limits wide, which are chosen when a topic is created",
    "It is one message: make it smaller, or keep what is big elsewhere and send where",
)
"""What helps a batch that is too big as a whole; for one message, by whether the topic is wide."""


def _first_end(view: memoryview) -> int:
    """Return where the first message of a batch ends that was scanned to its end."""
    payload_at = 20 + int.from_bytes(view[16:20], "little") + 4
    return payload_at + int.from_bytes(view[payload_at - 4 : payload_at], "little")


def raise_fault(code: int, view: memoryview, noted: bytearray, wide: bool) -> NoReturn:
    """Raise the error of a fault that a kernel has noted in a batch of sent messages.

    Args:
        code: The fault's number.
        view: The batch.
        noted: Five 64-bit numbers: byte position, need, have, byte position of the header's key, number of the message from 0.
        wide: Whether the topic's limits are `wide`, not `iggy`.

    Raises:
        DecodeError: the bytes are not messages.
        LimitError: they are more than the topic's limits take.
    """
    at, need, have, key_at, index = NOTES.unpack(noted)
    where = f"message {index} of the batch"
    if code in _WITH_KEY:
        key_size = int.from_bytes(view[key_at - 4 : key_at], "little")
        key = bytes(view[key_at : key_at + min(key_size, 40)]).decode("utf-8", "backslashreplace")
        where = f"header {key!r} of {where}"
    if code not in _LIMITS:
        raise decode_error(code, at, need, have, where)
    limits, kind = ("wide", "iggy")[not wide], KIND_NAMES.get(have, f"unknown({have})")
    what = _LIMITS[code].format(need=need, have=have, kind=kind, limits=limits, least=0 if wide else 1)
    whole_batch = code in (VALUES_TOTAL, PAYLOADS_TOTAL)
    advice = None if wide else _ADVICE.get(code)
    if whole_batch:
        advice = _MANY_ADVICE if _first_end(view) < view.nbytes else _ONE_ADVICE[wide]
    error = LimitError(what, where=None if whole_batch else where, advice=advice)
    error.status = _STATUSES[code]
    raise error
