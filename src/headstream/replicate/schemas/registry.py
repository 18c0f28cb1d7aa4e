"""Messages with registry framing, whose schemas become entries of the schema store.

A message, and its key if it is Avro, has the framing 0x00 | id int32 big-endian | Avro row. An id in a header
(core/codec/schema_ids.py) is first inserted before the payload or key. The schema store's ids are `registry-<id>`, or
`registry-<id>-<id of the key's schema>` if the fields of the key's schema are the table's primary key. For Debezium messages and
keys, the ids are `debezium-avro-<id>`, and the entries have only the schema.
"""

from __future__ import annotations

import re
import time
import uuid
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headstream.core.codec.schema_ids import KEY_SCHEMA_HEADER, VALUE_SCHEMA_HEADER
from headstream.errors import SchemaError, StorageError
from headstream.replicate.codec import Lineage, TableMetadata
from headstream.replicate.codec.derived import derive_metadata, key_fields
from headstream.replicate.columns.raw import offsets_and_data
from headstream.replicate.schemas.registry_client import RegistryClient
from headstream.replicate.schemas.schema_store import StoredSchema
from headstream.replicate.settings.registry_settings import RegistrySettings

DEBEZIUM_ID: Final = "debezium-avro-"
"""Prefix of the ids of Debezium schemas, which are not table schemas and whose entries have no columns."""
_ASK_AGAIN_SECONDS: Final = 5.0
"""Pause before an unavailable id is requested again, seconds."""


class RegistrySchemas:
    """Provides a registry's schemas as entries of a schema store."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._client = RegistryClient(settings)
        self._not_before: dict[str, float] = {}

    def fetch(self, schema_id: str) -> StoredSchema | None:
        """Return the schema of an id; None if the id has a different form, or the schema is missing or currently unavailable.

        Raises:
            SchemaError: the schema is not a schema of data messages.
        """
        match = re.fullmatch(rf"(?:registry-|{DEBEZIUM_ID})(\d+)(?:-(\d+))?", schema_id)
        if match is None or time.monotonic() < self._not_before.get(schema_id, 0.0):
            return None
        number = int(match[1])
        try:
            schema = self._client.fetch(number)
            key = self._client.fetch(int(match[2])) if match[2] else None
        except StorageError:  # the messages are parked until then, and the status reports them
            schema = key = None
        if schema is None or (match[2] and key is None):
            self._not_before[schema_id] = time.monotonic() + _ASK_AGAIN_SECONDS
            return None
        if schema_id.startswith(DEBEZIUM_ID):
            return self._entry(TableMetadata(schema_id, Lineage("debezium", "", "", schema_id, number), (), schema), number)
        keys = () if key is None else key_fields(key)
        try:
            metadata = derive_metadata(schema, schema_id=schema_id, keys=keys, version=number)
        except SchemaError as error:
            raise SchemaError(error.what, where=f"schema {number} of {self._client.place}", advice=error.advice) from None
        return self._entry(metadata, number)

    def _entry(self, metadata: TableMetadata, number: int) -> StoredSchema:
        return StoredSchema(metadata, time.time_ns() // 1000, self._client.place, 0, number)


def frame_by_headers(raw: pa.RecordBatch, client: RegistryClient) -> pa.RecordBatch:
    """Return raw messages with the schema ids from headers inserted before payloads and keys.

    A GUID is replaced by its number in the registry. A message with an unknown GUID stays unchanged.
    """
    for name, header in (("payload", VALUE_SCHEMA_HEADER), ("key", KEY_SCHEMA_HEADER)):
        headers = raw.column("headers")
        if not pc.any(pc.match_substring(headers, header)).as_py():
            continue
        lead = "".join(f"\\x{byte:02x}" for byte in len(header).to_bytes(4, "little")) + header
        value = r"\x05\x00\x00\x00(?P<number>\x00.{4})|\x11\x00\x00\x00\x01(?P<guid>.{16})"
        found = pc.extract_regex(headers, pattern=f"(?s){lead}[\\x01\\x02](?:{value})")
        frames = pc.struct_field(found, "number")
        guids = pc.struct_field(found, "guid")
        numbers = {guid: _frame_of(guid, client) for guid in pc.unique(guids).to_pylist() if guid}
        if numbers:
            known = pa.array(list(numbers), pa.binary())
            frames = pc.coalesce(pc.take(pa.array(numbers.values(), pa.binary()), pc.index_in(guids, known)), frames)
        column = raw.column(name)
        joined = pc.binary_join_element_wise(pc.fill_null(frames, b""), column, b"")
        raw = raw.set_column(raw.schema.get_field_index(name), name, joined.cast(column.type))
    return raw


def _frame_of(guid: bytes, client: RegistryClient) -> bytes | None:
    try:
        number = client.number_of(str(uuid.UUID(bytes=guid)))
    except StorageError:  # the messages are parked, and can be read again
        return None
    return None if number is None else b"\0" + number.to_bytes(4, "big")


def framed_ids(raw: pa.RecordBatch, rows: list[int]) -> dict[str, list[int]]:
    """Group messages with registry framing by schema id.

    Args:
        rows: The rows with the framing: at least five bytes, the first of which is 0.
    """
    chosen = np.array(rows, np.int64)
    values = schema_numbers(raw.column("payload"), chosen)
    keys = schema_numbers(raw.column("key"), chosen)
    pairs, which = np.unique(np.stack([values, keys]), axis=1, return_inverse=True)
    order = np.argsort(which.reshape(-1), kind="stable")
    bounds = np.searchsorted(which.reshape(-1)[order], np.arange(pairs.shape[1] + 1))
    return {
        f"registry-{value}" if key < 0 else f"registry-{value}-{key}": chosen[order[bounds[i] : bounds[i + 1]]].tolist()
        for i, (value, key) in enumerate(pairs.T.tolist())
    }


def schema_numbers(array: pa.BinaryArray, rows: np.ndarray) -> np.ndarray:
    """Return the schema numbers at the start of values, or -1 for values without the framing.

    Args:
        array: Payloads or keys.
        rows: The rows to read, int64.
    """
    offsets_buffer, data_buffer = offsets_and_data(array)
    offsets = np.frombuffer(offsets_buffer, np.int32).astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8)
    starts, sizes = offsets[rows], offsets[rows + 1] - offsets[rows]
    numbers = np.full(len(rows), -1, np.int64)
    framed = np.flatnonzero(sizes >= 5)
    framed = framed[data[starts[framed]] == 0] if len(framed) else framed
    places = starts[framed]
    numbers[framed] = sum(data[places + 1 + byte].astype(np.int64) << (24 - 8 * byte) for byte in range(4))
    return numbers
