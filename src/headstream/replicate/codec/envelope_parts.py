"""The result of codec.envelopes: the form of each message, and the positions of its parts."""

from __future__ import annotations

from typing import Final

from headstream.errors import DecodeError
from headstream.replicate.codec.avro import codes

NEITHER: Final = codes.FORM_NEITHER
METADATA: Final = codes.FORM_METADATA
DATA: Final = codes.FORM_DATA
JSON: Final = codes.FORM_JSON
REGISTRY: Final = codes.FORM_REGISTRY
BROKEN: Final = codes.FORM_BROKEN
UNKNOWN: Final = codes.FORM_UNKNOWN


class Envelopes:
    """The positions of message parts.

    Args:
        forms: One byte per message: METADATA or DATA (Avro envelope), JSON, REGISTRY framing, BROKEN, UNKNOWN type, or NEITHER.
        parts: Starts and ends of id, schema, payload and headers: int64, one array after another.
        faults: The errors of messages that are NEITHER, BROKEN or UNKNOWN; positions count from the start of the message.
    """

    __slots__ = (
        "count",
        "faults",
        "form",
        "headers_end",
        "headers_start",
        "id_end",
        "id_start",
        "payload_end",
        "payload_start",
        "schema_end",
        "schema_start",
    )

    def __init__(self, count: int, forms: bytearray, parts: bytearray, faults: dict[int, DecodeError]) -> None:
        view = memoryview(parts).cast("q") if count else memoryview(bytes(8)).cast("q")[:0]
        self.count = count
        self.form = memoryview(forms)
        self.id_start, self.id_end = view[:count], view[count : 2 * count]
        self.schema_start, self.schema_end = view[2 * count : 3 * count], view[3 * count : 4 * count]
        self.payload_start, self.payload_end = view[4 * count : 5 * count], view[5 * count : 6 * count]
        self.headers_start, self.headers_end = view[6 * count : 7 * count], view[7 * count :]
        self.faults = faults
