"""Unit tests of headstream.replicate.storage.google."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headstream.errors import InvalidOptionError
from headstream.replicate.storage.places import StorePlace
from headstream.replicate.storage.store_files import StoreFiles
from tests.unit.replicate.storage.test_store_access import HOST, google


def login_of(place: StorePlace) -> dict[str, str]:
    """What Hadoop's client gets, without retries and sizes; the account's name is left out."""
    found = place.access.hadoop_settings()
    return {name.removesuffix(f".{HOST}"): value for name, value in found.items() if "auth" in name or f".{HOST}" in name}


def test_hadoops_client_of_google_gets_the_same_credentials(tmp_path: Path) -> None:
    key = tmp_path / "key.json"
    key.write_text(json.dumps({"type": "service_account"}))
    assert login_of(google(service_account=str(key))) == {
        "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
        "fs.gs.auth.service.account.json.keyfile": str(key),
    }
    key.write_text(json.dumps({"type": "authorized_user", "client_id": "c", "client_secret": "x", "refresh_token": "r"}))
    assert login_of(google(service_account=str(key))) == {
        "fs.gs.auth.type": "USER_CREDENTIALS",
        "fs.gs.auth.service.account.enable": "false",
        "fs.gs.auth.client.id": "c",
        "fs.gs.auth.client.secret": "x",
        "fs.gs.auth.refresh.token": "r",
    }
    assert login_of(google()) == {}, "the machine's identity is the clients' default"
    emulator = google(endpoint="http://127.0.0.1:4443").access.hadoop_settings()
    assert (emulator["fs.gs.storage.root.url"], emulator["fs.gs.auth.null.enable"]) == ("http://127.0.0.1:4443/", "true")


def test_googles_settings_are_the_same_for_each_client(tmp_path: Path) -> None:
    key = tmp_path / "key.json"
    key.write_text(json.dumps({"type": "service_account"}))
    place = google(service_account=str(key))
    assert place.delta_options["google_service_account"] == str(key)
    assert place.hadoop_uri == "gs://lake/t"
    key.write_text(json.dumps({"type": "authorized_user"}))
    assert place.delta_options["google_application_credentials"] == str(key)
    with pytest.raises(InvalidOptionError, match="there are no Google credentials in"):
        StoreFiles(google(service_account=str(tmp_path / "nowhere"))).read()
    emulator = google(endpoint="http://127.0.0.1:4443")
    assert json.loads(emulator.delta_options["google_service_account_key"])["gcs_base_url"] == "http://127.0.0.1:4443"
