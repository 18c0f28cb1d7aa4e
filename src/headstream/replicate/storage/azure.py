"""Azure's storage: ADLS and Blob containers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from headstream.errors import InvalidOptionError
from headstream.replicate.storage.storage_settings import StorageSettings
from headstream.replicate.storage.store_access import StoreAccess, StoreClient, complete, delta_retries, object_retries

__all__ = ["AzureAccess"]

_VARIABLES: Final = {
    "endpoint": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
    "account_key": ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY"),
    "sas_token": ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY"),
    "tenant_id": ("AZURE_TENANT_ID",),
    "client_id": ("AZURE_CLIENT_ID",),
    "client_secret": ("AZURE_CLIENT_SECRET",),
}
_CREDENTIALS: Final = ("account_key", "sas_token", "client_secret")
_PRINCIPAL: Final = ("tenant_id", "client_id")
_TOKEN: Final = ("AZURE_STORAGE_TOKEN",)
_KEYS: Final = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY")
_PREFERRED: Final = {
    "account_key": _TOKEN,
    "client_secret": (*_TOKEN, *_KEYS),
    "sas_token": (*_TOKEN, *_KEYS, "AZURE_CLIENT_SECRET", "AZURE_STORAGE_CLIENT_SECRET"),
}
"""Variables that the clients read themselves, and prefer to a credential of the section."""
_DELTA_NAMES: Final = {
    "account_key": "azure_storage_account_key",
    "sas_token": "azure_storage_sas_token",
    "tenant_id": "azure_storage_tenant_id",
    "client_id": "azure_storage_client_id",
    "client_secret": "azure_storage_client_secret",
}


class AzureAccess(StoreAccess):
    """The access to a container; `bucket` is `container@account.dfs.core.windows.net`."""

    __slots__ = ()
    what: ClassVar[str] = "Azure"
    extra: ClassVar[str] = "azure"
    jars: ClassVar[str | None] = None
    spark_gap: ClassVar[str | None] = "Hadoop's client of Azure has not been tried to the end: Azurite rejects its signatures"
    file_system: ClassVar[str] = "org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem"
    condition: ClassVar[str] = "If-None-Match"
    advice: ClassVar[str] = (
        "Check that the container exists and that these credentials may list, read, write and delete there. Set account_key, "
        "sas_token or client_secret (with tenant_id and client_id) in [storage] of the configuration file, or "
        "AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET"
    )

    @property
    def _container(self) -> str:
        return self.bucket.partition("@")[0]

    @property
    def _host(self) -> str:
        return self.bucket.partition("@")[2]

    @property
    def _account(self) -> str:
        return self._host.partition(".")[0]

    def resolved(self, environment: Mapping[str, str] | None = None) -> StorageSettings:
        """Return the settings, completed from the environment; credentials of one kind, the section's first."""
        self._check_credentials(os.environ if environment is None else environment)
        found = self.storage
        for name in _CREDENTIALS:
            if all(getattr(found, each) is None for each in _CREDENTIALS):
                names = (*_PRINCIPAL, name) if name == "client_secret" else (name,)
                found = complete(found, {each: _VARIABLES[each] for each in names}, environment)
        return complete(found, {each: _VARIABLES[each] for each in ("endpoint", *_PRINCIPAL)}, environment)

    def _check_credentials(self, environment: Mapping[str, str]) -> None:
        own = next((name for name in _CREDENTIALS if getattr(self.storage, name) is not None), None)
        other = next((name for name in _PREFERRED.get(own or "", ()) if environment.get(name)), None)
        if other is not None:
            raise InvalidOptionError(
                f"[storage] has {own}, and the environment has {other}, which the clients use instead",
                where="storage",
                advice=f"Unset {other}, or take the credentials from the environment",
            )

    def delta_options(self) -> dict[str, str]:
        """Return deltalake's `storage_options`."""
        own = self.resolved()
        options = {_DELTA_NAMES[name]: value for name in _DELTA_NAMES if (value := getattr(own, name)) is not None}
        options |= delta_retries(own.retry_us) | {"azure_storage_account_name": self._account}
        if own.endpoint is not None:
            options["azure_storage_endpoint"] = self._endpoint(own.endpoint)
            options["allow_http"] = str(own.endpoint.startswith("http:")).lower()
        return options

    def open_client(self, settings: StorageSettings, retry_us: int) -> StoreClient:
        """Return a client."""
        from obstore.store import AzureStore

        from headstream.replicate.storage.object_client import ObjectClient

        named = {"account_key": "account_key", "sas_token": "sas_key", "tenant_id": "tenant_id", "client_id": "client_id",
                 "client_secret": "client_secret"}  # fmt: skip
        config: dict[str, Any] = {named[name]: value for name in named if (value := getattr(settings, name)) is not None}
        config["account_name"] = self._account
        client: dict[str, Any] = {}
        if settings.endpoint is not None:
            config["endpoint"] = self._endpoint(settings.endpoint)
            client["allow_http"] = settings.endpoint.startswith("http:")
        return ObjectClient(
            AzureStore(self._container, config=config, client_options=client, retry_config=object_retries(retry_us))  # type: ignore[arg-type]
        )

    def hadoop_settings(self) -> dict[str, str]:
        """Return no settings: Spark does not write there."""
        return {}

    @property
    def hadoop_root(self) -> str:
        """Scheme and container as Hadoop's file systems name them."""
        return f"abfss://{self.bucket}"

    def describe(self) -> str:
        """Return endpoint and the source of the credentials, without the credentials."""
        own = self.resolved()
        name = next((name for name in _CREDENTIALS if getattr(own, name) is not None), None)
        if name is None:
            keys = "of the machine's identity (none in [storage] or AZURE_STORAGE_ACCOUNT_KEY)"
        else:
            keys = f"{name} of [storage]" if getattr(self.storage, name) is not None else f"of {_VARIABLES[name][0]}"
        return f"endpoint {own.endpoint or self._host}, credentials {keys}"

    def _endpoint(self, url: str) -> str:
        return f"{url.rstrip('/')}/{self._account}"
