"""The section [storage]: endpoint, region and credentials of an object store, for deltalake, our own files and Spark.

Settings that the section lacks are read from the usual environment variables; the rest is left to the clients: role and web
identity variables, and the instance's metadata service.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from headstream.errors import InvalidOptionError

__all__ = ["StorageSettings"]

_VARIABLES: Final = {
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "access_key_id": ("AWS_ACCESS_KEY_ID",),
    "secret_access_key": ("AWS_SECRET_ACCESS_KEY",),
    "session_token": ("AWS_SESSION_TOKEN",),
}
_KEYS: Final = ("access_key_id", "secret_access_key", "session_token")
_DEFAULT_REGION: Final = "us-east-1"
"""For stores without regions, and the default of AWS's tools; AWS rejects a wrong region with the right one's name."""
_FIRST_WAIT_S: Final = 0.1
_LONGEST_WAIT_S: Final = 5.0
"""Longest delay between retries, seconds: a recovered store is noticed within it."""
_MOST_RETRIES: Final = 1000
"""High enough that retry_us is the limit."""
_COLOUR: Final = re.compile(r"\x1b\[[0-9;]*m")
_ARROW: Final = re.compile(r"\s*(?:↳|->|\n)\s*")
_REASON: Final = re.compile(r'message: "([^"]+)"')
_SHORTEST_SECRET: Final = 4
"""Shorter secrets are not redacted: they occur in ordinary words, and no store issues them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """An object store.

    Args:
        endpoint: URL of a store other than AWS, `https://minio.example:9000`.
        region: Its region.
        access_key_id: The key's name.
        secret_access_key: The key.
        session_token: The token of temporary keys.
        path_style: Whether the bucket is in the URL's path, not in its host; by default with an `endpoint`.
        retry_us: How long a failing request is retried, microseconds; then the table's changes wait.

    Raises:
        InvalidOptionError: settings contradict each other, or the endpoint is not a URL.
    """

    endpoint: str | None = None
    region: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    path_style: bool | None = None
    retry_us: int = 30_000_000

    def __post_init__(self) -> None:
        if self.endpoint is not None:
            parts = urlsplit(self.endpoint)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise InvalidOptionError(
                    "the endpoint of the object store is not a URL", where="storage", advice="Write https://host:9000"
                )
            if parts.username or parts.password or parts.query or parts.fragment:
                raise InvalidOptionError(
                    "the endpoint of the object store has more than a host, a port and a path",
                    where="storage",
                    advice="Credentials are access_key_id and secret_access_key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
                )
        if (self.access_key_id is None) != (self.secret_access_key is None):
            lacks = "secret_access_key" if self.secret_access_key is None else "access_key_id"
            raise InvalidOptionError(
                f"the object store's {lacks} is missing", where="storage", advice="Give both, or neither: see the environment's"
            )
        if self.session_token is not None and self.access_key_id is None:
            raise InvalidOptionError(
                "a session_token without its keys", where="storage", advice="Give access_key_id and secret_access_key too"
            )
        if self.retry_us < 0:
            raise InvalidOptionError("the time of retries cannot be negative", where="storage")

    def resolved(self, environment: Mapping[str, str] | None = None) -> StorageSettings:
        """Return the settings, completed from the environment.

        Args:
            environment: By default this process's.

        Raises:
            InvalidOptionError: the environment's variables are invalid or contradict the settings.
        """
        environment = os.environ if environment is None else environment
        found: dict[str, Any] = {}
        for name, variables in _VARIABLES.items():
            value = next((environment[variable] for variable in variables if environment.get(variable)), None)
            if value is not None and getattr(self, name) is None:
                found[name] = value
        if self.access_key_id is not None and "session_token" in found:
            # The clients read it from the environment themselves, and would send it with other keys.
            raise InvalidOptionError(
                "[storage] has keys, and the environment has AWS_SESSION_TOKEN, which belongs to other keys",
                where="storage",
                advice="Give session_token in [storage] too, unset AWS_SESSION_TOKEN, or take the keys from the environment",
            )
        return replace(self, **found) if found else self

    @property
    def uses_path_style(self) -> bool:
        """Whether the bucket is in the URL's path."""
        return self.endpoint is not None if self.path_style is None else self.path_style

    def delta_options(self) -> dict[str, str]:
        """Return deltalake's `storage_options`."""
        own = self.resolved()
        options = {f"aws_{name}": value for name in _KEYS if (value := getattr(own, name)) is not None}
        options |= {
            "aws_region": own.region or _DEFAULT_REGION,
            "aws_conditional_put": "etag",
            "aws_virtual_hosted_style_request": str(not own.uses_path_style).lower(),
            "max_retries": str(_MOST_RETRIES),
            "retry_timeout": f"{math.ceil(own.retry_us / 1000)}ms",
            "backoff_config.init_backoff": f"{int(_FIRST_WAIT_S * 1000)}ms",
            "backoff_config.max_backoff": f"{int(_LONGEST_WAIT_S * 1000)}ms",
        }
        if own.endpoint is not None:
            options |= {"aws_endpoint_url": own.endpoint, "aws_allow_http": str(own.endpoint.startswith("http:")).lower()}
        return options

    def store_options(self, retry_us: int | None = None) -> dict[str, Any]:
        """Return the keyword arguments of obstore's S3Store.

        Args:
            retry_us: How long a request is retried, microseconds; by default as the settings have it.
        """
        own = self.resolved()
        config: dict[str, Any] = {name: value for name in _KEYS if (value := getattr(own, name)) is not None}
        config |= {"region": own.region or _DEFAULT_REGION, "virtual_hosted_style_request": not own.uses_path_style}
        client: dict[str, Any] = {}
        if own.endpoint is not None:
            config["endpoint"] = own.endpoint
            client["allow_http"] = own.endpoint.startswith("http:")
        backoff = {
            "init_backoff": timedelta(seconds=_FIRST_WAIT_S),
            "max_backoff": timedelta(seconds=_LONGEST_WAIT_S),
            "base": 2,
        }
        longest = timedelta(microseconds=own.retry_us if retry_us is None else retry_us)
        retry = {"max_retries": _MOST_RETRIES, "retry_timeout": longest, "backoff": backoff}
        return {"config": config, "client_options": client, "retry_config": retry}

    def hadoop_settings(self) -> dict[str, str]:
        """Return the settings of Hadoop's file system S3A, for Spark; a setting of Spark's is `spark.hadoop.` and its name.

        They contain credentials: set in a running driver's Hadoop configuration, they appear on no command line.
        """
        own = self.resolved()
        named = {"access_key_id": "access.key", "secret_access_key": "secret.key", "session_token": "session.token"}
        settings = {f"fs.s3a.{named[name]}": value for name in _KEYS if (value := getattr(own, name)) is not None}
        settings |= {
            "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",  # so that s3:// is the same to both engines
            "fs.s3a.endpoint.region": own.region or _DEFAULT_REGION,
            "fs.s3a.path.style.access": str(own.uses_path_style).lower(),
        }
        # Hadoop's own defaults retry a store that answers 503 for days, and the AWS client five times within each attempt.
        count, first_ms = _doubled_waits(own.retry_us)
        settings["fs.s3a.attempts.maximum"] = "1"
        for kind in ("retry", "retry.throttle"):
            settings |= {f"fs.s3a.{kind}.limit": str(count), f"fs.s3a.{kind}.interval": f"{first_ms}ms"}
        if own.endpoint is not None:
            settings["fs.s3a.endpoint"] = own.endpoint
            settings["fs.s3a.connection.ssl.enabled"] = str(own.endpoint.startswith("https:")).lower()
        return settings

    def redact(self, text: str) -> str:
        """Return a client's error in one line, without credentials.

        Args:
            text: The error, possibly with colour codes and several lines.
        """
        own = self.resolved()
        found, _, debugging = text.partition("\n\nDebug source:")
        found = _ARROW.sub(": ", _COLOUR.sub("", found)).strip(": ")
        reason = _REASON.search(debugging)  # the operating system's reason, which occurs only here
        if reason is not None and reason[1] not in found:
            found = f"{found}: {reason[1]}"
        for name in _KEYS:
            value = getattr(own, name)
            if value is not None and len(value) >= _SHORTEST_SECRET:
                found = found.replace(value, "***")
        return found

    def describe(self) -> str:
        """Return endpoint, region and the source of the credentials, without the credentials."""
        own = self.resolved()
        endpoint = own.endpoint or "AWS"
        keys = "of [storage]" if self.access_key_id is not None else "of AWS_ACCESS_KEY_ID"
        if own.access_key_id is None:
            keys = "of the machine's role (no keys in [storage] or AWS_ACCESS_KEY_ID)"
        return f"endpoint {endpoint}, region {own.region or _DEFAULT_REGION}, credentials {keys}"


def _doubled_waits(retry_us: int) -> tuple[int, int]:
    """Return number and interval, milliseconds, of Hadoop's retries that last a time, microseconds, together.

    Before retry n of them it waits 2^n intervals on average, without an upper limit.
    """
    first_us = _FIRST_WAIT_S * 1e6 / 2
    count = max(round(math.log2(retry_us / first_us + 2)) - 1, 0)
    return count, math.ceil(retry_us / 1000 / max((2 << count) - 2, 1))
