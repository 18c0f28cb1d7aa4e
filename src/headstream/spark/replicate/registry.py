"""Schemas by their numbers: from a registry of Confluent's kind over HTTP, or from a directory.

    GET <url>/schemas/ids/<id>   200 {"schema": "<Avro schema>"}, 404 {"error_code": 40403, ..} where there is none
    <directory>/<id>.avsc        the same without a server

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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from headstream.codec.replicate.derived import derive_metadata, key_fields
from headstream.errors import InvalidOptionError, SchemaError, StorageError
from headstream.model.local_paths import find_path_problem
from headstream.spark.replicate.raw import offsets_and_data
from headstream.spark.replicate.zone import ZoneEntry

__all__ = ["RegistryClient", "RegistrySchemas", "RegistrySettings", "framed_ids"]

_MAX_ANSWER_BYTES: Final = 16 << 20
_FIRST_PAUSE_SECONDS: Final = 0.2
_ASK_AGAIN_SECONDS: Final = 5.0
"""How long an id that could not be had is not asked for again."""
_PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers after which the same request may well succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """Where schemas are registered; one of `url` and `directory`.

    Args:
        url: The registry, `http://host:8081` or https.
        directory: A directory with the schemas, `<id>.avsc` each.
        user: User of HTTP basic authentication.
        password: Its password.
        token: Bearer token, in place of user and password.
        ca_file: Certificates to trust, PEM; the system's where none is given.
        timeout_ms: Longest wait for one answer, milliseconds.
        retries: How often a request that failed for a reason that may pass is made again.

    Raises:
        InvalidOptionError: neither or both of url and directory, or a URL that is none of HTTP.
    """

    url: str | None = None
    directory: Path | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca_file: Path | None = None
    timeout_ms: int = 5000
    retries: int = 3

    def __post_init__(self) -> None:
        if (self.url is None) == (self.directory is None):
            raise InvalidOptionError("a schema registry is a url or a directory", where="registry", advice="Give one of them")
        if self.url is not None:
            parts = urllib.parse.urlsplit(self.url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise InvalidOptionError(
                    "the URL of the schema registry is none", where="registry", advice="Write http://host:8081 or https://host"
                )
            if parts.username or parts.password:
                raise InvalidOptionError(
                    "the URL of the schema registry has a password", where="registry", advice="Give user and password"
                )
        for path in (self.directory, self.ca_file):
            problem = None if path is None else find_path_problem(str(path))
            if problem is not None:
                raise InvalidOptionError(problem[0], where="registry", advice=problem[1])
        if self.user is not None and self.token is not None:
            raise InvalidOptionError(
                "user and token both say who asks the schema registry", where="registry", advice="Give one of them"
            )
        if self.timeout_ms < 1 or self.retries < 0:
            raise InvalidOptionError("timeout_ms is at least 1 and retries at least 0", where="registry")


class RegistryClient:
    """Asks a registry for schemas; what it has been told it keeps, since a number's schema never changes.

    Args:
        settings: Where it is.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._schemas: dict[int, str] = {}

    @property
    def place(self) -> str:
        """Where the schemas are, for messages."""
        return self._settings.url or str(self._settings.directory)

    def fetch(self, number: int) -> str | None:
        """Return the Avro schema of a number, or None where the registry has none.

        Raises:
            StorageError: the registry cannot be asked, or answers with something else.
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
            f"the schema registry cannot be asked for schema {number}: {reason}",
            where=self.place,
            advice="Check the URL, and who may read it (user and password, or token)",
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
            answer = connection.getresponse()  # no redirects are followed: they would be told the password
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
                raise TypeError("it is no text")
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(
                f"the schema registry's answer for schema {number} has no schema: {error}", where=self.place
            ) from None
        return schema


class RegistrySchemas:
    """A registry's schemas as entries of a schema zone.

    Args:
        settings: Where it is.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        self._client = RegistryClient(settings)
        self._not_before: dict[str, float] = {}

    def fetch(self, schema_id: str) -> ZoneEntry | None:
        """Return the schema of an id, None where it is not a registry's, not there, or cannot be had at present.

        Raises:
            SchemaError: the schema there is not one of data messages.
        """
        match = re.fullmatch(r"registry-(\d+)(?:-(\d+))?", schema_id)
        if match is None or time.monotonic() < self._not_before.get(schema_id, 0.0):
            return None
        number = int(match[1])
        try:
            schema = self._client.fetch(number)
            key = self._client.fetch(int(match[2])) if match[2] else None
        except StorageError:  # its messages wait meanwhile, which says so
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
