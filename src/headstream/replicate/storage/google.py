"""Google's Cloud Storage."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

from headstream.errors import InvalidOptionError
from headstream.replicate.storage.storage_settings import StorageSettings
from headstream.replicate.storage.store_access import StoreAccess, StoreClient, complete, delta_retries, object_retries

__all__ = ["GoogleAccess"]

_VARIABLES: Final = {
    "endpoint": ("STORAGE_EMULATOR_HOST",),
    "service_account": ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_APPLICATION_CREDENTIALS"),
}


class GoogleAccess(StoreAccess):
    """The access to a bucket."""

    __slots__ = ()
    what: ClassVar[str] = "Google Cloud Storage"
    extra: ClassVar[str] = "gcs"
    jars: ClassVar[str | None] = None
    spark_gap: ClassVar[str | None] = "Hadoop's client of Google takes no endpoint, so no server of this kind could be tried"
    file_system: ClassVar[str] = "org.apache.hadoop.fs.gs.GoogleHadoopFileSystem"
    condition: ClassVar[str] = "x-goog-if-generation-match"
    advice: ClassVar[str] = (
        "Check that the bucket exists and that these credentials may list, read, write and delete there. Set service_account in "
        "[storage] of the configuration file, or GOOGLE_APPLICATION_CREDENTIALS, to the path of a service account's key"
    )

    def resolved(self, environment: Mapping[str, str] | None = None) -> StorageSettings:
        """Return the settings, completed from the environment."""
        return complete(self.storage, _VARIABLES, environment)

    def delta_options(self) -> dict[str, str]:
        """Return deltalake's `storage_options`."""
        own = self.resolved()
        options = delta_retries(own.retry_us) | {f"google_{name}": value for name, value in self._config(own).items()}
        if own.endpoint is not None:
            options["allow_http"] = str(own.endpoint.startswith("http:")).lower()
        return options

    def open_client(self, settings: StorageSettings, retry_us: int) -> StoreClient:
        """Return a client."""
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
        """Return no settings: Spark does not write there."""
        return {}

    @property
    def hadoop_root(self) -> str:
        """Scheme and bucket as Hadoop's file systems name them."""
        return f"gs://{self.bucket}"

    def describe(self) -> str:
        """Return endpoint and the source of the credentials, without the credentials."""
        own = self.resolved()
        if own.service_account is None:
            keys = "of the machine's identity (none in [storage] or GOOGLE_APPLICATION_CREDENTIALS)"
        else:
            keys = "of [storage]" if self.storage.service_account is not None else "of GOOGLE_APPLICATION_CREDENTIALS"
        if own.endpoint is not None:
            keys = "none, as with any endpoint of one's own"
        return f"endpoint {own.endpoint or 'Google'}, credentials {keys}"

    def _config(self, settings: StorageSettings) -> dict[str, str]:
        """Return the client's settings; with an endpoint of one's own, an emulator's, requests are not signed."""
        if settings.endpoint is not None:
            unsigned = {"gcs_base_url": settings.endpoint, "disable_oauth": True}
            key = {"client_email": "", "private_key": "", "private_key_id": "", **unsigned}
            return {"service_account_key": json.dumps(key)}
        if settings.service_account is None:
            return {}
        return {_kind_of(settings.service_account): settings.service_account}


def _kind_of(path: str) -> str:
    """Return the name of the client's setting for a credentials file: a key, or what Google's tools write for a user."""
    try:
        kind = json.loads(Path(path).read_text())["type"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InvalidOptionError(
            f"there are no credentials of Google in {path}", where="storage", advice="Name a service account's key, in JSON"
        ) from None
    return "service_account" if kind == "service_account" else "application_credentials"
