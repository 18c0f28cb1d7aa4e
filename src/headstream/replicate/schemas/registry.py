"""Schemas by their numbers: from a Confluent-compatible registry over HTTP, or from a directory.

    GET <url>/schemas/ids/<id>   200 {"schema": "<Avro schema>"}, 404 {"error_code": 40403, ..} if missing
    <directory>/<id>.avsc        the same schema, as a file

A message has the framing 0x00 | id int32 big-endian | Avro row, and so has its key where that is Avro too. Schema ids of
the zone are `registry-<id>`, or `registry-<id>-<id of the key's schema>`, whose fields are the table's primary key.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
import ssl
import time
import urllib.parse
from typing import Final

import numpy as np
import pyarrow as pa

from headstream.errors import SchemaError, StorageError
from headstream.replicate.codec.derived import derive_metadata, key_fields
from headstream.replicate.columns.raw import offsets_and_data
from headstream.replicate.schemas.zone import ZoneEntry
from headstream.replicate.settings.registry_settings import RegistrySettings

__all__ = ["RegistryClient", "RegistrySchemas", "framed_ids"]

_MAX_ANSWER_BYTES: Final = 16 << 20
_FIRST_PAUSE_SECONDS: Final = 0.2
_ASK_AGAIN_SECONDS: Final = 5.0
"""Pause before an unavailable id is requested again."""
_PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which a retry can succeed."""


class RegistryClient:
    """Fetches schemas from a registry and caches them, since a number's schema never changes.

    Args:
        settings: Its location.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._schemas: dict[int, str] = {}

    @property
    def place(self) -> str:
        """The location of the schemas, for error messages."""
        return self._settings.url or str(self._settings.directory)

    def fetch(self, number: int) -> str | None:
        """Return the Avro schema of a number, or None if the registry does not have it.

        Raises:
            StorageError: the registry is unreachable, or its answer is invalid.
        """
        known = self._schemas.get(number)
        if known is None:
            known = self._read(number) if self._settings.directory is not None else self._ask(number)
            if known is not None:
                self._schemas[number] = known
        return known

    def _read(self, number: int) -> str | None:
        assert self._settings.directory is not None
        path = self._settings.directory / f"{number}.avsc"
        try:
            return path.read_text()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise StorageError(f"cannot read a schema: {error}", where=str(path)) from error

    def _ask(self, number: int) -> str | None:
        pause = _FIRST_PAUSE_SECONDS
        for attempt in range(self._settings.retries + 1):
            try:
                status, body = self._get(f"/schemas/ids/{number}")
            except (OSError, http.client.HTTPException) as error:
                reason = f"{type(error).__name__}: {error}"
            else:
                if status == 200:
                    return self._schema_of(body, number)
                if status == 404:
                    return None
                reason = f"it answers {status}"
                if status not in _PASSING:
                    break
            if attempt < self._settings.retries:
                time.sleep(pause)
                pause *= 2
        raise StorageError(
            f"the schema registry did not return schema {number}: {reason}",
            where=self.place,
            advice="Check the URL, and the credentials (user and password, or token)",
        )

    def _get(self, path: str) -> tuple[int, bytes]:
        settings = self._settings
        parts = urllib.parse.urlsplit(settings.url or "")
        seconds = settings.timeout_ms / 1000
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            context = ssl.create_default_context(cafile=None if settings.ca_file is None else str(settings.ca_file))
            connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=seconds, context=context)
        else:
            connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=seconds)
        try:
            connection.request("GET", parts.path.rstrip("/") + path, headers=self._headers())
            answer = connection.getresponse()  # redirects are not followed: their targets would receive the password
            return answer.status, answer.read(_MAX_ANSWER_BYTES)
        finally:
            connection.close()

    def _headers(self) -> dict[str, str]:
        settings = self._settings
        headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        if settings.token is not None:
            headers["Authorization"] = f"Bearer {settings.token}"
        elif settings.user is not None:
            login = f"{settings.user}:{settings.password or ''}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        return headers

    def _schema_of(self, body: bytes, number: int) -> str:
        try:
            schema = json.loads(body)["schema"]
            if not isinstance(schema, str):
                raise TypeError("it is not text")
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(
                f"the schema registry's response for schema {number} has no schema: {error}", where=self.place
            ) from None
        return schema


class RegistrySchemas:
    """A registry's schemas as entries of a schema zone.

    Args:
        settings: Its location.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        self._client = RegistryClient(settings)
        self._not_before: dict[str, float] = {}

    def fetch(self, schema_id: str) -> ZoneEntry | None:
        """Return the schema of an id, None for an id of another form, or of a missing or currently unavailable schema.

        Raises:
            SchemaError: the schema is not one of data messages.
        """
        match = re.fullmatch(r"registry-(\d+)(?:-(\d+))?", schema_id)
        if match is None or time.monotonic() < self._not_before.get(schema_id, 0.0):
            return None
        number = int(match[1])
        try:
            schema = self._client.fetch(number)
            key = self._client.fetch(int(match[2])) if match[2] else None
        except StorageError:  # its messages are parked meanwhile, and the status reports them
            schema = key = None
        if schema is None or (match[2] and key is None):
            self._not_before[schema_id] = time.monotonic() + _ASK_AGAIN_SECONDS
            return None
        keys = () if key is None else key_fields(key)
        try:
            metadata = derive_metadata(schema, schema_id=schema_id, keys=keys, version=number)
        except SchemaError as error:
            raise SchemaError(error.what, where=f"schema {number} of {self._client.place}", advice=error.advice) from None
        return ZoneEntry(metadata, time.time_ns() // 1000, self._client.place, 0, number)


def framed_ids(raw: pa.RecordBatch, rows: list[int]) -> dict[str, list[int]]:
    """Group messages with a registry's framing by their schema ids.

    Args:
        raw: Raw messages.
        rows: Those that have the framing: at least five bytes, the first of them 0.
    """
    chosen = np.array(rows, np.int64)
    values = _numbers(raw.column("payload"), chosen)
    keys = _numbers(raw.column("key"), chosen)
    pairs, which = np.unique(np.stack([values, keys]), axis=1, return_inverse=True)
    order = np.argsort(which.reshape(-1), kind="stable")
    bounds = np.searchsorted(which.reshape(-1)[order], np.arange(pairs.shape[1] + 1))
    return {
        f"registry-{value}" if key < 0 else f"registry-{value}-{key}": chosen[order[bounds[i] : bounds[i + 1]]].tolist()
        for i, (value, key) in enumerate(pairs.T.tolist())
    }


def _numbers(array: pa.BinaryArray, rows: np.ndarray) -> np.ndarray:
    """Return the schema numbers that some values begin with, -1 for those without the framing."""
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
