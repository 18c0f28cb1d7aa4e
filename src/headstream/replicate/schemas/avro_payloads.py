"""Decodes Avro payloads that identify their schema, for display. A payload has one of these forms:

    00 | number int32, big-endian | record                a schema registry's framing
    01 | GUID, 16 bytes | record                          registry framing with a GUID from a header (core/codec/schema_ids.py)
    C3 01 | fingerprint u64, little-endian | record       Avro's single-object encoding

A number is looked up in a registry or a directory. A fingerprint (CRC-64-AVRO) is looked up only in a directory with files
`<name>.avsc`. An explanation is a dict of JSON types with these members:

    size_bytes form schema type value note fault

`note` names missing input, and `fault` has the reason why the payload is invalid. Neither contains the location of the schemas,
because users see both. If a registry does not respond, a warning with its URL is logged.
"""

from __future__ import annotations

import datetime
import json
import logging
import math
import threading
import time
import urllib.parse
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from headstream.core.codec.schema_ids import SchemaId, read_schema_id
from headstream.errors import DecodeError, MissingExtraError, SchemaError, StorageError
from headstream.replicate.codec.avro.reader import AvroReader
from headstream.replicate.codec.avro.schema import AvroType, parse_schema
from headstream.replicate.codec.avro.values import decode_value
from headstream.replicate.schemas.registry_client import RegistryClient
from headstream.replicate.settings.registry_settings import RegistrySettings

_LOGGER: Final = logging.getLogger("headstream.replicate")
_SINGLE_OBJECT: Final = b"\xc3\x01"
_SINGLE_OBJECT_BYTES: Final = 10
_ASK_AGAIN_S: Final = 5.0
"""Minimum interval between requests to an unreachable registry, and between reads of a directory, seconds."""

_MOST_FILES: Final = 10_000


class AvroPayloads:
    """Explains payloads; thread-safe."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._client = RegistryClient(settings)
        self._directory = settings.directory
        self._host = urllib.parse.urlsplit(settings.url or "").hostname
        self._lock = threading.Lock()
        self._fault: StorageError | None = None
        self._asked_s = -math.inf
        self._by_fingerprint: dict[bytes, str] = {}
        self._read_s = -math.inf

    def explain(self, payload: bytes) -> dict[str, Any]:
        """Return the explanation of a payload. An invalid payload is explained as far as it can be read.

        Raises:
            StorageError: the schemas cannot be read.
            MissingExtraError: a fingerprint is looked up without fastavro (the extra `avro`).
        """
        explained: dict[str, Any] = {"size_bytes": len(payload), "form": None, "schema": None, "type": None, "value": None}
        note = fault = None
        try:
            name, schema, at = self._find(payload)
            explained["form"] = "single object" if payload.startswith(_SINGLE_OBJECT) else "registry"
            explained["schema"] = name
            if schema is None:
                note = f"the schema {name} is unknown"
            else:
                avro_type = parse_schema(schema)
                explained["type"] = avro_type.name or avro_type.kind
                explained["value"] = _decode(payload, at, avro_type)
        except (DecodeError, SchemaError) as error:
            fault = str(error)
        return {**explained, "note": note, "fault": fault}

    def _find(self, payload: bytes) -> tuple[str, str | None, int]:
        """Return the form of a payload, the schema as a string if known, and the start position of the record."""
        schema_id = read_schema_id(payload)
        if schema_id is not None:
            return str(schema_id), self._ask_once(schema_id), schema_id.begin
        if payload.startswith(_SINGLE_OBJECT) and len(payload) >= _SINGLE_OBJECT_BYTES:
            mark = payload[2:_SINGLE_OBJECT_BYTES]
            return mark.hex(), self._find_fingerprint(mark), _SINGLE_OBJECT_BYTES
        raise DecodeError("the payload has neither a schema registry's framing nor Avro's single-object encoding", 0)

    def _ask_once(self, schema_id: SchemaId) -> str | None:
        known = None if schema_id.number is None else self._client.known(schema_id.number)
        if known is not None:
            return known
        with self._lock:  # one request at a time: waiting threads get the same error
            if self._fault is not None and time.monotonic() < self._asked_s + _ASK_AGAIN_S:
                raise self._fault
            self._fault = None
            try:
                number = schema_id.number if schema_id.guid is None else self._client.number_of(schema_id.guid)
                return None if number is None else self._client.fetch(number)
            except StorageError as error:
                _LOGGER.warning("Avro payloads are not decoded: %s", error)
                shows_place = self._host is None or self._host in error.what.lower()  # as in a certificate's error
                what = "the schemas cannot be read" if shows_place else error.what
                self._fault, self._asked_s = StorageError(what), time.monotonic()
                raise self._fault from error

    def _find_fingerprint(self, mark: bytes) -> str | None:
        if self._directory is None:
            return None
        with self._lock:
            if mark not in self._by_fingerprint and time.monotonic() >= self._read_s + _ASK_AGAIN_S:
                self._by_fingerprint = _read_fingerprints(self._directory)
                self._read_s = time.monotonic()
            return self._by_fingerprint.get(mark)


def _read_fingerprints(directory: Path) -> dict[bytes, str]:
    """Return the schemas in a directory by fingerprint; files that are not schemas are skipped."""
    try:
        from fastavro.schema import fingerprint, to_parsing_canonical_form
    except ImportError as error:
        raise MissingExtraError(f"fingerprints of Avro schemas require {error.name}", advice="Install headstream[avro]") from None
    found: dict[bytes, str] = {}
    try:
        for path in sorted(directory.glob("*.avsc"))[:_MOST_FILES]:
            text = path.read_text(errors="replace")
            try:
                mark = fingerprint(to_parsing_canonical_form(json.loads(text)), "CRC-64-AVRO")
            except Exception:  # the library raises various exceptions for invalid schemas
                continue
            found[bytes.fromhex(mark)] = text
    except OSError as error:
        raise StorageError("the schemas cannot be read") from error
    return found


def _decode(payload: bytes, at: int, avro_type: AvroType) -> Any:
    reader = AvroReader(payload, at)
    value = decode_value(reader, avro_type)
    if reader.at != len(payload):
        raise DecodeError(f"{len(payload) - reader.at} bytes follow the record", reader.at)
    return _to_json(value)


def _to_json(value: Any) -> Any:
    """Return a decoded value in JSON types; bytes are hexadecimal."""
    if isinstance(value, dict):
        return {name: _to_json(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_to_json(item) for item in value]
    if isinstance(value, bytes):
        return value.hex().upper()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, (datetime.date, datetime.time)):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
