"""The schema registry, for messages that refer to their schema by number."""

from __future__ import annotations

import urllib.parse
from dataclasses import dataclass, field
from pathlib import Path

from headstream.core.model.local_paths import find_path_problem
from headstream.errors import InvalidOptionError


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """The location of the schemas, either `url` or `directory`.

    Args:
        url: URL of the registry, `http://host:8081` or `https://host`.
        directory: Directory with the schemas, in files named `<id>.avsc`.
        user: User of HTTP basic authentication.
        password: Password of HTTP basic authentication.
        token: Bearer token, instead of user and password.
        ca_file: PEM file with trusted certificates; by default, the system's certificates.
        timeout_ms: Timeout of a response, milliseconds.
        retries: Maximum number of retries of a request after a transient failure.

    Raises:
        InvalidOptionError: neither or both of url and directory are set, or the URL is not HTTP.
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
            raise InvalidOptionError("a schema registry requires either url or directory, not both", where="registry")
        if self.url is not None:
            parts = urllib.parse.urlsplit(self.url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise InvalidOptionError(
                    "the URL of the schema registry is invalid", where="registry", advice="Write http://host:8081 or https://host"
                )
            if parts.username or parts.password:
                raise InvalidOptionError(
                    "the URL of the schema registry has a password", where="registry", advice="Set user and password instead"
                )
        for path in (self.directory, self.ca_file):
            problem = None if path is None else find_path_problem(str(path))
            if problem is not None:
                raise InvalidOptionError(problem[0], where="registry", advice=problem[1])
        if self.user is not None and self.token is not None:
            raise InvalidOptionError("user and token exclude each other", where="registry", advice="Set only one of them")
        if self.timeout_ms < 1 or self.retries < 0:
            raise InvalidOptionError("timeout_ms must be at least 1 and retries at least 0", where="registry")
