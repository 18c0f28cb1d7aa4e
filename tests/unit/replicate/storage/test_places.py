"""Paths and URIs: what each names, what is refused, and that no credentials are repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from headstream.errors import InvalidOptionError
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.storage.places import StorePlace, bind, failure, parse_place
from headstream.replicate.storage.storage_settings import StorageSettings
from headstream.replicate.tables.table_places import table_path


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("s3://lake/cdc/tables", "s3://lake/cdc/tables"),
        ("s3a://lake/cdc/tables/", "s3://lake/cdc/tables"),
        ("S3://lake", "s3://lake"),
        ("s3://lake/a b/ü%none", "s3://lake/a b/ü%none"),
        ("abfss://lake@acme1.dfs.core.windows.net/cdc/", "abfss://lake@acme1.dfs.core.windows.net/cdc"),
        ("gs://lake/cdc/tables", "gs://lake/cdc/tables"),
        ("hdfs://namenode:8020/cdc", "hdfs://namenode:8020/cdc"),
        ("hdfs://cluster/cdc", "hdfs://cluster/cdc"),
    ],
)
def test_parse_place_reads_a_uri(text: str, found: str) -> None:
    place = parse_place(text)
    assert isinstance(place, StorePlace)
    assert str(place) == found
    assert place == parse_place(found)


@pytest.mark.parametrize(("text", "path"), [("data/t", "data/t"), ("/data/t", "/data/t"), ("file:///data/a%20b", "/data/a b")])
def test_parse_place_reads_a_path(text: str, path: str) -> None:
    assert parse_place(text) == Path(path)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("abfss://account.dfs.core.windows.net/x", "URI is invalid. Write abfss://container@account.dfs.core.windows.net/path"),
        ("abfss://lake@account/x", "URI is invalid. Write abfss://container@account.dfs.core.windows.net/path"),
        ("gs://lake:1/x", "must have only a bucket before its path"),
        ("hdfs:///x", "URI is invalid. Write hdfs://host:port/path"),
        ("hdfs://user@host:8020/x", "must have only a host:port before its path"),
        ("s3:///x", "URI is invalid. Write s3://bucket/path"),
        ("s3://lake/x?versionId=1", "URI is invalid. Write s3://bucket/path"),
        ("s3://lake/a//b", "an empty part"),
        ("s3://lake/../b", "an empty part, . or .."),
        ("ftp://host/x", "the scheme ftp: is not supported here"),
        ("lake.{schema}.{table}", "looks like a catalog table name"),
    ],
)
def test_parse_place_refuses_what_no_engine_can_serve(text: str, what: str) -> None:
    with pytest.raises(InvalidOptionError, match=what.replace(".", r"\.")):
        parse_place(text)


def test_parse_place_does_not_repeat_the_password_of_a_uri() -> None:
    with pytest.raises(InvalidOptionError) as caught:
        parse_place("s3://AKIA1:hidden@lake/x")
    assert "hidden" not in str(caught.value)
    assert "AKIA1" not in str(caught.value)


def test_a_place_has_the_parts_of_a_path() -> None:
    place = StorePlace("lake", "cdc/tables")
    assert str(place / "SHOP" / "orders") == "s3://lake/cdc/tables/SHOP/orders"
    assert (place.name, str(place.parent), str(place.parent.parent)) == ("tables", "s3://lake/cdc", "s3://lake")
    assert (StorePlace("lake") / "x").key == "x"
    assert place.hadoop_uri == "s3a://lake/cdc/tables"
    assert str(table_path(place, "", "order date")) == "s3://lake/cdc/tables/%none/order date"
    assert str(table_path(StorePlace("n:1", "t", scheme="hdfs"), "", "ö x")) == "hdfs://n:1/t/%none/%u00F6%u0020x"


def test_a_place_shows_no_settings_and_passes_them_on() -> None:
    storage = StorageSettings(access_key_id="AKIA1", secret_access_key="hidden")
    place = bind(StorePlace("lake", "x"), storage)
    assert isinstance(place, StorePlace)
    assert repr(place) == "StorePlace('s3://lake/x')"
    assert (place / "y").parent.storage is storage
    assert "hidden" not in str(failure(place, "the merge failed", "denied: hidden of AKIA1"))


def make_config(directory: Path, **options: object) -> ReplicateConfig:
    own: dict[str, object] = {"tables": StorePlace("lake", "t"), "checkpoint": directory / "c"}
    return ReplicateConfig(source=None, topics=("cdc",), **(own | options))  # type: ignore[arg-type]


def test_config_gives_its_places_the_settings_of_the_store(tmp_path: Path) -> None:
    storage = StorageSettings(endpoint="http://h:1", access_key_id="AKIA1", secret_access_key="hidden")
    config = make_config(tmp_path, storage=storage, change_tables=StorePlace("lake", "c"), dead_letter_table=tmp_path / "d")
    assert [str(place) for place in config.table_places] == ["s3://lake/c", str(tmp_path / "d"), "s3://lake/t"]
    assert all(place.storage == storage for place in config.table_places if isinstance(place, StorePlace))
    assert "hidden" not in repr(config)
    assert "AKIA1" not in repr(config)


@pytest.mark.parametrize(
    ("options", "setting", "what"),
    [
        (
            {"checkpoint": StorePlace("lake", "c"), "checkpoint_from": StorePlace("lake", "d")},
            "checkpoint_from",
            "this setting must be a local path",
        ),
        ({"checkpoint_from": Path("c")}, "checkpoint_from", "checkpoint must be in an object store"),
        ({"zone": Path("gs://lake/t")}, "zone", "is a URI in a Path object"),
        ({"tables": Path("s3://lake/t")}, "tables", "is a URI in a Path object"),
        (
            {"zone": StorePlace("lake", "z", scheme="gs"), "storage": StorageSettings(endpoint="http://h:1")},
            "storage",
            "one endpoint cannot serve gs:// and s3://",
        ),
        ({"tables": StorePlace("lake", "a%20b")}, "tables", "Delta tables cannot be in"),
        ({"tables": StorePlace("host:8020", "a b", scheme="hdfs")}, "tables", "Delta tables cannot be in"),
        ({"change_tables": StorePlace("lake", "t")}, "change_tables", "tables and change_tables are the same location"),
    ],
)
def test_config_refuses_a_place_that_cannot_be_served(
    tmp_path: Path, options: dict[str, object], setting: str, what: str
) -> None:
    with pytest.raises(InvalidOptionError, match=what) as caught:
        make_config(tmp_path, **options)
    assert caught.value.where == setting
