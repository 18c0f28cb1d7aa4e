"""What codec.envelopes gives: what each of many messages is, and where its parts are."""

from __future__ import annotations

from typing import Final

from headstream.codec import avro_codes as codes
from headstream.errors import DecodeError

__all__ = ["BROKEN", "DATA", "JSON", "METADATA", "NEITHER", "REGISTRY", "UNKNOWN", "Envelopes"]

NEITHER: Final = codes.FORM_NEITHER
METADATA: Final = codes.FORM_METADATA
DATA: Final = codes.FORM_DATA
JSON: Final = codes.FORM_JSON
REGISTRY: Final = codes.FORM_REGISTRY
BROKEN: Final = codes.FORM_BROKEN
UNKNOWN: Final = codes.FORM_UNKNOWN


class Envelopes:
    """Where the parts of some messages are; one entry a message in each attribute.

    Args:
        count: How many messages.
        forms: A byte each: NEITHER, METADATA or DATA of an Avro envelope, JSON, REGISTRY framing, BROKEN or UNKNOWN type.
        parts: id, schema, payload and headers, of each where they start and where they end: int64, one array after
            the other.
        faults: What is wrong with those that are NEITHER, BROKEN or UNKNOWN; positions count from the message's start.
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
