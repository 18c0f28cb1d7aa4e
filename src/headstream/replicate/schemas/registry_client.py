"""Fetches schemas by number, from a Confluent-compatible registry over HTTP or from a directory.

GET <url>/schemas/ids/<id>            200 {"schema": "<Avro schema>"}, 404 {"error_code": 40403, ..} if missing
GET <url>/schemas/guids/<GUID>/ids    200 [{"context": ".", "id": <id>}, ..]
<directory>/<id>.avsc                 a schema as a file; not available by GUID
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import time
import urllib.parse
from typing import Final

from headstream.errors import StorageError
from headstream.replicate.settings.registry_settings import RegistrySettings

_MAX_ANSWER_BYTES: Final = 16 << 20
_FIRST_PAUSE_SECONDS: Final = 0.2
_PASSING: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
"""HTTP status codes after which a retry can succeed."""


class RegistryClient:
    """Fetches schemas from a registry and caches them, since a number's schema never changes."""

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._schemas: dict[int, str] = {}
        self._numbers: dict[str, int] = {}

    @property
    def place(self) -> str:
        """Location of the schemas for error messages."""
        return self._settings.url or str(self._settings.directory)

    def known(self, number: int) -> str | None:
        """Return the Avro schema of a number if it was already fetched, or None."""
        return self._schemas.get(number)

    def fetch(self, number: int) -> str | None:
        """Return the Avro schema of a number; None if the registry does not have the number."""
        known = self.known(number)
        if known is None:
            known = self._read(number) if self._settings.directory is not None else self._ask_schema(number)
            if known is not None:
                self._schemas[number] = known
        return known

    def number_of(self, guid: str) -> int | None:
        """Return the number of a GUID, preferably in the default context; None if the GUID is unknown."""
        if guid not in self._numbers and self._settings.directory is None:
            body = self._ask(f"/schemas/guids/{guid}/ids", guid)
            try:
                numbers = {each.get("context", "."): int(each["id"]) for each in json.loads(body or b"[]")}
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise StorageError(f"the schema registry's response for {guid} has no id: {error}", where=self.place) from None
            if numbers:
                self._numbers[guid] = numbers.get(".", next(iter(numbers.values())))
        return self._numbers.get(guid)

    def _read(self, number: int) -> str | None:
        assert self._settings.directory is not None
        path = self._settings.directory / f"{number}.avsc"
        try:
            return path.read_text()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise StorageError(f"cannot read a schema: {error}", where=str(path)) from error

    def _ask_schema(self, number: int) -> str | None:
        body = self._ask(f"/schemas/ids/{number}", str(number))
        return None if body is None else self._schema_of(body, number)

    def _ask(self, path: str, name: str) -> bytes | None:
        """Return the registry's response; None if the schema is unknown."""
        pause = _FIRST_PAUSE_SECONDS
        for attempt in range(self._settings.retries + 1):
            try:
                status, body = self._get(path)
            except (OSError, http.client.HTTPException) as error:
                reason = f"{type(error).__name__}: {error}"
            else:
                if status == 200:
                    return body
                if status == 404:
                    return None
                reason = f"HTTP status {status}"
                if status not in _PASSING:
                    break
            if attempt < self._settings.retries:
                time.sleep(pause)
                pause *= 2
        raise StorageError(
            f"the schema registry did not return schema {name}: {reason}",
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
                raise TypeError("the schema is not a string")
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(
                f"the schema registry's response for schema {number} has no schema: {error}", where=self.place
            ) from None
        return schema
