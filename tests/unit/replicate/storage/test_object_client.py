"""Unit tests of headstream.replicate.storage.object_client."""

from __future__ import annotations

import sys

import pytest

from headstream.errors import MissingExtraError
from headstream.replicate.storage.places import StorePlace
from headstream.replicate.storage.store_files import StoreFiles
from tests.unit.replicate.storage.test_store_access import azure, google


@pytest.mark.parametrize(
    ("place", "module", "extra"),
    [
        (azure(), "obstore.store", r"obstore\.store, the client for Azure, is not installed.*headstream\[azure\]"),
        (google(), "obstore.store", r"client for Google Cloud Storage, is not installed.*headstream\[gcs\]"),
        (StorePlace("n:1", "t", scheme="hdfs"), "hdfs_native", r"hdfs_native, the client for HDFS.*headstream\[hdfs\]"),
    ],
)
def test_a_client_that_is_not_installed_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, place: StorePlace, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=extra):
        StoreFiles(place / "not opened before").read()
