"""Unit tests of headstream.replicate.storage.azure."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headstream.errors import InvalidOptionError
from headstream.replicate.storage.azure import AzureAccess
from headstream.replicate.storage.storage_settings import StorageSettings
from headstream.replicate.storage.store_files import StoreFiles
from tests.unit.replicate.storage.test_google import login_of
from tests.unit.replicate.storage.test_store_access import HOST, azure


def test_azures_settings_are_the_same_for_each_client() -> None:
    place = azure(account_key="a+key")
    delta = place.delta_options
    assert (delta["azure_storage_account_name"], delta["azure_storage_account_key"]) == ("acme1", "a+key")
    assert place.hadoop_uri == f"abfss://lake@{HOST}/t"
    assert place.access.describe() == f"endpoint {HOST}, credentials account_key of [storage]"
    assert "a+key" not in repr(place.access)


def test_azures_emulator_is_the_same_endpoint_for_each_client() -> None:
    place = azure(endpoint="http://127.0.0.1:10000", account_key="a+key")
    assert place.delta_options["azure_storage_endpoint"] == "http://127.0.0.1:10000/acme1"
    assert place.delta_options["allow_http"] == "true"


@pytest.mark.parametrize(
    ("settings", "environment", "found"),
    [
        ({}, {"AZURE_STORAGE_KEY": "k", "AZURE_STORAGE_SAS_TOKEN": "s"}, {"account_key": "k"}),
        ({"account_key": "own"}, {"AZURE_STORAGE_ACCOUNT_KEY": "k", "AZURE_CLIENT_SECRET": "x"}, {"account_key": "own"}),
        ({"sas_token": "own"}, {"AZURE_STORAGE_SAS_TOKEN": "s"}, {"sas_token": "own"}),
        ({}, {"AZURE_STORAGE_SAS_KEY": "s", "AZURE_CLIENT_ID": "c"}, {"sas_token": "s", "client_id": "c"}),
        (
            {},
            {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "x"},
            {"tenant_id": "t", "client_id": "c", "client_secret": "x"},
        ),
        ({}, {"AZURE_CLIENT_ID": "c"}, {"client_id": "c"}),
    ],
)
def test_azures_credentials_are_of_one_kind_the_sections_first(
    settings: dict[str, str], environment: dict[str, str], found: dict[str, str]
) -> None:
    assert azure(**settings).access.resolved(environment) == StorageSettings(**found)  # type: ignore[arg-type]


@pytest.fixture
def authorizations() -> Iterator[tuple[str, list[str]]]:
    """The URL of a server that has nothing, and how its requests log in."""
    found: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.append(self.headers.get("Authorization") or ("sas" if "sig=" in self.path else "none"))
            self.send_error(404)

        def log_message(self, *arguments: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", found
        server.shutdown()


@pytest.mark.parametrize(
    ("settings", "variable"),
    [
        ({"sas_token": "sv=1&sig=a"}, "AZURE_STORAGE_ACCOUNT_KEY"),
        ({"sas_token": "sv=1&sig=a"}, "AZURE_STORAGE_TOKEN"),
        ({"sas_token": "sv=1&sig=a"}, "AZURE_CLIENT_SECRET"),
        ({"tenant_id": "t", "client_id": "c", "client_secret": "x"}, "AZURE_STORAGE_ACCESS_KEY"),
        ({"account_key": "b3du"}, "AZURE_STORAGE_TOKEN"),
        ({"sas_token": "sv=1&sig=a"}, "AZURE_FEDERATED_TOKEN_FILE"),
        ({"tenant_id": "t", "client_id": "c", "client_secret": "x"}, "AZURE_FEDERATED_TOKEN_FILE"),
    ],
)
def test_azures_variables_that_the_clients_prefer_to_the_section_are_rejected(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], variable: str
) -> None:
    monkeypatch.setenv(variable, "b3RoZXI=")
    place = azure(**settings)
    for use in (lambda: place.delta_options, StoreFiles(place).read):
        with pytest.raises(InvalidOptionError, match=f"the environment has {variable}, which the clients would use instead"):
            use()


@pytest.mark.parametrize(
    ("settings", "variable", "found"),
    [
        ({"sas_token": "sv=1&sig=a"}, "AZURE_STORAGE_SAS_TOKEN", "sas"),
        ({"account_key": "b3du"}, "AZURE_STORAGE_SAS_TOKEN", "SharedKey"),
        ({"account_key": "b3du"}, "AZURE_CLIENT_SECRET", "SharedKey"),
        ({}, "AZURE_STORAGE_KEY", "SharedKey"),
        ({}, "AZURE_STORAGE_SAS_KEY", "sas"),
    ],
)
def test_azures_client_logs_in_by_the_credentials_that_are_described(
    monkeypatch: pytest.MonkeyPatch, authorizations: tuple[str, list[str]], settings: dict[str, str], variable: str, found: str
) -> None:
    monkeypatch.setenv(variable, "sv=2&sig=b" if "SAS" in variable else "b3RoZXI=")
    url, requests = authorizations
    assert StoreFiles(azure(endpoint=url, **settings), 0).read() is None
    assert requests[-1].startswith(found)


PRINCIPAL = {"AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c"}


@pytest.mark.parametrize(
    ("environment", "described"),
    [
        ({"AZURE_STORAGE_SAS_KEY": "s", "AZURE_STORAGE_KEY": "k"}, "of AZURE_STORAGE_KEY"),
        ({"AZURE_STORAGE_SAS_KEY": "s"}, "of AZURE_STORAGE_SAS_KEY"),
        ({"AZURE_STORAGE_SAS_KEY": "s", "AZURE_CLIENT_SECRET": "x"}, "of AZURE_STORAGE_SAS_KEY"),
        ({"AZURE_STORAGE_SAS_KEY": "s", "AZURE_CLIENT_SECRET": "x", **PRINCIPAL}, "of AZURE_CLIENT_SECRET"),
        (
            {"AZURE_STORAGE_SAS_KEY": "s", "AZURE_FEDERATED_TOKEN_FILE": "f", **PRINCIPAL},
            "of the workload's identity (AZURE_FEDERATED_TOKEN_FILE)",
        ),
    ],
)
def test_azures_credentials_are_described_as_the_clients_choose_them(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], described: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert azure().access.describe() == f"endpoint {HOST}, credentials {described}"


def test_azure_takes_tokens_and_service_principals() -> None:
    assert azure(sas_token="sv=1").delta_options["azure_storage_sas_token"] == "sv=1"
    principal = azure(tenant_id="t", client_id="c", client_secret="x").delta_options
    assert principal["azure_storage_client_secret"] == "x"
    assert (principal["azure_storage_tenant_id"], principal["azure_storage_client_id"]) == ("t", "c")
    assert "the machine's identity" in azure().access.describe()


def test_hadoops_client_of_azure_gets_the_same_credentials() -> None:
    assert login_of(azure(account_key="a+key")) == {"fs.azure.account.auth.type": "SharedKey", "fs.azure.account.key": "a+key"}
    assert login_of(azure(sas_token="?sv=1&sig=a")) == {
        "fs.azure.account.auth.type": "SAS",
        "fs.azure.sas.fixed.token": "sv=1&sig=a",
    }
    assert login_of(azure(tenant_id="t", client_id="c", client_secret="x")) == {
        "fs.azure.account.auth.type": "OAuth",
        "fs.azure.account.oauth.provider.type": "org.apache.hadoop.fs.azurebfs.oauth2.ClientCredsTokenProvider",
        "fs.azure.account.oauth2.client.endpoint": "https://login.microsoftonline.com/t/oauth2/token",
        "fs.azure.account.oauth2.client.id": "c",
        "fs.azure.account.oauth2.client.secret": "x",
    }
    assert login_of(azure()) == {}, "a session can have a login of its own"


def test_hadoops_client_of_azure_uses_the_machines_or_the_workloads_identity() -> None:
    access = azure().access
    assert isinstance(access, AzureAccess)
    provider = "fs.azure.account.oauth.provider.type"
    machine = access.hadoop_identity({"AZURE_CLIENT_ID": "c"})
    assert machine[provider].endswith(".MsiTokenProvider")
    assert machine["fs.azure.account.oauth2.client.id"] == "c"
    pod = {"AZURE_CLIENT_ID": "c", "AZURE_TENANT_ID": "t", "AZURE_FEDERATED_TOKEN_FILE": "/var/token"}
    workload = access.hadoop_identity({**pod, "AZURE_AUTHORITY_HOST": "https://login.example/"})
    assert workload[provider].endswith(".WorkloadIdentityTokenProvider")
    assert workload["fs.azure.account.oauth2.token.file"] == "/var/token"
    assert workload["fs.azure.account.oauth2.msi.authority"] == "https://login.example/"
    assert azure(account_key="k").access.hadoop_identity() == {}


def test_hadoops_client_of_azure_reaches_an_emulator_over_the_blob_api() -> None:
    settings = azure(endpoint="http://127.0.0.1:10000", account_key="k").access.hadoop_settings()
    assert settings["fs.azure.abfs.endpoint"] == "127.0.0.1:10000"
    assert settings["fs.azure.fns.account.service.type"] == "BLOB"
    assert settings["fs.azure.always.use.https"] == "false"
    encrypted = azure(endpoint="https://azure.example", account_key="k").access.hadoop_settings()
    assert encrypted["fs.azure.abfs.endpoint"] == "azure.example:443"
    assert "fs.abfss.impl" not in encrypted
    with pytest.raises(InvalidOptionError, match="Spark does not accept a path in the endpoint"):
        azure(endpoint="https://azure.example/blob").access.hadoop_settings()
