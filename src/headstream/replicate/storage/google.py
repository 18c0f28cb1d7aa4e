"""Google Cloud Storage."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from headstream.errors import InvalidOptionError
from headstream.replicate.storage.storage_settings import StorageSettings
from headstream.replicate.storage.store_access import (
    StoreAccess,
    StoreClient,
    StoreOption,
    StoreOptions,
    complete,
    delta_retries,
    object_retries,
)

_OPTIONS: Final[StoreOptions] = {
    "endpoint": StoreOption(("STORAGE_EMULATOR_HOST",)),
    "service_account": StoreOption(("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_APPLICATION_CREDENTIALS")),
}
_SIZES: Final = {
    "fs.gs.block.size": str(64 << 20),
    "fs.gs.outputstream.buffer.size": str(8 << 20),
    "fs.gs.inputstream.inplace.seek.limit": str(8 << 20),
    "fs.gs.inputstream.min.range.request.size": str(2 << 20),
}
"""Hadoop's defaults, such as `64m`, as numbers, because Google's connector rejects the suffix."""
_FIRST_RETRY_S: Final = 1.25
"""Measured wait of the connector before the first retry, seconds; the wait doubles with each retry."""


class GoogleAccess(StoreAccess):
    """Access to a bucket."""

    __slots__ = ()
    service: ClassVar[str] = "Google Cloud Storage"
    extra: ClassVar[str] = "gcs"
    jars: ClassVar[str | None] = "gcs"
    file_system: ClassVar[str] = "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem"
    condition: ClassVar[str] = "x-goog-if-generation-match"
    advice: ClassVar[str] = (
        "Check that the bucket exists and that these credentials can list, read, write and delete objects. Set service_account "
        "in [storage] of the configuration file, or GOOGLE_APPLICATION_CREDENTIALS, to the path of a service account's key"
    )

    def resolved(self, environment: Mapping[str, str] | None = None) -> StorageSettings:
        """Return the settings, completed from the environment."""
        return complete(self.storage, _OPTIONS, environment)

    def delta_options(self) -> dict[str, str]:
        own = self.resolved()
        options = delta_retries(own.retry_us) | {f"google_{name}": value for name, value in self._config(own).items()}
        if own.endpoint is not None:
            options["allow_http"] = str(own.endpoint.startswith("http:")).lower()
        return options

    def open_client(self, settings: StorageSettings, retry_us: int) -> StoreClient:
        from obstore.store import GCSStore

        from headstream.replicate.storage.object_client import ObjectClient

        client: dict[str, Any] = {}
        if settings.endpoint is not None:
            client["allow_http"] = settings.endpoint.startswith("http:")
        config: Any = self._config(settings)
        return ObjectClient(
            GCSStore(self.bucket, config=config, client_options=client, retry_config=object_retries(retry_us)),  # type: ignore[arg-type]
            uses_versions=True,
        )

    def hadoop_settings(self) -> dict[str, str]:
        """Return the settings of Google's connector; Hadoop's client (hadoop-gcp) has the same setting names for the login."""
        own = self.resolved()
        settings = {
            "fs.gs.impl": self.file_system,
            "fs.AbstractFileSystem.gs.impl": self.file_system.replace("GoogleHadoopFileSystem", "GoogleHadoopFS"),
            "fs.gs.http.max.retry": str(_count_retries(own.retry_us)),
            **_SIZES,
        }
        if own.endpoint is not None:  # an emulator: requests have no login, as in _config()
            settings |= {
                "fs.gs.storage.root.url": f"{own.endpoint.rstrip('/')}/",
                "fs.gs.auth.service.account.enable": "false",
                "fs.gs.auth.null.enable": "true",
            }
        elif own.service_account is not None:
            settings |= _hadoop_login(own.service_account)
        return settings

    @property
    def hadoop_root(self) -> str:
        return f"gs://{self.bucket}"

    def describe(self) -> str:
        own = self.resolved()
        if own.service_account is None:
            keys = "of the machine's identity (none in [storage] or GOOGLE_APPLICATION_CREDENTIALS)"
        else:
            keys = "of [storage]" if self.storage.service_account is not None else "of GOOGLE_APPLICATION_CREDENTIALS"
        if own.endpoint is not None:
            keys = "none, as with any custom endpoint"
        return f"endpoint {own.endpoint or 'Google'}, credentials {keys}"

    def _config(self, settings: StorageSettings) -> dict[str, str]:
        """Return the client's settings; with a custom endpoint (an emulator), requests are not signed."""
        if settings.endpoint is not None:
            unsigned = {"gcs_base_url": settings.endpoint, "disable_oauth": True}
            key = {"client_email": "", "private_key": "", "private_key_id": "", **unsigned}
            return {"service_account_key": json.dumps(key)}
        if settings.service_account is None:
            return {}
        return {_kind_of(settings.service_account): settings.service_account}


def _kind_of(path: str) -> str:
    """Return the name of the client's setting for a credentials file, which is a service account key or a user's credentials."""
    return "service_account" if _read_credentials(path)["type"] == "service_account" else "application_credentials"


def _read_credentials(path: str) -> dict[str, str]:
    try:
        found: dict[str, str] = json.loads(Path(path).read_text())
        found["type"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InvalidOptionError(
            f"there are no Google credentials in {path}", where="storage", advice="Specify the key of a service account in JSON"
        ) from None
    return found


def _hadoop_login(path: str) -> dict[str, str]:
    """Return the settings of Hadoop's clients for a credentials file."""
    found = _read_credentials(path)
    if found["type"] == "service_account":
        return {"fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE", "fs.gs.auth.service.account.json.keyfile": path}
    named = {"client.id": "client_id", "client.secret": "client_secret", "refresh.token": "refresh_token"}
    user = {f"fs.gs.auth.{name}": value for name, key in named.items() if (value := found.get(key)) is not None}
    return {"fs.gs.auth.type": "USER_CREDENTIALS", "fs.gs.auth.service.account.enable": "false", **user}


def _count_retries(retry_us: int) -> int:
    """Return the number of retries of the connector that take about the given time, microseconds."""
    return round(math.log2(retry_us / (_FIRST_RETRY_S * 1e6) + 1))
