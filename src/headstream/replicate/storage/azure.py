"""Azure storage: ADLS and Blob containers."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

from headstream.errors import InvalidOptionError
from headstream.replicate.storage.storage_settings import StorageSettings
from headstream.replicate.storage.store_access import (
    FIRST_WAIT_S,
    LONGEST_WAIT_S,
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
    "endpoint": StoreOption(("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")),
    "account_key": StoreOption(("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY"), "azure_storage_account_key", "account_key"),
    "sas_token": StoreOption(("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY"), "azure_storage_sas_token", "sas_key"),
    "tenant_id": StoreOption(("AZURE_TENANT_ID",), "azure_storage_tenant_id", "tenant_id"),
    "client_id": StoreOption(("AZURE_CLIENT_ID",), "azure_storage_client_id", "client_id"),
    "client_secret": StoreOption(("AZURE_CLIENT_SECRET",), "azure_storage_client_secret", "client_secret"),
}
_CREDENTIALS: Final = ("account_key", "client_secret", "sas_token")
"""Credentials in the clients' order of precedence; a workload identity follows the account key."""
_PRINCIPAL: Final = ("tenant_id", "client_id")
_WORKLOAD: Final = ("AZURE_FEDERATED_TOKEN_FILE",)
_TOKEN: Final = ("AZURE_STORAGE_TOKEN",)
_KEYS: Final = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY")
_PREFERRED: Final = {
    "account_key": _TOKEN,
    "client_secret": (*_TOKEN, *_KEYS, *_WORKLOAD),
    "sas_token": (*_TOKEN, *_KEYS, *_WORKLOAD, "AZURE_CLIENT_SECRET", "AZURE_STORAGE_CLIENT_SECRET"),
}
"""Environment variables that the clients read themselves and that take precedence over a credential in [storage]."""


class AzureAccess(StoreAccess):
    """Access to a container; `bucket` is `container@account.dfs.core.windows.net`."""

    __slots__ = ()
    service: ClassVar[str] = "Azure"
    extra: ClassVar[str] = "azure"
    jars: ClassVar[str | None] = "azure"
    file_system: ClassVar[str] = "org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem"
    condition: ClassVar[str] = "If-None-Match"
    advice: ClassVar[str] = (
        "Check that the container exists and that these credentials can list, read, write and delete objects. Set account_key, "
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
        """Return the settings, completed from the environment, with credentials of one kind, preferably those in [storage]."""
        known = os.environ if environment is None else environment
        self._check_credentials(known)
        found = complete(self.storage, {each: _OPTIONS[each] for each in ("endpoint", *_PRINCIPAL)}, known)
        for name in _CREDENTIALS:
            if any(getattr(found, each) is not None for each in _CREDENTIALS):
                break
            if name != "account_key" and self._is_workload(found, known):
                break
            if name != "client_secret" or _has_principal(found):
                found = complete(found, {name: _OPTIONS[name]}, known)
        return found

    @staticmethod
    def _is_workload(own: StorageSettings, environment: Mapping[str, str]) -> bool:
        """Return whether the clients log in with a workload identity token, if there is no account key."""
        return _has_principal(own) and bool(environment.get(_WORKLOAD[0]))

    def _check_credentials(self, environment: Mapping[str, str]) -> None:
        own = next((name for name in _CREDENTIALS if getattr(self.storage, name) is not None), None)
        other = next((name for name in _PREFERRED.get(own or "", ()) if environment.get(name)), None)
        if other is not None:
            raise InvalidOptionError(
                f"[storage] contains {own}, but the environment has {other}, which the clients would use instead",
                where="storage",
                advice=f"Unset {other}, or use the credentials from the environment",
            )

    def delta_options(self) -> dict[str, str]:
        own = self.resolved()
        options = named_options(own, _OPTIONS, "delta") | delta_retries(own.retry_us)
        options["azure_storage_account_name"] = self._account
        if own.endpoint is not None:
            options["azure_storage_endpoint"] = self._endpoint(own.endpoint)
            options["allow_http"] = str(own.endpoint.startswith("http:")).lower()
        return options

    def open_client(self, settings: StorageSettings, retry_us: int) -> StoreClient:
        from obstore.store import AzureStore

        from headstream.replicate.storage.object_client import ObjectClient

        config = named_options(settings, _OPTIONS, "client") | {"account_name": self._account}
        client: dict[str, Any] = {}
        if settings.endpoint is not None:
            config["endpoint"] = self._endpoint(settings.endpoint)
            client["allow_http"] = settings.endpoint.startswith("http:")
        return ObjectClient(
            AzureStore(self._container, config=config, client_options=client, retry_config=object_retries(retry_us))  # type: ignore[arg-type]
        )

    def hadoop_settings(self) -> dict[str, str]:
        """Return the settings of Hadoop's ABFS file system."""
        own = self.resolved()
        settings = _hadoop_retries(own.retry_us)
        login = self._login(own)
        settings |= {f"{name}.{self._host}": value for name, value in login.items()}
        return settings | (_emulator_settings(own.endpoint) if own.endpoint is not None else {})

    def hadoop_identity(self, environment: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return ABFS settings for the machine's identity, or for a workload identity if the environment has its token file."""
        known, own = os.environ if environment is None else environment, self.resolved(environment)
        if any(getattr(own, name) is not None for name in _CREDENTIALS):
            return {}
        is_workload = self._is_workload(own, known)
        found = {"fs.azure.account.auth.type": "OAuth"}
        found["fs.azure.account.oauth.provider.type"] = _provider("WorkloadIdentity" if is_workload else "Msi")
        named = {"oauth2.client.id": own.client_id, "oauth2.msi.tenant": own.tenant_id}
        if is_workload:
            named |= {"oauth2.token.file": known[_WORKLOAD[0]], "oauth2.msi.authority": f"{_authority(known)}/"}
        return found | {f"fs.azure.account.{name}": value for name, value in named.items() if value is not None}

    @property
    def hadoop_logins(self) -> tuple[str, ...]:
        """The ABFS settings for the login of one session."""
        names = ("fs.azure.account.auth.type", "fs.azure.account.key", "fs.azure.account.keyprovider")
        return tuple(name for each in names for name in (each, f"{each}.{self._host}"))

    def _login(self, own: StorageSettings) -> dict[str, str]:
        """Return ABFS settings for the credentials, without the account name."""
        kind, provider = "fs.azure.account.auth.type", "fs.azure.account.oauth.provider.type"
        if own.account_key is not None:
            return {kind: "SharedKey", "fs.azure.account.key": own.account_key}
        if own.sas_token is not None:
            return {kind: "SAS", "fs.azure.sas.fixed.token": own.sas_token.removeprefix("?")}
        if own.client_secret is None or own.client_id is None:
            return {}
        return {
            kind: "OAuth",
            provider: _provider("ClientCreds"),
            "fs.azure.account.oauth2.client.endpoint": f"{_authority(os.environ)}/{own.tenant_id}/oauth2/token",
            "fs.azure.account.oauth2.client.id": own.client_id,
            "fs.azure.account.oauth2.client.secret": own.client_secret,
        }

    @property
    def hadoop_root(self) -> str:
        """Scheme and container, as in Hadoop URIs."""
        return f"abfss://{self.bucket}"

    def describe(self) -> str:
        own = self.resolved()
        name = next((name for name in _CREDENTIALS if getattr(own, name) is not None), None)
        if name is None:
            keys = "of the machine's identity (none in [storage] or AZURE_STORAGE_ACCOUNT_KEY)"
            if self._is_workload(own, os.environ):
                keys = f"of the workload's identity ({_WORKLOAD[0]})"
        elif getattr(self.storage, name) is not None:
            keys = f"{name} of [storage]"
        else:
            keys = f"of {next(variable for variable in _OPTIONS[name].variables if os.environ.get(variable))}"
        return f"endpoint {own.endpoint or self._host}, credentials {keys}"

    def _endpoint(self, url: str) -> str:
        return f"{url.rstrip('/')}/{self._account}"


def _has_principal(settings: StorageSettings) -> bool:
    return all(getattr(settings, name) is not None for name in _PRINCIPAL)


def _provider(kind: str) -> str:
    return f"org.apache.hadoop.fs.azurebfs.oauth2.{kind}TokenProvider"


def _authority(environment: Mapping[str, str]) -> str:
    """Return the login URL of the directory; national clouds have other URLs."""
    return (environment.get("AZURE_AUTHORITY_HOST") or "https://login.microsoftonline.com").rstrip("/")


def _emulator_settings(url: str) -> dict[str, str]:
    """Return ABFS settings for a server of the Blob API that has the account in the path of URLs."""
    parts = urlsplit(url)
    is_encrypted = parts.scheme == "https"
    if parts.path.strip("/"):
        raise InvalidOptionError(
            "Spark does not accept a path in the endpoint of an Azure-compatible store",
            where="storage",
            advice="Write https://host:port",
        )
    settings = {
        "fs.azure.abfs.endpoint": f"{parts.hostname}:{parts.port or (443 if is_encrypted else 80)}",
        "fs.azure.account.hns.enabled": "false",
        "fs.azure.fns.account.service.type": "BLOB",
    }
    if not is_encrypted:
        settings |= {
            "fs.abfss.impl": "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem",  # the class of abfss:// always encrypts
            "fs.azure.always.use.https": "false",
            "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",  # the other library needs a TLS factory
        }
    return settings


def _hadoop_retries(retry_us: int) -> dict[str, str]:
    """Return ABFS settings for retrying during the given time, microseconds.

    Before retry n (from 0), ABFS waits 2^n times the first wait on average, up to the longest wait. The two waits are
    FIRST_WAIT_S and LONGEST_WAIT_S, reduced so that the total is the given time.
    """
    count, total_s = 0, 0.0
    while total_s * 1e6 < retry_us:
        total_s += min(FIRST_WAIT_S * 2**count, LONGEST_WAIT_S)
        count += 1
    part = retry_us / 1e6 / total_s if count else 1.0
    first_ms, longest_ms = math.ceil(part * FIRST_WAIT_S * 1000), math.ceil(part * LONGEST_WAIT_S * 1000)
    waits = {
        "max.retries": count,
        "min.backoff.interval": first_ms,
        "backoff.interval": first_ms,
        "max.backoff.interval": longest_ms,
    }
    return {f"fs.azure.io.retry.{name}": str(value) for name, value in waits.items()}
