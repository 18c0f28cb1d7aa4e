"""The Iceberg catalog of a pipeline, with the settings of the tables' object store."""

from __future__ import annotations

from typing import Final

from pyiceberg.catalog import Catalog, load_catalog

from headstream.replicate.iceberg.access import limit_answers
from headstream.replicate.settings.iceberg_settings import IcebergSettings
from headstream.replicate.storage.places import Place, StorePlace

_STORAGE: Final = {
    "s3": {
        "endpoint": "s3.endpoint", "region": "s3.region", "access_key_id": "s3.access-key-id",
        "secret_access_key": "s3.secret-access-key", "session_token": "s3.session-token",
    },
    "abfss": {
        "account_key": "adls.account-key", "sas_token": "adls.sas-token", "tenant_id": "adls.tenant-id",
        "client_id": "adls.client-id", "client_secret": "adls.client-secret",
    },
}  # fmt: skip
"""Kind of store -> setting in [storage] -> pyiceberg's property."""


def open_catalog(settings: IcebergSettings, tables: Place) -> Catalog:
    """Open the catalog with the store settings of the Delta tables; errors of pyiceberg are not translated."""
    found: dict[str, str] = {}
    if isinstance(tables, StorePlace):
        storage = tables.access.resolved()
        names = _STORAGE.get(tables.scheme, {})
        found = {prop: str(value) for name, prop in names.items() if (value := getattr(storage, name)) is not None}
        if tables.scheme == "s3" and storage.path_style is False:
            found["s3.force-virtual-addressing"] = "true"
    limit_answers()
    return load_catalog(settings.catalog_name, **{**found, **settings.catalog_properties})
