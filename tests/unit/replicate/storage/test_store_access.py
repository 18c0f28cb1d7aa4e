"""Azure, Google and HDFS: what each client gets from [storage] and the environment."""

from __future__ import annotations

from typing import Any

import pytest

from headstream.replicate.engines.spark_store import explain
from headstream.replicate.storage.places import StorePlace
from headstream.replicate.storage.storage_settings import StorageSettings
from headstream.spark.sessions.jar_sets import SETS

HOST = "acme1.dfs.core.windows.net"


def azure(**settings: Any) -> StorePlace:
    return StorePlace(f"lake@{HOST}", "t", StorageSettings(**settings), "abfss")


def google(**settings: Any) -> StorePlace:
    return StorePlace("lake", "t", StorageSettings(**settings), "gs")


@pytest.mark.parametrize(("place", "jars"), [(azure(), "azure"), (google(), "gcs")])
def test_an_error_of_spark_without_the_jars_says_how_to_fetch_them(place: StorePlace, jars: str) -> None:
    error = f"Class {place.access.file_system} not found\n\tat"
    assert f"Fetch them with `headstream jars --with {jars}`" in explain(error, place)
    assert jars in SETS


@pytest.mark.parametrize(("retry_us", "azures", "googles"), [(0, 0, 0), (1_000_000, 4, 1), (30_000_000, 11, 5)])
def test_hadoops_clients_retry_as_long_as_the_others(retry_us: int, azures: int, googles: int) -> None:
    assert azure(retry_us=retry_us).access.hadoop_settings()["fs.azure.io.retry.max.retries"] == str(azures)
    assert google(retry_us=retry_us).access.hadoop_settings()["fs.gs.http.max.retry"] == str(googles)
