"""S3: AWS, and other servers with the S3 API and conditional writes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from headstream.errors import InvalidOptionError
from headstream.replicate.storage.storage_settings import StorageSettings
from headstream.replicate.storage.store_access import (
    FIRST_WAIT_S,
    StoreAccess,
    StoreClient,
    StoreOption,
    StoreOptions,
    complete,
    delta_retries,
    named_options,
    object_retries,
)

_OPTIONS: Final[StoreOptions] = {
    "endpoint": StoreOption(("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), "aws_endpoint_url", "endpoint", "fs.s3a.endpoint"),
    "region": StoreOption(("AWS_REGION", "AWS_DEFAULT_REGION")),
    "access_key_id": StoreOption(("AWS_ACCESS_KEY_ID",), "aws_access_key_id", "access_key_id", "fs.s3a.access.key"),
    "secret_access_key": StoreOption(
        ("AWS_SECRET_ACCESS_KEY",), "aws_secret_access_key", "secret_access_key", "fs.s3a.secret.key"
    ),
    "session_token": StoreOption(("AWS_SESSION_TOKEN",), "aws_session_token", "session_token", "fs.s3a.session.token"),
}
_DEFAULT_REGION: Final = "us-east-1"
"""Region for stores without regions, and the default of AWS tools. AWS rejects a wrong region, naming the right region."""


class S3Access(StoreAccess):
    """Access to a bucket."""

    __slots__ = ()
    service: ClassVar[str] = "S3"
    extra: ClassVar[str] = "s3"
    jars: ClassVar[str | None] = "s3"
    file_system: ClassVar[str] = "org.apache.hadoop.fs.s3a.S3AFileSystem"
    condition: ClassVar[str] = "If-None-Match"
    advice: ClassVar[str] = (
        "Check that the bucket exists and that these credentials can list, read, write and delete objects. Set endpoint, region "
        "and keys in [storage] of the configuration file, or AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY"
    )

    def resolved(self, environment: Mapping[str, str] | None = None) -> StorageSettings:
        """Return the settings, completed from the environment."""
        found = complete(self.storage, _OPTIONS, environment)
        if self.storage.access_key_id is not None and found.session_token != self.storage.session_token:
            # The clients read the token from the environment themselves, and would send the token with other keys.
            raise InvalidOptionError(
                "[storage] contains keys, but AWS_SESSION_TOKEN in the environment belongs to other keys",
                where="storage",
                advice="Set session_token in [storage] too, unset AWS_SESSION_TOKEN, or use the keys from the environment",
            )
        return found

    def delta_options(self) -> dict[str, str]:
        own = self.resolved()
        options = named_options(own, _OPTIONS, "delta") | delta_retries(own.retry_us)
        options |= {
            "aws_region": own.region or _DEFAULT_REGION,
            "aws_conditional_put": "etag",
            "aws_virtual_hosted_style_request": str(not _uses_path_style(own)).lower(),
        }
        if own.endpoint is not None:
            options["aws_allow_http"] = str(own.endpoint.startswith("http:")).lower()
        return options

    def store_options(self, settings: StorageSettings, retry_us: int) -> dict[str, Any]:
        """Return the keyword arguments of obstore's S3Store; see open_client()."""
        config: dict[str, Any] = {**named_options(settings, _OPTIONS, "client")}
        config |= {"region": settings.region or _DEFAULT_REGION, "virtual_hosted_style_request": not _uses_path_style(settings)}
        client = {} if settings.endpoint is None else {"allow_http": settings.endpoint.startswith("http:")}
        return {"config": config, "client_options": client, "retry_config": object_retries(retry_us)}

    def open_client(self, settings: StorageSettings, retry_us: int) -> StoreClient:
        from obstore.store import S3Store

        from headstream.replicate.storage.object_client import ObjectClient

        return ObjectClient(S3Store(self.bucket, **self.store_options(settings, retry_us)))

    def hadoop_settings(self) -> dict[str, str]:
        """Return the settings of Hadoop's S3A file system."""
        own = self.resolved()
        settings = named_options(own, _OPTIONS, "hadoop")
        settings |= {
            "fs.s3.impl": self.file_system,  # so that s3:// works with both engines
            "fs.s3a.endpoint.region": own.region or _DEFAULT_REGION,
            "fs.s3a.path.style.access": str(_uses_path_style(own)).lower(),
        }
        # By default, if a store responds with 503, Hadoop retries for days, and the AWS client five times within each attempt.
        count, first_ms = _doubled_waits(own.retry_us)
        settings["fs.s3a.attempts.maximum"] = "1"
        for kind in ("retry", "retry.throttle"):
            settings |= {f"fs.s3a.{kind}.limit": str(count), f"fs.s3a.{kind}.interval": f"{first_ms}ms"}
        if own.endpoint is not None:
            settings["fs.s3a.connection.ssl.enabled"] = str(own.endpoint.startswith("https:")).lower()
        return settings

    @property
    def hadoop_root(self) -> str:
        return f"s3a://{self.bucket}"

    def describe(self) -> str:
        """Return the endpoint, the region and the source of the credentials, without the credentials."""
        own = self.resolved()
        keys = "of [storage]" if self.storage.access_key_id is not None else "of AWS_ACCESS_KEY_ID"
        if own.access_key_id is None:
            keys = "of the machine's role (no keys in [storage] or AWS_ACCESS_KEY_ID)"
        return f"endpoint {own.endpoint or 'AWS'}, region {own.region or _DEFAULT_REGION}, credentials {keys}"


def _uses_path_style(settings: StorageSettings) -> bool:
    """Return whether the bucket is in the URL's path."""
    return settings.endpoint is not None if settings.path_style is None else settings.path_style


def _doubled_waits(retry_us: int) -> tuple[int, int]:
    """Return the number and interval (milliseconds) of Hadoop's retries for a total time (microseconds).

    Before retry n, Hadoop waits 2^n intervals on average, without an upper limit.
    """
    first_us = FIRST_WAIT_S * 1e6 / 2
    count = max(round(math.log2(retry_us / first_us + 2)) - 1, 0)
    return count, math.ceil(retry_us / 1000 / max((2 << count) - 2, 1))
