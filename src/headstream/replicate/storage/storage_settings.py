"""The section [storage]: endpoint, region and credentials of an object store, for deltalake, Headstream's files and Spark.

Settings that the section lacks are read from the usual environment variables of the kind of store (store_access.py). The clients
read everything else: role and web identity variables, and the instance's metadata service.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from headstream.errors import InvalidOptionError

_SECRETS: Final = ("access_key_id", "secret_access_key", "session_token", "account_key", "sas_token", "client_secret")


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """The settings of an object store.

    Args:
        endpoint: URL of a store that is not the cloud provider's own, such as `https://minio.example:9000`.
        region: The store's region (S3).
        access_key_id: The access key id (S3).
        secret_access_key: The secret access key (S3).
        session_token: The session token of temporary keys (S3).
        path_style: Whether the bucket is in the path of the URL instead of the host; by default true if `endpoint` is set (S3).
        account_key: The key of the storage account (Azure).
        sas_token: A shared access signature (Azure).
        tenant_id: The tenant id of a service principal (Azure).
        client_id: The client id of the service principal (Azure).
        client_secret: Secret of the service principal (Azure).
        service_account: Path of the JSON key file of a service account (Google).
        retry_us: Time for which a failing request is retried, microseconds; afterwards the changes of the table wait.

    Raises:
        InvalidOptionError: settings contradict each other, or the endpoint is not a URL.
    """

    endpoint: str | None = None
    region: str | None = None
    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    path_style: bool | None = None
    account_key: str | None = field(default=None, repr=False)
    sas_token: str | None = field(default=None, repr=False)
    tenant_id: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    service_account: str | None = None
    retry_us: int = 30_000_000

    def __post_init__(self) -> None:
        if self.endpoint is not None:
            _check_endpoint(self.endpoint)
        if (self.access_key_id is None) != (self.secret_access_key is None):
            lacks = "secret_access_key" if self.secret_access_key is None else "access_key_id"
            raise InvalidOptionError(
                f"the object store's {lacks} is missing", where="storage", advice="Set both keys, or use the environment"
            )
        if self.session_token is not None and self.access_key_id is None:
            raise InvalidOptionError(
                "session_token requires access_key_id and secret_access_key", where="storage", advice="Set both"
            )
        if self.client_secret is not None and (self.client_id is None or self.tenant_id is None):
            raise InvalidOptionError(
                "client_secret requires a service principal", where="storage", advice="Set tenant_id and client_id"
            )
        if sum(name is not None for name in (self.account_key, self.sas_token, self.client_secret)) > 1:
            advice = "Set one of account_key, sas_token and client_secret"
            raise InvalidOptionError("several kinds of credentials are set for Azure", where="storage", advice=advice)
        if self.retry_us < 0:
            raise InvalidOptionError("the retry time must not be negative", where="storage")

    @property
    def secrets(self) -> tuple[str, ...]:
        """Secret values, which must not appear in any output."""
        return tuple(value for name in _SECRETS if (value := getattr(self, name)) is not None)


def _check_endpoint(endpoint: str) -> None:
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidOptionError(
            "the endpoint of the object store must be a URL", where="storage", advice="Write, for example, https://host:9000"
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise InvalidOptionError(
            "the endpoint of the object store must have only a host, a port and a path",
            where="storage",
            advice="Set credentials in settings such as access_key_id, or in environment variables",
        )
