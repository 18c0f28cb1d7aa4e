"""Unit tests of headstream.replicate.iceberg.catalog."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from requests.exceptions import ReadTimeout

from headstream.replicate.iceberg import access
from headstream.replicate.iceberg.catalog import open_catalog
from headstream.replicate.settings.iceberg_settings import IcebergSettings
from headstream.replicate.storage.places import StorePlace
from headstream.replicate.storage.storage_settings import StorageSettings


def test_open_catalog_gives_files_the_settings_of_the_tables_store(tmp_path: Path) -> None:
    storage = StorageSettings(endpoint="http://h:1", region="eu", access_key_id="k", secret_access_key="s", path_style=False)
    settings = IcebergSettings(catalog={"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "s3.region": "us"})
    found = open_catalog(settings, StorePlace("lake", "t", storage)).properties
    assert found["s3.endpoint"] == "http://h:1"
    assert (found["s3.access-key-id"], found["s3.secret-access-key"]) == ("k", "s")
    assert found["s3.region"] == "us", "what [iceberg.catalog] has comes first"
    assert found["s3.force-virtual-addressing"] == "true"


def test_open_catalog_gives_up_when_a_rest_catalog_accepts_connections_and_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(access, "ANSWER_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(ReadTimeout):
        open_catalog(IcebergSettings(catalog={"uri": f"http://127.0.0.1:{silent.getsockname()[1]}"}), Path("tables"))
